//! Downloads a whole catalog from a running almanac, or from another server
//! with catalogd's HTTP API. For commands that a user types with a URL;
//! followed sources are registries, layouts and folders only.

mod client;
mod error;
mod transfer;
mod url;

#[cfg(test)]
mod tests;

pub use client::Settings;
pub use error::{CatalogUrlError, FetchError};
pub use url::CatalogUrl;
