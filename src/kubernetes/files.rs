//! Objects of the cluster as files for the registry client. It reads its files again
//! for each pull, so a change takes effect at once. Files also outlive a restart
//! without the API server.
//!
//! The files with mirror sets and image policies appear with the first complete
//! list. Until then each pull fails, because a policy might forbid it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::credentials;
use crate::kubernetes::resources::{self, Kind};
use crate::kubernetes::settings::{ClusterCatalogs, Settings};
use crate::kubernetes::stored::{self, UNFINISHED};
use crate::kubernetes::watched::{self, Objects, Watched};

/// The file with the credentials of the pull secrets.
const CREDENTIALS: &str = "credentials.json";
/// The folders with mirror sets and image policies.
const MIRRORS: &str = "mirrors";
const POLICIES: &str = "policies";
/// The file with the last catalogs.
const CATALOGS: &str = "catalogs.json";
/// The file with objects in either folder.
const OBJECTS: &str = "objects.json";
/// The longest file with mirror sets that is read back, in bytes.
const MAX_MIRRORS: u64 = 64 << 20;

/// The files that the registry client reads besides those of its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryFiles {
    /// A file with mirror sets, which appears with the first list.
    pub mirrors: Option<PathBuf>,
    /// A file with image policies, which appears with the first list.
    pub policies: Option<PathBuf>,
    /// A file with credentials, which may be missing.
    pub credentials: Option<PathBuf>,
}

impl RegistryFiles {
    /// Those that a start with these settings keeps in `data_dir`.
    pub fn new(settings: &Settings, data_dir: &Path) -> Self {
        Folders::new(data_dir.join(stored::FOLDER)).registry_files(settings)
    }
}

/// Where the files are.
pub(super) struct Folders(PathBuf);

impl Folders {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The file with the last catalogs.
    pub(super) fn catalogs(&self) -> PathBuf {
        self.0.join(CATALOGS)
    }

    fn registry_files(&self, settings: &Settings) -> RegistryFiles {
        let objects = |folder: &str| self.0.join(folder).join(OBJECTS);
        let has_credentials = settings.has_credentials();
        RegistryFiles {
            mirrors: settings.mirror_sets.then(|| objects(MIRRORS)),
            policies: settings.image_policies.then(|| objects(POLICIES)),
            credentials: has_credentials.then(|| self.0.join(CREDENTIALS)),
        }
    }

    /// Removes what an earlier start has kept and the settings no longer ask for,
    /// credentials above all. It blocks.
    pub(super) fn remove_unused(&self, settings: &Settings) {
        let unused = [
            (
                CREDENTIALS,
                credentials::is_unused(&self.0.join(CREDENTIALS), settings),
            ),
            (MIRRORS, !settings.mirror_sets),
            (POLICIES, !settings.image_policies),
            (CATALOGS, settings.cluster_catalogs == ClusterCatalogs::Off),
        ];
        let unused = unused.into_iter().filter(|(_, is_unused)| *is_unused);
        let mut unused: Vec<_> = unused.map(|(name, _)| self.0.join(name)).collect();
        // A killed almanac may have left credentials in one.
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let is_unfinished = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
        };
        unused.extend(entries.map(|entry| entry.path()).filter(is_unfinished));
        for path in unused {
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            match removed {
                Ok(()) => tracing::info!(
                    path = %path.display(),
                    "what the settings no longer read from the cluster is removed"
                ),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::error!(
                    path = %path.display(), %error,
                    "cannot remove what the settings no longer read from the cluster"
                ),
            }
        }
    }
}

/// Keeps the files that the settings ask for.
pub(super) async fn start(
    settings: &Settings,
    folders: &Folders,
    watched: &impl Fn(Kind, Option<Objects>) -> Watched,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> RegistryFiles {
    let files = folders.registry_files(settings);
    if let Some(file) = &files.mirrors {
        let path = file.clone();
        let reading = tokio::task::spawn_blocking(move || objects_in(&path));
        let known = reading.await.ok().flatten();
        // A cluster may lack a kind. Objects of an earlier start stay all the same:
        // the API server may lack it for a while only.
        let kinds = resources::MIRROR_SETS.map(|kind| {
            let of_kind = |all: &Vec<DynamicObject>| of_kind(all, kind);
            watched(kind, known.as_ref().map(of_kind))
        });
        keep_objects(kinds, file.clone(), tasks, stop);
    }
    if let Some(file) = &files.policies {
        // Without the kind nobody knows which images are allowed.
        let mut kinds = vec![watched(resources::CLUSTER_IMAGE_POLICIES, None)];
        if let Some(namespace) = &settings.policy_namespace {
            let mut policies = watched(resources::IMAGE_POLICIES, None);
            policies.namespace = Some(namespace.clone());
            kinds.push(policies);
        }
        keep_objects(kinds, file.clone(), tasks, stop);
    }
    if let Some(file) = &files.credentials {
        let watched = |kind| watched(kind, None);
        credentials::start(settings, file.clone(), &watched, tasks, stop);
    }
    files
}

/// The objects that an earlier start has kept; `None` if they cannot be read.
fn objects_in(path: &Path) -> Option<Vec<DynamicObject>> {
    #[derive(serde::Deserialize)]
    struct List {
        items: Vec<DynamicObject>,
    }
    if !path.exists() {
        return Some(Vec::new());
    }
    let content = stored::read(path, MAX_MIRRORS)?;
    let list = serde_json::from_slice::<List>(&content);
    list.ok().map(|list| list.items)
}

/// Those of one kind.
fn of_kind(objects: &[DynamicObject], kind: Kind) -> Objects {
    let is_of_kind = |object: &&DynamicObject| {
        let types = object.types.as_ref();
        types.is_some_and(|types| types.kind == kind.object)
    };
    let objects = objects.iter().filter(is_of_kind);
    let objects = objects.map(|one| (watched::key(one), Arc::new(one.clone())));
    Arc::new(objects.collect::<BTreeMap<_, _>>())
}

/// Writes the objects of all kinds to one file at each change, once all are known.
fn keep_objects(
    kinds: impl IntoIterator<Item = Watched>,
    file: PathBuf,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let kinds = kinds.into_iter();
    let mut kinds: Vec<_> = kinds.map(|kind| kind.start(tasks, stop)).collect();
    let stop = stop.clone();
    let keeping = async move {
        loop {
            let is_kept = match current(&mut kinds) {
                Some(objects) => stored::keep(&file, list(&objects)).await,
                None => true,
            };
            let each = kinds.iter_mut().map(|kind| Box::pin(kind.changed()));
            tokio::select! {
                (changed, _, _) = futures_util::future::select_all(each) => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = stored::retry(is_kept) => {}
            }
        }
    };
    tasks.spawn(async move {
        stop.run_until_cancelled(keeping).await;
    });
}

/// The objects of all kinds, if all are known.
fn current(kinds: &mut [watch::Receiver<Option<Objects>>]) -> Option<Vec<Objects>> {
    let each = kinds.iter_mut();
    // Each is marked as seen, also after one that is not known.
    let each: Vec<_> = each.map(|kind| kind.borrow_and_update().clone()).collect();
    each.into_iter().collect()
}

/// A list with all objects, as `kubectl get --output json` prints it.
fn list(objects: &[Objects]) -> Vec<u8> {
    let objects = objects.iter().flat_map(|kind| kind.values());
    // A map with text keys is always JSON.
    let items = objects.map(|one| serde_json::to_value(&**one).unwrap_or_default());
    let items: Vec<Value> = items.collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    list.to_string().into_bytes()
}
