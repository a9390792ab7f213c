//! The verbs of opm besides `serve`, as far as there is an equivalent.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, anyhow};
use clap::Parser as _;

use crate::cli::compat::opm::UPSTREAM;
use crate::cli::output::{self, Shown};
use crate::cli::{self, Failure, block_on};
use crate::config::Environment;
use crate::ingest::{self, LoadOptions, Source};
use fbc::problem::Severity;

/// Becomes the real opm, when that lies beside this program.
pub(crate) fn hand_on(words: &[OsString]) {
    let Ok(program) = env::current_exe() else {
        return;
    };
    let upstream = program.with_file_name(UPSTREAM);
    if upstream.is_file() {
        let error = Command::new(&upstream)
            .arg0("opm")
            .args(words.iter().skip(1))
            .exec();
        output::note(&format!(
            "almanac: {} cannot be run: {error}",
            upstream.display()
        ));
    }
}

/// `opm validate`: silence, or what is wrong and a failure.
pub(crate) fn validate(folder: PathBuf) -> Result<ExitCode, Failure> {
    let source = Source::File(folder);
    let loaded = block_on(ingest::load(&source, &LoadOptions::default()))?
        .with_context(|| format!("{source} cannot be read"))
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
                "no output is called {other:?}; write json or yaml"
            )));
        }
    };
    let [source] = sources else {
        return Err(Failure::run(anyhow!("write one source at a time")));
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

/// What to say of a verb that there is nothing for.
pub(crate) fn unknown(words: &[OsString]) -> Failure {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words = words.join(" ");
    Failure::run(anyhow!(
        "this is almanac in the place of opm: it has serve, validate, render, alpha list and \
         version, and no `opm {}`; to have that as well, put the real opm beside it as {UPSTREAM}",
        Shown(&words)
    ))
}

/// A source as almanac's own commands take it: opm takes any path.
fn input(source: &str) -> String {
    if source.starts_with(['/', '.']) || !Path::new(source).exists() {
        source.to_owned()
    } else {
        format!("file:{source}")
    }
}

/// Does what a command of almanac does. Whatever is wrong, the code is 1.
fn as_almanac(
    words: impl IntoIterator<Item = String>,
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    let words = ["almanac".to_owned()].into_iter().chain(words);
    let arguments = cli::Arguments::try_parse_from(words).map_err(Failure::run)?;
    let done = arguments.run(environment);
    done.map_err(|failure| Failure::run(anyhow!("{failure}")))
}
