//! The JSON of a bundle, as protocol buffers write it: 64-bit integers are
//! strings, and zero values may be missing.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny};

/// The most entries of logs.
pub(super) const MAX_ENTRIES: usize = 32;

/// A bundle.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BundleJson {
    pub(super) media_type: String,
    pub(super) verification_material: Material,
    pub(super) dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Material {
    /// The key of the signer, by a hint only.
    pub(super) public_key: Option<IgnoredAny>,
    /// The certificate of the signer.
    pub(super) certificate: Option<RawBytes>,
    /// The form of earlier versions.
    pub(super) x509_certificate_chain: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) tlog_entries: Vec<LogEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawBytes {
    #[serde(deserialize_with = "bytes")]
    pub(super) raw_bytes: Vec<u8>,
}

/// Signed content with its kind (DSSE).
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope {
    #[serde(deserialize_with = "bytes")]
    pub(super) payload: Vec<u8>,
    pub(super) payload_type: String,
    pub(super) signatures: Vec<EnvelopeSignature>,
}

#[derive(Clone, Deserialize)]
pub(super) struct EnvelopeSignature {
    #[serde(deserialize_with = "bytes")]
    pub(super) sig: Vec<u8>,
}

/// An entry of a transparency log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogEntry {
    #[serde(default, deserialize_with = "integer")]
    pub(super) log_index: i64,
    pub(super) log_id: LogId,
    pub(super) kind_version: KindVersion,
    #[serde(default, deserialize_with = "integer")]
    pub(super) integrated_time: i64,
    pub(super) inclusion_promise: Option<Promise>,
    #[serde(deserialize_with = "bytes")]
    pub(super) canonicalized_body: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogId {
    #[serde(deserialize_with = "bytes")]
    pub(super) key_id: Vec<u8>,
}

#[derive(Deserialize)]
pub(super) struct KindVersion {
    pub(super) kind: String,
    pub(super) version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Promise {
    pub(super) signed_entry_timestamp: String,
}

/// Bytes in base64.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64_STANDARD.decode(text).map_err(D::Error::custom)
}

/// A 64-bit integer, as a string or a number.
fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Integer {
        Number(i64),
        Text(String),
    }
    match Integer::deserialize(deserializer)? {
        Integer::Number(number) => Ok(number),
        Integer::Text(text) => text.parse().map_err(D::Error::custom),
    }
}
