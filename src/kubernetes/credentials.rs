//! Credentials for registries, from secrets of the cluster to one file for the
//! registry client: the pull secret of the settings, then those that almanac's
//! service account names, in their order. The later one counts for a registry that
//! two of them know, as with catalogd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::kubernetes::resources::{ACCOUNT_SECRETS, Kind, SECRETS, SERVICE_ACCOUNTS};
use crate::kubernetes::service_account;
use crate::kubernetes::settings::{SecretName, Settings};
use crate::kubernetes::stored;
use crate::kubernetes::watched::{Objects, Watched};

/// The keys of a secret with credentials, in order of precedence.
const DOCKER_CONFIG_JSON: &str = ".dockerconfigjson";
const DOCKER_CONFIG: &str = ".dockercfg";

/// How the file names the secrets of the service account among its sources.
const OF_ACCOUNT: &str = "imagePullSecrets";
/// The field of the file with its sources. The registry client does not know it.
const SOURCES: &str = "from";
/// The longest file that is read back, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// The most secrets of a service account; more are not read.
const MAX_SECRETS: usize = 32;

/// The names of the secrets in the settings.
fn sources(settings: &Settings) -> Vec<String> {
    let secret = settings.pull_secret.iter().map(SecretName::to_string);
    let account = settings.image_pull_secrets.then(|| OF_ACCOUNT.to_owned());
    secret.chain(account).collect()
}

/// Whether a file of an earlier start has credentials that the settings no longer
/// name. One that cannot be read counts as such. It blocks.
pub(super) fn is_unused(file: &Path, settings: &Settings) -> bool {
    let wanted = sources(settings);
    let content = stored::read(file, MAX_FILE);
    let content = content.and_then(|content| serde_json::from_slice::<Value>(&content).ok());
    let kept = content
        .as_ref()
        .and_then(|content| content[SOURCES].as_array());
    let is_wanted = |source: &Value| wanted.iter().any(|one| source == one.as_str());
    !kept.is_some_and(|kept| kept.iter().all(is_wanted))
}

/// Keeps the file up to date until `stop`.
pub(super) fn start(
    settings: &Settings,
    file: PathBuf,
    watched: &impl Fn(Kind) -> Watched,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let first = settings.pull_secret.as_ref().map(|secret| {
        let watched = watched(SECRETS).of(&secret.namespace, &secret.name);
        watched.start(tasks, stop)
    });
    let account = settings.image_pull_secrets.then(|| {
        let (sender, receiver) = watch::channel(None);
        let accounts = watched(SERVICE_ACCOUNTS);
        let following = service_account::follow(accounts, sender, tasks.clone(), stop.clone());
        let stop = stop.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(following).await;
        });
        receiver
    });
    let template = watched(SECRETS).reported_as(ACCOUNT_SECRETS);
    let keeper = Keeper {
        file,
        sources: sources(settings),
        first,
        account,
        named: BTreeMap::new(),
        order: None,
        template,
        tasks: tasks.clone(),
        stop: stop.clone(),
    };
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.run_until_cancelled(keeper.run()).await;
    });
}

/// A secret of the service account, which is watched as long as this lives.
struct Named {
    objects: watch::Receiver<Option<Objects>>,
    _stop: DropGuard,
}

/// Keeps the file.
struct Keeper {
    file: PathBuf,
    sources: Vec<String>,
    /// The secret of the settings.
    first: Option<watch::Receiver<Option<Objects>>>,
    /// The secrets that the service account names, once known.
    account: Option<watch::Receiver<Option<Vec<SecretName>>>>,
    named: BTreeMap<String, Named>,
    /// The names in `named`, in the order of the account.
    order: Option<Vec<String>>,
    /// Watches a secret once it has a name.
    template: Watched,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Keeper {
    async fn run(mut self) {
        let mut last = None;
        loop {
            self.follow_account();
            if let Some(secrets) = self.secrets() {
                match merged(&secrets, &self.sources) {
                    Ok(content) if content == last => {}
                    Ok(Some(content)) => {
                        stored::keep(&self.file, content.clone()).await;
                        last = Some(content);
                    }
                    Ok(None) => {
                        remove(&self.file).await;
                        last = None;
                    }
                    Err(problem) => tracing::warn!(
                        problem,
                        "the pull secret cannot be used; the last credentials stay"
                    ),
                }
            }
            if !self.changed().await {
                return;
            }
        }
    }

    /// Watches the secrets that the account names now, and no others.
    fn follow_account(&mut self) {
        let Some(account) = &mut self.account else {
            self.order = Some(Vec::new());
            return;
        };
        let Some(secrets) = account.borrow_and_update().clone() else {
            return;
        };
        if secrets.len() > MAX_SECRETS {
            tracing::warn!(
                secrets = secrets.len(),
                "only the first {MAX_SECRETS} imagePullSecrets of the service account are read"
            );
        }
        let mut seen = BTreeSet::new();
        let secrets = secrets.into_iter().take(MAX_SECRETS);
        let secrets: Vec<_> = secrets
            .map(|secret| (secret.to_string(), secret))
            .filter(|(key, _)| seen.insert(key.clone()))
            .collect();
        self.named.retain(|key, _| seen.contains(key));
        for (key, secret) in &secrets {
            if !self.named.contains_key(key) {
                let stop = self.stop.child_token();
                let watched = self.template.clone().of(&secret.namespace, &secret.name);
                let objects = watched.start(&self.tasks, &stop);
                let named = Named {
                    objects,
                    _stop: stop.drop_guard(),
                };
                self.named.insert(key.clone(), named);
            }
        }
        self.order = Some(secrets.into_iter().map(|(key, _)| key).collect());
    }

    /// All secrets, the last one with precedence; `None` while one is unknown.
    fn secrets(&mut self) -> Option<Vec<Objects>> {
        let mut all = Vec::new();
        // Each is marked as seen, also after one that is not known.
        all.extend(
            self.first
                .iter_mut()
                .map(|one| one.borrow_and_update().clone()),
        );
        for key in self.order.as_ref()? {
            let named = self.named.get_mut(key)?;
            all.push(named.objects.borrow_and_update().clone());
        }
        all.into_iter().collect()
    }

    /// Waits for a change. Returns `false` if there will be none.
    async fn changed(&mut self) -> bool {
        let first = self.first.iter_mut().map(|one| one.changed().boxed());
        let account = self.account.iter_mut().map(|one| one.changed().boxed());
        let named = self.named.values_mut();
        let named = named.map(|named| named.objects.changed().boxed());
        let (changed, _, _) =
            futures_util::future::select_all(first.chain(account).chain(named)).await;
        changed.is_ok()
    }
}

async fn remove(file: &Path) {
    let path = file.to_owned();
    let removing = tokio::task::spawn_blocking(move || fs::remove_file(path));
    if matches!(removing.await, Ok(Ok(()))) {
        tracing::info!("the pull secrets are gone, and their credentials with them");
    }
}

/// The file with the credentials of all secrets; `None` without any secret. One that
/// cannot be used is an error for all of them, so that none is lost.
fn merged(secrets: &[Objects], sources: &[String]) -> Result<Option<Vec<u8>>, &'static str> {
    let mut secrets = secrets.iter().flat_map(|one| one.values()).peekable();
    if secrets.peek().is_none() {
        return Ok(None);
    }
    let mut all = Map::new();
    for secret in secrets {
        all.extend(credentials(&secret.data)?);
    }
    let file = json!({ "auths": all, SOURCES: sources });
    Ok(Some(file.to_string().into_bytes()))
}

