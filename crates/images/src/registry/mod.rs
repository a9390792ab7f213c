//! One registry (distribution-spec): requests, authentication, certificates,
//! retries, blobs.

mod blob;
mod certificates;
mod challenge;
mod client;
mod clock;
mod http_clients;
pub(crate) mod message;
mod outside;
mod pages;
mod proxies;
mod request_limits;
mod response;
mod retry;
mod session;
mod signatures;
mod tag_cache;
mod token;
mod transport;
pub(crate) mod url;

pub use blob::BlobStream;
pub use client::Client;
pub use http_clients::MAX_HEADERS;
pub use proxies::{Proxies, Proxy};
pub use response::wants_tls;
pub use tag_cache::Resolved;
pub use url::is_loopback;

pub(crate) use transport::Security;
