//! Three replicas over PostgreSQL and a store of objects: how fast they are, and
//! whether they lose or mix up a catalog when parts of them die.
//!
//! ```text
//! cargo bench --bench fleet -- [--publications N] [--takeovers N] [--idle SECONDS]
//!     [--starts N] [--minutes N] [--seed N] [--logs FOLDER]
//! ```
//!
//! Each measures one thing, and all of it is measured without arguments. `--minutes`
//! is the time of random faults under load; `--logs` keeps what the replicas log then,
//! in detail. The exit code is 1 when an answer was lost,
//! mixed or too old, or when a publication did not arrive.
#![allow(
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::doc_markdown,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a measuring program, not a library"
)]

#[path = "../../tests/it/support/mod.rs"]
#[allow(
    unused_imports,
    clippy::wildcard_imports,
    reason = "their tests are not compiled here"
)]
mod support;

mod clients;
mod faults;
mod fleet;
mod known;
mod measure;
mod proxy;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut measured, mut seed, mut is_good) = (false, 1, true);
    let mut logs = None;
    let mut arguments = std::env::args().skip(1).peekable();
    let mut wanted = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--logs" {
            logs = arguments.next().map(PathBuf::from);
            continue;
        }
        let mut number = || -> u64 { arguments.next().unwrap().parse().unwrap() };
        match argument.as_str() {
            // What cargo passes to every bench.
            "--bench" => {}
            "--seed" => seed = number(),
            "--publications" | "--takeovers" | "--idle" | "--starts" | "--minutes" => {
                wanted.push((argument.clone(), number()));
                measured = true;
            }
            other => {
                eprintln!("unknown argument {other}");
                return ExitCode::from(2);
            }
        }
    }
    if !measured {
        let all = [
            ("--publications", 100),
            ("--takeovers", 50),
            ("--idle", 60),
            ("--starts", 5),
            ("--minutes", 10),
        ];
        wanted.extend(all.map(|(name, number)| (name.to_owned(), number)));
    }
    for (name, number) in wanted {
        is_good &= match name.as_str() {
            "--publications" => measure::publications(number),
            "--takeovers" => measure::takeovers(number),
            "--idle" => measure::idle(number),
            "--starts" => measure::starts(number),
            _ => faults::run(number, seed, logs.as_deref()),
        };
    }
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
