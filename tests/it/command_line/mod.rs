//! The command line as people use it: help, messages, formats, queries of a source
//! and of a server, and what a terminal shows.

mod configured;
mod formats;
mod help;
mod logins;
mod messages;
mod prune;
mod queries;
mod schemes;
mod terminal;
mod verify;

use crate::support::file::root;
use crate::support::program::{Finished, Program, Start};
use crate::support::served::Served;

/// Runs a command in the folder of the project.
fn run(line: &str) -> Finished {
    let words = line.split_whitespace();
    Start::new(words).within(root()).run()
}

/// Output of a command that succeeds.
fn printed(line: &str) -> String {
    let finished = run(line);
    assert_eq!(finished.status.code(), Some(0), "{line}: {finished:#?}");
    finished.stdout
}

/// A server of the sample catalog, as `community` and as `other`.
fn server() -> Program {
    let sample = root().join("deploy/catalog").display().to_string();
    let sources = ["community", "other"].map(|name| format!("{name}=file:{sample}"));
    Served::start(["--poll=never".into()].into_iter().chain(sources)).program
}

/// A text without escape sequences of colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest));
    first + &rest.collect::<String>()
}
