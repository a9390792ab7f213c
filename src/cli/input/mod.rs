//! The catalog arguments that several commands share, and the catalog that they
//! load.

mod configured;
mod load;
mod location;
mod notes;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use http::HeaderValue;

pub(super) use configured::Configured;
use configured::ConfiguredCatalog;
pub(super) use load::{Options, image_list};
pub(super) use location::Input;
use location::{InputError, similar_path};

use crate::cli::telemetry::{self, Unattended};
use crate::cli::terminal::TerminalArguments;
use crate::cli::{Failure, block_on, output, progress};
use crate::config::{
    Environment, ImageTemplate, KubeVersion, LogSettings, Proxies, RegistrySettings, Settings,
    WrittenSource,
};
use crate::fetch;
use crate::ingest::{FolderOptions, LoadOptions, Loaded, Reading, Source};
use crate::name::CatalogName;
use ::images::Platform;
use ::images::credentials::AuthFiles;
use ::images::layers::Limits;
use fbc::problem::{Problem, Severity};
use fbc::read::Meta;
use fbc::select::{Request, Selected};

/// The default log filter of commands with output.
const LOG_FILTER: &str = "warn";
/// How much of a file with a token is read, in bytes.
const MAX_TOKEN_FILE: u64 = 64 << 10;

/// The arguments of every command that reads a catalog.
#[derive(Debug, clap::Args)]
pub(super) struct InputArguments {
    /// An image reference, `oci:FOLDER`, `oci-archive:FILE` or
    /// `docker-archive:FILE` (with `:TAG` or `@DIGEST` where there are several
    /// images), `file:PATH` (or a path that starts with `/` or `.`), the URL of
    /// a catalog that almanac serves (`http://HOST:PORT/catalogs/NAME`), `-` for
    /// standard input, or `curated:FILE` for the selection of an
    /// `ImageSetConfiguration`
    // Parsed later: clap repeats invalid values, and a URL may have a password.
    #[arg(value_name = "SOURCE")]
    input: String,

    #[command(flatten)]
    source: SourceArguments,

    #[command(flatten)]
    pub(super) reading: ReadingArguments,
}

/// The arguments that a SOURCE needs for its meaning.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Sources")]
pub(super) struct SourceArguments {
    /// The configuration file of `serve`: SOURCE is the name of a catalog in it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The version of Kubernetes, for an image with `{kube_major_version}`,
    /// `{kube_minor_version}` or `{kube_patch_version}` in its reference
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<KubeVersion>,
}

/// The arguments of every command that loads catalogs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sources")]
pub(super) struct ReadingArguments {
    /// The platform of the image, for a source with several
    /// [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,

    /// A file with the bearer token for the URL of a catalog
    /// [default: the token in `ALMANAC_TOKEN`]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// A folder that links in a catalog folder may lead to; repeatable
    /// [default: only the catalog folder itself]
    #[arg(long = "link-folder", value_name = "DIR")]
    link_folders: Vec<PathBuf>,

    #[command(flatten)]
    registries: RegistrySettings,

    /// Whether every registry may show any certificate, or none, as by flags of opm. It is
    /// no flag: completions would offer it.
    #[arg(skip)]
    pub(super) any_certificate: bool,

    #[command(flatten)]
    log: LogSettings,

    #[command(flatten)]
    terminal: TerminalArguments,
}

/// A catalog with its files.
pub(super) struct Catalog {
    pub(super) input: Input,
    pub(super) loaded: Loaded,
}

/// The arguments of a command that compares two catalogs.
#[derive(Debug, clap::Args)]
pub(super) struct PairArguments {
    /// The older catalog, as `almanac list` takes it
    // Parsed later: clap repeats invalid values, and a URL may have a password.
    #[arg(value_name = "FROM")]
    from: String,

    /// The newer catalog
    #[arg(value_name = "TO")]
    to: String,

    #[command(flatten)]
    source: SourceArguments,

    #[command(flatten)]
    reading: ReadingArguments,
}

impl PairArguments {
    /// Starts the log and loads the files of both catalogs.
    pub(super) fn load(self, environment: &Environment) -> Result<[Catalog; 2], Failure> {
        let (from, to) = (&self.from, &self.to);
        let inputs = [
            self.source.input_beside(from, to, environment)?,
            self.source.input_beside(to, from, environment)?,
        ];
        if inputs.iter().all(|input| matches!(input, Input::Stdin)) {
            return Err(Failure::usage(anyhow!(
                "only one of the two catalogs can be standard input"
            )));
        }
        let options = self.reading.open_for(&inputs, environment)?;
        let [from, to] = inputs.map(|input| Catalog::load(input, &options));
        Ok([from?, to?])
    }
}

