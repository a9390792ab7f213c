//! The file with credentials, as secrets come, change and go.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::DynamicObject;

use super::*;
use crate::kubernetes::events::Events;
use crate::kubernetes::health::{self, Health};

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
fn the_later_secret_counts_for_a_registry() {
    let read = |content| credentials(&secret(".dockercfg", content)).unwrap();
    let one = read(r#"{"a":{"auth":"1"},"b":{"auth":"1"}}"#);
    let two = read(r#"{"b":{"auth":"2"}}"#);
    let sources = ["n/one".to_owned(), OF_ACCOUNT.to_owned()];
    let names = ["n/one".to_owned(), "n/two".to_owned()];
    let file = merged(&[(&names[0], &one), (&names[1], &two)], &sources).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    let wanted = json!({
        "auths": {"a": {"auth": "1"}, "b": {"auth": "2"}},
        "from": ["n/one", "imagePullSecrets"],
        "secrets": [
            {"name": "n/one", "auths": {"a": {"auth": "1"}, "b": {"auth": "1"}}},
            {"name": "n/two", "auths": {"b": {"auth": "2"}}},
        ],
    });
    assert_eq!(file, wanted);
    assert_eq!(merged(&[], &sources), None);
}

/// A keeper of `n/first` and of an account's secrets, which the test sets. The API
/// server answers nothing.
struct Kept {
    folder: tempfile::TempDir,
    first: watch::Sender<Option<Objects>>,
    account: watch::Sender<Option<Vec<SecretName>>>,
    named: BTreeMap<String, watch::Sender<Option<Objects>>>,
    health: watch::Receiver<Health>,
    keeper: Option<Keeper>,
}

impl Kept {
    fn new() -> Self {
        Self::after(tempfile::tempdir().unwrap())
    }

    /// After a restart with the same folder.
    fn after(folder: tempfile::TempDir) -> Self {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let (failures, health) = health::channel(Events::none());
        let template = Watched {
            client: Client::new(service, "n"),
            kind: SECRETS,
            reported: ACCOUNT_SECRETS,
            namespace: None,
            labels: None,
            name: None,
            if_missing: None,
            failures,
        };
        let (first, of_first) = watch::channel(None);
        let (account, of_account) = watch::channel(None);
        let keeper = Keeper {
            file: folder.path().join("credentials.json"),
            sources: vec!["n/first".to_owned(), OF_ACCOUNT.to_owned()],
            first: Some(("n/first".to_owned(), of_first)),
            account: Some(of_account),
            listed: None,
            named: BTreeMap::new(),
            order: Vec::new(),
            usable: BTreeMap::new(),
            has_read: false,
            template,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self {
            folder,
            first,
            account,
            named: BTreeMap::new(),
            health,
            keeper: Some(keeper),
        }
    }

    /// Lets the account name these, and the test set what they have.
    fn name(&mut self, names: &[&str]) {
        self.account_names(names);
        let keeper = self.keeper.as_mut().unwrap();
        for name in names {
            let (sender, objects) = watch::channel(None);
            let secret = AccountSecret {
                objects,
                _stop: CancellationToken::new().drop_guard(),
            };
            keeper.named.insert((*name).to_owned(), secret);
            self.named.insert((*name).to_owned(), sender);
        }
    }

    fn account_names(&self, names: &[&str]) {
        let all = names.iter().map(|name| name.parse().unwrap()).collect();
        self.account.send_replace(Some(all));
    }

    fn start(&mut self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(self.keeper.take().unwrap().run())
    }

    fn set_first(&self, content: &str) {
        let objects = objects(&secret(".dockercfg", content));
        self.first.send_replace(Some(objects));
    }

    /// The credentials in the file a minute later.
    async fn auths(&self) -> Option<Value> {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let file = self.folder.path().join("credentials.json");
        let content = stored::read(&file, MAX_FILE)?;
        let content: Value = serde_json::from_slice(&content).unwrap();
        Some(content["auths"].clone())
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_were_deleted_while_almanac_was_stopped_are_removed() {
    let mut kept = Kept::new();
    let task = kept.start();
    kept.set_first(r#"{"a":{"auth":"1"}}"#);
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "1"}})));
    task.abort();
    let mut kept = Kept::after(kept.folder);
    let _task = kept.start();
    // They stay until the secret is known to be gone.
    assert!(kept.auths().await.is_some());
    kept.first.send_replace(Some(Objects::default()));
    assert_eq!(kept.auths().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_never_read_stops_no_other() {
    // The account is not known.
    let mut kept = Kept::new();
    let _task = kept.start();
    kept.set_first(r#"{"a":{"auth":"1"}}"#);
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "1"}})));
    // It names a secret, which is not read.
    kept.account_names(&["n/second"]);
    kept.set_first(r#"{"a":{"auth":"2"}}"#);
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "2"}})));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_not_read_after_a_restart_keeps_its_credentials() {
    let mut kept = Kept::new();
    kept.name(&["n/second"]);
    let task = kept.start();
    kept.set_first(r#"{"a":{"auth":"1"}}"#);
    let second = objects(&secret(".dockercfg", r#"{"b":{"auth":"2"}}"#));
    kept.named["n/second"].send_replace(Some(second));
    let both = json!({"a": {"auth": "1"}, "b": {"auth": "2"}});
    assert_eq!(kept.auths().await, Some(both));
    task.abort();
    let mut kept = Kept::after(kept.folder);
    let _task = kept.start();
    kept.set_first(r#"{"a":{"auth":"3"}}"#);
    let both = json!({"a": {"auth": "3"}, "b": {"auth": "2"}});
    assert_eq!(kept.auths().await, Some(both.clone()));
    kept.account_names(&["n/second"]);
    assert_eq!(kept.auths().await, Some(both));
    kept.account_names(&[]);
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "3"}})));
}

