//! The other verbs of opm that have an equivalent.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, anyhow};
use clap::Parser as _;

use crate::cli::output::{self, Shown};
use crate::cli::{Failure, block_on, list, render};
use crate::config::Environment;
use crate::ingest::{self, FolderOptions, LoadOptions, Source};
use fbc::problem::Severity;

/// The file name of the real opm, beside this program.
const UPSTREAM: &str = "opm-upstream";

/// The commands of almanac that verbs of opm are translated to.
#[derive(Debug, clap::Parser)]
#[command(name = "almanac")]
enum Equivalent {
    Render(Box<render::Arguments>),
    List(Box<list::Arguments>),
}

/// Replaces this process by the real opm, if that is installed beside this
/// program.
pub(crate) fn pass_to_opm(arguments: &[OsString]) {
    let Ok(program) = env::current_exe() else {
        return;
    };
    let upstream = program.with_file_name(UPSTREAM);
    if upstream.is_file() {
        let error = Command::new(&upstream)
            .arg0("opm")
            .args(arguments.iter().skip(1))
            .exec();
        output::note(&format!(
            "almanac: cannot run {}: {error}",
            upstream.display()
        ));
    }
}

/// `opm version`, in the form that scripts search for `OpmVersion`. The version is that
/// of almanac.
pub(crate) fn version() -> Result<ExitCode, Failure> {
    let architecture = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    output::print(|out| {
        writeln!(
            out,
            "Version: version.Version{{OpmVersion:\"v{}\", GitCommit:\"\", BuildDate:\"\", \
             GoOs:{:?}, GoArch:{architecture:?}}}",
            env!("CARGO_PKG_VERSION"),
            env::consts::OS,
        )
    })
}

/// `opm validate`: prints the problems, and fails for errors.
pub(crate) fn validate(folder: PathBuf) -> Result<ExitCode, Failure> {
    let source = Source::File(folder);
    let options = LoadOptions {
        folder: FolderOptions::with_links_anywhere(),
        ..LoadOptions::default()
    };
    let loaded = block_on(ingest::load(&source, &options))?
        .with_context(|| format!("cannot read {source}"))
        .map_err(Failure::run)?;
    let Ok(reading) = loaded.read(|_, _, _| Ok::<_, Infallible>(()));
    let mut bad = false;
    for problem in &reading.problems {
        bad |= problem.severity > Severity::Warning;
        output::note(&format!("almanac: {problem}"));
    }
    Ok(if bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// `opm render`.
pub(crate) fn render(
    sources: &[String],
    format: &str,
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    let format = match format {
        "json" => "jsonl",
        "yaml" => "yaml",
        other => {
            return Err(Failure::run(anyhow!(
                "unknown output {other:?}; write json or yaml"
            )));
        }
    };
    let [source] = sources else {
        return Err(Failure::run(anyhow!("write exactly one source")));
    };
    let words = ["render", &input(source), "--output", format];
    as_almanac(words.map(str::to_owned), environment)
}

/// `opm alpha list`.
pub(crate) fn alpha(words: Vec<String>, environment: &Environment) -> Result<ExitCode, Failure> {
    let mut rest = words.iter().map(String::as_str);
    if let (Some("list"), Some(what), Some(source)) = (rest.next(), rest.next(), rest.next()) {
        let list = ["list", what, &input(source)].map(str::to_owned);
        let list = list.into_iter().chain(rest.map(str::to_owned));
        return as_almanac(list, environment);
    }
    let words = ["alpha".to_owned()].into_iter().chain(words);
    Err(unknown(&words.map(OsString::from).collect::<Vec<_>>()))
}

/// The error for a verb without an equivalent.
pub(crate) fn unknown(words: &[OsString]) -> Failure {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words = words.join(" ");
    Failure::run(anyhow!(
        "almanac replaces opm here, and supports serve, validate, render, alpha list and \
         version, but not `opm {}`; for that, install the real opm beside it as {UPSTREAM}",
        Shown(&words)
    ))
}

/// A source in the syntax of almanac's commands: opm accepts any path.
fn input(source: &str) -> String {
    if source.starts_with(['/', '.']) || !Path::new(source).exists() {
        source.to_owned()
    } else {
        format!("file:{source}")
    }
}

/// Runs a command of almanac. The exit code of every failure is 1.
fn as_almanac(
    words: impl IntoIterator<Item = String>,
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    // opm follows links wherever they lead.
    let links = "--link-folder=/".to_owned();
    let words = ["almanac".to_owned()]
        .into_iter()
        .chain(words)
        .chain([links]);
    let done = match Equivalent::try_parse_from(words).map_err(Failure::run)? {
        Equivalent::Render(mut arguments) => {
            arguments.as_opm = true;
            arguments.run(environment)
        }
        Equivalent::List(mut arguments) => {
            arguments.as_opm = true;
            arguments.run(environment)
        }
    };
    done.map_err(|failure| Failure::run(anyhow!("{failure}")))
}
