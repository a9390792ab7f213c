//! Failures of commands, and their exit codes.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::anyhow;

use crate::cli::terminal;
use crate::error_chain::error_chain;
use fbc::text::suggest;

/// A failure while running.
const RUN: u8 = 1;
/// Invalid arguments or configuration; clap uses the same code.
const USAGE: u8 = 2;
/// The catalog cannot be read.
const UNREADABLE: u8 = 3;

/// An error and its exit code. It is displayed with its causes, on one line.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// A failure while running.
    pub(super) fn run(error: impl Into<anyhow::Error>) -> Self {
        Self::new(RUN, error)
    }

    /// Invalid arguments or configuration.
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(USAGE, error)
    }

    /// A catalog or archive that cannot be read.
    pub(super) fn unreadable(error: impl Into<anyhow::Error>) -> Self {
        Self::new(UNREADABLE, error)
    }

    /// There is no package of that name; `names` are those that there are.
    pub(super) fn no_package<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Self {
        let proposal = suggest::proposal_or_all(wanted, names);
        Self::run(anyhow!("there is no package {wanted:?}{proposal}"))
    }

    fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { code, error }
    }

    /// The exit code.
    pub fn code(&self) -> ExitCode {
        self.code.into()
    }

    /// Writes it to standard error.
    pub fn print(&self) {
        // Without standard error, this cannot be reported.
        let (bold, plain) = if terminal::colours_errors() {
            ("\x1b[1;31m", "\x1b[0m")
        } else {
            ("", "")
        };
        let _ = writeln!(io::stderr(), "{bold}almanac:{plain} {self}");
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(self.error.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_shown_once() {
        let cause = anyhow!("no such file");
        let error = cause
            .context("cannot read a: no such file")
            .context("sorry");
        assert_eq!(
            Failure::run(error).to_string(),
            "sorry: cannot read a: no such file"
        );
    }
}