#[tokio::test(start_paused = true)]
async fn an_unusable_secret_is_named_and_stops_no_other() {
    let mut kept = Kept::new();
    kept.name(&["n/second"]);
    let _task = kept.start();
    kept.set_first(r#"{"a":{"auth":"1"}}"#);
    kept.named["n/second"].send_replace(Some(objects(&json!({"type": "Opaque"}))));
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "1"}})));
    let problem = kept.health.borrow()["secrets/imagePullSecrets"].clone();
    assert!(problem.contains("n/second cannot be used"), "{problem}");
    let second = objects(&secret(".dockercfg", r#"{"b":{"auth":"2"}}"#));
    kept.named["n/second"].send_replace(Some(second));
    let both = json!({"a": {"auth": "1"}, "b": {"auth": "2"}});
    assert_eq!(kept.auths().await, Some(both));
    assert!(kept.health.borrow().is_empty());
    kept.named["n/second"].send_replace(Some(objects(&json!({}))));
    kept.set_first(r#"{"a":{"auth":"3"}}"#);
    let both = json!({"a": {"auth": "3"}, "b": {"auth": "2"}});
    assert_eq!(kept.auths().await, Some(both));
    assert_eq!(kept.health.borrow().len(), 1);
    // A secret that is no longer named does not fail.
    kept.account_names(&[]);
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "3"}})));
    assert!(kept.health.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_or_removed_is_tried_again() {
    let mut kept = Kept::new();
    let file = kept.folder.path().join("credentials.json");
    let _task = kept.start();
    // No file replaces a folder, and none is removed as a file.
    std::fs::create_dir(&file).unwrap();
    kept.set_first(r#"{"a":{"auth":"1"}}"#);
    assert_eq!(kept.auths().await, None);
    std::fs::remove_dir(&file).unwrap();
    assert_eq!(kept.auths().await, Some(json!({"a": {"auth": "1"}})));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    kept.first.send_replace(Some(Objects::default()));
    assert_eq!(kept.auths().await, None);
    std::fs::remove_dir(&file).unwrap();
    stored::write(&file, b"{}").unwrap();
    assert_eq!(kept.auths().await, None);
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
