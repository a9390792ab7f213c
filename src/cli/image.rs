//! The image arguments of commands about one image, and its documents.

use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::cli::Failure;
use crate::cli::input::{check_files, start_log};
use crate::cli::terminal::TerminalArguments;
use crate::config::{Environment, LogSettings, RegistrySettings, Settings};
use crate::ingest::{LayoutSource, Source};
use ::images::digest::Digest;
use ::images::policy::PolicySubject;
use ::images::{Layout, Manifest, Platform, Registries, Route};

/// An image, and how its registry is reached.
#[derive(Debug, clap::Args)]
pub(super) struct ImageArguments {
    /// An image reference, `oci:FOLDER`, `oci-archive:FILE` or
    /// `docker-archive:FILE` (with `:TAG` or `@DIGEST` where there are several
    /// images)
    #[arg(value_name = "IMAGE", value_parser = Source::found)]
    image: Source,

    #[command(flatten)]
    access: ImageAccess,
}

/// How the registry of an image is reached, and what admits the image.
#[derive(Debug, clap::Args)]
pub(super) struct ImageAccess {
    #[command(flatten)]
    registries: RegistrySettings,

    #[command(flatten)]
    log: LogSettings,

    #[command(flatten)]
    terminal: TerminalArguments,
}

/// An image to read.
pub(super) struct OpenImage {
    image: Source,
    pub(super) settings: ::images::Settings,
    pub(super) platform: Platform,
}

/// The digest of an image, and those of its parts if it is a list.
pub(super) struct ImageDocuments {
    pub(super) digest: Digest,
    pub(super) parts: Vec<Digest>,
}

impl ImageArguments {
    /// Starts the log. Nothing is read yet.
    pub(super) fn open(
        self,
        platform: Option<Platform>,
        environment: &Environment,
    ) -> Result<OpenImage, Failure> {
        self.access.open(self.image, platform, None, environment)
    }
}

impl ImageAccess {
    /// Starts the log. Settings about registries that flags and variables lack come from
    /// the configuration file. Nothing of the image is read yet.
    pub(super) fn open(
        mut self,
        image: Source,
        platform: Option<Platform>,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<OpenImage, Failure> {
        check_files(&self.registries)?;
        self.terminal.apply(environment);
        self.terminal.complete(&mut self.log);
        let flags = Settings {
            platform,
            registries: self.registries,
            log: self.log,
            ..Settings::default()
        };
        let mut settings = flags.over(environment).map_err(Failure::usage)?;
        start_log(&settings.log, environment)?;
        if let Source::Image(_) = image {
            environment.proxies().map_err(Failure::usage)?.log();
        }
        if file.is_some() {
            let gathered = Settings::gather(settings, file, environment);
            settings = gathered.map_err(Failure::usage)?;
        }
        let mut registries = settings.registries.clone().resolve(environment);
        if file.is_some() {
            let added = settings.add_cluster_files(&mut registries, environment);
            added.map_err(Failure::usage)?;
        }
        Ok(OpenImage {
            image,
            settings: registries,
            platform: settings.platform.unwrap_or_default(),
        })
    }
}

impl OpenImage {
    /// The image as a policy knows it.
    pub(super) fn subject(&self) -> Result<PolicySubject, Failure> {
        match &self.image {
            Source::Image(reference) => Ok(PolicySubject::Registry(reference.clone())),
            Source::Layout(layout) => Ok(PolicySubject::Layout(layout.format, layout.path.clone())),
            other => Err(Failure::usage(anyhow!(
                "{other} is not an image: name one of a registry, a layout or an archive"
            ))),
        }
    }

    /// The name of the image.
    pub(super) fn name(&self) -> String {
        self.image.to_string()
    }

    /// Reads the documents of the image, whatever the policy says about it.
    pub(super) async fn read(&self) -> anyhow::Result<ImageDocuments> {
        match &self.image {
            Source::Image(reference) => {
                let route = Registries::new(&self.settings)?
                    .unjudged_route(reference)
                    .await?;
                Ok(of_registry(&route).await?.0)
            }
            Source::Layout(LayoutSource {
                format,
                path,
                choice,
            }) => {
                let layout = Layout::open(*format, path)?;
                let digest = layout.resolve(choice.as_ref())?.digest;
                documents(digest, &layout.manifest(&digest)?).map(|(documents, _)| documents)
            }
            other => Err(anyhow!("{other} is not an image")),
        }
    }
}

/// Reads the documents of an image in a registry, and its top one parsed.
pub(super) async fn of_registry(route: &Route) -> anyhow::Result<(ImageDocuments, Manifest)> {
    let (digest, bytes) = route.resolve_manifest().await?;
    documents(digest, &bytes)
}

fn documents(digest: Digest, bytes: &[u8]) -> anyhow::Result<(ImageDocuments, Manifest)> {
    let manifest = Manifest::parse(bytes, None).with_context(|| format!("{digest}"))?;
    let parts = match &manifest {
        Manifest::Image(_) => Vec::new(),
        Manifest::Index(index) => {
            let entries = index.entries.iter();
            entries.map(|entry| entry.descriptor.digest).collect()
        }
    };
    Ok((ImageDocuments { digest, parts }, manifest))
}
