//! Checks what a start with a configuration needs, without starting.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use crate::app::catalog_manager::{self, Prepared};
use crate::app::cluster;
use crate::app::fleet;
use crate::app::listeners::Credentials;
use crate::app::secret_files;
use crate::config::{CatalogConfig, Config};
use crate::ingest::{self, LoadOptions, Source};
use crate::kubernetes::{self, ClientError};
use crate::serve;
use crate::serve::access::AccessSettings;
use crate::store::{Store, StoreError};
use ::images::credentials::AuthFiles;
use ::images::policy::{PolicyError, PolicySubject};
use ::images::{Admission, FileError, Layout, Mirrors, Registries};

/// The problems of a valid configuration, all of them: files that cannot be used,
/// sources on disk that cannot be served, a data folder that cannot be written or that
/// another almanac uses, ports that are taken. Warnings are logged. Nothing is stored,
/// and no registry is asked.
pub async fn check(config: &Config) -> Vec<anyhow::Error> {
    let config = &cluster::without_files(config);
    let mut problems = Credentials::check(config);
    // Bound together, as by a start.
    let mut listeners = Vec::new();
    let webhook = config.kubernetes.as_ref().and_then(|one| one.webhook);
    let webhook = webhook.map(|address| ("webhook", address));
    let ports = [
        ("grpc", config.grpc),
        ("http", config.http),
        ("admin", config.admin),
    ];
    for (service, address) in ports.into_iter().chain(webhook) {
        match serve::bind(service, address).await {
            Ok(listener) => listeners.push(listener),
            Err(error) => problems.push(error.into()),
        }
    }
    problems.extend(Prepared::check(config).await);
    problems.extend(data_folder(config).err());
    let free = Store::check_free(&config.data_dir, config.offline);
    let shown = config.data_dir.display();
    problems.extend(free.err().map(|error| match error {
        StoreError::Locked { .. } => anyhow::Error::new(error),
        error => anyhow::Error::new(error).context(format!("data folder {shown}")),
    }));
    problems.extend(registries(config).await);
    problems.extend(cluster_credentials(config).await);
    problems.extend(fleet::check(config).await);
    warn_of_unsigned(config);
    secret_files::warn(config);
    catalog_manager::warn_of_unread(config);
    catalog_manager::warn_of_shared_services(config);
    for catalog in &config.catalogs {
        let found = source(catalog, config).await;
        let context = || format!("source of the catalog {}", catalog.name);
        problems.extend(found.with_context(context).err());
        warn_of_grpc(catalog, config);
    }
    problems
}

/// The problem of the credentials for the API server, if there is one. A configuration
/// for a pod is often checked outside of it, so the absence of a service account is a
/// warning.
async fn cluster_credentials(config: &Config) -> Option<anyhow::Error> {
    let settings = &config.kubernetes.as_ref()?.settings;
    match kubernetes::check_credentials(settings).await.err()? {
        error @ ClientError::NoCluster(_) => {
            tracing::warn!("[kubernetes]: {error}");
            None
        }
        error => Some(anyhow::Error::new(error).context("[kubernetes]")),
    }
}

/// The problems of the files about registries.
async fn registries(config: &Config) -> Vec<anyhow::Error> {
    let settings = config.registries.clone();
    let missing = missing(&settings);
    let mut problems = Vec::new();
    let registries = Registries::new(&with_existing_authorities(&settings));
    problems.extend(registries.context("registry client").err());
    // A file that cannot be used fails for the first image already.
    let sources = || config.catalogs.iter().map(|catalog| &catalog.source);
    let image = sources().find_map(|source| match source {
        Source::Image(reference) => Some(reference),
        _ => None,
    });
    if let Some(reference) = image {
        let (named, usual) = (&settings.auth_files, &settings.usual_auth_files);
        let files = AuthFiles::new(named.clone(), usual.clone(), settings.mirrors.clone());
        let found = files
            .find(reference.registry(), reference.repository())
            .await;
        problems.extend(found.err().map(anyhow::Error::new));
    }
    let subjects = config.catalogs.iter().filter_map(|catalog| {
        let name = format!("catalog {} ({})", catalog.name, catalog.source);
        Some((name, subject(&catalog.source)?))
    });
    let subjects: Vec<(String, PolicySubject)> = subjects.collect();
    let has_image = image.is_some();
    let read = tokio::task::spawn_blocking(move || unusable(&settings, has_image, &subjects));
    problems.extend(read.await.unwrap_or_else(|error| vec![error.into()]));
    // A missing file is named once.
    let is_missing = |problem: &anyhow::Error| {
        let file = file_of(problem);
        file.is_some_and(|file| missing.iter().any(|(_, path)| file.path.starts_with(path)))
    };
    problems.retain(|problem| !is_missing(problem));
    problems.extend(missing.into_iter().map(|(problem, _)| problem));
    problems
}

