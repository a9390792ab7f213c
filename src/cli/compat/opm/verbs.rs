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
use serde::Serialize;

use crate::cli::compat::go_flags::parse_bool;
use crate::cli::compat::opm::pull_flags::PullFlags;
use crate::cli::output::{self, Shown};
use crate::cli::{Failure, block_on, format, list, render};
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

/// What `opm validate` prints with an output format.
#[derive(Serialize)]
struct Verdict {
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<VerdictError>,
}

#[derive(Serialize)]
struct VerdictError {
    message: String,
}

impl Verdict {
    /// The verdict on a catalog with these errors, one a line.
    fn new(errors: &[String]) -> Self {
        let message = (!errors.is_empty()).then(|| errors.join("\n"));
        Self {
            passed: message.is_none(),
            error: message.map(|message| VerdictError { message }),
        }
    }

    fn print(&self, format: VerdictFormat) -> Result<ExitCode, Failure> {
        output::print(|out| match format {
            VerdictFormat::Json => output::json(self, out),
            VerdictFormat::Yaml => format::yaml_of(self, out),
        })?;
        Ok(if self.passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

#[derive(Clone, Copy)]
enum VerdictFormat {
    Json,
    Yaml,
}

/// `opm validate`: prints the problems, and fails for errors. With an output format it
/// prints only whether the catalog passed, with its errors, as opm does.
pub(crate) fn validate(folder: PathBuf, output: Option<&str>) -> Result<ExitCode, Failure> {
    let format = match output {
        None | Some("") => None,
        Some("json") => Some(VerdictFormat::Json),
        Some("yaml") => Some(VerdictFormat::Yaml),
        Some(other) => return Err(unknown_format(other)),
    };
    let source = Source::File(folder);
    let options = LoadOptions {
        folder: FolderOptions::with_links_anywhere(),
        ..LoadOptions::default()
    };
    let loaded = match (block_on(ingest::load(&source, &options))?, format) {
        (Err(error), Some(format)) if error.is_refusal() => {
            return Verdict::new(&[error.to_string()]).print(format);
        }
        (loaded, _) => loaded
            .with_context(|| format!("cannot read {source}"))
            .map_err(Failure::run)?,
    };
    let Ok(reading) = loaded.read(|_, _, _| Ok::<_, Infallible>(()));
    let errors = reading.problems.iter();
    let errors = errors.filter(|problem| problem.severity > Severity::Warning);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    if let Some(format) = format {
        return Verdict::new(&errors).print(format);
    }
    for problem in &reading.problems {
        output::note(&format!("almanac: {problem}"));
    }
    Ok(if errors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn unknown_format(format: &str) -> Failure {
    Failure::run(anyhow!("unknown output {format:?}; write json or yaml"))
}

/// The arguments of `opm render`.
#[derive(Debug, clap::Args)]
pub(crate) struct RenderArguments {
    /// Image references or catalog folders
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,

    /// `json` or `yaml`
    #[arg(long, short, default_value = "json", value_name = "FORMAT")]
    output: String,

    /// Not supported: all migrations
    #[arg(long, hide = true, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    migrate: bool,

    /// Not supported but for `none`: migrations up to this one
    #[arg(long, hide = true, value_name = "NAME", default_value = "")]
    migrate_level: String,

    /// Not supported: references for bundles without an image
    #[arg(long, hide = true, value_name = "TEMPLATE", default_value = "")]
    alpha_image_ref_template: String,
}

impl RenderArguments {
    /// Refuses flags whose effect would be missing.
    fn check(&self) -> Result<(), Failure> {
        let refused = [
            ("--migrate", self.migrate),
            (
                "--migrate-level",
                !matches!(&*self.migrate_level, "" | "none"),
            ),
            (
                "--alpha-image-ref-template",
                !self.alpha_image_ref_template.is_empty(),
            ),
        ];
        match refused.iter().find(|(_, is_set)| *is_set) {
            Some((flag, _)) => Err(Failure::run(anyhow!(
                "almanac replaces opm here, and renders catalogs as they are, without {flag}; for \
                 that, install the real opm beside it as {UPSTREAM}"
            ))),
            None => Ok(()),
        }
    }
}

/// `opm render`.
pub(crate) fn render(
    arguments: &RenderArguments,
    pull: PullFlags,
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    arguments.check()?;
    let format = match &*arguments.output {
        "json" => "jsonl",
        "yaml" => "yaml",
        other => return Err(unknown_format(other)),
    };
    let words = ["render", "--output", format].map(str::to_owned);
    let sources = arguments.sources.iter().map(|text| input(text));
    as_almanac(words.into_iter().chain(sources), pull, environment)
}

/// `opm alpha list`.
pub(crate) fn alpha(
    words: Vec<String>,
    mut pull: PullFlags,
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    let words = pull.take_from(words)?;
    let mut rest = words.iter().map(String::as_str);
    if let (Some("list"), Some(what), Some(source)) = (rest.next(), rest.next(), rest.next()) {
        let list = ["list", what, &input(source)].map(str::to_owned);
        let list = list.into_iter().chain(rest.map(str::to_owned));
        return as_almanac(list, pull, environment);
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
    pull: PullFlags,
    environment: &Environment,
) -> Result<ExitCode, Failure> {
    let any_certificate = pull.accept_any_certificate()?;
    // opm follows links wherever they lead.
    let links = "--link-folder=/".to_owned();
    let words = ["almanac".to_owned()]
        .into_iter()
        .chain(words)
        .chain([links]);
    let done = match Equivalent::try_parse_from(words).map_err(Failure::run)? {
        Equivalent::Render(mut arguments) => {
            arguments.as_opm = true;
            arguments.input.reading.any_certificate = any_certificate;
            arguments.run(environment)
        }
        Equivalent::List(mut arguments) => {
            arguments.as_opm = true;
            arguments.query.reading.any_certificate = any_certificate;
            arguments.run(environment)
        }
    };
    done.map_err(|failure| Failure::run(anyhow!("{failure}")))
}
