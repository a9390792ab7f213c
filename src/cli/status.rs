//! `almanac status`: the state of a running almanac and its catalogs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::anyhow;
use serde_json::Value;

use crate::cli::format::{Column, Format};
use crate::cli::health::admin_address;
use crate::cli::output::Shown;
use crate::cli::query::{Port, ask, text};
use crate::cli::terminal::TerminalArguments;
use crate::cli::{Failure, block_on, output};
use crate::config::{Address, Environment};
use crate::fetch;
use crate::name::CatalogName;
use fbc::text::suggest;

/// Show the state of a running almanac and its catalogs
///
/// The admin port answers. JSON and YAML have the whole document: problems, times,
/// revisions and the last passes.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Only this catalog; repeatable [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<CatalogName>,

    /// The address of the admin port [default: that of `serve`]
    #[arg(long, value_name = "ADDR")]
    admin: Option<Address>,

    /// The configuration file of `serve`, for the address; mistakes elsewhere in it
    /// do not matter
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,

    /// For a message: the HTTP port has no status.
    #[arg(long, value_name = "URL", hide = true)]
    server: Option<String>,

    #[command(flatten)]
    terminal: TerminalArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac status
  almanac status community
  almanac status --admin 127.0.0.1:9091 --output json
  almanac status --config deploy/almanac.toml -o name

Exit codes:
  0  printed
  1  unknown catalog, or the output failed
  2  invalid arguments or configuration
  3  no almanac answers";

const COLUMNS: &[Column] = &[
    Column::new("NAME", |item| text(item, "name")),
    Column::new("STATE", |item| text(item, "state")),
    Column::new("PACKAGES", |item| count(item, "packages")),
    Column::new("BUNDLES", |item| count(item, "bundles")),
    Column::new("LEFT OUT", |item| count(item, "quarantined")),
    Column::new("LAST PASS", |item| {
        age(&text(item, "last_pass"), SystemTime::now())
    }),
    Column::wide("FAILURES", |item| {
        item.get("failures")
            .map(Value::to_string)
            .unwrap_or_default()
    }),
    Column::new("SOURCE", |item| text(item, "source")),
    Column::new("ERROR", error),
];

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.terminal.apply(environment);
        if let Some(server) = &self.server {
            return Err(Failure::usage(anyhow!(
                "the admin port has the status: write --admin ADDR, such as --admin 127.0.0.1:9090; \
                 `almanac list catalogs --server {}` lists the catalogs of an HTTP port",
                Shown(server)
            )));
        }
        let address = admin_address(self.admin, self.config.as_deref(), environment)?;
        let url = format!("http://{address}")
            .parse()
            .map_err(Failure::usage)?;
        let settings = fetch::Settings::default();
        let mut status = block_on(ask(&url, Port::Admin, &settings, "/status"))??;
        let catalogs = status.get_mut("catalogs").and_then(Value::as_array_mut);
        let catalogs = catalogs.ok_or_else(|| {
            Failure::unreadable(anyhow!("http://{address}/status: no almanac answers there"))
        })?;
        choose(catalogs, &self.names)?;
        let catalogs = catalogs.clone();
        let configuration = status.get("configuration").unwrap_or(&Value::Null);
        let error = text(configuration, "error");
        if !error.is_empty() {
            output::note(&format!(
                "almanac: the last configuration was refused: {error}"
            ));
        }
        if let Some(fleet) = status.get("fleet") {
            for note in fleet_notes(fleet) {
                output::note(&note);
            }
        }
        for catalog in &catalogs {
            let error = text(catalog, "image_error");
            if !error.is_empty() {
                let name = text(catalog, "name");
                output::note(&format!(
                    "almanac: catalog {name}: no image of the served revision yet: {error}"
                ));
            }
        }
        let items = |key: &str| {
            let items = status.get(key).and_then(Value::as_array);
            items.into_iter().flatten()
        };
        let webhooks = items("webhooks").filter_map(webhook_note);
        let unknown = items("unknown_names").map(unknown_name_note);
        for note in webhooks.chain(unknown) {
            output::note(&note);
        }
        if catalogs.is_empty() {
            output::note("almanac: no catalog is configured");
        }
        self.output
            .print_objects(&catalogs, &status, COLUMNS, "name")
    }
}

