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
use crate::cli::compat::go_bool::truth;
use crate::cli::serve::until_told;
use crate::cli::{Failure, block_on, telemetry};
use crate::config::Environment;

/// Where Kubernetes wants to be told why a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// How much of that is read, in bytes.
const TERMINATION_MESSAGE: usize = 4096;

/// Serve a catalog folder over gRPC
///
/// The folder is read at the start; changes after that are not served. With
/// --cache-dir a cache is used that was built before, which takes milliseconds
/// where reading takes seconds. Nothing but the gRPC port is opened.
///
/// Packages with errors are left out and logged. Only --cache-only, with which
/// the image of a catalog is built, fails for them.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Arguments {
    /// The catalog folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// The port, on all addresses
    #[arg(long, short, default_value_t = 50051, value_name = "PORT")]
    port: u16,

    /// Where the cache is kept [default: it is temporary]
    #[arg(long, value_name = "FOLDER", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    cache_dir: Option<PathBuf>,

    /// Build the cache unless it fits, and end without serving
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    cache_only: bool,

    /// Refuse a cache that is missing or does not fit the catalog instead of
    /// building it [default: true with --cache-dir and without --cache-only,
    /// except for a cache that opm has made, which is built anew]
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cache_enforce_integrity: Option<bool>,

    /// Where to write why the program failed; it is no failure when that
    /// cannot be written
    #[arg(long, short, default_value = TERMINATION_LOG, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    termination_log: PathBuf,

    /// Log more
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    debug: bool,

    /// Means nothing here
    #[arg(long, value_name = "ADDR")]
    pprof_addr: Option<String>,

    /// Means nothing here
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pprof_capture_profiles: bool,
}

const EXAMPLES: &str = "\
Examples:
  opm serve /configs
  opm serve /configs --cache-dir=/tmp/cache --cache-only
  opm serve /configs --cache-dir=/tmp/cache
  almanac opm serve deploy/catalog --port 50052

Environment:
  ALMANAC_LOG and ALMANAC_LOG_FORMAT are as for `almanac serve`.

Exit codes:
  0  told to end and all is finished, or the cache is there
  1  anything else";

impl Arguments {
    pub(crate) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let told = self.start(environment);
        if let Err(failure) = &told {
            tell(&self.termination_log, &format!("almanac: {failure}\n"));
        }
        told.map(|()| ExitCode::SUCCESS)
    }

    fn start(&self, environment: &Environment) -> Result<(), Failure> {
        let settings = environment.settings().map_err(Failure::run)?;
        let filter = if self.debug {
            "info,almanac=debug"
        } else {
            "info"
        };
        let log = settings.log.resolve(filter).map_err(Failure::run)?;
        telemetry::start(&log, environment)?;
        // An empty name is none, as scripts write it.
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
            tracing::warn!("there are no profiles: flags that begin with --pprof mean nothing");
        }
        let options = FolderOptions {
            folder: self.folder.clone(),
            cache,
            cache_only: self.cache_only,
            integrity,
            port: self.port,
        };
        block_on(until_told(|stop| serve_folder(options, stop)))?.map_err(Failure::run)
    }
}

/// Leaves a message about arguments that cannot be read where they say all the
/// same that it should be left.
pub(crate) fn tell_of_arguments(words: &[OsString], message: &str) {
    let path = termination_log(words).unwrap_or(OsStr::new(TERMINATION_LOG));
    tell(Path::new(path), message);
}

/// The value of `--termination-log` among these words: the next of them, or
/// what follows in the same.
fn termination_log(words: &[OsString]) -> Option<&OsStr> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let word = word.as_bytes();
        let behind = word
            .strip_prefix(b"--termination-log")
            .filter(|rest| rest.is_empty() || rest.starts_with(b"="))
            .or_else(|| word.strip_prefix(b"-t"));
        if let Some(behind) = behind {
            let value = behind.strip_prefix(b"=").unwrap_or(behind);
            return match value {
                b"" => words.next().map(OsString::as_os_str),
                value => Some(OsStr::from_bytes(value)),
            };
        }
    }
    None
}

/// Leaves a message where Kubernetes looks for one. Its own file is there when
/// it wants one; only another is made.
fn tell(path: &Path, message: &str) {
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
        tracing::debug!(path = %path.display(), %error, "no termination log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_termination_log_is_found_among_words_that_cannot_be_read() {
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
