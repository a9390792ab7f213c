//! `policy.json`: which images may be pulled, and which signatures they need
//! (containers-policy.json(5); transports `docker`, `oci`, `oci-archive` and
//! `docker-archive`).
//!
//! An unreadable policy, or one with an unknown key, rejects every image.
//! Requirements that are known but unsupported (GPG signatures, Fulcio, Rekor)
//! reject the images in their scope, by name. Signatures are verified here and
//! fetched by [`Route::admit`](crate::Route::admit).

mod admission;
mod identity;
mod key;
mod policy_json;
mod signature;
mod subject;
#[cfg(test)]
mod tests;

pub use admission::{Admission, PolicyError, PolicyFiles, PolicyRejection};
pub use signature::{ImageSignature, RequiredSignature};
pub use subject::PolicySubject;
