//! What a user types: one module a command.
//!
//! A command reads what was written, calls the library and turns what comes of
//! it into lines and an exit code. What it does is not decided here.

mod check;
mod compat;
mod export;
mod failure;
mod graph;
mod health;
mod images;
mod import;
mod input;
mod list;
mod manifests;
mod output;
mod progress;
mod render;
mod serve;
mod telemetry;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

pub use compat::run;
use compat::{opm, probe};
pub use failure::Failure;

use crate::config::Environment;

/// Follows Kubernetes operator catalogs by digest and serves them over gRPC
/// and HTTP.
#[derive(Debug, Parser)]
#[command(name = "almanac", version)]
#[command(after_help = "`almanac COMMAND --help` tells more about a command, with examples.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Check(Box<check::Arguments>),
    Render(Box<render::Arguments>),
    List(Box<list::Arguments>),
    Graph(Box<graph::Arguments>),
    Export(Box<export::Arguments>),
    Import(Box<import::Arguments>),
    Images(Box<images::Arguments>),
    Manifests(Box<manifests::Arguments>),
    Health(health::Arguments),
    Opm(opm::Arguments),
    GrpcHealthProbe(probe::Arguments),
}

impl Arguments {
    /// Does what was asked for.
    pub fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Serve(arguments) => arguments.run(environment),
            Command::Check(arguments) => arguments.run(environment),
            Command::Render(arguments) => arguments.run(environment),
            Command::List(arguments) => arguments.run(environment),
            Command::Graph(arguments) => arguments.run(environment),
            Command::Export(arguments) => arguments.run(environment),
            Command::Import(arguments) => arguments.run(environment),
            Command::Images(arguments) => arguments.run(environment),
            Command::Manifests(arguments) => arguments.run(environment),
            Command::Health(arguments) => arguments.run(environment),
            Command::Opm(arguments) => arguments.run(environment),
            Command::GrpcHealthProbe(arguments) => Ok(arguments.run()),
        }
    }
}

/// Runs a command to its end. What still blocks a thread then is left alone:
/// the end of the process ends it.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = Runtime::new()
        .context("cannot start threads")
        .map_err(Failure::run)?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
