//! The pull half of the OCI distribution API (`/v2/`), for the images of all
//! catalogs.
//!
//! `path` parses a request, `repository` finds its images, `content` sends
//! manifests and blobs, `listing` lists, `authorizer` decides who may pull: `users` checks
//! passwords in `turns`, `token` makes tokens.
//! Nothing can be pushed. Responses are slices of stored files, byte for byte;
//! `ingest` builds the images.

mod authorizer;
mod content;
mod listing;
mod path;
mod registry;
mod rejection;
mod repository;
mod token;
mod turns;
mod users;

pub use authorizer::{Authorizer, AuthorizerSettings, Flow, OpenedAuthorizer};
pub use registry::router;
pub use token::TokenKeys;
pub use users::Users;
