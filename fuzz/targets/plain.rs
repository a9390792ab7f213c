//! The two readers of YAML: wherever the one without the parser answers, the
//! one by way of the parser answers the same.
#![no_main]

use almanac_fuzz::{assert_in_proportion, most_memory};
use fbc::text::yaml::{Limits, Members, documents, parsed_to_json, plain_to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});

fn compare(document: &[u8], limits: &Limits) {
    let (mut out, mut members) = (b"before".to_vec(), Members::new());
    let read = || plain_to_json(document, limits, &mut out, &mut members);
    let (found, most) = most_memory(read);
    assert_in_proportion(document.len(), most, 64, 1 << 12);
    let Some(found) = found else {
        assert_eq!(out, b"before");
        assert!(members.is_empty());
        return;
    };
    let (mut expected, mut expected_members) = (b"before".to_vec(), Members::new());
    let parsed = parsed_to_json(document, limits, &mut expected, &mut expected_members);
    assert_eq!(parsed, Ok(found));
    assert_eq!(
        out.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    assert_eq!(members, expected_members);
    for (key, value) in members {
        assert_eq!((out[key.start - 1], out[key.end]), (b'"', b'"'));
        assert_eq!(out[key.end + 1], b':');
        assert_eq!(key.end + 2, value.start);
        assert!(matches!(out[value.end], b',' | b'}'));
    }
}
