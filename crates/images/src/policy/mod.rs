//! `policy.json`: which images may be pulled, and which signatures they need
//! (containers-policy.json(5), transport `docker`).
//!
//! An unreadable policy, or one with an unknown key, rejects every image.
//! Requirements that are known but unsupported (GPG signatures, Fulcio, Rekor)
//! reject the images in their scope, by name. Signatures are verified here and
//! fetched by [`Route::admit`](crate::Route::admit).

mod admission;
mod identity;
mod key;
mod payload;
mod policy_json;
mod rejection;
mod required_signature;
#[cfg(test)]
mod tests;
mod unique_keys;

pub use admission::{Admission, PolicyFiles};
pub use rejection::{PolicyError, PolicyRejection};
pub use required_signature::{ImageSignature, RequiredSignature};
