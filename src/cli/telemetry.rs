//! The log, on standard error.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::time::SystemTime;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::Failure;
use crate::cli::log_sampler::LogSampler;
use crate::cli::terminal::{self, TerminalArguments};
use crate::config::{Environment, LogConfig, LogFormat};

/// Libraries that log in words of their own what an error or another line says as
/// well: each refused certificate, each folder that is gone, each failed request to
/// the API server of a cluster, and each broken or late connection to the database of a fleet.
const QUIET: [&str; 5] = [
    "rustls_platform_verifier",
    "notify",
    "kube_client",
    "sqlx_core::pool",
    "sqlx::pool",
];

/// The format of the log where nobody asked for one and standard error is no
/// terminal.
#[derive(Clone, Copy)]
pub(super) enum Unattended {
    /// For a command, whose messages a person reads later.
    Text,
    /// For a service, whose log a program collects.
    Json,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Time of day, level and message.
    Short,
    /// The whole date and the module as well.
    Text,
    Json,
}

/// The time of day in UTC, for a reader who knows the date.
struct TimeOfDay;

/// Starts the log on standard error.
pub(super) fn start(
    log: &LogConfig,
    unattended: Unattended,
    environment: &Environment,
) -> Result<(), Failure> {
    // Verbs of other programs have no options for the terminal.
    TerminalArguments::default().apply(environment);
    let mut directives = log.filter.clone();
    for library in QUIET {
        if !directives.contains(library) {
            directives = format!("{directives},{library}=off");
        }
    }
    let filter = EnvFilter::builder()
        .parse(&directives)
        .context("log filter")
        .map_err(Failure::usage)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // The subscriber reports a failed write on standard error, which panics when nobody
        // reads it.
        .log_internal_errors(false)
        .with_ansi(terminal::colours_errors());
    let started = match line(log.format, unattended, io::stderr().is_terminal()) {
        Line::Short => {
            let lines = lines.with_timer(TimeOfDay).with_target(false);
            lines.finish().with(LogSampler).try_init()
        }
        Line::Text => lines.finish().with(LogSampler).try_init(),
        Line::Json => lines.json().finish().with(LogSampler).try_init(),
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

fn line(format: LogFormat, unattended: Unattended, is_terminal: bool) -> Line {
    match (format, is_terminal, unattended) {
        (LogFormat::Json, _, _) | (LogFormat::Auto, false, Unattended::Json) => Line::Json,
        (_, true, _) => Line::Short,
        (_, false, _) => Line::Text,
    }
}

impl FormatTime for TimeOfDay {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        // 2026-01-31T12:34:56Z
        writer.write_str(now.get(11..19).unwrap_or(&now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_a_terminal_logs_json_unless_text_is_asked_for() {
        use LogFormat::{Auto, Json, Text};
        for (format, unattended, is_terminal, expected) in [
            (Auto, Unattended::Json, true, Line::Short),
            (Auto, Unattended::Json, false, Line::Json),
            (Auto, Unattended::Text, false, Line::Text),
            (Text, Unattended::Json, false, Line::Text),
            (Text, Unattended::Json, true, Line::Short),
            (Json, Unattended::Text, true, Line::Json),
        ] {
            assert_eq!(
                line(format, unattended, is_terminal),
                expected,
                "{format:?}"
            );
        }
    }

    #[test]
    fn a_short_line_has_the_time_of_day() {
        let mut text = String::new();
        TimeOfDay.format_time(&mut Writer::new(&mut text)).unwrap();
        assert_eq!(text.len(), 8, "{text}");
        assert_eq!(text.matches(':').count(), 2, "{text}");
    }
}
