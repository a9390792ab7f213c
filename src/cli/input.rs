//! What the commands that look at a catalog are given, and how they get it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

use anyhow::{Context as _, anyhow};

use crate::cli::output::Shown;
use crate::cli::{Failure, block_on, output, telemetry};
use crate::config::{
    Environment, ImageTemplate, KubeVersion, LogSettings, Proxies, RegistrySettings, Settings,
    WrittenSource, image_set_source, read_image_set,
};
use crate::fetch::{self, CatalogUrl, CatalogUrlError};
use crate::ingest::{self, LoadOptions, Loaded, Reading, Source, SourceError, Spool};
use ::images::Platform;
use ::images::layers::Limits;
use fbc::problem::{Place, Problem, Severity};
use fbc::read::Meta;
use fbc::select;
use fbc::select::{Request, Selected, Selection};

/// What is logged beside the output.
const LOG_FILTER: &str = "warn";
/// The file that says which files of a folder are no part of its catalog.
const IGNORED: &str = ".indexignore";
/// The name of the file that standard input is.
const STDIN: &str = "<stdin>";

/// Where a catalog is, as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// What almanac could follow.
    Source(Source),
    /// One file on standard input.
    Stdin,
    /// A catalog that is served over HTTP.
    Server(CatalogUrl),
    /// What an `ImageSetConfiguration` selects.
    Curated(PathBuf),
}

/// Why a text says nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error(transparent)]
    Url(#[from] CatalogUrlError),
    #[error(
        "{0}; a path may also be written with ./ before it, \
         a served catalog as http://HOST:PORT/catalogs/NAME, standard input as -"
    )]
    Source(#[from] SourceError),
    #[error("{0:?} is no image reference, but there is a file or folder of that name: write ./{0}")]
    Path(String),
    #[error("{path} is an OCI layout: write oci:{path}", path = .0.display())]
    Layout(PathBuf),
}

/// The arguments of every command that looks at a catalog.
#[derive(Debug, clap::Args)]
pub(super) struct InputArguments {
    /// An image reference, `oci:FOLDER`, `oci-archive:FILE` or
    /// `docker-archive:FILE` (with `:TAG` or `@DIGEST` where there are several
    /// images), `file:PATH` (or a path that begins with `/` or `.`), the URL of
    /// a catalog that an almanac serves (`http://HOST:PORT/catalogs/NAME`), `-`
    /// for standard input, or `curated:FILE` for what an
    /// `ImageSetConfiguration` selects
    // Read later: what clap refuses it repeats, and a URL may hold a password.
    #[arg(value_name = "SOURCE")]
    input: String,

    /// The version of Kubernetes, for an image that is written with
    /// `{kube_major_version}`, `{kube_minor_version}` or `{kube_patch_version}`
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<KubeVersion>,

    #[command(flatten)]
    reading: ReadingArguments,
}

/// How catalogs are got at.
#[derive(Debug, clap::Args)]
pub(super) struct ReadingArguments {
    /// Which image of a list is taken [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,

    #[command(flatten)]
    registries: RegistrySettings,

    #[command(flatten)]
    log: LogSettings,
}

/// A catalog whose files are there.
pub(super) struct Catalog {
    pub(super) input: Input,
    pub(super) loaded: Loaded,
}

impl InputArguments {
    /// Starts the log and gets the files of the catalog.
    pub(super) fn load(self, environment: &Environment) -> Result<Catalog, Failure> {
        let (input, options) = self.open(environment)?;
        let loaded = block_on(input.load(&options))?
            .with_context(|| format!("{input} cannot be read"))
            .map_err(Failure::unreadable)?;
        Ok(Catalog { input, loaded })
    }

    /// Starts the log, and selects from the catalog, or from each one that its
    /// file names.
    pub(super) fn select(
        self,
        environment: &Environment,
        request: &Request,
    ) -> Result<Vec<Selected>, Failure> {
        let (input, options) = self.open(environment)?;
        block_on(input.select(&options, request))?
    }

    fn open(self, environment: &Environment) -> Result<(Input, LoadOptions), Failure> {
        let input = match self.input.parse() {
            Ok(WrittenSource::Template(template)) => {
                Input::Source(resolve(&template, self.kube_version, environment)?)
            }
            _ => Input::found(&self.input).map_err(Failure::usage)?,
        };
        let proxies = match &input {
            Input::Source(Source::Image(_)) => environment.proxies().map_err(Failure::usage)?,
            _ => Proxies::default(),
        };
        let options = self.reading.open(environment)?;
        proxies.log();
        Ok((input, options))
    }
}

/// The image for the version of Kubernetes that is given here or in the
/// environment.
fn resolve(
    template: &ImageTemplate,
    version: Option<KubeVersion>,
    environment: &Environment,
) -> Result<Source, Failure> {
    let settings = environment.settings().map_err(Failure::usage)?;
    let version = version.or(settings.kube_version);
    let source = template.resolve(version.as_ref());
    let source = source.map_err(|problem| anyhow!("{template}: {problem}"));
    source.map_err(Failure::usage)
}

