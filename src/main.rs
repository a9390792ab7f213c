//! The program: what was typed is read, done and answered with an exit code.

use std::process::ExitCode;

use almanac::cli::Arguments;
use almanac::config::Environment;
use clap::Parser as _;

fn main() -> ExitCode {
    let environment = Environment::of_process();
    // Ends the program with code 2 when what was typed cannot be read.
    let arguments = Arguments::parse();
    match arguments.run(&environment) {
        Ok(code) => code,
        Err(failure) => {
            failure.print();
            failure.code()
        }
    }
}
