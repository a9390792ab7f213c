//! Readers of hostile input that have no public interface, for fuzz targets.

use crate::policy::parse_policy;
use crate::signatures::{open_message, parse_stores};

/// Reads a `policy.json`.
pub fn policy(bytes: &[u8]) -> Result<(), String> {
    parse_policy(bytes)
}

/// Reads a file of `registries.d`.
pub fn registries_d(bytes: &[u8]) -> Result<(), String> {
    parse_stores(bytes)
}

/// Opens a signed message with the keys of a file. Returns its content.
pub fn openpgp(keys: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
    open_message(keys, message)
}
