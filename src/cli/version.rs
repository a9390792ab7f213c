//! `almanac version`: prints the version and how it was built.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::build_info;
use crate::cli::format::Report;
use crate::cli::{Failure, output};

/// Print the version, the commit, the target and the features
///
/// `almanac --version` prints the version alone.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The format for programs [default: a line for each fact]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Report>,
}

const EXAMPLES: &str = "\
Examples:
  almanac version
  almanac version --output json

Exit codes:
  0  printed
  1  the output failed
  2  invalid arguments";

/// The facts, with their names in JSON.
#[derive(Serialize)]
struct Build {
    version: &'static str,
    commit: &'static str,
    target: &'static str,
    profile: &'static str,
    features: Vec<&'static str>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let build = Build {
            version: build_info::VERSION,
            commit: build_info::COMMIT,
            target: build_info::TARGET,
            profile: build_info::PROFILE,
            features: build_info::features().collect(),
        };
        match self.output {
            None => output::print(|out| build.write(out)),
            Some(format) => format.print(&build),
        }
    }
}

impl Build {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let features = match &self.features[..] {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        writeln!(out, "almanac {}", self.version)?;
        writeln!(out, "commit: {}", self.commit)?;
        writeln!(out, "target: {}", self.target)?;
        writeln!(out, "profile: {}", self.profile)?;
        writeln!(out, "features: {features}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_shown_as_a_list_or_as_none() {
        let shown = |features: Vec<&'static str>| {
            let build = Build {
                version: "1.2.3",
                commit: "unknown",
                target: "t",
                profile: "debug",
                features,
            };
            let mut out = Vec::new();
            build.write(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let first = "almanac 1.2.3\ncommit: unknown\ntarget: t\nprofile: debug\nfeatures: ";
        assert_eq!(shown(Vec::new()), format!("{first}none\n"));
        assert_eq!(shown(vec!["a", "b"]), format!("{first}a, b\n"));
    }
}
