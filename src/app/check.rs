//! Checks what a start with a configuration needs, without starting.

use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::app::catalog_manager::Prepared;
use crate::app::cluster;
use crate::app::listeners::Credentials;
use crate::config::{CatalogConfig, Config};
use crate::ingest::Source;
use crate::serve;
use crate::serve::access::Access;
use crate::store::Store;
use ::images::credentials::AuthFiles;
use ::images::policy::PolicySubject;
use ::images::{Admission, Mirrors, Registries};

/// The problems of a valid configuration: files that cannot be used, sources on
/// disk that are not there, a data folder that cannot be written or that another
/// almanac uses, ports that are taken. Nothing is stored, and no registry is asked.
pub async fn check(config: &Config) -> Vec<anyhow::Error> {
    let config = &cluster::without_files(config);
    let mut problems = Vec::new();
    problems.extend(Credentials::open(config, &Access::default()).err());
    // Bound together, as by a start.
    let mut listeners = Vec::new();
    for (service, address) in [
        ("grpc", config.grpc),
        ("http", config.http),
        ("admin", config.admin),
    ] {
        match serve::bind(service, address).await {
            Ok(listener) => listeners.push(listener),
            Err(error) => problems.push(error.into()),
        }
    }
    problems.extend(Prepared::first(config).await.err());
    problems.extend(data_folder(config).err());
    let free = Store::check_free(&config.data_dir, config.offline);
    let shown = config.data_dir.display();
    problems.extend(free.with_context(|| format!("data folder {shown}")).err());
    let registries = Registries::new(&config.registries);
    problems.extend(registries.context("registry client").err());
    let sources = config.catalogs.iter();
    problems.extend(sources.filter_map(|catalog| source(catalog).err()));
    // A file that cannot be used fails for the first image already.
    let sources = || config.catalogs.iter().map(|catalog| &catalog.source);
    let image = sources().find_map(|source| match source {
        Source::Image(reference) => Some(reference),
        _ => None,
    });
    let files = config.registries.clone();
    let subjects: Vec<PolicySubject> = sources().filter_map(subject).collect();
    let has_image = image.is_some();
    let read = tokio::task::spawn_blocking(move || unusable(&files, has_image, &subjects));
    problems.extend(read.await.unwrap_or_else(|error| vec![error.into()]));
    if let Some(reference) = image {
        let files = &config.registries;
        let (named, usual) = (files.auth_files.clone(), files.usual_auth_files.clone());
        let files = AuthFiles::new(named, usual, files.mirrors.clone());
        let found = files
            .find(reference.registry(), reference.repository())
            .await;
        problems.extend(found.err().map(anyhow::Error::new));
    }
    problems
}

/// Checks that the data folder is a folder, and that files can be made in it or in
/// the folder where it would be created. In offline mode it may be read-only.
fn data_folder(config: &Config) -> anyhow::Result<()> {
    let folder = &config.data_dir;
    let shown = folder.display();
    let existing = folder.ancestors().find(|path| path.exists());
    let existing = existing.unwrap_or(Path::new("."));
    if !existing.is_dir() {
        bail!(
            "data folder {shown}: {} is not a folder",
            existing.display()
        );
    }
    if config.offline && existing == folder {
        return Ok(());
    }
    // It has no name, so nothing is left behind.
    let written = tempfile::tempfile_in(existing).map(drop);
    written.with_context(|| {
        format!(
            "data folder {shown}: cannot write to {}",
            existing.display()
        )
    })
}

/// Checks that a source on disk is there.
fn source(catalog: &CatalogConfig) -> anyhow::Result<()> {
    let Some(path) = catalog.source.path() else {
        return Ok(());
    };
    let found: io::Result<_> = path.metadata();
    let context = || format!("source of the catalog {}: {}", catalog.name, path.display());
    found.map(drop).with_context(context)
}

/// The images of a source, as the policy knows them.
fn subject(source: &Source) -> Option<PolicySubject> {
    match source {
        Source::Image(reference) => Some(PolicySubject::Registry(reference.clone())),
        Source::Layout(layout) => Some(PolicySubject::Layout(layout.format, layout.path.clone())),
        Source::File(_) | Source::Curated(_) => None,
    }
}

/// The errors of the files about mirrors, if there is an image, and of the
/// policy. This blocks.
fn unusable(
    registries: &images::Settings,
    has_image: bool,
    subjects: &[PolicySubject],
) -> Vec<anyhow::Error> {
    let mirrors = has_image.then(|| Mirrors::read(&registries.mirrors).err());
    let mirrors = mirrors.flatten().map(anyhow::Error::new);
    let mut problems: Vec<anyhow::Error> = mirrors.into_iter().collect();
    for subject in subjects {
        let Err(error) = Admission::read(&registries.policy, subject) else {
            continue;
        };
        // A file that cannot be read fails for each image.
        let error = anyhow::Error::new(error);
        let known = |other: &anyhow::Error| format!("{other:#}") == format!("{error:#}");
        if !problems.iter().any(known) {
            problems.push(error);
        }
    }
    problems
}
