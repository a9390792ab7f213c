//! Downloads a whole catalog from a running almanac, or from another server
//! with catalogd's HTTP API. For commands that a user types with a URL;
//! followed sources are registries, layouts and folders only.

mod client;
mod error;
mod settings;
mod transfer;
mod url;

#[cfg(test)]
mod tests;

pub use error::{CatalogUrlError, FetchError};
pub use settings::Settings;
pub use url::CatalogUrl;
