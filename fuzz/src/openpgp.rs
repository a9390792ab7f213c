//! OpenPGP: a file of keys and a message, divided by the first four bytes.
//! Nothing opens a message unless its content is signed, and contents are
//! bounded.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let length = u32::from_be_bytes(*length) as usize;
    let (keys, message) = rest.split_at(length.min(rest.len()));
    if let Ok(content) = images::fuzzing::openpgp(keys, message) {
        assert!(content.len() <= 1 << 20);
    }
}
