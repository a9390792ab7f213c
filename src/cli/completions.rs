//! `almanac completions`: prints the script with which a shell completes the
//! command line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Command, ValueEnum};
use clap_complete::aot::{self, generate};

use crate::cli::{Failure, output};

/// Print the script with which a shell completes almanac's commands
///
/// Write it to a file that the shell reads when it starts.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

const EXAMPLES: &str = "\
Examples:
  almanac completions bash > /etc/bash_completion.d/almanac
  almanac completions zsh > \"${fpath[1]}/_almanac\"
  almanac completions fish > ~/.config/fish/completions/almanac.fish

Exit codes:
  0  printed
  1  the output failed
  2  invalid arguments";

impl Arguments {
    /// Prints the script for the command line `program`.
    pub(super) fn run(self, mut program: Command) -> Result<ExitCode, Failure> {
        let shell = match self.shell {
            Shell::Bash => aot::Shell::Bash,
            Shell::Zsh => aot::Shell::Zsh,
            Shell::Fish => aot::Shell::Fish,
        };
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        generate(shell, &mut program, name, &mut script);
        output::print(|out| out.write_all(&script))
    }
}