impl InputArguments {
    /// The arguments of a command that reads a source unless it asks a server.
    pub(super) fn new(input: String, source: SourceArguments, reading: ReadingArguments) -> Self {
        Self {
            input,
            source,
            reading,
        }
    }

    /// Starts the log and loads the files of the catalog.
    pub(super) fn load(self, environment: &Environment) -> Result<Catalog, Failure> {
        let (input, options) = self.open(environment)?;
        Catalog::load(input, &options)
    }

    /// Starts the log and loads the files of this catalog and of others.
    pub(super) fn load_with(
        self,
        others: &[String],
        environment: &Environment,
    ) -> Result<Vec<Catalog>, Failure> {
        let texts = [&self.input].into_iter().chain(others);
        let inputs = texts.map(|text| self.source.input(text, environment));
        let inputs = inputs.collect::<Result<Vec<Input>, Failure>>()?;
        let options = self.reading.open_for(&inputs, environment)?;
        let inputs = inputs.into_iter();
        inputs.map(|input| Catalog::load(input, &options)).collect()
    }

    /// Starts the log, and selects from the catalog, or from each catalog of an
    /// `ImageSetConfiguration`.
    pub(super) fn select(
        self,
        environment: &Environment,
        request: &Request,
    ) -> Result<Vec<Selected>, Failure> {
        let (input, options) = self.open(environment)?;
        block_on(input.select(&options, request))?
    }

    fn open(self, environment: &Environment) -> Result<(Input, Options), Failure> {
        let input = self.source.input(&self.input, environment)?;
        let inputs = std::slice::from_ref(&input);
        let options = self.reading.open_for(inputs, environment)?;
        Ok((input, options))
    }
}

impl SourceArguments {
    /// The location that one of two texts means: the configuration file may be meant for the
    /// other one alone.
    fn input_beside(
        &self,
        text: &str,
        other: &str,
        environment: &Environment,
    ) -> Result<Input, Failure> {
        let is_name = |text: &str| text.parse::<CatalogName>().is_ok();
        let found = self.input(text, environment);
        let may_be_source = !is_name(text) || Path::new(text).exists();
        if found.is_err() && self.config.is_some() && may_be_source && is_name(other) {
            let alone = Self {
                config: None,
                kube_version: self.kube_version.clone(),
            };
            return alone.input(text, environment);
        }
        found
    }

    /// The location that a text means.
    fn input(&self, text: &str, environment: &Environment) -> Result<Input, Failure> {
        if let Ok(WrittenSource::Template(template)) = text.parse() {
            let version = self.kube_version.clone();
            return resolve(&template, version, environment).map(Input::Source);
        }
        let configured = |name: CatalogName, file: &Path| {
            ConfiguredCatalog::open(name, file, environment).map(Input::Configured)
        };
        if let Some(file) = &self.config {
            let name = text.parse().map_err(|_| {
                Failure::usage(anyhow!(
                    "with --config, SOURCE is the name of a configured catalog, and {text:?} is \
                     not a name; leave out --config, or name a catalog"
                ))
            })?;
            return configured(name, file);
        }
        match (Input::found(text), environment.config_file()) {
            (Err(InputError::Name(name, _)), Some(file)) => configured(name, file),
            (found, _) => found.map_err(Failure::usage),
        }
    }
}

