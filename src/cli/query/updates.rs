//! `almanac updates`: the updates of an installed operator.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::Value;

use crate::cli::format::{self, Format};
use crate::cli::help::help_of_reading;
use crate::cli::output::{Lines, Look, Shown};
use crate::cli::query::{QueryArguments, Question, Respondent, flag, one_word, text};
use crate::cli::{Failure, block_on, output};
use crate::config::Environment;

/// Show the updates of an installed operator
///
/// For OLM v1: the versions that it may install, the best first. For OLM v0: the
/// steps in each channel. Without --from, those of a fresh installation.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(
    override_usage = "almanac updates [OPTIONS] <SOURCE> <PACKAGE>\n       \
    almanac updates [OPTIONS] --server <URL> <PACKAGE>"
)]
pub(crate) struct Arguments {
    /// The source, as for the other commands, and the package; with --server only
    /// the package
    #[arg(value_name = "SOURCE|PACKAGE", num_args = 1..=2, required = true)]
    words: Vec<String>,

    /// The installed bundle or version
    #[arg(long, value_name = "BUNDLE|VERSION")]
    from: Option<String>,

    /// Only this channel; repeatable
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,

    /// Only versions in this range, such as ">=1.2.0, <2.0.0"
    #[arg(long, value_name = "RANGE")]
    range: Option<String>,

    /// The output format; jsonl and name list the candidates of OLM v1
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,

    #[command(flatten)]
    query: QueryArguments,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac updates file:deploy/catalog ferry-operator --from 2.0.0
  almanac updates quay.io/operatorhubio/catalog:latest etcd --channel alpha
  almanac updates --server http://127.0.0.1:8080 etcd --range '>=1.1.0'",
    "  0  printed
  1  unknown package, channel or bundle, or the output failed
  2  invalid arguments
  3  the catalog or server cannot be read"
);

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let (source, mut packages) = self.query.divide(self.words);
        let package = match (packages.pop(), packages.is_empty()) {
            (Some(package), true) => package,
            (None, _) => {
                let source = source.unwrap_or_default();
                return Err(one_word("updates", &source, "a package", "PACKAGE"));
            }
            (Some(_), false) => {
                return Err(Failure::usage(anyhow!(
                    "name one package: with --server there is no SOURCE"
                )));
            }
        };
        let mut question = Question::new("updates").with("package", &package);
        let optional = [("from", &self.from), ("range", &self.range)];
        for (name, value) in optional {
            if let Some(value) = value {
                question = question.with(name, value);
            }
        }
        for channel in &self.channels {
            question = question.with("channel", channel);
        }
        let mut respondent = self.query.open(source, environment)?;
        let answer = block_on(async {
            respondent.choose_catalog(&package).await?;
            respondent.object(&question).await
        })??;
        let hint = answer.get("hint").and_then(Value::as_str);
        let mut paths = members(&answer, "paths").iter();
        let is_empty = members(&answer, "candidates").is_empty()
            && paths.all(|path| members(path, "steps").is_empty());
        let printed = print(&answer, self.output)?;
        match hint {
            // Of an unknown bundle without any update, the tables tell nothing.
            Some(hint) if is_empty => Err(Failure::run(anyhow!("no update leads from it: {hint}"))),
            Some(hint) => {
                output::note(&format!("almanac: {hint}"));
                Ok(printed)
            }
            None => Ok(printed),
        }
    }
}

impl Respondent {
    /// Chooses the only catalog with a package, where several are asked.
    async fn choose_catalog(&mut self, package: &str) -> Result<(), Failure> {
        if !self.is_across() {
            return Ok(());
        }
        let with = self.list(&Question::package(package)).await?;
        let names: Vec<String> = with
            .items
            .iter()
            .map(|item| text(item, "catalog"))
            .collect();
        let (Self::Server { catalog, .. }, [name]) = (self, &names[..]) else {
            return Err(Failure::usage(anyhow!(
                "several catalogs have the package {package:?}: {}; choose one by --catalog",
                names.join(", ")
            )));
        };
        *catalog = Some(name.parse().map_err(Failure::unreadable)?);
        Ok(())
    }
}

fn print(answer: &Value, format: Format) -> Result<ExitCode, Failure> {
    let candidates = members(answer, "candidates");
    output::print(|out| match format {
        Format::Table => write(answer, Look::from_terminal(), out),
        Format::Wide => write(answer, Look::from_terminal().uncut(), out),
        Format::Json => output::json(answer, out),
        Format::Yaml => format::yaml_of(answer, out),
        Format::Jsonl => {
            let mut candidates = candidates.iter();
            candidates.try_for_each(|candidate| format::json_line(candidate, out))
        }
        Format::Name => {
            let mut names = candidates.iter().map(|candidate| text(candidate, "name"));
            names.try_for_each(|name| writeln!(out, "{}", Shown(&name)))
        }
    })
}

/// Writes the two tables.
fn write(answer: &Value, look: Look, out: &mut impl Write) -> io::Result<()> {
    let candidates = members(answer, "candidates");
    writeln!(out, "OLM v1 may install, the best first:\n")?;
    if candidates.is_empty() {
        writeln!(out, "nothing")?;
    } else {
        let rows = candidates.iter().map(|candidate| {
            let deprecation = text(candidate, "deprecation");
            [
                text(candidate, "name"),
                text(candidate, "version"),
                words(candidate, "channels"),
                words(candidate, "edges"),
                deprecation,
            ]
        });
        table(
            &["BUNDLE", "VERSION", "CHANNELS", "BY", "DEPRECATION"],
            rows,
            look,
            out,
        )?;
    }
    writeln!(out, "\nOLM v0 installs, channel by channel:\n")?;
    let paths = members(answer, "paths");
    if paths.is_empty() {
        let why = if flag(answer, "quarantined") {
            "nothing: the package has errors"
        } else {
            "nothing"
        };
        return writeln!(out, "{why}");
    }
    let rows = paths.iter().map(|path| {
        let steps = members(path, "steps").iter();
        let steps: Vec<String> = steps.map(|step| text(step, "name")).collect();
        let reaches = if flag(path, "reachesHead") {
            "yes"
        } else {
            "no"
        };
        let steps = if steps.is_empty() {
            "none".to_owned()
        } else {
            steps.join(" -> ")
        };
        [
            text(path, "channel"),
            text(path, "head"),
            reaches.to_owned(),
            steps,
        ]
    });
    table(&["CHANNEL", "HEAD", "REACHES IT", "STEPS"], rows, look, out)
}

fn table<const N: usize>(
    titles: &[&'static str; N],
    rows: impl Iterator<Item = [String; N]>,
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    let titles = std::iter::once(titles.map(String::from));
    let rows = titles.chain(rows).map(|row| row.map(Into::into).to_vec());
    output::table(rows, Lines::Trimmed, look, out)
}

fn members<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn words(object: &Value, key: &str) -> String {
    let words = members(object, key).iter().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(", ")
}
