//! The admin port: probes, metrics and status.

mod routes;
mod status;

pub use routes::router;
pub use status::Configuration;
