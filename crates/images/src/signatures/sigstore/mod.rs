//! `sigstoreSigned`: signatures in the format of cosign, verified with keys.

mod key;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::config_files::FileKind;
use crate::digest::Digest;
use crate::error::causes;
use crate::policy::SignedIdentity;
use crate::reference::Reference;
use crate::signatures::file_or_data::FileOrData;
use crate::signatures::payload::{Payload, PayloadKind};

use key::PublicKey;

/// The largest public key, in bytes.
const MAX_KEY: u64 = 64 << 10;
/// The longest signature, in characters of base64.
const MAX_SIGNATURE: usize = 16 << 10;

/// A signature with its payload, as cosign stores it.
#[derive(Clone, Debug)]
pub(crate) struct SigstoreSignature {
    /// The signed bytes.
    pub(crate) payload: Vec<u8>,
    /// The signature of these bytes.
    pub(crate) signature: Vec<u8>,
}

/// A required signature with its keys.
#[derive(Debug)]
pub(crate) struct SigstoreRequirement {
    /// Each key with its name, for messages.
    keys: Vec<(String, PublicKey)>,
    identity: SignedIdentity,
}

impl SigstoreSignature {
    /// A signature from the annotation with its base64; none if it is none.
    pub(crate) fn new(payload: Vec<u8>, annotation: &str) -> Option<Self> {
        if annotation.len() > MAX_SIGNATURE {
            return None;
        }
        let signature = BASE64_STANDARD.decode(annotation.trim()).ok()?;
        Some(Self { payload, signature })
    }
}

impl SigstoreRequirement {
    /// Reads the keys. It blocks.
    pub(crate) fn read(material: &[FileOrData], identity: SignedIdentity) -> Result<Self, String> {
        let mut keys = Vec::new();
        for one in material {
            let pem = one
                .read(FileKind::Key, MAX_KEY)
                .map_err(|error| causes(&error))?;
            let key = PublicKey::parse(&pem)
                .map_err(|problem| format!("the key {one} cannot be used: {problem}"))?;
            keys.push((one.to_string(), key));
        }
        Ok(Self { keys, identity })
    }

    /// Checks a signature. Returns the key that made it.
    pub(crate) fn check(
        &self,
        signature: &SigstoreSignature,
        image: &Reference,
        digest: &Digest,
    ) -> Result<String, String> {
        let SigstoreSignature { payload, signature } = signature;
        let mut keys = self.keys.iter();
        let Some((name, _)) = keys.find(|(_, key)| key.verifies(payload, signature)) else {
            return Err("it was not made with a key of the policy".into());
        };
        // The payload is not parsed before its signature holds.
        let payload = Payload::parse(payload, PayloadKind::Sigstore)?;
        payload.check(&self.identity, image, digest)?;
        Ok(format!("a signature by the key {name}"))
    }
}
