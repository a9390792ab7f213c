//! The two readers of YAML: wherever the one without the parser answers, the
//! one by way of the parser answers the same.

use super::memory::{assert_in_proportion, most_memory};
use fbc::text::yaml::{Limits, documents, parse, plain_to_json};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let tight = Limits {
        depth: 4,
        expansion: 1,
        small: 64,
        ..Limits::default()
    };
    compare(bytes, &Limits::default());
    compare(bytes, &tight);
    // The same in another document: without a separator before it.
    for document in documents(bytes).filter(|document| document.bytes.len() < bytes.len()) {
        compare(document.bytes, &Limits::default());
    }
}

fn compare(document: &[u8], limits: &Limits) {
    let mut out = b"before".to_vec();
    let read = || plain_to_json(document, limits, &mut out);
    let (found, most) = most_memory(read);
    assert_in_proportion(document.len(), most, 64, 1 << 12);
    let Some(found) = found else {
        assert_eq!(out, b"before");
        return;
    };
    let mut expected = b"before".to_vec();
    let parsed = parse(document, limits, &mut expected);
    assert_eq!(parsed.map(|converted| converted.found), Ok(found));
    assert_eq!(
        out.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}
