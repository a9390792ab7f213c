//! Tokens, passwords and redirects.

use http::header::AUTHORIZATION;
use images::digest::Digest;
use images::{Client, Settings};
use serde_json::json;

use super::{
    HEAD, REPOSITORY, client, pull, put_image, registry, registry_with_blob, settings, told,
};
use crate::support::registry::{Access, TestRegistry};

fn client_with_auth(auths: &serde_json::Value) -> (Client, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let document = json!({"auths": auths});
    std::fs::write(file.path(), document.to_string()).unwrap();
    let settings = Settings {
        auth_files: vec![file.path().to_owned()],
        ..settings()
    };
    (Client::new(&settings).unwrap(), file)
}

#[tokio::test]
async fn an_anonymous_token_is_fetched_once_and_kept() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);
    let client = client();
    client.resolve(&reference).await.unwrap();
    assert_eq!(registry.lines(), [HEAD, "GET /token", HEAD]);
    let query = registry.requests()[1].query.clone();
    assert_eq!(
        query,
        "scope=repository%3Acatalogs%2Fa%3Apull&service=test+registry"
    );
    registry.forget_requests();
    client.clone().resolve(&reference).await.unwrap();
    client.manifest(&reference, &digest).await.unwrap();
    assert_eq!(registry.lines().len(), 2);

    // A token that is no longer taken is replaced, once.
    registry.revoke_tokens();
    registry.forget_requests();
    client.resolve(&reference).await.unwrap();
    assert_eq!(registry.lines(), [HEAD, "GET /token", HEAD]);
}

#[tokio::test]
async fn each_repository_has_a_token_of_its_own() {
    let (registry, reference, _) = registry().await;
    put_image(&registry, "other", "latest");
    registry.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);
    let client = client();
    client.resolve(&reference).await.unwrap();
    let other = registry.reference("other", "latest").parse().unwrap();
    client.resolve(&other).await.unwrap();
    let tokens = registry
        .lines()
        .iter()
        .filter(|line| *line == "GET /token")
        .count();
    assert_eq!(tokens, 2);
}

#[tokio::test]
async fn a_password_is_exchanged_for_a_token() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.access = Access::Token("me", "secret"));
    let auths = json!({registry.host(): {"username": "me", "password": "secret"}});
    let (client, _file) = client_with_auth(&auths);
    assert_eq!(client.resolve(&reference).await.unwrap().digest, digest);
    assert_eq!(registry.lines(), [HEAD, "GET /token", HEAD]);
}

#[tokio::test]
async fn a_refresh_token_is_exchanged_for_a_token() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.access = Access::Token("me", "refresh"));
    let auths = json!({registry.host(): {"identitytoken": "refresh"}});
    let (client, _file) = client_with_auth(&auths);
    assert_eq!(client.resolve(&reference).await.unwrap().digest, digest);
    assert_eq!(registry.lines(), [HEAD, "POST /token", HEAD]);
}

#[tokio::test]
async fn a_password_is_sent_along_once_the_registry_asked() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
    let auths = json!({registry.host(): {"username": "me", "password": "secret"}});
    let (client, file) = client_with_auth(&auths);
    assert_eq!(client.resolve(&reference).await.unwrap().digest, digest);
    client.resolve(&reference).await.unwrap();
    assert_eq!(registry.lines(), [HEAD, HEAD, HEAD]);
    assert!(!registry.requests()[0].headers.contains_key(AUTHORIZATION));

    // A rotated password counts at the next request.
    registry.misbehave(|behaviour| behaviour.access = Access::Basic("me", "rotated"));
    let auths = json!({"auths": {registry.host(): {"username": "me", "password": "rotated"}}});
    std::fs::write(file.path(), auths.to_string()).unwrap();
    client.resolve(&reference).await.unwrap();
}

