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

use std::path::Path;

use crate::support::program::{Finished, Program, Start};

/// The folder of the project, in which `deploy/catalog` lies.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

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
    let mut server = Program::start([
        "serve",
        "--data-dir={data}",
        "--grpc=127.0.0.1:0",
        "--http=127.0.0.1:0",
        "--admin=127.0.0.1:0",
        "--poll=never",
        &format!("community=file:{sample}"),
        &format!("other=file:{sample}"),
    ]);
    server.wait_until_ready();
    server
}

/// A text without escape sequences of colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest));
    first + &rest.collect::<String>()
}
