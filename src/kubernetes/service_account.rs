//! The service account of almanac, and the pull secrets that it names.

use std::time::Duration;

use kube::api::PostParams;
use kube::core::{DynamicObject, ObjectMeta, TypeMeta};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::problem::of_request;
use crate::kubernetes::resources::{SELF_REVIEWS, SERVICE_ACCOUNTS};
use crate::kubernetes::settings::SecretName;
use crate::kubernetes::watched::Watched;
use fbc::text::display::shown;

/// The longest request.
const REQUEST: Duration = Duration::from_secs(10);
/// The wait before the API server is asked again for the user.
const RETRY: Duration = Duration::from_secs(30);
/// How the user of a service account begins.
const PREFIX: &str = "system:serviceaccount:";

/// Keeps the names of the secrets up to date. The value is `None` before they are
/// known.
pub(super) async fn follow(
    accounts: Watched,
    secrets: watch::Sender<Option<Vec<SecretName>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let Some(account) = identity(&accounts).await else {
        // Other credentials count all the same.
        secrets.send_replace(Some(Vec::new()));
        return std::future::pending().await;
    };
    let accounts = accounts.of(&account.namespace, &account.name);
    let mut objects = accounts.start(&tasks, &stop);
    loop {
        let known = objects.borrow_and_update().clone();
        if let Some(known) = known {
            let names = known.values().next();
            let names = names.map(|account| named(account)).unwrap_or_default();
            secrets.send_if_modified(|last| {
                let differs = last.as_ref() != Some(&names);
                *last = Some(names);
                differs
            });
        }
        if objects.changed().await.is_err() {
            return;
        }
    }
}

/// The secrets that an account names. They are in its namespace.
fn named(account: &DynamicObject) -> Vec<SecretName> {
    let namespace = account.metadata.namespace.as_deref().unwrap_or_default();
    let entries = account.data["imagePullSecrets"].as_array();
    let names = entries.into_iter().flatten();
    let names = names.filter_map(|entry| entry["name"].as_str());
    let names = names.filter_map(|name| format!("{namespace}/{name}").parse().ok());
    names.collect()
}

/// The service account that the API server knows almanac by, in the form of a
/// secret's name; `None` if it is another kind of user.
async fn identity(accounts: &Watched) -> Option<SecretName> {
    loop {
        let asked = tokio::time::timeout(REQUEST, user(&accounts.client)).await;
        let problem = match asked {
            Ok(Ok(user)) => {
                let account = account(&user);
                if account.is_some() {
                    accounts.failures.recovered(SELF_REVIEWS);
                } else {
                    let user = shown(&user);
                    let problem = format!(
                        "image_pull_secrets needs the credentials of a service account, and \
                         these are of {user:?}"
                    );
                    accounts.failures.failed(SERVICE_ACCOUNTS, "get", problem);
                }
                return account;
            }
            Ok(Err(error)) => of_request(&error, SELF_REVIEWS, "create"),
            Err(_) => "the API server does not answer in time".to_owned().into(),
        };
        accounts.failures.failed(SELF_REVIEWS, "create", problem);
        tokio::time::sleep(RETRY).await;
    }
}

/// The user that the API server takes almanac for. It tells each user that much.
async fn user(client: &Client) -> Result<String, kube::Error> {
    let resource = SELF_REVIEWS.resource();
    let reviews: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let review = DynamicObject {
        types: Some(TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        }),
        metadata: ObjectMeta::default(),
        data: json!({}),
    };
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let user = answer.data["status"]["userInfo"]["username"].as_str();
    Ok(user.unwrap_or_default().to_owned())
}

/// The namespace and the name of a service account.
fn account(user: &str) -> Option<SecretName> {
    let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
    format!("{namespace}/{name}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_names_secrets_of_its_namespace() {
        let object = json!({
            "metadata": {"name": "almanac", "namespace": "olmv1-system"},
            "imagePullSecrets": [{"name": "b"}, {"name": "../a"}, {}, {"name": "a"}],
        });
        let names = named(&serde_json::from_value(object).unwrap());
        let names: Vec<String> = names.iter().map(SecretName::to_string).collect();
        assert_eq!(names, ["olmv1-system/b", "olmv1-system/a"]);
    }

    #[test]
    fn only_a_service_account_has_secrets() {
        let found = account("system:serviceaccount:olmv1-system:almanac").unwrap();
        assert_eq!(found.to_string(), "olmv1-system/almanac");
        for user in ["", "admin", "system:serviceaccount:a", "system:node:a:b"] {
            assert_eq!(account(user), None, "{user}");
        }
    }
}