/// The credentials of a secret by registry, in either format. Other settings of the
/// file, such as programs to run for credentials, do not count. No error repeats its
/// content.
fn credentials(secret: &Value) -> Result<Map<String, Value>, &'static str> {
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
    let mut parsed = parsed.map_err(|_| "its data is no JSON object")?;
    if is_old {
        return Ok(parsed);
    }
    match parsed.remove("auths") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(auths)) => Ok(auths),
        Some(_) => Err("its auths are no JSON object"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::DynamicObject;

    use super::*;

    fn secret(key: &str, content: &str) -> Value {
        json!({ "data": { key: BASE64_STANDARD.encode(content) } })
    }

    fn objects(secret: &Value) -> Objects {
        let mut object: DynamicObject = serde_json::from_value(json!({"metadata": {}})).unwrap();
        object.data = secret.clone();
        Arc::new(BTreeMap::from([("a/b".to_owned(), Arc::new(object))]))
    }

    #[test]
    fn a_pull_secret_is_read_in_both_formats() {
        let auths = r#"{"quay.io":{"username":"a","password":"b"}}"#;
        let wanted: Map<String, Value> = serde_json::from_str(auths).unwrap();
        let new = format!("{{\"auths\":{auths},\"credsStore\":\"program\"}}");
        let new = credentials(&secret(".dockerconfigjson", &new)).unwrap();
        assert_eq!(new, wanted);
        assert_eq!(credentials(&secret(".dockercfg", auths)).unwrap(), wanted);
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
    fn the_later_secret_counts_for_a_registry_and_an_unusable_one_changes_nothing() {
        let one = objects(&secret(
            ".dockercfg",
            r#"{"a":{"auth":"1"},"b":{"auth":"1"}}"#,
        ));
        let two = objects(&secret(".dockercfg", r#"{"b":{"auth":"2"}}"#));
        let sources = ["n/one".to_owned(), OF_ACCOUNT.to_owned()];
        let file = merged(&[one.clone(), two], &sources).unwrap().unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let wanted = json!({
            "auths": {"a": {"auth": "1"}, "b": {"auth": "2"}},
            "from": ["n/one", "imagePullSecrets"],
        });
        assert_eq!(file, wanted);
        assert!(merged(&[one, objects(&json!({}))], &sources).is_err());
        assert_eq!(merged(&[Objects::default()], &sources), Ok(None));
    }

    #[test]
    fn credentials_of_a_secret_that_the_settings_no_longer_name_are_unused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials.json");
        let settings = |secret: Option<&str>, image_pull_secrets| Settings {
            pull_secret: secret.map(|secret| secret.parse().unwrap()),
            image_pull_secrets,
            ..Settings::default()
        };
        let one = settings(Some("a/one"), false);
        let content = json!({"auths": {}, SOURCES: sources(&one)}).to_string();
        stored::write(&file, content.as_bytes()).unwrap();
        assert!(!is_unused(&file, &one));
        assert!(!is_unused(&file, &settings(Some("a/one"), true)));
        assert!(is_unused(&file, &settings(Some("a/two"), false)));
        assert!(is_unused(&file, &settings(None, true)));
        // Nobody knows where these are from.
        stored::write(&file, b"{\"auths\": {}}").unwrap();
        assert!(is_unused(&file, &one));
    }
}
