//! Objects in a bucket of S3 and what speaks its protocol, of Google Cloud Storage, or of Azure.
//! The crate `object_store` has the protocols and signatures.
//!
//! `location` is the setting, `settings` has it with the key and certificates, `credentials` names where the key comes from, `supply` gets it,
//! `transport` sends requests within limits, `client` puts these together, `bucket` reads,
//! writes, lists and removes objects, `error` has the reasons of failures. Whoever uses this
//! decides what objects mean.

mod bucket;
mod client;
mod credentials;
mod error;
mod location;
mod settings;
mod supply;
mod transport;

pub use bucket::{Body, Bucket, Listed, Pages};
pub use credentials::{CredentialSource, Variables};
pub use error::{ObjectError, ObjectProblem};
pub use location::{Location, LocationError, Store, Style};
pub use settings::Settings;
