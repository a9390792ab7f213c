//! A signature as cosign attaches it to an image: a layer of a manifest, with
//! annotations.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::signatures::sigstore::key::PublicKey;

/// The media type of the payload.
pub(crate) const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with the signature of a payload.
pub(crate) const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";
/// The longest signature, in characters of base64.
const MAX_SIGNATURE: usize = 16 << 10;

/// A signature of a payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct SigstoreSignature {
    /// The signed bytes.
    pub(crate) payload: Vec<u8>,
    /// The signature of these bytes.
    pub(crate) signature: Vec<u8>,
    /// The certificate of the signer, in PEM.
    pub(crate) certificate: Option<String>,
    /// The certificates above that one, in PEM.
    pub(crate) chain: Option<String>,
    /// The promise of a log, in JSON.
    pub(crate) log_entry: Option<String>,
}

impl SigstoreSignature {
    /// The signature in the annotations of a layer with this payload; none when
    /// they have none that can be read.
    pub(crate) fn new(payload: Vec<u8>, mut annotations: BTreeMap<String, String>) -> Option<Self> {
        let signature = annotations.remove(SIGNATURE);
        let signature = signature.filter(|text| text.len() <= MAX_SIGNATURE)?;
        Some(Self {
            payload,
            signature: BASE64_STANDARD.decode(signature.trim()).ok()?,
            certificate: annotations.remove(CERTIFICATE),
            chain: annotations.remove(CHAIN),
            log_entry: annotations.remove(LOG_ENTRY),
        })
    }

    /// Whether a key made the signature of the payload.
    pub(crate) fn is_by(&self, key: &PublicKey) -> bool {
        key.verifies(&self.payload, &self.signature)
    }
}
