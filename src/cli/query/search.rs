//! `almanac search`: finds packages by words.

use std::process::ExitCode;

use crate::cli::format::{Column, Format};
use crate::cli::help::help_of_reading;
use crate::cli::query::{QueryArguments, Question, flag, one_word, text};
use crate::cli::{Failure, block_on};
use crate::config::Environment;
use fbc::text::display::fit;

/// The longest summary in a table, in characters.
const SUMMARY: usize = 60;

/// Find packages by words
///
/// Each word must begin a word of a package: of its name, its display name,
/// keywords, kinds, provider or description. The best match comes first.
/// Packages with errors are found too.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(
    override_usage = "almanac search [OPTIONS] <SOURCE> <WORD>...\n       \
    almanac search [OPTIONS] --server <URL> <WORD>..."
)]
pub(crate) struct Arguments {
    /// The source, as for the other commands, and the words; with --server only
    /// the words
    #[arg(value_name = "SOURCE|WORD", required = true)]
    words: Vec<String>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,

    #[command(flatten)]
    query: QueryArguments,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac search file:deploy/catalog messages
  almanac search quay.io/operatorhubio/catalog:latest etcd cluster
  almanac search --server http://127.0.0.1:8080 kafka
  almanac search --server http://127.0.0.1:8080 --catalog ours kafka -o name",
    "  0  printed, also if nothing was found
  1  the output failed
  2  invalid arguments
  3  the catalog or server cannot be read"
);

const COLUMNS: &[Column] = &[
    Column::new("NAME", |item| text(item, "name")),
    Column::new("VERSION", |item| text(item, "version")),
    Column::new("DEFAULT CHANNEL", |item| text(item, "defaultChannel")),
    Column::new("DISPLAY NAME", |item| text(item, "displayName")),
    Column::new("SUMMARY", |item| {
        if flag(item, "quarantined") {
            return "(has errors)".to_owned();
        }
        fit(&text(item, "summary"), SUMMARY)
    }),
];

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let (source, words) = self.query.divide(self.words);
        if words.is_empty() {
            let source = source.unwrap_or_default();
            return Err(one_word("search", &source, "a word to search for", "WORD"));
        }
        let respondent = self.query.open(source, environment)?;
        let question = Question::new("search").with("q", &words.join(" "));
        let mut found = block_on(respondent.list(&question))??;
        found.note();
        for item in &mut found.items {
            // The icon is at the server, if anywhere.
            if let Some(object) = item.as_object_mut() {
                object.remove("icon");
            }
        }
        respondent.print(self.output, &found.items, COLUMNS, "name")
    }
}
