//! How a command fails.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Something failed while running.
const RUN: u8 = 1;
/// What was typed or configured cannot be used; clap ends with the same.
const USAGE: u8 = 2;
/// What was to be looked at cannot be read.
const UNREADABLE: u8 = 3;

/// An error and the code that the program ends with. It is shown with its
/// causes, in one line.
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

    /// Something written that cannot be used.
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(USAGE, error)
    }

    /// Something that cannot be read.
    pub(super) fn unreadable(error: impl Into<anyhow::Error>) -> Self {
        Self::new(UNREADABLE, error)
    }

    fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { code, error }
    }

    /// The code to end with.
    pub fn code(&self) -> ExitCode {
        self.code.into()
    }

    /// Writes it to standard error.
    pub fn print(&self) {
        // There is nobody left to tell that this failed.
        let _ = writeln!(io::stderr(), "almanac: {self}");
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::new();
        for cause in self.error.chain() {
            let cause = cause.to_string();
            // Some errors have their cause in their own text already.
            if shown.is_empty() {
                shown = cause;
            } else if !shown.contains(&cause) {
                shown.push_str(": ");
                shown.push_str(&cause);
            }
        }
        f.write_str(&shown)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

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
