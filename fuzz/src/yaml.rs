//! The YAML reader: what it writes is canonical JSON, within its limits, and
//! the documents of a file do not overlap.

use super::memory::{assert_in_proportion, most_memory};
use fbc::text::json::Canonicaliser;
use fbc::text::yaml::{Limits, documents, to_json};

/// Small, so that a short input reaches it.
const SMALL: usize = 1 << 12;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let tight = Limits {
        depth: 20,
        expansion: 8,
        small: SMALL,
        ..Limits::default()
    };
    let mut next = 0;
    let mut last_line = 0;
    for document in documents(bytes) {
        assert!(document.offset >= next && document.line > last_line);
        next = document.offset + document.bytes.len();
        last_line = document.line;
        assert_eq!(
            bytes[document.offset..].get(..document.bytes.len()),
            Some(document.bytes)
        );
        let usual = check(document.bytes, &Limits::default());
        let strict = check(document.bytes, &tight);
        // Limits refuse, they change nothing.
        if let Some(strict) = strict {
            assert_eq!(Some(strict), usual);
        }
    }
}

/// The JSON of a document, or nothing when it is refused.
fn check(document: &[u8], limits: &Limits) -> Option<String> {
    let mut out = b"before".to_vec();
    let (read, most) = most_memory(|| to_json(document, limits, &mut out));
    assert_in_proportion(document.len(), most, 64, 8 * limits.small + (1 << 18));
    let json = out.strip_prefix(b"before").expect("only appended to");
    match read {
        Ok(true) => {}
        Ok(false) => {
            assert!(json.is_empty());
            return Some(String::new());
        }
        Err(error) => {
            assert!(json.is_empty());
            assert!(error.line != Some(0) && error.column != Some(0));
            return None;
        }
    }
    assert!(
        json.len() <= (8 * document.len()).max(limits.small),
        "{}",
        json.len()
    );
    let mut again = Vec::new();
    let end = Canonicaliser::default().read(json, 0, &mut again);
    assert_eq!(end, Ok(Some(json.len())), "{}", json.escape_ascii());
    assert_eq!(
        json.escape_ascii().to_string(),
        again.escape_ascii().to_string()
    );
    Some(String::from_utf8(again).expect("JSON is UTF-8"))
}
