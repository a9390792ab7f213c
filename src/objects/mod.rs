//! Objects in a bucket, over the protocol of S3: put, get, list and delete.
//!
//! `location` is the setting, `credentials` and `platform` find the key that signs, `signature`
//! signs requests (AWS Signature Version 4), `sender` sends them, `bucket` writes, lists and
//! removes objects, `body` reads them, `answer` reads the documents that a store sends. Whoever uses this decides what objects mean.

mod access_key;
mod answer;
mod body;
mod bucket;
mod credentials;
mod error;
mod location;
mod platform;
mod sender;
mod signature;

pub use access_key::AccessKey;
pub use body::Body;
pub use bucket::{Bucket, Pages, Put};
pub use credentials::CredentialSource;
pub use error::{ObjectError, ObjectProblem};
pub use location::{Location, LocationError, Style};
pub use platform::Platform;
pub use sender::Settings;
