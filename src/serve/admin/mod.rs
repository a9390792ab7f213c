//! The admin port: probes, metrics and status.

mod configuration;
mod routes;
mod status;

pub use configuration::Configuration;
pub use routes::router;
