//! Signatures that were fetched by other means than a route.

use std::collections::BTreeMap;

use crate::digest::Digest;
use crate::policy::evaluate::Admission;
use crate::policy::verdict::{Outcome, Verdict};
use crate::reference::Reference;
use crate::signatures::bundle::Bundle;
use crate::signatures::{Signature, SigstoreSignature};

/// A signature that was fetched by other means than a route.
#[derive(Clone, Debug)]
pub enum FetchedSignature {
    /// A layer with cosign's payload, and the layer's annotations.
    Cosign {
        /// The payload.
        payload: Vec<u8>,
        /// The annotations.
        annotations: BTreeMap<String, String>,
    },
    /// A bundle of sigstore, in JSON.
    Bundle {
        /// The JSON.
        bytes: Vec<u8>,
        /// Whether it may name no image.
        digest_suffices: bool,
    },
}

impl Admission {
    /// The verdict of the policy about an image with these signatures. It computes
    /// much: it blocks.
    pub fn judge(
        &self,
        image: &Reference,
        digest: &Digest,
        signatures: impl IntoIterator<Item = FetchedSignature>,
    ) -> Verdict {
        let mut verdict = self.verdict();
        for signature in signatures {
            let signature = match signature {
                FetchedSignature::Cosign {
                    payload,
                    annotations,
                } => SigstoreSignature::new(payload, annotations).map(Signature::Sigstore),
                FetchedSignature::Bundle {
                    bytes,
                    digest_suffices,
                } => Some(Signature::Bundle(Bundle {
                    bytes,
                    digest_suffices,
                })),
            };
            let Some(signature) = signature else {
                continue;
            };
            for (number, required) in self.required_signatures() {
                let outcome = &mut verdict.requirements[number].outcome;
                if matches!(outcome, Outcome::Holds(_)) {
                    continue;
                }
                match required.check(&signature, image, digest) {
                    Some(Ok(by)) => *outcome = Outcome::Holds(by),
                    Some(Err(problem)) => *outcome = Outcome::Fails(problem),
                    None => {}
                }
            }
        }
        verdict
    }
}
