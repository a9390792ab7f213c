//! A requirement of `sigstoreSigned`, and whether a signature meets it.

use std::time::SystemTime;

use crate::digest::Digest;
use crate::policy::SignedIdentity;
use crate::reference::Reference;
use crate::signatures::bundle::Bundle;
use crate::signatures::payload::{Payload, PayloadKind};
use crate::signatures::sigstore::signature::SigstoreSignature;
use crate::signatures::sigstore::trust::Trust;

/// A required signature: by whom, and under which name.
#[derive(Debug)]
pub(crate) struct SigstoreRequirement {
    trust: Trust,
    identity: SignedIdentity,
}

impl SigstoreRequirement {
    pub(crate) fn new(trust: Trust, identity: SignedIdentity) -> Self {
        Self { trust, identity }
    }

    /// Checks a signature. Returns who made it.
    pub(crate) fn check(
        &self,
        signature: &SigstoreSignature,
        image: &Reference,
        digest: &Digest,
    ) -> Result<String, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_err(|error| error.to_string())?.as_secs();
        let signer = self.trust.verify(signature, now)?;
        // The payload is not parsed before its signature holds.
        let payload = Payload::parse(&signature.payload, PayloadKind::Sigstore)?;
        payload.check(&self.identity, image, digest)?;
        Ok(format!("a signature by {signer}"))
    }

    /// Checks a bundle. Returns who made it.
    pub(crate) fn check_bundle(
        &self,
        bundle: &Bundle,
        image: &Reference,
        digest: &Digest,
    ) -> Result<String, String> {
        let verified = bundle.verify(&self.trust, digest);
        let (signer, names) = verified.map_err(|problem| format!("a bundle: {problem}"))?;
        if names.is_empty() {
            if !bundle.digest_suffices {
                return Err("there is a bundle, and it names no image".into());
            }
            if !self.identity.is_met_by_digest(image) {
                return Err(
                    "there is a bundle, and it names no image, while the policy asks for a tag \
                     or a name"
                        .into(),
                );
            }
            return Ok(format!("a bundle by {signer}, for its digest alone"));
        }
        let mut problem = String::new();
        for name in names {
            match self.identity.check(image, &name) {
                Ok(()) => return Ok(format!("a bundle by {signer}")),
                Err(reason) => problem = reason,
            }
        }
        Err(format!("a bundle: {problem}"))
    }
}
