//! Pulling an image: from its mirrors in order, then from its own registry, if
//! the policy admits it.
//!
//! [`Registries`] reads the files about mirrors and the policy again for each
//! [`Route`]. The image keeps the requested name, whichever location serves it.

mod clients;
mod referrers;
mod registries;
mod route;
mod signatures;

pub use registries::Registries;
pub use route::{LocationNumber, Route};
