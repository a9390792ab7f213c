//! The names that the program answers to: its own, and those of the programs
//! whose place it takes in images of catalogs.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::compat::{opm, probe};
use crate::cli::{Arguments, Failure};
use crate::config::Environment;

/// Does what was typed and gives the code to end with. The words are those of
/// the process, its name first; what cannot be read ends the program at once,
/// with a message on standard error.
pub fn run(words: impl IntoIterator<Item = OsString>, environment: &Environment) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let done = match name(words.first()) {
        Some("opm") => opm::run(&words, environment),
        Some("grpc_health_probe" | probe::NAME) => return probe::run(words),
        // Its flags are written as no other command's are.
        _ if words.get(1).is_some_and(|word| word == probe::NAME) => {
            return probe::run(words.into_iter().skip(1));
        }
        _ if words.get(1).is_some_and(|word| word == "opm") => {
            opm::run_command(&words, environment)
        }
        _ => Arguments::parse_from(words).run(environment),
    };
    done.unwrap_or_else(|failure: Failure| {
        failure.print();
        failure.code()
    })
}

/// What the program was called, without the folder: links to it are how it
/// gets other names.
fn name(word: Option<&OsString>) -> Option<&str> {
    let path: &OsStr = word?;
    Path::new(path).file_name()?.to_str()
}
