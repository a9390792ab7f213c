//! A signature that the policy requires, and its verification.

use crate::digest::Digest;
use crate::policy::identity::SignedIdentity;
use crate::policy::key::PublicKey;
use crate::policy::payload::Payload;
use crate::reference::Reference;

/// A signature that an image needs.
#[derive(Debug)]
pub struct RequiredSignature {
    pub(super) keys: Vec<PublicKey>,
    pub(super) identity: SignedIdentity,
}

/// A signature from a registry.
#[derive(Clone, Debug)]
pub struct ImageSignature {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The signature of these bytes.
    pub signature: Vec<u8>,
}

impl RequiredSignature {
    /// Checks that a signature was made with one of the keys, over this
    /// digest, for a name that fits the image.
    pub fn check(
        &self,
        signature: &ImageSignature,
        image: &Reference,
        digest: &Digest,
    ) -> Result<(), String> {
        let ImageSignature { payload, signature } = signature;
        if !self.keys.iter().any(|key| key.verifies(payload, signature)) {
            return Err("it was not made with a key of the policy".into());
        }
        // The payload is not parsed before its signature holds.
        let payload = Payload::parse(payload)?;
        if payload.digest != *digest {
            return Err(format!("it signs {}", payload.digest));
        }
        self.identity.check(image, &payload.name)
    }
}
