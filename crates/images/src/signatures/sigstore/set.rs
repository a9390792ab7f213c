//! The promise of a transparency log (Rekor) that it has an entry for a
//! signature: the "signed entry timestamp" of cosign's `bundle` annotation.
//!
//! No log is asked. The key of the log in the policy verifies the promise.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::signatures::object_only::ObjectOnly;
use crate::signatures::sigstore::key::PublicKey;
use crate::signatures::sigstore::pem_sections;

/// The longest annotation, in bytes.
const MAX_SET: usize = 256 << 10;
/// Larger integers have several forms in JSON (RFC 8785).
const MAX_INTEGER: i64 = 1 << 53;

/// The annotation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Set {
    signed_entry_timestamp: String,
    payload: ObjectOnly<SetPayload>,
}

/// The part that the log signs. The members are in the order of their names, as
/// the canonical form (RFC 8785) wants them.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetPayload {
    pub(crate) body: String,
    pub(crate) integrated_time: i64,
    #[serde(rename = "logID")]
    pub(crate) log_id: String,
    pub(crate) log_index: i64,
}

/// An entry of the kind `hashedrekord`, version 0.0.1. As in other programs, it may
/// have further members: the log has signed all of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    api_version: String,
    kind: String,
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    data: Data,
    signature: EntrySignature,
}

#[derive(Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntrySignature {
    content: String,
    public_key: EntryKey,
}

#[derive(Deserialize)]
struct EntryKey {
    content: String,
}

impl SetPayload {
    /// Checks that one of the keys signed this promise.
    pub(crate) fn verify(&self, signature: &str, logs: &[PublicKey]) -> Result<(), String> {
        let safe = |number: i64| (0..MAX_INTEGER).contains(&number);
        if !safe(self.integrated_time) || !safe(self.log_index) {
            return Err("its log entry has an impossible time or index".into());
        }
        let signature = BASE64_STANDARD
            .decode(signature)
            .map_err(|_| "the promise of its log entry is not base64")?;
        let signed = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        if !logs.iter().any(|log| log.verifies(&signed, &signature)) {
            return Err("the promise of its log entry is not by a log of the policy".into());
        }
        Ok(())
    }
}

/// Checks an annotation: the log promises an entry for this signature of the
/// payload. `signer` is the DER of the key or of the certificate. Returns the
/// time of the entry, in seconds since 1970.
pub(crate) fn verify(
    annotation: &str,
    logs: &[PublicKey],
    signer: &[u8],
    signature: &[u8],
    payload: &[u8],
) -> Result<u64, String> {
    if annotation.len() > MAX_SET {
        return Err("its log entry is too large".into());
    }
    let ObjectOnly(set) = serde_json::from_str::<ObjectOnly<Set>>(annotation)
        .map_err(|error| format!("its log entry cannot be read: {error}"))?;
    let ObjectOnly(promised) = set.payload;
    promised.verify(&set.signed_entry_timestamp, logs)?;
    // Nothing of the entry is believed before the log's signature holds.
    let body = decoded(&promised.body, "its log entry")?;
    let entry: Entry = serde_json::from_slice(&body)
        .map_err(|error| format!("its log entry is not a hashedrekord: {error}"))?;
    if (entry.kind.as_str(), entry.api_version.as_str()) != ("hashedrekord", "0.0.1") {
        return Err("its log entry is not a hashedrekord of version 0.0.1".into());
    }
    let key = decoded(
        &entry.spec.signature.public_key.content,
        "the key of its log entry",
    )?;
    let key = pem_sections::only(&key)
        .map_err(|problem| format!("the key of its log entry: {problem}"))?;
    if key.contents() != signer {
        return Err("its log entry names another key".into());
    }
    let logged = decoded(
        &entry.spec.signature.content,
        "the signature of its log entry",
    )?;
    if logged != signature {
        return Err("its log entry has another signature".into());
    }
    let Hash { algorithm, value } = entry.spec.data.hash;
    if algorithm != "sha256" || !value.eq_ignore_ascii_case(&Digest::of(payload).hex()) {
        return Err("its log entry is for another payload".into());
    }
    u64::try_from(promised.integrated_time).map_err(|error| error.to_string())
}

fn decoded(text: &str, what: &str) -> Result<Vec<u8>, String> {
    let decoded = BASE64_STANDARD.decode(text);
    decoded.map_err(|_| format!("{what} is not base64"))
}