/// The image for the version of Kubernetes in the arguments or the environment.
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
    /// Starts the log, and returns the options for reading these catalogs.
    fn open_for(self, inputs: &[Input], environment: &Environment) -> Result<Options, Failure> {
        let is_image = |input: &Input| matches!(input.source(), Some(Source::Image(_)));
        let proxies = if inputs.iter().any(is_image) {
            environment.proxies().map_err(Failure::usage)?
        } else {
            Proxies::default()
        };
        let options = self.open(inputs.iter().find_map(Input::config_file), environment)?;
        proxies.log();
        Ok(options)
    }

    /// Starts the log, and returns the options for reading catalogs. Those about
    /// registries may stand in a configuration file, too.
    pub(super) fn open(
        self,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Options, Failure> {
        self.terminal.apply(environment);
        check_files(&self.registries)?;
        check_paths("--link-folder", &self.link_folders)?;
        let token = token(self.token_file.as_deref(), environment).map_err(Failure::usage)?;
        let mut log = self.log;
        self.terminal.complete(&mut log);
        let flags = Settings {
            platform: self.platform,
            registries: self.registries,
            log,
            ..Settings::default()
        };
        let mut settings = flags.over(environment).map_err(Failure::usage)?;
        start_log(&settings.log, environment)?;
        let mut cluster = None;
        if file.is_some() {
            let gathered = Settings::gather(settings, file, environment);
            settings = gathered.map_err(Failure::usage)?;
            cluster = Some(settings.clone());
        }
        let mut registries = settings.registries.resolve(environment);
        registries.any_certificate = self.any_certificate;
        if let Some(cluster) = cluster {
            let added = cluster.add_cluster_files(&mut registries, environment);
            added.map_err(Failure::usage)?;
        }
        let limits = Limits::default();
        let fetch = fetch::Settings {
            ca_files: registries.ca_files.clone(),
            insecure: registries.insecure.clone(),
            token,
            logins: fetch::Logins {
                netrc: environment.netrc(),
                auth_files: Some(AuthFiles::new(
                    registries.auth_files.clone(),
                    registries.usual_auth_files.clone(),
                    registries.mirrors.clone(),
                )),
            },
            connect_timeout: registries.connect_timeout,
            idle_timeout: registries.idle_timeout,
            limit: limits.folder_bytes,
            received: Some(progress::receiving()),
            ..fetch::Settings::default()
        };
        let load = LoadOptions {
            platform: settings.platform.unwrap_or_default(),
            registries,
            limits,
            folder: FolderOptions {
                link_folders: self.link_folders,
                ..FolderOptions::default()
            },
            tally: progress::pulling(),
        };
        Ok(Options { load, fetch })
    }
}

/// Starts the log of a command with output.
pub(super) fn start_log(log: &LogSettings, environment: &Environment) -> Result<(), Failure> {
    let log = log.clone().resolve(LOG_FILTER).map_err(Failure::usage)?;
    telemetry::start(&log, Unattended::Text, environment)
}

/// Checks that the files and folders that flags name are there. Those of the
/// environment and the configuration may come later, as those of a Secret do.
pub(super) fn check_files(flags: &RegistrySettings) -> Result<(), Failure> {
    for one in flags.paths_of_flags() {
        check_paths(one.flag, &[one.path])?;
    }
    Ok(())
}

/// The same for one flag.
pub(super) fn check_paths(flag: &str, paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        if let Err(error) = path.metadata() {
            let proposal = similar_path(path);
            return Err(Failure::usage(anyhow!(
                "{flag} {}: {error}{proposal}",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Checks that an archive is there.
pub(super) fn check_archive(path: &Path) -> Result<(), Failure> {
    match path.metadata() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::unreadable(anyhow!(
            "cannot read {}: {error}{}",
            path.display(),
            similar_path(path)
        ))),
    }
}

/// The bearer token in the file, in the format of `serve`, or in the environment,
/// as a header. No error has the token.
fn token(file: Option<&Path>, environment: &Environment) -> anyhow::Result<Option<HeaderValue>> {
    let (place, token) = match file {
        Some(path) => {
            let place = format!("--token-file {}", path.display());
            let mut text = String::new();
            File::open(path)
                .and_then(|file| file.take(MAX_TOKEN_FILE).read_to_string(&mut text))
                .with_context(|| place.clone())?;
            let mut lines = text.lines().map(str::trim);
            let token = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
            (place, token.map(str::to_owned))
        }
        None => match environment.token() {
            None => return Ok(None),
            Some(token) => (
                "ALMANAC_TOKEN".to_owned(),
                token.to_str().map(str::trim).map(str::to_owned),
            ),
        },
    };
    let token = token.filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
    let token = token.filter(|token| !token.is_empty());
    let token = token.with_context(|| format!("{place}: there is no bearer token in it"))?;
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

/// Names the packages with errors, if there are any.
pub(super) fn note_quarantined<'a>(names: impl Iterator<Item = &'a str>) {
    let names = names.collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        output::note(&format!(
            "almanac: packages with errors: {names} (`almanac check` lists the errors)"
        ));
    }
}

impl Catalog {
    fn load(input: Input, options: &Options) -> Result<Self, Failure> {
        let loaded = block_on(input.load(options))?.map_err(|error| input.unreadable(error))?;
        Ok(Self { input, loaded })
    }

    /// Reads the catalog for a command that prints its content. Fatal problems
    /// are printed to standard error and are a failure. Packages with errors are
    /// only named there.
    pub(super) fn read(
        &self,
        sink: impl FnMut(u32, &Meta, &[u8]) -> io::Result<()> + Send,
    ) -> Result<Reading, Failure> {
        let waiting = progress::Line::waiting("reading");
        let reading = self
            .loaded
            .read(sink)
            .context("cannot write a temporary file")
            .map_err(Failure::run)?;
        drop(waiting);
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
        note_quarantined(reading.graph.quarantined.iter().map(String::as_str));
        Ok(reading)
    }
}
