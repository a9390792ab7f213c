//! Replacements for `opm serve` and `grpc_health_probe`, under their names and
//! with their arguments. The name of the program, its own or that of a program
//! that it replaces in catalog images, selects the command.

mod go_flags;
pub(super) mod opm;
pub(super) mod probe;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::parse::parse;
use crate::cli::{Arguments, Failure, panics};
use crate::config::Environment;

/// Runs the command in the arguments of the process, and returns its exit code.
/// The first argument is the name of the program. Invalid arguments end the
/// process at once, with a message on standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: &Environment) -> ExitCode {
    panics::quieten();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let done = match program_name(arguments.first()) {
        Some("opm") => opm::run(&arguments, environment),
        Some("grpc_health_probe" | probe::NAME) => return probe::run(arguments),
        // This command alone has flags in the syntax of Go.
        _ if arguments.get(1).is_some_and(|verb| verb == probe::NAME) => {
            return probe::run(arguments.into_iter().skip(1));
        }
        _ if arguments.get(1).is_some_and(|verb| verb == "opm") => run_opm(&arguments, environment),
        _ => parse(&arguments).run(environment),
    };
    done.unwrap_or_else(|failure: Failure| {
        failure.print();
        failure.code()
    })
}

/// Runs `almanac opm`. Kubernetes also gets the message about invalid arguments
/// of `serve`.
fn run_opm(arguments: &[OsString], environment: &Environment) -> Result<ExitCode, Failure> {
    match Arguments::try_parse_from(arguments) {
        Ok(parsed) => parsed.run(environment),
        Err(error) => {
            if error.use_stderr() && arguments.get(2).is_some_and(|verb| verb == "serve") {
                opm::report_invalid_arguments(arguments, &error.to_string());
            }
            error.exit()
        }
    }
}

/// The name by which the program was started, without its folder. Links give it
/// other names.
fn program_name(argument: Option<&OsString>) -> Option<&str> {
    Path::new(argument?).file_name()?.to_str()
}
