//! One registry (distribution-spec): requests, authentication, certificates,
//! retries, blobs.

mod blob;
mod certificates;
mod challenge;
mod client;
mod http_clients;
pub(crate) mod message;
mod request_limits;
mod resolved;
mod response;
mod retry;
mod retry_after;
mod session;
mod tag_cache;
mod token;
mod transport;
pub(crate) mod url;

pub use blob::BlobStream;
pub use client::Client;
pub use resolved::Resolved;

pub(crate) use transport::Security;