#[tokio::test]
async fn a_stranger_is_told_apart_from_a_wrong_password() {
    let (registry, reference, _) = registry().await;
    let wrong = json!({registry.host(): {"username": "me", "password": "hunter2"}});
    let (with_wrong, _file) = client_with_auth(&wrong);
    for access in [Access::Basic("me", "secret"), Access::Token("me", "secret")] {
        registry.misbehave(|behaviour| behaviour.access = access);
        let error = client().resolve(&reference).await.unwrap_err();
        assert_eq!(error.reason(), "unauthorized");
        assert!(
            error.to_string().contains("no credentials are configured"),
            "{error}"
        );
        let error = with_wrong.resolve(&reference).await.unwrap_err();
        assert_eq!(error.reason(), "unauthorized");
        assert!(
            error.to_string().contains("the credentials were refused"),
            "{error}"
        );
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_missing_credentials_file_is_named() {
    let (registry, reference, _) = registry().await;
    registry.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);
    let settings = Settings {
        auth_files: vec!["missing/auth.json".into()],
        ..settings()
    };
    let error = Client::new(&settings)
        .unwrap()
        .resolve(&reference)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "credentials");
    assert!(told(&error).contains("missing/auth.json"), "{error}");
}

#[tokio::test]
async fn a_token_service_of_another_kind_is_not_asked() {
    let (registry, reference, _) = registry().await;
    for realm in [
        "",
        "nowhere",
        "file:///etc/passwd",
        "ftp://x.example/",
        "http://me:secret@127.0.0.1/",
    ] {
        registry.misbehave(|behaviour| behaviour.access = Access::Realm(realm.into()));
        let error = client().resolve(&reference).await.unwrap_err();
        assert_eq!(error.reason(), "no_token", "{realm}");
        assert!(!told(&error).contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_token_service_that_answers_something_else_gives_no_token() {
    let (registry, reference, _) = registry().await;
    let page = TestRegistry::start().await;
    page.put_manifest(REPOSITORY, "latest", "<html>", "text/html");
    let realm = format!("http://{}/v2/{REPOSITORY}/manifests/latest", page.host());
    registry.misbehave(|behaviour| behaviour.access = Access::Realm(realm));
    let error = client().resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "no_token");
}

#[tokio::test]
async fn a_redirected_blob_is_fetched_without_credentials() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    let store = TestRegistry::start().await;
    let bytes = pull(&client(), &reference, &descriptor).await.unwrap();
    store.put_blob(bytes);
    registry.misbehave(|behaviour| {
        behaviour.access = Access::Basic("me", "secret");
        behaviour.redirect_blobs = Some(format!("http://{}", store.host()));
    });
    let auths = json!({registry.host(): {"username": "me", "password": "secret"}});
    let (client, _file) = client_with_auth(&auths);
    pull(&client, &reference, &descriptor).await.unwrap();
    let asked = store.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].query, "signature=hidden");
    assert!(!asked[0].headers.contains_key(AUTHORIZATION));

    // Nor do they go there when it asks for them.
    store.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
    let error = pull(&client, &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "unauthorized");
    assert!(!told(&error).contains("hidden"), "{error}");
    // What the other host says is not the registry's.
    assert!(told(&error).contains(&store.host()), "{error}");
    assert!(!told(&error).contains("UNAUTHORIZED"), "{error}");
    assert!(
        store
            .requests()
            .iter()
            .all(|request| !request.headers.contains_key(AUTHORIZATION))
    );
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    let base = format!("http://{}", registry.host());
    registry.misbehave(|behaviour| behaviour.redirect_blobs = Some(base));
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "bad_redirect");
    assert!(registry.lines().len() < 12);
}

#[tokio::test]
async fn a_redirect_to_something_else_than_http_is_not_followed() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.redirect_blobs = Some("file://".into()));
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "bad_redirect");
    assert_eq!(registry.lines().len(), 1);
}

#[tokio::test]
async fn clones_of_a_client_work_side_by_side() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);
    let client = client();
    let tasks = (0..8).map(|_| {
        let (client, reference) = (client.clone(), reference.clone());
        tokio::spawn(async move { client.manifest(&reference, &digest).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(Digest::of(&task.await.unwrap().unwrap()), digest);
    }
}

#[tokio::test]
async fn a_registry_that_behaves_again_is_believed_again() {
    let (registry, reference, digest) = registry().await;
    let client = client();
    registry.misbehave(|behaviour| behaviour.status = Some(500));
    assert!(client.resolve(&reference).await.is_err());
    registry.behave();
    assert_eq!(client.resolve(&reference).await.unwrap().digest, digest);
}
