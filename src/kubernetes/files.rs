//! Objects of the cluster as files for the registry client. It reads its files again
//! for each pull, so a change takes effect at once. Files also outlive a restart
//! without the API server.
//!
//! The folders of mirror sets and image policies appear with the first complete
//! list. Until then each pull fails, because a policy might forbid it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::resources::{self, Kind};
use crate::kubernetes::settings::{ClusterCatalogs, Settings};
use crate::kubernetes::watched::{self, Objects, Watched};

/// The folder below the data folder with the last state of the cluster.
pub(super) const FOLDER: &str = "cluster";

/// The file with the credentials of the pull secret, there.
const CREDENTIALS: &str = "credentials.json";
/// The folders with mirror sets and image policies, there.
const MIRRORS: &str = "mirrors";
const POLICIES: &str = "policies";
/// The file with the last catalogs, there.
const CATALOGS: &str = "catalogs.json";
/// The file with objects in either folder.
const OBJECTS: &str = "objects.json";
/// How the name of a file begins that is being written.
const UNFINISHED: &str = ".new-";

/// The longest file with mirror sets that is read back, in bytes.
const MAX_MIRRORS: u64 = 64 << 20;

/// The keys of a secret with credentials, in order of precedence.
const DOCKER_CONFIG_JSON: &str = ".dockerconfigjson";
const DOCKER_CONFIG: &str = ".dockercfg";

