//! `sigstoreSigned`: signatures in the format of cosign. Keys, Fulcio or other
//! authorities say who signed; a log's promise says when.

pub(crate) mod certificate;
pub(crate) mod chain;
pub(crate) mod key;
pub(crate) mod pem_sections;
mod requirement;
pub(crate) mod set;
pub(crate) mod signature;
pub(crate) mod trust;

pub(crate) use requirement::SigstoreRequirement;
pub(crate) use signature::SigstoreSignature;
pub(crate) use trust::{FulcioTrust, KeyTrust, NamedKey, PkiTrust, Trust};
