//! Credentials for registries, from secrets of the cluster to one file for the
//! registry client: the pull secret of the settings, then those that almanac's
//! service account names, in their order. The later one counts for a registry that
//! two of them know, as with catalogd.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::kubernetes::health::Failures;
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
/// The fields of the file with its sources, and with the credentials of each secret.
/// The registry client does not know them.
const SOURCES: &str = "from";
const SECRETS_KEPT: &str = "secrets";
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
    let content = stored::read(file, MAX_FILE);
    let content = content.and_then(|content| serde_json::from_slice::<Value>(&content).ok());
    !content.is_some_and(|content| is_from(&content, &sources(settings)))
}

/// Whether a file has credentials of these sources only.
fn is_from(content: &Value, wanted: &[String]) -> bool {
    let kept = content[SOURCES].as_array();
    let is_wanted = |source: &Value| wanted.iter().any(|one| source == one.as_str());
    kept.is_some_and(|kept| kept.iter().all(is_wanted))
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
        (secret.to_string(), watched.start(tasks, stop))
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
        listed: None,
        named: BTreeMap::new(),
        order: Vec::new(),
        usable: BTreeMap::new(),
        has_read: false,
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
struct AccountSecret {
    objects: watch::Receiver<Option<Objects>>,
    _stop: DropGuard,
}

/// The credentials of a secret, by registry.
type Credentials = Map<String, Value>;

/// Keeps the file.
struct Keeper {
    file: PathBuf,
    sources: Vec<String>,
    /// The secret of the settings, with its name.
    first: Option<(String, watch::Receiver<Option<Objects>>)>,
    /// The secrets that the service account names, once known.
    account: Option<watch::Receiver<Option<Vec<SecretName>>>>,
    /// The last of these.
    listed: Option<Vec<SecretName>>,
    named: BTreeMap<String, AccountSecret>,
    /// The names of the account's secrets, in its order.
    order: Vec<String>,
    /// The last usable credentials of each secret. A secret that cannot be read or
    /// used keeps them, and changes nothing for the others.
    usable: BTreeMap<String, Credentials>,
    /// Whether the cluster has told anything since the start.
    has_read: bool,
    /// Watches a secret once it has a name.
    template: Watched,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Keeper {
    async fn run(mut self) {
        let path = self.file.clone();
        let reading = tokio::task::spawn_blocking(move || stored::read(&path, MAX_FILE));
        // The content of the file.
        let mut last = reading.await.ok().flatten();
        self.restore(last.as_deref().unwrap_or_default());
        loop {
            self.follow_account();
            self.read_secrets();
            let wanted = self.content();
            let mut is_kept = true;
            if self.has_read && wanted != last {
                is_kept = match &wanted {
                    Some(content) => stored::keep(&self.file, content.clone()).await,
                    None => stored::remove(&self.file).await,
                };
                if is_kept {
                    if wanted.is_none() {
                        tracing::info!(
                            "the pull secrets are gone, and their credentials with them"
                        );
                    }
                    last = wanted;
                }
            }
            tokio::select! {
                changed = self.changed() => {
                    if !changed {
                        return;
                    }
                }
                () = stored::retry(is_kept) => {}
            }
        }
    }

    /// Takes the credentials of an earlier start. They count until their secret is
    /// read.
    fn restore(&mut self, content: &[u8]) {
        let Ok(content) = serde_json::from_slice::<Value>(content) else {
            return;
        };
        if !is_from(&content, &self.sources) {
            return;
        }
        for secret in content[SECRETS_KEPT].as_array().into_iter().flatten() {
            let (name, auths) = (secret["name"].as_str(), secret["auths"].as_object());
            let (Some(name), Some(auths)) = (name, auths) else {
                continue;
            };
            self.usable.insert(name.to_owned(), auths.clone());
            let is_first = self.first.as_ref().is_some_and(|(first, _)| first == name);
            if !is_first {
                self.order.push(name.to_owned());
            }
        }
    }

    /// Watches the secrets that the account names now, and no others.
    fn follow_account(&mut self) {
        let Some(account) = &mut self.account else {
            return;
        };
        let listed = account.borrow_and_update().clone();
        if listed == self.listed {
            return;
        }
        self.listed.clone_from(&listed);
        let Some(secrets) = listed else {
            return;
        };
        self.has_read = true;
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
        let dropped = self.named.keys().filter(|key| !seen.contains(*key));
        for key in dropped {
            self.content_failures(key).forget(ACCOUNT_SECRETS);
        }
        self.named.retain(|key, _| seen.contains(key));
        for (key, secret) in &secrets {
            if !self.named.contains_key(key) {
                let stop = self.stop.child_token();
                let mut watched = self.template.clone().of(&secret.namespace, &secret.name);
                watched.failures = watched.failures.of(key);
                let objects = watched.start(&self.tasks, &stop);
                let secret = AccountSecret {
                    objects,
                    _stop: stop.drop_guard(),
                };
                self.named.insert(key.clone(), secret);
            }
        }
        self.order = secrets.into_iter().map(|(key, _)| key).collect();
        let first = self.first.as_ref().map(|(name, _)| name);
        self.usable
            .retain(|key, _| seen.contains(key) || first == Some(key));
    }

    /// Takes the credentials of all secrets that are known.
    fn read_secrets(&mut self) {
        let first = self.first.iter_mut();
        let first = first.map(|(key, objects)| (SECRETS, &*key, objects));
        let named = self.named.iter_mut();
        let named = named.map(|(key, secret)| (ACCOUNT_SECRETS, key, &mut secret.objects));
        let mut known = Vec::new();
        for (kind, key, objects) in first.chain(named) {
            if let Some(objects) = objects.borrow_and_update().clone() {
                known.push((kind, key.clone(), objects));
            }
        }
        for (kind, key, objects) in known {
            self.has_read = true;
            let failures = self.content_failures(&key);
            match objects
                .values()
                .next()
                .map(|secret| credentials(&secret.data))
            {
                Some(Ok(credentials)) => {
                    failures.forget(kind);
                    self.usable.insert(key, credentials);
                }
                Some(Err(problem)) => {
                    let problem = format!(
                        "the secret {key} cannot be used: {problem}; its last credentials stay"
                    );
                    failures.failed(kind, "parse", problem);
                }
                None => {
                    failures.forget(kind);
                    self.usable.remove(&key);
                }
            }
        }
    }

    /// The failures of a secret's content. Those of its watch are apart.
    fn content_failures(&self, key: &str) -> Failures {
        self.template.failures.of(&format!("content of {key}"))
    }

    /// The file with the credentials of all secrets; `None` without any secret.
    fn content(&self) -> Option<Vec<u8>> {
        let first = self.first.iter().map(|(key, _)| key);
        let keys = first.chain(&self.order);
        let secrets: Vec<_> = keys
            .filter_map(|key| Some((key, self.usable.get(key)?)))
            .collect();
        merged(&secrets, &self.sources)
    }

    /// Waits for a change. Returns `false` if there will be none.
    async fn changed(&mut self) -> bool {
        let first = self.first.iter_mut().map(|(_, one)| one.changed().boxed());
        let account = self.account.iter_mut().map(|one| one.changed().boxed());
        let named = self.named.values_mut();
        let named = named.map(|named| named.objects.changed().boxed());
        let (changed, _, _) =
            futures_util::future::select_all(first.chain(account).chain(named)).await;
        changed.is_ok()
    }
}

/// The file with the credentials of these secrets, the last one with precedence.
fn merged(secrets: &[(&String, &Credentials)], sources: &[String]) -> Option<Vec<u8>> {
    if secrets.is_empty() {
        return None;
    }
    let mut all = Credentials::new();
    for (_, credentials) in secrets {
        all.extend((*credentials).clone());
    }
    let each = secrets.iter();
    let each = each.map(|(name, credentials)| json!({ "name": name, "auths": credentials }));
    let each: Vec<Value> = each.collect();
    let file = json!({ "auths": all, SOURCES: sources, SECRETS_KEPT: each });
    Some(file.to_string().into_bytes())
}

/// The credentials of a secret by registry, in either format. Other settings of the
/// file, such as programs to run for credentials, do not count. No error repeats its
/// content.
fn credentials(secret: &Value) -> Result<Credentials, &'static str> {
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
    let mut parsed = parsed.map_err(|_| "its data is not a JSON object")?;
    if is_old {
        return Ok(parsed);
    }
    match parsed.remove("auths") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(auths)) => Ok(auths),
        Some(_) => Err("its auths are not a JSON object"),
    }
}
