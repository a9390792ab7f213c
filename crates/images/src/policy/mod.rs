//! `policy.json`: which images may be pulled, and which signatures they need
//! (containers-policy.json(5); transports `docker`, `oci`, `oci-archive` and
//! `docker-archive`).
//!
//! Image policies of OpenShift are added to it. An unreadable policy, or one with an unknown key, rejects every image.
//! Requirements that are known but unsupported reject the images in their
//! scope, by name. Signatures are verified in `signatures` and fetched by
//! [`Route::admit`](crate::Route::admit).

mod evaluate;
mod fetched;
mod files;
mod identity;
mod objects;
mod parse;
mod rejection;
mod sigstore_trust;
mod subject;
#[cfg(test)]
mod tests;
mod verdict;

pub use evaluate::Admission;
pub use fetched::FetchedSignature;
pub use files::PolicyFiles;
pub use rejection::{PolicyError, PolicyRejection};
pub use subject::PolicySubject;
pub use verdict::{Outcome, RequirementVerdict, SearchedPlace, Verdict};

pub(crate) use identity::SignedIdentity;
pub(crate) use parse::check as parse_policy;
pub(crate) use subject::registry_scopes;
