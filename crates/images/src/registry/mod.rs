//! One registry: requests, authentication, certificates, retries, blobs.

pub mod blob;
pub(crate) mod certificates;
pub(crate) mod challenge;
pub mod client;
pub(crate) mod gate;
pub mod referrers;
pub(crate) mod retry;
pub(crate) mod token;
pub(crate) mod transport;
