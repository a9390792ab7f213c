//! `opm serve`: one catalog folder over gRPC.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::app::{FolderOptions, Integrity, serve_folder};
use crate::cli::Failure;
use crate::cli::compat::go_flags::parse_bool;
use crate::cli::runtime::{block_on, until_stopped};
use crate::cli::telemetry::{self, Unattended};
use crate::config::Environment;

/// The file from which Kubernetes reads why a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// How much of it Kubernetes reads, in bytes.
const TERMINATION_MESSAGE: usize = 4096;

/// Serve a catalog folder over gRPC
///
/// The folder is read at the start; later changes are ignored. --cache-dir names
/// a prebuilt cache, which opens in milliseconds where reading takes seconds.
/// Only the gRPC port is opened.
///
/// Packages with errors are logged and not served. With --cache-only, which
/// builds a catalog image, they are a failure.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Arguments {
    /// The catalog folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// The port, on all addresses
    #[arg(long, short, default_value_t = 50051, value_name = "PORT")]
    port: u16,

    /// The folder of the cache [default: a temporary one]
    #[arg(long, value_name = "FOLDER", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    cache_dir: Option<PathBuf>,

    /// Build the cache unless it fits, then exit without serving
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    cache_only: bool,

    /// Refuse a cache that is missing or does not fit the catalog, instead of
    /// building it [default: true with --cache-dir and without --cache-only;
    /// a cache of opm is always rebuilt]
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cache_enforce_integrity: Option<bool>,

    /// The file for the message of a failure; ignored if it cannot be written
    #[arg(long, short, default_value = TERMINATION_LOG, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    termination_log: PathBuf,

    /// Log more
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    debug: bool,

    /// Ignored
    #[arg(long, value_name = "ADDR")]
    pprof_addr: Option<String>,

    /// Ignored
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pprof_capture_profiles: bool,
}

const EXAMPLES: &str = "\
Examples:
  opm serve /configs
  opm serve /configs --cache-dir=/tmp/cache --cache-only
  opm serve /configs --cache-dir=/tmp/cache
  almanac opm serve deploy/catalog --port 50052

Environment:
  ALMANAC_LOG and ALMANAC_LOG_FORMAT work as for `almanac serve`.

Exit codes:
  0  stopped by a signal, or the cache is built
  1  any failure";

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let done = self.start(environment);
        if let Err(failure) = &done {
            write_termination_log(&self.termination_log, &format!("almanac: {failure}\n"));
        }
        done.map(|()| ExitCode::SUCCESS)
    }

    fn start(&self, environment: &Environment) -> Result<(), Failure> {
        let settings = environment.settings().map_err(Failure::run)?;
        let filter = if self.debug {
            "info,almanac=debug"
        } else {
            "info"
        };
        let log = settings.log.resolve(filter).map_err(Failure::run)?;
        telemetry::start(&log, Unattended::Text, environment)?;
        // Scripts write an empty value for none.
        let cache = self.cache_dir.clone();
        let cache = cache.filter(|folder| !folder.as_os_str().is_empty());
        let integrity = match self.cache_enforce_integrity {
            Some(true) if cache.is_none() => {
                return Err(Failure::run(anyhow!(
                    "--cache-enforce-integrity needs a --cache-dir"
                )));
            }
            Some(true) => Integrity::Refuse,
            None if cache.is_some() && !self.cache_only => Integrity::RefuseOwn,
            Some(false) | None => Integrity::Rebuild,
        };
        if self.pprof_addr.is_some() || self.pprof_capture_profiles {
            tracing::warn!("profiling is not supported: flags that start with --pprof are ignored");
        }
        let options = FolderOptions {
            folder: self.folder.clone(),
            cache,
            cache_only: self.cache_only,
            integrity,
            port: self.port,
        };
        block_on(until_stopped(|stop| serve_folder(options, stop)))?.map_err(Failure::run)
    }
}

/// Writes a message about invalid arguments to the termination log that they
/// name, or to the default one.
pub(crate) fn report_invalid_arguments(arguments: &[OsString], message: &str) {
    let path = termination_log(arguments).unwrap_or(OsStr::new(TERMINATION_LOG));
    write_termination_log(Path::new(path), message);
}

/// The value of `--termination-log`: the next argument, or the rest of the same
/// one.
fn termination_log(arguments: &[OsString]) -> Option<&OsStr> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let argument = argument.as_bytes();
        let rest = argument
            .strip_prefix(b"--termination-log")
            .filter(|rest| rest.is_empty() || rest.starts_with(b"="))
            .or_else(|| argument.strip_prefix(b"-t"));
        if let Some(rest) = rest {
            let value = rest.strip_prefix(b"=").unwrap_or(rest);
            return match value {
                b"" => arguments.next().map(OsString::as_os_str),
                value => Some(OsStr::from_bytes(value)),
            };
        }
    }
    None
}

/// Writes a message for Kubernetes, which creates its own file; only another one
/// is created here.
fn write_termination_log(path: &Path, message: &str) {
    if path.as_os_str().is_empty() {
        return;
    }
    let end = message.floor_char_boundary(TERMINATION_MESSAGE);
    let written = File::options()
        .write(true)
        .truncate(true)
        .create(path != Path::new(TERMINATION_LOG))
        .open(path)
        .and_then(|mut file| file.write_all(&message.as_bytes()[..end]));
    if let Err(error) = written {
        tracing::debug!(path = %path.display(), %error, "cannot write the termination log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_termination_log_is_found_among_invalid_arguments() {
        for (words, wanted) in [
            (&["opm", "serve", "--nope", "-t", "a"][..], Some("a")),
            (&["opm", "serve", "-t=a", "--nope"], Some("a")),
            (&["opm", "serve", "-ta"], Some("a")),
            (&["opm", "serve", "--termination-log", "a"], Some("a")),
            (&["opm", "serve", "--termination-log=a"], Some("a")),
            (&["opm", "serve", "--termination-logs=a"], None),
            (&["opm", "serve", "-t"], None),
            (&["opm", "serve", "a"], None),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(termination_log(&words), wanted.map(OsStr::new), "{words:?}");
        }
    }
}
