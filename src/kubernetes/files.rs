//! Objects of the cluster as files for the registry client. It reads its files again
//! for each pull, so a change takes effect at once. Files also outlive a restart
//! without the API server.
//!
//! The folders of mirror sets and image policies appear with the first complete
//! list. Until then each pull fails, because a policy might forbid it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::resources::{self, Kind};
use crate::kubernetes::settings::Settings;
use crate::kubernetes::watched::{Objects, Watched};

/// The folder below the data folder with the last state of the cluster.
pub(super) const FOLDER: &str = "cluster";

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
        self.0.join("catalogs.json")
    }

    fn registry_files(&self, settings: &Settings) -> RegistryFiles {
        let path = |name: &str, is_on: bool| is_on.then(|| self.0.join(name));
        RegistryFiles {
            mirrors: path("mirrors", settings.mirror_sets),
            policies: path("policies", settings.image_policies),
            credentials: path("credentials.json", settings.pull_secret.is_some()),
        }
    }
}

/// Keeps the files that the settings ask for.
pub(super) fn start(
    settings: &Settings,
    folders: &Folders,
    watched: &impl Fn(Kind, bool) -> Watched,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> RegistryFiles {
    let files = folders.registry_files(settings);
    if let Some(folder) = &files.mirrors {
        let kinds = resources::MIRROR_SETS.map(|kind| watched(kind, true));
        keep_objects(kinds, folder.join("objects.json"), tasks, stop);
    }
    if let Some(folder) = &files.policies {
        let mut kinds = vec![watched(resources::CLUSTER_IMAGE_POLICIES, true)];
        if let Some(namespace) = &settings.policy_namespace {
            let mut policies = watched(resources::IMAGE_POLICIES, true);
            policies.namespace = Some(namespace.clone());
            kinds.push(policies);
        }
        keep_objects(kinds, folder.join("objects.json"), tasks, stop);
    }
    if let (Some(file), Some(secret)) = (&files.credentials, &settings.pull_secret) {
        let mut secrets = watched(resources::SECRETS, false);
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
        .prefix(".new-")
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
