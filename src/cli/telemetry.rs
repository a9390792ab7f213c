//! The log, on standard error.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::time::SystemTime;

use anyhow::Context as _;
use tracing::field::FieldSet;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::{LookupSpan, Scope};
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

/// The format of lines on a terminal: the time of day in UTC, for a reader who knows the
/// date; the level; the spans, except those whose fields the event repeats; the event.
struct ShortLine;

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
            let lines = lines.event_format(ShortLine);
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

impl<S, N> FormatEvent<S, N> for ShortLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = event.metadata().level();
        let colour = match *level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            Level::DEBUG => "34",
            Level::TRACE => "35",
        };
        let [dim, bold, colour, plain] = if writer.has_ansi_escapes() {
            ["2", "1", colour, "0"].map(|code| format!("\x1b[{code}m"))
        } else {
            Default::default()
        };
        write!(writer, "{dim}{}{plain} ", time_of_day(SystemTime::now()))?;
        write!(writer, "{colour}{level:>5}{plain} ")?;
        let spans = context.event_scope();
        let spans = spans.into_iter().flat_map(Scope::from_root);
        for span in spans.filter(|span| !repeats(event, span.metadata().fields())) {
            write!(writer, "{bold}{}{plain}", span.name())?;
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(writer, "{bold}{{{plain}{fields}{bold}}}{plain}")?;
            }
            write!(writer, "{dim}:{plain} ")?;
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Whether an event has all fields of a span that has some, such as the catalog.
fn repeats(event: &Event<'_>, fields: &FieldSet) -> bool {
    let own = event.metadata().fields();
    !fields.is_empty() && fields.iter().all(|field| own.field(field.name()).is_some())
}

/// The time of day in UTC.
fn time_of_day(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    // 2026-01-31T12:34:56Z
    text.get(11..19).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

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

    /// The lines on a terminal that `log` causes, each without its time.
    fn short_lines(coloured: bool, log: impl FnOnce()) -> Vec<String> {
        #[derive(Clone, Default)]
        struct Written(Arc<Mutex<Vec<u8>>>);

        impl io::Write for Written {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(move || writer.clone())
            .with_ansi(coloured)
            .event_format(ShortLine);
        tracing::subscriber::with_default(lines.finish(), log);
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        let lines = text.lines().map(|line| {
            let (time, rest) = line.split_once(' ').unwrap();
            assert_eq!(time.matches(':').count(), 2, "{line}");
            rest.to_owned()
        });
        lines.collect()
    }

    #[test]
    fn a_short_line_names_the_catalog_once() {
        let log = || {
            let span = tracing::info_span!("follow", catalog = "ours");
            span.in_scope(|| {
                tracing::info!(catalog = "ours", revision = 1, "serving");
                tracing::warn!("nothing new");
            });
            tracing::error!("outside");
        };
        assert_eq!(
            short_lines(false, log),
            [
                " INFO serving catalog=\"ours\" revision=1",
                " WARN follow{catalog=\"ours\"}: nothing new",
                "ERROR outside",
            ]
        );
        let coloured = short_lines(true, log);
        assert!(
            coloured[2].starts_with("\u{1b}[31mERROR\u{1b}[0m "),
            "{coloured:?}"
        );
    }

    #[test]
    fn a_short_line_has_the_time_of_day() {
        assert_eq!(time_of_day(SystemTime::UNIX_EPOCH), "00:00:00");
    }
}