/// The file that an error is about.
fn file_of(error: &anyhow::Error) -> Option<&FileError> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// The settings without missing files of authorities. The error of a client would tell of the
/// first of them only.
fn with_existing_authorities(settings: &images::Settings) -> images::Settings {
    let mut settings = settings.clone();
    settings.ca_files.retain(|path| path.exists());
    settings
}

/// The files about registries that the settings name, and that are not there.
fn missing(registries: &images::Settings) -> Vec<(anyhow::Error, PathBuf)> {
    let (mirrors, policy) = (&registries.mirrors, &registries.policy);
    let named = [
        ("auth_files", &registries.auth_files[..]),
        ("ca_files", &registries.ca_files),
        ("registries_conf", &mirrors.named),
        ("mirror_files", &mirrors.kubernetes),
        ("policy_file", policy.named.as_slice()),
        ("image_policy_files", &policy.objects),
        ("registries_d", policy.stores.named.as_slice()),
    ];
    let named = named.into_iter();
    let named = named.flat_map(|(key, paths)| paths.iter().map(move |path| (key, path)));
    let missing = named.filter_map(|(key, path)| {
        let error = path.metadata().err()?;
        Some((anyhow!("{key}: {}: {error}", path.display()), path.clone()))
    });
    missing.collect()
}

/// With a key, some catalogs may be left out by mistake.
fn warn_of_unsigned(config: &Config) {
    let unsigned = config.catalogs.iter();
    let unsigned = unsigned.filter(|catalog| catalog.signed_name.is_none());
    let names: Vec<&str> = unsigned.map(|catalog| catalog.name.as_str()).collect();
    if config.signing_key.is_some() && !names.is_empty() {
        tracing::warn!(
            catalogs = names.join(", "),
            "the images of these catalogs are not signed: they have no signed_name, and [signing] \
             has no name_prefix"
        );
    }
}

/// Tokens guard the HTTP port only.
fn warn_of_grpc(catalog: &CatalogConfig, config: &Config) {
    let tls = config.grpc_tls.as_ref();
    let asks = tls.is_some_and(|tls| tls.client_ca.is_some() && !tls.client_optional);
    if catalog.access != AccessSettings::default() && !asks {
        tracing::warn!(
            catalog = %catalog.name,
            "gRPC asks for no token: anyone who reaches its port can read the catalog; \
             client_ca in [grpc_tls] restricts that port"
        );
    }
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

/// Checks that a source on disk can be served: a folder with its catalog, a layout
/// with its image. Only the contents of images are left for the first pass.
async fn source(catalog: &CatalogConfig, config: &Config) -> anyhow::Result<()> {
    let Some(path) = catalog.source.path() else {
        return Ok(());
    };
    let found: io::Result<_> = path.metadata();
    found.with_context(|| path.display().to_string())?;
    if config.offline {
        // It is not read.
        return Ok(());
    }
    match catalog.source.clone() {
        Source::Layout(layout) => {
            let opened = tokio::task::spawn_blocking(move || {
                let opened = Layout::open(layout.format, &layout.path)?;
                opened.resolve(layout.choice.as_ref()).map(drop)
            });
            opened.await??;
        }
        Source::File(_) => {
            let options = LoadOptions {
                limits: config.unpack.clone(),
                folder: catalog.folder.clone(),
                ..LoadOptions::default()
            };
            let loaded = ingest::load(&catalog.source, &options).await?;
            let on_invalid = catalog.on_invalid;
            tokio::task::spawn_blocking(move || loaded.check(on_invalid)).await??;
        }
        Source::Image(_) | Source::Curated(_) => {}
    }
    Ok(())
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
/// policy. `subjects` have the names of their catalogs. This blocks.
fn unusable(
    registries: &images::Settings,
    has_image: bool,
    subjects: &[(String, PolicySubject)],
) -> Vec<anyhow::Error> {
    let mirrors = has_image.then(|| Mirrors::read(&registries.mirrors).err());
    let mut files: Vec<FileError> = mirrors.flatten().into_iter().collect();
    let mut rejected = Vec::new();
    for (name, subject) in subjects {
        match Admission::read(&registries.policy, subject) {
            Ok(_) => {}
            // A file that cannot be used fails for each image.
            Err(PolicyError::File(error)) => {
                if !files.iter().any(|other| other.path == error.path) {
                    files.push(error);
                }
            }
            Err(PolicyError::Rejected(error)) => {
                rejected.push(anyhow::Error::new(error).context(name.clone()));
            }
        }
    }
    let files = files.into_iter().map(anyhow::Error::new);
    files.chain(rejected).collect()
}
