//! The reader of `registries.d`: whatever the bytes are, it ends.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let _ = images::fuzzing::registries_d(bytes);
}
