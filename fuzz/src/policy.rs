//! The reader of `policy.json`: whatever the bytes are, it ends, and a policy
//! that is read is one JSON object.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    if images::fuzzing::policy(bytes).is_ok() {
        let document: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert!(document["default"].is_array());
    }
}
