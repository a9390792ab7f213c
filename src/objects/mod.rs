//! Objects in a bucket, over the protocol of S3: put, get, list and delete.
//!
//! `location` is the setting, `credentials` and `platform` find the key that signs, `signature`
//! signs requests (AWS Signature Version 4), `client` sends them, `answer` reads the
//! documents that a store sends. Whoever uses this decides what objects mean.

mod access_key;
mod answer;
mod client;
mod credentials;
mod error;
mod location;
mod platform;
mod signature;

pub use access_key::AccessKey;
pub use client::{Body, Bucket, Put, Settings};
pub use credentials::CredentialSource;
pub use error::{ObjectError, ObjectProblem};
pub use location::{Location, LocationError, Style};
pub use platform::Platform;
