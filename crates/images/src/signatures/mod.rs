//! Signatures of images and their verification. Nothing is fetched here: the
//! places of signatures are asked by [`Route::admit`](crate::Route::admit).

mod file_or_data;
mod payload;
mod required;
mod sigstore;

pub(crate) use file_or_data::FileOrData;
pub(crate) use required::{RequiredSignature, Signature, SignatureKind};
pub(crate) use sigstore::{SigstoreRequirement, SigstoreSignature};
