//! `almanac opm`, and the program under the name `opm`, with which catalog images
//! start.
//!
//! `serve` is the most important verb; some others have an equivalent command of
//! almanac. The remaining ones are passed to the real opm, if that is installed
//! beside this program under another name: Operator Lifecycle Manager also runs
//! verbs of the image that do not serve it.

mod pull_flags;
mod serve;
mod verbs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::cli::{Failure, output};
use crate::config::Environment;

use pull_flags::PullFlags;
pub(crate) use serve::report_invalid_arguments;

/// Serve a catalog folder with the arguments of opm
///
/// The program behaves like this also under the name `opm`, so that it can
/// replace opm in catalog images.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_override_self = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,

    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(Box<serve::Arguments>),
    /// Check a catalog folder
    Validate {
        /// The catalog folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// `json` or `yaml`: print whether it passed, and the errors
        #[arg(long, short, value_name = "FORMAT")]
        output: Option<String>,
    },
    /// Print catalogs, like `almanac render`
    Render(verbs::RenderArguments),
    /// `list packages|channels|bundles SOURCE [PACKAGE]`, like `almanac list`
    Alpha {
        /// The verb and its arguments
        #[arg(
            value_name = "WORD",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        arguments: Vec<String>,
    },
    /// Print the version
    Version,
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The program under the name `opm`.
#[derive(Debug, Parser)]
#[command(name = "opm", version, about = "almanac as a replacement for opm", long_about = None)]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

/// Runs the program under the name `opm`. The exit code of every failure is 1,
/// also for invalid arguments.
pub(crate) fn run(arguments: &[OsString], environment: &Environment) -> Result<ExitCode, Failure> {
    let is_verb = |argument: &&OsString| !argument.to_string_lossy().starts_with('-');
    let verb = arguments.iter().skip(1).find(is_verb);
    let serves = verb.is_some_and(|verb| verb == "serve");
    if verb.is_some() && !serves {
        verbs::pass_to_opm(arguments);
    }
    match Program::try_parse_from(arguments) {
        Ok(program) => program.arguments.run(environment),
        Err(error) => {
            // Without standard error, this cannot be reported.
            let _ = error.print();
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) {
                return Ok(ExitCode::SUCCESS);
            }
            if serves {
                report_invalid_arguments(arguments, &error.to_string());
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let pulls = matches!(self.verb, Verb::Render(_) | Verb::Alpha { .. });
        if self.pull.is_set() && !pulls {
            output::note("almanac: flags for pulling images are ignored: nothing is pulled");
        }
        match self.verb {
            Verb::Serve(arguments) => arguments.run(environment),
            Verb::Validate { folder, output } => verbs::validate(folder, output.as_deref()),
            Verb::Render(arguments) => verbs::render(&arguments, self.pull, environment),
            Verb::Alpha { arguments } => verbs::alpha(arguments, self.pull, environment),
            Verb::Version => verbs::version(),
            Verb::Other(arguments) => Err(verbs::unknown(&arguments)),
        }
    }
}
