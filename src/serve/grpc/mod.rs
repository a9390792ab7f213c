//! The Operator Registry gRPC API, for all catalogs on one port.
//!
//! A catalog's own port selects that catalog; on the shared port, the authority
//! of the call does. Responses are stored messages, which are framed and not
//! encoded again. Health and reflection respond on every authority. `unknown_names` keeps
//! those that no catalog answers to.

mod call;
mod connection;
mod handover;
mod health;
mod methods;
mod observe;
mod reflection;
mod session;
mod unknown_names;
mod wire;

pub use connection::Service;
pub use unknown_names::UnknownNames;
