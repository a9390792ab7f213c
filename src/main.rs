//! The program: runs the command in its arguments, and returns an exit code.

use std::process::ExitCode;

use almanac::cli;
use almanac::config::Environment;

fn main() -> ExitCode {
    let environment = Environment::from_process();
    cli::run(std::env::args_os(), &environment)
}
