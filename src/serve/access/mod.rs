//! Authorisation: who may read a catalog.
//!
//! The HTTP and OCI APIs both decide with [`Access`], and each words its own
//! refusals. gRPC calls and admin requests are not restricted: OLM's gRPC
//! clients send no credentials.

mod authorization;
mod rules;
mod tokens;

pub(crate) use authorization::Authorization;
pub use rules::{Access, AccessSettings, Rule};
pub(crate) use rules::{Credentials, Denied, Rules, count_denied, describe_metrics};
pub use tokens::Tokens;
