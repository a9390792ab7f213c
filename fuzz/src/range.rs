//! Ranges and versions. The first line is a range, every other one a version.

use fbc::text::semver::{Range, Version, check_release};

/// Checks one input. What follows the first byte that is not UTF-8 does not count.
pub fn run(bytes: &[u8]) {
    let valid = bytes.utf8_chunks().next();
    let text = valid.map_or("", |chunk| chunk.valid());
    let mut lines = text.split('\n');
    let range = Range::parse(lines.next().unwrap_or_default());
    if let Err(error) = &range {
        assert!(error.to_string().len() < 1 << 13);
    }
    let mut versions = Vec::new();
    for line in lines.take(50) {
        let _ = check_release(line);
        let _ = Range::parse(line);
        let version = match Version::parse(line) {
            Ok(version) => version,
            Err(error) => {
                assert!(error.to_string().len() < 1 << 13);
                continue;
            }
        };
        assert_eq!(version.to_string(), line);
        // In ranges `.x` means any number, also where a version means itself.
        if line.contains(".x") || line.len() > 1000 {
            continue;
        }
        // A version alone is the range of itself, and every other one lies on
        // one side of it.
        let exact = Range::parse(line).expect("a version is a range");
        assert!(exact.contains(&version));
        for other in &versions {
            let sides = [">", "<", "="].map(|operator| {
                let range = Range::parse(&format!("{operator}{line}"));
                range.is_ok_and(|range| range.contains(other))
            });
            assert_eq!(
                sides.iter().filter(|side| **side).count(),
                1,
                "{other} and {line}"
            );
        }
        if let Ok(range) = &range {
            let again = Range::parse(text.split('\n').next().unwrap_or_default());
            assert_eq!(
                again.map(|again| again.contains(&version)),
                Ok(range.contains(&version))
            );
        }
        if versions.len() < 5 {
            versions.push(version);
        }
    }
    // Sorting fails when the order is none.
    versions.sort();
}
