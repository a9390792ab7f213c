//! The entries of transparency logs in a bundle.
//!
//! An entry counts when the log promised it with its time (Rekor version 1). A
//! proof of inclusion without a promise states no time and is not supported.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::digest::Digest;
use crate::display::clip;
use crate::signatures::bundle::json::{Envelope, LogEntry};
use crate::signatures::sigstore::key::PublicKey;
use crate::signatures::sigstore::pem_sections;
use crate::signatures::sigstore::set::SetPayload;

/// The body of an entry of the kind `dsse`, version 0.0.1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DsseSpec {
    payload_hash: Hash,
    signatures: Vec<DsseSignature>,
}

#[derive(Deserialize)]
struct DsseSignature {
    signature: String,
    verifier: String,
}

/// The body of an entry of the kind `intoto`, version 0.0.2.
#[derive(Deserialize)]
struct IntotoSpec {
    content: IntotoContent,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IntotoContent {
    envelope: IntotoEnvelope,
    payload_hash: Hash,
}

#[derive(Deserialize)]
struct IntotoEnvelope {
    signatures: Vec<IntotoSignature>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IntotoSignature {
    public_key: String,
    /// Base64 of the envelope's own base64.
    sig: String,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    spec: &'a serde_json::value::RawValue,
}

/// A signature that an entry is about, and the key or certificate of its maker.
struct Logged {
    signature: Vec<u8>,
    signer: Vec<u8>,
}

/// Checks that a log promises an entry for an envelope. Returns the time of the
/// entry, in seconds since 1970.
pub(super) fn verify(
    entry: &LogEntry,
    logs: &[PublicKey],
    signer: &[u8],
    envelope: &Envelope,
    signature: &[u8],
) -> Result<u64, String> {
    let promise = entry
        .inclusion_promise
        .as_ref()
        .ok_or("its log entry has no signed time (Rekor version 2), which is not supported")?;
    let log_id = entry.log_id.key_id.iter();
    let payload = SetPayload {
        body: BASE64_STANDARD.encode(&entry.canonicalized_body),
        integrated_time: entry.integrated_time,
        log_id: log_id.fold(String::new(), |mut text, byte| {
            // Writing to a text cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
        log_index: entry.log_index,
    };
    payload.verify(&promise.signed_entry_timestamp, logs)?;
    let stated = (
        entry.kind_version.kind.as_str(),
        entry.kind_version.version.as_str(),
    );
    let unreadable = |error: serde_json::Error| format!("its log entry cannot be read: {error}");
    let body: Body<'_> = serde_json::from_slice(&entry.canonicalized_body).map_err(unreadable)?;
    if (body.kind.as_str(), body.api_version.as_str()) != stated {
        return Err("its log entry is of another kind than stated".into());
    }
    let (hash, logged) = match stated {
        ("dsse", "0.0.1") => {
            let spec: DsseSpec = serde_json::from_str(body.spec.get()).map_err(unreadable)?;
            let logged = spec.signatures.iter();
            let logged = logged.map(|one| Logged::new(decoded(&one.signature)?, &one.verifier));
            (spec.payload_hash, logged.collect::<Result<Vec<_>, _>>()?)
        }
        ("intoto", "0.0.2") => {
            let spec: IntotoSpec = serde_json::from_str(body.spec.get()).map_err(unreadable)?;
            let logged = spec.content.envelope.signatures.iter().map(|one| {
                let text = String::from_utf8(decoded(&one.sig)?)
                    .map_err(|_| "the signature of its log entry is not base64")?;
                Logged::new(decoded(&text)?, &one.public_key)
            });
            let hash = spec.content.payload_hash;
            (hash, logged.collect::<Result<Vec<_>, String>>()?)
        }
        (kind, version) => {
            let (kind, version) = (shown(kind), shown(version));
            return Err(format!(
                "its log entry is of the kind {kind:?}, version {version:?}, which is not supported"
            ));
        }
    };
    if hash.algorithm != "sha256" || hash.value != Digest::of(&envelope.payload).hex() {
        return Err("its log entry is for another payload".into());
    }
    let is_same = |one: &Logged| one.signature == signature && one.signer == signer;
    if !logged.iter().any(is_same) {
        return Err("its log entry has another signature, or names another key".into());
    }
    u64::try_from(entry.integrated_time).map_err(|error| error.to_string())
}

impl Logged {
    fn new(signature: Vec<u8>, signer: &str) -> Result<Self, String> {
        let signer = pem_sections::only(&decoded(signer)?)
            .map_err(|problem| format!("the key of its log entry: {problem}"))?;
        Ok(Self {
            signature,
            signer: signer.into_contents(),
        })
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let decoded = BASE64_STANDARD.decode(text);
    decoded.map_err(|_| "a part of its log entry is not base64".into())
}

fn shown(text: &str) -> String {
    clip(text, 50)
}
