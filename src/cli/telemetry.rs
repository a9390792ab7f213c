//! The log, on standard error.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::Failure;
use crate::cli::log_sampler::LogSampler;
use crate::config::{Environment, LogConfig, LogFormat};

/// A library that logs each refused certificate, in words of its own. The error
/// says it as well.
const QUIET: &str = "rustls_platform_verifier";

/// Starts the log on standard error.
pub(super) fn start(log: &LogConfig, environment: &Environment) -> Result<(), Failure> {
    let mut directives = log.filter.clone();
    if !directives.contains(QUIET) {
        directives = format!("{directives},{QUIET}=off");
    }
    let filter = EnvFilter::builder()
        .parse(&directives)
        .context("log filter")
        .map_err(Failure::usage)?;
    let colour = io::stderr().is_terminal() && environment.get("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour);
    let started = match log.format {
        LogFormat::Text => lines.finish().with(LogSampler).try_init(),
        LogFormat::Json => lines.json().finish().with(LogSampler).try_init(),
    };
    started
        .map_err(|error| anyhow::anyhow!(error))
        .context("cannot start the log")
        .map_err(Failure::run)?;
    for name in environment.unknown() {
        tracing::warn!(name, "unknown environment variable");
    }
    Ok(())
}
