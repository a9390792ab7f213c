//! `almanac opm`, and the program under the name `opm`: what the image of a
//! catalog is started with.
//!
//! `serve` is what counts; the other verbs are those that have an equivalent
//! here. What is left is handed on to the real opm when it lies beside this
//! program under another name: Operator Lifecycle Manager runs verbs of the
//! same image that have nothing to do with serving.

mod serve;
mod verbs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::cli::compat::go_bool::truth;
use crate::cli::{Failure, output};
use crate::config::Environment;

/// The real opm, beside this program.
const UPSTREAM: &str = "opm-upstream";

/// Serve a catalog folder with the arguments of opm
///
/// The same happens when the program runs under the name `opm`, so that it can
/// take opm's place in the image of a catalog.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_override_self = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,

    /// Means nothing here: no image is pulled
    #[arg(long, global = true, hide = true, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    skip_tls: bool,

    /// Means nothing here: no image is pulled
    #[arg(long, global = true, hide = true, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    skip_tls_verify: bool,

    /// Means nothing here: no image is pulled
    #[arg(long, global = true, hide = true, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    use_http: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(Box<serve::Arguments>),
    /// Say whether a catalog folder is valid
    Validate {
        /// The catalog folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Print a catalog, as `almanac render` does
    Render {
        /// An image reference or a catalog folder
        #[arg(value_name = "SOURCE", required = true)]
        sources: Vec<String>,
        /// `json` or `yaml`
        #[arg(long, short, default_value = "json", value_name = "FORMAT")]
        output: String,
    },
    /// `list packages|channels|bundles SOURCE [PACKAGE]`, as `almanac list` does
    Alpha {
        /// What to do
        #[arg(
            value_name = "WORD",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
    /// Print the version
    Version,
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The program when it is called `opm`.
#[derive(Debug, Parser)]
#[command(name = "opm", version, about = "almanac in the place of opm", long_about = None)]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

/// What the program does under the name `opm`. Whatever is wrong, also with
/// the arguments, the exit code is 1.
pub(crate) fn run(words: &[OsString], environment: &Environment) -> Result<ExitCode, Failure> {
    let is_verb = |word: &&OsString| !word.to_string_lossy().starts_with('-');
    let verb = words.iter().skip(1).find(is_verb);
    let serves = verb.is_some_and(|verb| verb == "serve");
    if verb.is_some() && !serves {
        verbs::hand_on(words);
    }
    match Program::try_parse_from(words) {
        Ok(program) => program.arguments.run(environment),
        Err(error) => {
            // There is nobody left to tell that this failed.
            let _ = error.print();
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) {
                return Ok(ExitCode::SUCCESS);
            }
            if serves {
                serve::tell_of_arguments(words, &error.to_string());
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The same for `almanac opm`, of which `words` are all: as with all commands
/// of almanac, arguments that cannot be read end the program.
pub(crate) fn run_command(
    words: &[OsString],
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    match crate::cli::Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.run(environment),
        Err(error) => {
            if error.use_stderr() && words.get(2).is_some_and(|verb| verb == "serve") {
                serve::tell_of_arguments(words, &error.to_string());
            }
            error.exit()
        }
    }
}

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        if self.skip_tls || self.skip_tls_verify || self.use_http {
            output::note("almanac: flags for pulling images mean nothing here");
        }
        match self.verb {
            Verb::Serve(arguments) => arguments.run(environment),
            Verb::Validate { folder } => verbs::validate(folder),
            Verb::Render { sources, output } => verbs::render(&sources, &output, environment),
            Verb::Alpha { words } => verbs::alpha(words, environment),
            Verb::Version => {
                output::print(|out| {
                    use std::io::Write as _;
                    writeln!(out, "almanac {}", env!("CARGO_PKG_VERSION"))
                })?;
                Ok(ExitCode::SUCCESS)
            }
            Verb::Other(words) => Err(verbs::unknown(&words)),
        }
    }
}