/// A name of gRPC calls that no catalog answers to, and its caller.
fn unknown_name_note(unknown: &Value) -> String {
    format!(
        "almanac: no catalog answers to the name {}, which {} calls over gRPC",
        text(unknown, "name"),
        text(unknown, "peer")
    )
}

/// The failures of a webhook, if there are any.
fn webhook_note(webhook: &Value) -> Option<String> {
    let number = |key| webhook.get(key).and_then(Value::as_u64).unwrap_or(0);
    let failures = Some(number("failures")).filter(|failures| *failures > 0)?;
    let waits = match number("pending") {
        0 => "no event waits".to_owned(),
        1 => "1 event waits".to_owned(),
        events => format!("{events} events wait"),
    };
    Some(format!(
        "almanac: webhook {}: {waits}, {} failed: {}",
        text(webhook, "name"),
        match failures {
            1 => "the last attempt".to_owned(),
            failures => format!("the last {failures} attempts"),
        },
        text(webhook, "last_error")
    ))
}

/// The place of a replica in its fleet, its errors, and the reasons for which it waits.
fn fleet_notes(fleet: &Value) -> Vec<String> {
    let names = |key: &str| {
        let names = fleet
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let replicas = fleet.get("replicas").and_then(Value::as_u64).unwrap_or(0);
    let place = format!(
        "almanac: replica {} of a fleet, {replicas} live; follows: {}; behind with: {}",
        text(fleet, "name"),
        names("follows"),
        names("behind")
    );
    // Errors of the database name it.
    let errors = [("error", ""), ("bucket_error", "the bucket of the fleet: ")];
    let errors = errors.map(|(key, of)| {
        let error = Some(text(fleet, key)).filter(|error| !error.is_empty());
        error.map(|error| format!("almanac: {of}{error}"))
    });
    let lost = fleet.get("lost_objects").and_then(Value::as_u64);
    let lost = lost.filter(|lost| *lost > 0).map(|lost| {
        let lost = output::count(lost, "object");
        format!("almanac: the bucket of the fleet has lost {lost}")
    });
    let each = |key| {
        fleet
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    let waits = each("waits").map(|(catalog, reason)| {
        let reason = reason.as_str().unwrap_or_default();
        format!("almanac: {catalog} waits: {reason}")
    });
    let panics = each("panics").map(|(task, times)| {
        format!("almanac: panicked and started again, a defect: {task}, {times} times")
    });
    [place]
        .into_iter()
        .chain(errors.into_iter().flatten())
        .chain(lost)
        .chain(waits)
        .chain(panics)
        .collect()
}

/// Keeps the catalogs of these names.
fn choose(catalogs: &mut Vec<Value>, names: &[CatalogName]) -> Result<(), Failure> {
    let known: Vec<String> = catalogs.iter().map(|item| text(item, "name")).collect();
    let is_known = |name: &&CatalogName| known.iter().any(|other| other == name.as_str());
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known = known.iter().map(String::as_str);
        let proposal = suggest::proposal_or_all(unknown.as_str(), known);
        return Err(Failure::run(anyhow!(
            "there is no catalog {:?}{proposal}",
            unknown.as_str()
        )));
    }
    if !names.is_empty() {
        catalogs.retain(|item| names.iter().any(|name| name.as_str() == text(item, "name")));
    }
    Ok(())
}

fn count(item: &Value, key: &str) -> String {
    let revision = item
        .get("revision")
        .and_then(|revision| revision.get("counts"));
    let count = revision.and_then(|counts| counts.get(key)?.as_u64());
    count.map(|count| count.to_string()).unwrap_or_default()
}

/// The last error. It does not repeat the image, which is the source in the same line.
fn error(item: &Value) -> String {
    let (error, source) = (text(item, "last_error"), text(item, "source"));
    if source.is_empty() {
        return error;
    }
    let without = error.replacen(&format!("{source} is not admitted"), "not admitted", 1);
    // In the middle of a sentence it belongs there.
    let begins = without.starts_with(&format!("{source}: "));
    if begins || without.contains(&format!(": {source}: ")) {
        return without.replacen(&format!("{source}: "), "", 1);
    }
    without
}

/// The time since then, in its two largest units: `2h 5m ago`.
fn age(then: &str, now: SystemTime) -> String {
    let Ok(then) = humantime::parse_rfc3339(then) else {
        return String::new();
    };
    let seconds = now.duration_since(then).unwrap_or_default().as_secs();
    let age = humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string();
    let units: Vec<&str> = age.split(' ').take(2).collect();
    format!("{} ago", units.join(" "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_does_not_repeat_the_source() {
        let source = "quay.io/a/b:v1";
        for (written, shown) in [
            (
                "pull: quay.io/a/b:v1 is not admitted: the policy p",
                "pull: not admitted: the policy p",
            ),
            (
                "resolve: quay.io/a/b:v1: cannot pull: no",
                "resolve: cannot pull: no",
            ),
            ("pull: quay.io/a/b:v10: no", "pull: quay.io/a/b:v10: no"),
            (
                "it is of quay.io/c, not of quay.io/a/b:v1: configure it",
                "it is of quay.io/c, not of quay.io/a/b:v1: configure it",
            ),
        ] {
            let item = serde_json::json!({"source": source, "last_error": written});
            assert_eq!(error(&item), shown);
        }
    }

    #[test]
    fn a_replica_tells_what_it_waits_for() {
        let fleet = serde_json::json!({
            "name": "r1", "replicas": 3, "follows": ["b", "c"], "behind": ["a"],
            "error": "no answer", "bucket_error": "gone", "waits": {"a": "no space is left"}, "panics": {"beat": 2},
        });
        let notes = fleet_notes(&fleet);
        assert_eq!(
            notes,
            [
                "almanac: replica r1 of a fleet, 3 live; follows: b, c; behind with: a",
                "almanac: no answer",
                "almanac: the bucket of the fleet: gone",
                "almanac: a waits: no space is left",
                "almanac: panicked and started again, a defect: beat, 2 times",
            ]
        );
        let well = serde_json::json!({"error": null, "waits": {}});
        assert_eq!(
            fleet_notes(&well),
            ["almanac: replica  of a fleet, 0 live; follows: none; behind with: none"]
        );
    }

    #[test]
    fn a_webhook_is_told_of_while_its_receiver_takes_nothing() {
        let note = |pending, failures| {
            webhook_note(&serde_json::json!({
                "name": "chat", "pending": pending, "failures": failures, "last_error": "gone",
            }))
        };
        assert_eq!(note(3, 0), None);
        let told = [(0, 1), (1, 1), (3, 2)].map(|(pending, failures)| note(pending, failures));
        assert_eq!(
            told.map(Option::unwrap),
            [
                "almanac: webhook chat: no event waits, the last attempt failed: gone",
                "almanac: webhook chat: 1 event waits, the last attempt failed: gone",
                "almanac: webhook chat: 3 events wait, the last 2 attempts failed: gone",
            ]
        );
    }

    #[test]
    fn an_age_has_two_units() {
        let then = "2026-01-01T00:00:00Z";
        let at = humantime::parse_rfc3339(then).unwrap();
        for (seconds, shown) in [(0, "0s ago"), (59, "59s ago"), (7505, "2h 5m ago")] {
            assert_eq!(age(then, at + Duration::from_secs(seconds)), shown);
        }
        assert_eq!(age("", at), "");
    }
}
