//! `almanac providers`: finds the packages that provide an API.

use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::Value;

use crate::cli::format::{Column, Format};
use crate::cli::help::help_of_reading;
use crate::cli::query::{QueryArguments, Question, flag, one_word, text};
use crate::cli::{Failure, block_on};
use crate::config::Environment;

/// Find the packages that provide an API
///
/// One row per package: the channels with entries that provide the API, and the
/// version nearest to the head of each. --entries lists the entries one by one.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(
    override_usage = "almanac providers [OPTIONS] <SOURCE> <KIND>\n       \
    almanac providers [OPTIONS] --server <URL> <KIND>"
)]
pub(crate) struct Arguments {
    /// The source, as for the other commands, and the kind of the API; with
    /// --server only the kind, and with --group none
    #[arg(value_name = "SOURCE|KIND", num_args = 0..=2)]
    words: Vec<String>,

    /// The group of the API
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// The version of the API
    #[arg(long, value_name = "VERSION")]
    api_version: Option<String>,

    /// Only the heads of channels
    #[arg(long)]
    heads: bool,

    /// Each entry, instead of one row per package
    #[arg(long)]
    entries: bool,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,

    #[command(flatten)]
    query: QueryArguments,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac providers file:deploy/catalog Crossing
  almanac providers quay.io/operatorhubio/catalog:latest Kafka --heads
  almanac providers --server http://127.0.0.1:8080 --group kafka.strimzi.io
  almanac providers --server http://127.0.0.1:8080 Kafka --entries -o jsonl",
    "  0  printed, also if nothing was found
  1  the output failed
  2  invalid arguments
  3  the catalog or server cannot be read"
);

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let (source, mut kinds) = self.query.divide(self.words);
        if kinds.len() > 1 {
            return Err(Failure::usage(anyhow!(
                "{:?} is one word too many: with --server there is no SOURCE",
                kinds[1]
            )));
        }
        let kind = kinds.pop();
        if kind.is_none() && self.group.is_none() {
            let missing = "the kind of an API (or its group, by --group)";
            return Err(match source {
                Some(source) => one_word("providers", &source, missing, "KIND"),
                None => Failure::usage(anyhow!("{missing} is missing")),
            });
        }
        let respondent = self.query.open(source, environment)?;
        let mut question = Question::new("providers");
        for (name, value) in [
            ("kind", kind.as_deref()),
            ("group", self.group.as_deref()),
            ("version", self.api_version.as_deref()),
            ("heads", self.heads.then_some("true")),
            ("by", (!self.entries).then_some("package")),
        ] {
            if let Some(value) = value {
                question = question.with(name, value);
            }
        }
        let found = block_on(respondent.list(&question))??;
        found.note();
        let (columns, name) = if self.entries {
            (ENTRIES, "bundle")
        } else {
            (PACKAGES, "package")
        };
        respondent.print(self.output, &found.items, columns, name)
    }
}

const PACKAGES: &[Column] = &[
    Column::new("PACKAGE", |item| {
        let errors = if flag(item, "quarantined") {
            " (has errors)"
        } else {
            ""
        };
        format!("{}{errors}", text(item, "package"))
    }),
    Column::new("CHANNELS", |item| {
        let channels: Vec<String> = list(item, "channels").map(channel).collect();
        channels.join(", ")
    }),
    Column::new("ENTRIES", |item| {
        let entries = item.get("entries").and_then(Value::as_u64);
        entries.unwrap_or(0).to_string()
    }),
    Column::new("APIS", |item| {
        let apis: Vec<String> = list(item, "apis").map(api).collect();
        apis.join(", ")
    }),
];

const ENTRIES: &[Column] = &[
    Column::new("PACKAGE", |item| text(item, "package")),
    Column::new("CHANNEL", |item| text(item, "channel")),
    Column::new("BUNDLE", |item| text(item, "bundle")),
    Column::new("VERSION", |item| text(item, "version")),
    Column::new("HEAD", |item| {
        let head = if flag(item, "head") { "yes" } else { "" };
        head.to_owned()
    }),
    Column::new("API", |item| item.get("api").map(api).unwrap_or_default()),
];

/// A channel with the version of the entry nearest to its head, and what else is
/// notable: `stable (1.2.0, default)`.
fn channel(channel: &Value) -> String {
    let version = Some(text(channel, "version")).filter(|version| !version.is_empty());
    let mut notes = vec![version.unwrap_or_else(|| text(channel, "bundle"))];
    if !flag(channel, "head") {
        notes.push("not the head".to_owned());
    }
    if flag(channel, "default") {
        notes.push("default".to_owned());
    }
    format!("{} ({})", text(channel, "name"), notes.join(", "))
}

/// An API: `Kafka.v1beta2.kafka.strimzi.io`.
fn api(api: &Value) -> String {
    ["kind", "version", "group"]
        .map(|key| text(api, key))
        .join(".")
}

fn list<'a>(item: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    item.get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