impl ReadingArguments {
    /// Starts the log and says how to get at catalogs.
    pub(super) fn open(self, environment: &Environment) -> Result<LoadOptions, Failure> {
        let flags = Settings {
            platform: self.platform,
            registries: self.registries,
            log: self.log,
            ..Settings::default()
        };
        let settings = flags.over(environment.settings().map_err(Failure::usage)?);
        let log = settings.log.resolve(LOG_FILTER).map_err(Failure::usage)?;
        telemetry::start(&log, environment)?;
        Ok(LoadOptions {
            platform: settings.platform.unwrap_or_default(),
            registries: settings.registries.resolve(environment),
            limits: Limits::default(),
        })
    }
}

impl Input {
    /// Reads what was typed, with a look at what is on disk: a path is easily
    /// written without what makes it one.
    fn found(text: &str) -> Result<Self, InputError> {
        let input = match text.parse() {
            Err(InputError::Source(_)) if Path::new(text).exists() => {
                return Err(InputError::Path(text.to_owned()));
            }
            read => read?,
        };
        match input {
            // Whoever ignores some of its files may mean them as a catalog.
            Self::Source(Source::File(path))
                if path.join("oci-layout").is_file() && !path.join(IGNORED).exists() =>
            {
                Err(InputError::Layout(path))
            }
            input => Ok(input),
        }
    }

    /// Selects from the catalog. What a file selects is selected from each of
    /// its catalogs by itself, as mirrors do it.
    pub(super) async fn select(
        &self,
        options: &LoadOptions,
        request: &Request,
    ) -> Result<Vec<Selected>, Failure> {
        let unreadable = |error: anyhow::Error| {
            Failure::unreadable(error.context(format!("{self} cannot be read")))
        };
        if let Self::Curated(path) = self {
            if request.is_whole() {
                let read = read_set(path, options).await.map_err(unreadable)?;
                return each(read, request.dependencies).map_err(Failure::run);
            }
            if request.dependencies {
                return Err(Failure::usage(anyhow!(
                    "{self} selects packages already, and --dependencies adds what these need; \
                     leave out --package and --heads, or write them into the file"
                )));
            }
        }
        let loaded = self.load(options).await.map_err(unreadable)?;
        let catalog = loaded.material(&self.to_string());
        let catalog = catalog.map_err(|error| unreadable(error.into()))?;
        note_errors(&catalog);
        let selected = select::select(&[catalog], request).map_err(Failure::run)?;
        Ok(vec![selected])
    }

    async fn load(&self, options: &LoadOptions) -> anyhow::Result<Loaded> {
        if let Self::Curated(path) = self {
            let selected = selected(path, options).await?;
            return Ok(Loaded::of_selected(&selected, &options.limits)?);
        }
        let mut spool = match self {
            Self::Source(source) => return Ok(ingest::load(source, options).await?),
            Self::Stdin => Spool::new(STDIN, &options.limits)?,
            Self::Server(url) => Spool::new(url.all(), &options.limits)?,
            Self::Curated(path) => return Err(anyhow!("{} was read", path.display())),
        };
        if let Self::Server(url) = self {
            let settings = fetch::Settings {
                ca_files: options.registries.ca_files.clone(),
                connect_timeout: options.registries.connect_timeout,
                idle_timeout: options.registries.idle_timeout,
                limit: options.limits.folder_bytes,
                ..fetch::Settings::default()
            };
            url.fetch(&settings, &mut spool).await?;
        } else {
            io::copy(&mut io::stdin().lock(), &mut spool)?;
            if spool.length() == 0 {
                return Err(anyhow!("there is nothing in it"));
            }
        }
        Ok(spool.finish()?)
    }

    /// The file of a place as whoever typed the input would write it.
    pub(super) fn path(&self, place: &Place) -> PathBuf {
        match self {
            Self::Source(Source::File(root)) if !root.is_dir() => root.clone(),
            Self::Source(Source::File(root)) => {
                root.strip_prefix("./").unwrap_or(root).join(&place.file)
            }
            _ => PathBuf::from(&place.file),
        }
    }
}

impl Catalog {
    /// Reads the catalog for a command that shows what is in it. A catalog that
    /// cannot be served is a failure, whose problems are printed to standard
    /// error; of one with lesser problems a line there says how many.
    pub(super) fn read(
        &self,
        sink: impl FnMut(u32, &Meta, &[u8]) -> io::Result<()>,
    ) -> Result<Reading, Failure> {
        let reading = self
            .loaded
            .read(sink)
            .context("cannot write a temporary file")
            .map_err(Failure::run)?;
        let fatal: Vec<&Problem> = reading
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Fatal)
            .collect();
        if let Some(first) = fatal.first() {
            for problem in &fatal {
                output::note(&problem.to_string());
            }
            let what = match fatal.len() {
                1 => first.code.to_string(),
                many => format!("{many} fatal problems"),
            };
            return Err(Failure::unreadable(anyhow!(
                "{} cannot be served: {what}",
                self.input
            )));
        }
        if !reading.graph.quarantined.is_empty() {
            let names = reading.graph.quarantined.join(", ");
            output::note(&format!(
                "almanac: packages with errors: {names} (`almanac check` tells more)"
            ));
        }
        Ok(reading)
    }
}