/// The files that the registry client reads besides those of its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryFiles {
    /// A folder with mirror sets.
    pub mirrors: Option<PathBuf>,
    /// A folder with image policies.
    pub policies: Option<PathBuf>,
    /// A file with credentials, which may be missing.
    pub credentials: Option<PathBuf>,
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
        let path = |name: &str, is_on: bool| is_on.then(|| self.0.join(name));
        RegistryFiles {
            mirrors: path(MIRRORS, settings.mirror_sets),
            policies: path(POLICIES, settings.image_policies),
            credentials: path(CREDENTIALS, settings.pull_secret.is_some()),
        }
    }

    /// Removes what an earlier start has kept and the settings no longer ask for,
    /// credentials above all. It blocks.
    pub(super) fn remove_unused(&self, settings: &Settings) {
        let unused = [
            (CREDENTIALS, settings.pull_secret.is_none()),
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
    if let Some(folder) = &files.mirrors {
        let file = folder.join(OBJECTS);
        let path = file.clone();
        let reading = tokio::task::spawn_blocking(move || stored(&path));
        let stored = reading.await.ok().flatten();
        // A cluster may lack a kind. Objects of an earlier start stay all the same:
        // the API server may lack it for a while only.
        let kinds = resources::MIRROR_SETS.map(|kind| {
            let of_kind = |all: &Vec<DynamicObject>| of_kind(all, kind);
            watched(kind, stored.as_ref().map(of_kind))
        });
        keep_objects(kinds, file, tasks, stop);
    }
    if let Some(folder) = &files.policies {
        // Without the kind nobody knows which images are allowed.
        let mut kinds = vec![watched(resources::CLUSTER_IMAGE_POLICIES, None)];
        if let Some(namespace) = &settings.policy_namespace {
            let mut policies = watched(resources::IMAGE_POLICIES, None);
            policies.namespace = Some(namespace.clone());
            kinds.push(policies);
        }
        keep_objects(kinds, folder.join(OBJECTS), tasks, stop);
    }
    if let (Some(file), Some(secret)) = (&files.credentials, &settings.pull_secret) {
        let mut secrets = watched(resources::SECRETS, None);
        secrets.namespace = Some(secret.namespace.clone());
        secrets.name = Some(secret.name.clone());
        let secrets = secrets.start(tasks, stop);
        let (file, stop) = (file.clone(), stop.clone());
        tasks.spawn(async move {
            let keeping = keep_credentials(secrets, file);
            stop.run_until_cancelled(keeping).await;
        });
    }
    files
}

/// The objects that an earlier start has kept; `None` if they cannot be read.
fn stored(path: &Path) -> Option<Vec<DynamicObject>> {
    #[derive(serde::Deserialize)]
    struct List {
        items: Vec<DynamicObject>,
    }
    if !path.exists() {
        return Some(Vec::new());
    }
    let content = read(path, MAX_MIRRORS)?;
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
            if let Some(objects) = current(&mut kinds) {
                keep(&file, list(&objects)).await;
            }
            let each = kinds.iter_mut().map(|kind| Box::pin(kind.changed()));
            let (changed, _, _) = futures_util::future::select_all(each).await;
            if changed.is_err() {
                return;
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

async fn keep_credentials(mut secrets: watch::Receiver<Option<Objects>>, file: PathBuf) {
    loop {
        let objects = secrets.borrow_and_update().clone();
        if let Some(objects) = objects {
            match objects.values().next().map(|one| credentials(&one.data)) {
                Some(Ok(content)) => keep(&file, content).await,
                Some(Err(problem)) => tracing::warn!(
                    problem,
                    "the pull secret cannot be used; the last credentials stay"
                ),
                None => {
                    let path = file.clone();
                    let removing = tokio::task::spawn_blocking(move || fs::remove_file(path));
                    if matches!(removing.await, Ok(Ok(()))) {
                        tracing::info!("the pull secret is gone, and its credentials with it");
                    }
                }
            }
        }
        if secrets.changed().await.is_err() {
            return;
        }
    }
}

/// The credentials file of a secret, in either format. No error repeats its
/// content.
fn credentials(secret: &Value) -> Result<Vec<u8>, &'static str> {
    let data = &secret["data"];
    let (text, is_old) = match (
        data[DOCKER_CONFIG_JSON].as_str(),
        data[DOCKER_CONFIG].as_str(),
    ) {
        (Some(text), _) => (text, false),
        (None, Some(text)) => (text, true),
        (None, None) => return Err("it has neither .dockerconfigjson nor .dockercfg"),
    };
    let content = BASE64_STANDARD.decode(text);
    let content = content.map_err(|_| "its data is not base64")?;
    let parsed = serde_json::from_slice::<Map<String, Value>>(&content);
    let parsed = parsed.map_err(|_| "its data is no JSON object")?;
    if is_old {
        return Ok(json!({ "auths": parsed }).to_string().into_bytes());
    }
    match parsed.get("auths") {
        None | Some(Value::Null | Value::Object(_)) => Ok(content),
        Some(_) => Err("its auths are no JSON object"),
    }
}

pub(super) async fn keep(file: &Path, content: Vec<u8>) {
    let path = file.to_owned();
    let written = tokio::task::spawn_blocking(move || write(&path, &content)).await;
    match written {
        Ok(Ok(())) => tracing::debug!(path = %file.display(), "written from the cluster"),
        Ok(Err(error)) => tracing::error!(
            path = %file.display(), %error, "cannot write a file from the cluster; the last one stays"
        ),
        // The panic hook has reported it.
        Err(_) => {}
    }
}

/// The content of a file, if it exists and is not longer than that.
pub(super) fn read(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path).ok()?;
    file.take(most + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= most).then_some(content)
}

/// Replaces a file in one step, and makes its folder. Only this user may read it.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Files of `tempfile` have the mode 0600.
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn secret(key: &str, content: &str) -> Value {
        json!({ "data": { key: BASE64_STANDARD.encode(content) } })
    }

    #[test]
    fn a_pull_secret_is_read_in_both_formats() {
        let auths = r#"{"quay.io":{"username":"a","password":"b"}}"#;
        let wanted: Value = serde_json::from_str(&format!("{{\"auths\":{auths}}}")).unwrap();
        let found = |secret: &Value| {
            let content = credentials(secret).unwrap();
            serde_json::from_slice::<Value>(&content).unwrap()
        };
        let new = format!("{{\"auths\":{auths}}}");
        assert_eq!(found(&secret(".dockerconfigjson", &new)), wanted);
        assert_eq!(found(&secret(".dockercfg", auths)), wanted);
    }

    #[test]
    fn a_secret_that_cannot_be_used_is_an_error_without_its_content() {
        for secret in [
            json!({}),
            json!({"data": {".dockerconfigjson": "%"}}),
            secret(".dockerconfigjson", "hidden"),
            secret(".dockerconfigjson", r#"{"auths": "hidden"}"#),
            secret(".dockercfg", r#"["hidden"]"#),
        ] {
            let problem = credentials(&secret).unwrap_err();
            assert!(!problem.contains("hidden"), "{problem}");
        }
    }

    #[test]
    fn a_written_file_is_private_and_replaces_the_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"new");
        assert_eq!(read(&path, 2), None);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let names = fs::read_dir(folder.path().join("a")).unwrap();
        assert_eq!(names.count(), 1);
    }
}
