//! Replacements for `opm serve` and `grpc_health_probe`, under their names and
//! with their arguments.

mod argv0;
mod go_flags;
pub(super) mod opm;
pub(super) mod probe;

pub use argv0::run;