/// What an `ImageSetConfiguration` names: its catalogs, and what it selects of
/// each.
struct ReadSet {
    catalogs: Vec<select::Catalog>,
    selections: Vec<Selection>,
}

async fn read_set(path: &Path, options: &LoadOptions) -> anyhow::Result<ReadSet> {
    let (mut catalogs, mut selections) = (Vec::new(), Vec::new());
    for operators in read_image_set(path)? {
        let source = image_set_source(&operators.catalog)?;
        let loaded = ingest::load(&source, options)
            .await
            .with_context(|| operators.catalog.clone())?;
        let catalog = loaded.material(&operators.catalog)?;
        note_errors(&catalog);
        let mut selection = operators.selection;
        selection.from = vec![catalogs.len()];
        selections.push(selection);
        catalogs.push(catalog);
    }
    Ok(ReadSet {
        catalogs,
        selections,
    })
}

/// What is selected of each catalog by itself; what that needs may be in any.
fn each(read: ReadSet, dependencies: bool) -> anyhow::Result<Vec<Selected>> {
    let mut catalogs = read.catalogs;
    let mut each = Vec::with_capacity(catalogs.len());
    for mut selection in read.selections {
        // The catalog stands before the others.
        selection.from = vec![0];
        let request = Request {
            selections: vec![selection],
            dependencies,
            any_default: false,
        };
        let own = catalogs.first().map(|catalog| catalog.name.clone());
        let known = if dependencies { catalogs.len() } else { 1 };
        let known = catalogs.get(..known).unwrap_or_default();
        let selected = select::select(known, &request);
        each.push(selected.with_context(|| own.unwrap_or_default())?);
        catalogs.rotate_left(1);
    }
    Ok(each)
}

/// The one catalog that an `ImageSetConfiguration` selects.
async fn selected(path: &Path, options: &LoadOptions) -> anyhow::Result<Selected> {
    let ReadSet {
        catalogs,
        selections,
    } = read_set(path, options).await?;
    let request = Request {
        selections,
        ..Request::default()
    };
    let selected = select::select(&catalogs, &request)?;
    note_all(&selected);
    Ok(selected)
}

/// Prints what whoever wrote a selection should know.
pub(super) fn note_all(selected: &Selected) {
    for note in &selected.notes {
        output::note(&format!("almanac: {note}"));
    }
}

/// Prints which packages of a catalog cannot be selected from.
pub(super) fn note_errors(catalog: &select::Catalog) {
    let names: Vec<&str> = catalog.quarantined.iter().map(String::as_str).collect();
    if !names.is_empty() {
        output::note(&format!(
            "almanac: {}: packages with errors: {} (`almanac check` tells more)",
            Shown(&catalog.name),
            names.join(", ")
        ));
    }
}

impl FromStr for Input {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        if let Some(path) = text.strip_prefix("curated:") {
            return match path {
                "" => Err(SourceError::Empty(text.to_owned()).into()),
                _ => Ok(Self::Curated(path.into())),
            };
        }
        if text.starts_with("http:") || text.starts_with("https:") {
            return Ok(Self::Server(text.parse()?));
        }
        // No image reference begins like that.
        if text.starts_with(['/', '.']) {
            return Ok(Self::Source(Source::File(Path::new(text).to_owned())));
        }
        Ok(Self::Source(text.parse()?))
    }
}

/// In one line, whatever stands in it.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Source(source) => source.to_string(),
            Self::Stdin => STDIN.to_owned(),
            Self::Server(url) => url.to_string(),
            Self::Curated(path) => format!("curated:{}", path.display()),
        };
        Shown(&text).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_input_is_told_by_its_beginning() {
        for (text, shown) in [
            ("-", "<stdin>"),
            ("http://a:1/catalogs/b", "http://a:1/catalogs/b"),
            ("https://a/catalogs/b", "https://a/catalogs/b"),
            ("./a", "file:./a"),
            ("/a:b", "file:/a:b"),
            ("file:a", "file:a"),
            ("oci:a:b", "oci:a:b"),
            ("quay.io/a/b:v1", "quay.io/a/b:v1"),
            ("curated:a.yaml", "curated:a.yaml"),
        ] {
            assert_eq!(text.parse::<Input>().unwrap().to_string(), shown);
        }
        for text in ["", "a", "http://a", "docker://quay.io/a", "ftp://a/b"] {
            assert!(text.parse::<Input>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_is_shown_as_a_path_that_can_be_opened() {
        let place = Place {
            file: "etcd/catalog.yaml".into(),
            document: 1,
            line: 1,
            column: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let shown = |text: &str| text.parse::<Input>().unwrap().path(&place);
        let root = folder.path().to_str().unwrap();
        assert_eq!(shown(root), folder.path().join("etcd/catalog.yaml"));
        let file = folder.path().join("catalog.yaml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(shown(file.to_str().unwrap()), file);
        assert_eq!(shown("quay.io/a/b"), Path::new("etcd/catalog.yaml"));
    }
}
