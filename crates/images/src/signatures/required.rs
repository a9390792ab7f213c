//! A signature that a policy requires.

use crate::digest::Digest;
use crate::reference::Reference;
use crate::signatures::bundle::Bundle;
use crate::signatures::sigstore::{SigstoreRequirement, SigstoreSignature};
use crate::signatures::simple::SimpleRequirement;

/// A signature as it was found, not verified.
#[derive(Clone, Debug)]
pub(crate) enum Signature {
    /// An OpenPGP message with a simple signing document.
    Simple(Vec<u8>),
    /// A signature with its payload, as cosign stores it.
    Sigstore(SigstoreSignature),
    /// A bundle of sigstore.
    Bundle(Bundle),
}

/// A signature that an image needs, with its keys.
#[derive(Debug)]
pub(crate) enum RequiredSignature {
    /// A simple signature (`signedBy`).
    Simple(SimpleRequirement),
    /// A signature of sigstore (`sigstoreSigned`).
    Sigstore(SigstoreRequirement),
}

/// The kinds of signatures. A requirement takes one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureKind {
    Simple,
    Sigstore,
}

impl RequiredSignature {
    pub(crate) fn kind(&self) -> SignatureKind {
        match self {
            Self::Simple(_) => SignatureKind::Simple,
            Self::Sigstore(_) => SignatureKind::Sigstore,
        }
    }

    /// Checks a signature. Returns who made it, or its problem; nothing for a
    /// signature of another kind. It computes much: it blocks.
    pub(crate) fn check(
        &self,
        signature: &Signature,
        image: &Reference,
        digest: &Digest,
    ) -> Option<Result<String, String>> {
        match (self, signature) {
            (Self::Simple(required), Signature::Simple(message)) => {
                Some(required.check(message, image, digest))
            }
            (Self::Sigstore(required), Signature::Sigstore(signature)) => {
                Some(required.check(signature, image, digest))
            }
            (Self::Sigstore(required), Signature::Bundle(bundle)) => {
                Some(required.check_bundle(bundle, image, digest))
            }
            _ => None,
        }
    }
}
