//! The program: what was typed is read, done and answered with an exit code.

use std::process::ExitCode;

use almanac::cli;
use almanac::config::Environment;

fn main() -> ExitCode {
    let environment = Environment::of_process();
    cli::run(std::env::args_os(), &environment)
}
