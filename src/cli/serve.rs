//! `almanac serve`: runs until a signal stops it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::app;
use crate::cli::input::check_files;
use crate::cli::runtime::{block_on, until_stopped};
use crate::cli::telemetry::{self, Unattended};
use crate::cli::terminal::{self, TerminalArguments};
use crate::cli::{Failure, output};
use crate::config::{Config, Environment, LogConfig, LogFormat, Settings, Written};

/// Follow catalogs and serve them
///
/// Follows catalogs by digest, and serves them over gRPC (the Operator Registry
/// API) and HTTP (the API of OLM v1's catalogd). A start serves the stored
/// revisions at once, before any registry is reached.
///
/// The configuration file is reloaded when it changes and on SIGHUP. An invalid
/// file is refused, and the active configuration stays.
///
/// SIGTERM or SIGINT stops almanac once open streams have finished; a second
/// signal stops it at once.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The configuration file (TOML); deploy/almanac.toml documents every key
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the settings, the files that they name, and the ports, then exit
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    settings: Settings,

    #[command(flatten)]
    terminal: TerminalArguments,
}

/// The exit code of a check that finds problems.
const NOT_READY: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  almanac serve quay.io/operatorhubio/catalog:latest
  almanac serve a=quay.io/operatorhubio/catalog:latest b=file:deploy/catalog
  almanac serve --data-dir /var/lib/almanac oci:/srv/layout:v4.20
  almanac serve --config deploy/almanac.toml
  almanac serve --config deploy/almanac.toml --check

Exit codes:
  0  stopped by a signal, and all streams have finished; no problem with --check
  1  a failure while starting or running; problems with --check
  2  invalid arguments or configuration";

impl Arguments {
    pub(super) fn run(mut self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.terminal.apply(environment);
        check_files(&self.settings.registries)?;
        self.terminal.complete(&mut self.settings.log);
        let written = Written::new(self.settings, self.config, environment);
        let config = written.load().map_err(Failure::usage)?;
        if self.check {
            // For a person, who looks for problems.
            let warnings = LogConfig {
                format: LogFormat::Text,
                filter: "warn".to_owned(),
            };
            telemetry::start(&warnings, Unattended::Text, environment)?;
            return check(&config);
        }
        telemetry::start(&config.log, Unattended::Json, environment)?;
        let serving = async {
            let hangup = signal(SignalKind::hangup()).context("cannot wait for signals")?;
            // It holds everything that is served, so it lies on the heap.
            Box::pin(until_stopped(|stop| {
                app::run(written, config, hangup, greet, stop)
            }))
            .await
        };
        block_on(serving)?.map_err(Failure::run)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows a person where to look. A log collector needs no such line.
fn greet(http: SocketAddr, is_secure: bool) {
    if terminal::shows_progress() {
        let scheme = if is_secure { "https" } else { "http" };
        output::note(&format!("open {scheme}://{}/", host(http)));
    }
}

/// The address of a listener, as a browser on the same machine reaches it.
fn host(address: SocketAddr) -> String {
    if address.ip().is_unspecified() || address.ip().is_loopback() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

/// Prints what a start would fail for.
fn check(config: &Config) -> Result<ExitCode, Failure> {
    let problems = block_on(app::check(config))?;
    if problems.is_empty() {
        let catalogs = output::count(config.catalogs.len() as u64, "catalog");
        return output::print(|out| writeln!(out, "the configuration can be used: {catalogs}"));
    }
    for problem in problems {
        Failure::run(problem).print();
    }
    Ok(ExitCode::from(NOT_READY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_gets_an_address_that_a_browser_opens() {
        for (address, expected) in [
            ("0.0.0.0:8080", "localhost:8080"),
            ("[::]:80", "localhost:80"),
            ("127.0.0.1:1", "localhost:1"),
            ("192.0.2.1:8080", "192.0.2.1:8080"),
            ("[2001:db8::1]:8080", "[2001:db8::1]:8080"),
        ] {
            assert_eq!(host(address.parse().unwrap()), expected);
        }
    }
}
