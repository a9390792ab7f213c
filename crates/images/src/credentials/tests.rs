//! Which credentials are found in which files.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::config_files::FileProblem;
use crate::credentials::AuthFiles;
use crate::credentials::auth_file::MAX_FILE;
use crate::mirrors::MirrorFiles;

fn file(content: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

fn auth_files(named: Vec<PathBuf>, usual: Vec<PathBuf>) -> AuthFiles {
    AuthFiles::new(named, usual, MirrorFiles::default())
}

async fn find(contents: &[&Value], image: &str) -> Option<String> {
    let files = contents
        .iter()
        .map(|content| file(&content.to_string()))
        .collect::<Vec<_>>();
    let paths = files.iter().map(|file| file.path().to_owned()).collect();
    let (registry, repository) = image.split_once('/').unwrap();
    let found = auth_files(paths, Vec::new())
        .find(registry, repository)
        .await
        .unwrap();
    found.map(|credentials| {
        let pair = credentials.basic.map(|pair| {
            let pair = BASE64_STANDARD.decode(pair.expose()).unwrap();
            String::from_utf8_lossy(&pair).into_owned()
        });
        let token = credentials.identity_token;
        let token = token.map(|token| token.expose().to_owned());
        pair.into_iter().chain(token).collect::<Vec<_>>().join(" ")
    })
}

#[tokio::test]
async fn each_format_of_credentials_is_read() {
    let auths = json!({"auths": {
        "one.example": {"auth": BASE64_STANDARD.encode("me:pass:word")},
        "two.example": {"auth": BASE64_STANDARD.encode("me:word").trim_end_matches('=')},
        "three.example": {"username": "me", "password": "secret"},
        "four.example": {"auth": BASE64_STANDARD.encode("x:"), "identitytoken": "refresh"},
        "five.example": {},
    }, "credsStore": "desktop"});
    assert_eq!(
        find(&[&auths], "one.example/a").await.as_deref(),
        Some("me:pass:word")
    );
    assert_eq!(
        find(&[&auths], "two.example/a").await.as_deref(),
        Some("me:word")
    );
    assert_eq!(
        find(&[&auths], "three.example/a").await.as_deref(),
        Some("me:secret")
    );
    assert_eq!(
        find(&[&auths], "four.example/a").await.as_deref(),
        Some("x: refresh")
    );
    assert_eq!(find(&[&auths], "five.example/a").await, None);
    assert_eq!(find(&[&auths], "six.example/a").await, None);
    assert_eq!(
        find(&[&json!({"credsStore": "x"})], "one.example/a").await,
        None
    );
}

#[tokio::test]
async fn the_longest_key_wins() {
    let entry = |user: &str| json!({"username": user, "password": "p"});
    let first = json!({"auths": {
        "https://quay.io/v1/": entry("host"),
        "quay.io/a": entry("short"),
        "quay.io/a/b": entry("long"),
        "quay.io:5000": entry("port"),
        "https://index.docker.io/v1/": entry("hub"),
    }});
    let second = json!({"auths": {"quay.io/a/b": entry("second"), "quay.io/c": entry("c")}});
    for (image, user) in [
        ("quay.io/a/b", "long"),
        ("quay.io/a/b/c", "long"),
        ("quay.io/a/bc", "short"),
        ("quay.io/ab", "host"),
        ("quay.io/c", "c"),
        ("quay.io:5000/a/b", "port"),
        ("docker.io/library/x", "hub"),
    ] {
        let found = find(&[&first, &second], image).await;
        assert_eq!(found, Some(format!("{user}:p")), "{image}");
    }
    assert_eq!(find(&[&first], "io/a").await, None);
}

#[tokio::test]
async fn the_name_of_a_registry_comes_before_its_other_spellings() {
    let entry = |user: &str| json!({"username": user, "password": "p"});
    let capitals = json!({"auths": {"QUAY.IO": entry("capitals"), "quay.io": entry("name")}});
    let old = json!({"http://quay.io": entry("address"), "quay.io": entry("name")});
    for file in [capitals, old] {
        assert_eq!(find(&[&file], "quay.io/a").await.as_deref(), Some("name:p"));
    }
}

#[tokio::test]
async fn an_invalid_entry_is_ignored() {
    let auths = json!({"auths": {
        "quay.io/a": {"auth": "%%%"},
        "quay.io": {"username": "me", "password": "p"},
        "two.example": {"auth": 7},
        "three.example": {"auth": BASE64_STANDARD.encode("no colon")},
    }});
    assert_eq!(find(&[&auths], "quay.io/a").await.as_deref(), Some("me:p"));
    assert_eq!(find(&[&auths], "two.example/a").await, None);
    assert_eq!(find(&[&auths], "three.example/a").await, None);
}

#[tokio::test]
async fn an_invalid_file_is_named_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json");
    let error = auth_files(vec![missing], Vec::new())
        .find("quay.io", "a")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("missing.json"), "{error}");
    for content in ["\"hunter2\"", "{\"auths\": \"hunter2\"}", "{hunter2", ""] {
        let file = file(content);
        let files = auth_files(vec![file.path().to_owned()], Vec::new());
        let error = files.find("quay.io", "a").await.unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
    let large = file(&" ".repeat(usize::try_from(MAX_FILE).unwrap() + 1));
    let error = auth_files(vec![large.path().to_owned()], Vec::new())
        .find("quay.io", "a")
        .await;
    let problem = error.unwrap_err().problem;
    assert!(matches!(problem, FileProblem::TooLarge(_)));
}

#[tokio::test]
async fn usual_files_are_read_if_they_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.json");
    let files = auth_files(Vec::new(), vec![path.clone()]);
    assert_eq!(files.find("quay.io", "a").await.unwrap(), None);
    // Without the key `auths` it is Docker's first format.
    std::fs::write(&path, r#"{"https://quay.io/":{"username":"me"}}"#).unwrap();
    assert!(files.find("quay.io", "a").await.unwrap().is_some());
    std::fs::write(&path, "{").unwrap();
    assert!(files.find("quay.io", "a").await.is_err());
}

#[tokio::test]
async fn a_changed_file_takes_effect_at_once() {
    let file = file(r#"{"auths":{"quay.io":{"username":"old"}}}"#);
    let files = auth_files(vec![file.path().to_owned()], Vec::new());
    let old = files.find("quay.io", "a").await.unwrap();
    std::fs::write(file.path(), r#"{"auths":{"quay.io":{"username":"new"}}}"#).unwrap();
    assert_ne!(files.find("quay.io", "a").await.unwrap(), old);
}

#[tokio::test]
async fn base64_is_read_as_go_reads_it() {
    let bytes = BASE64_STANDARD.encode(b"me:\xff\xfe\0");
    let auths = json!({"auths": {
        "lines.example": {"auth": "bWU6\r\ncGFz\ncw==\n"},
        // The unused bits of the last digit are not zero.
        "bits.example": {"auth": "bWU6cB=="},
        "bytes.example": {"auth": bytes},
        "case.example": {"Auth": "bWU6cA=="},
    }});
    let auths = [&auths];
    assert_eq!(
        find(&auths, "lines.example/a").await.as_deref(),
        Some("me:pass")
    );
    assert_eq!(
        find(&auths, "bits.example/a").await.as_deref(),
        Some("me:p")
    );
    let bytes = find(&auths, "bytes.example/a").await;
    assert_eq!(bytes.as_deref(), Some("me:\u{fffd}\u{fffd}"));
    assert_eq!(
        find(&auths, "case.example/a").await.as_deref(),
        Some("me:p")
    );
    let auths = json!({"Auths": {"a.example": {"username": "me"}}});
    assert_eq!(find(&[&auths], "a.example/a").await.as_deref(), Some("me:"));
}

#[tokio::test]
async fn a_key_with_a_path_and_no_scheme_is_a_namespace() {
    let auths = json!({"auths": {
        "one.example/v1": {"username": "me"},
        "http://two.example/v2/": {"username": "me"},
    }});
    assert_eq!(find(&[&auths], "one.example/a").await, None);
    assert!(find(&[&auths], "one.example/v1/a").await.is_some());
    assert!(find(&[&auths], "two.example/a").await.is_some());
    // Docker's first format has addresses only.
    let first = json!({"one.example/v1": {"username": "me"}});
    assert!(find(&[&first], "one.example/a").await.is_some());
}

#[tokio::test]
async fn the_plain_name_of_a_registry_comes_before_its_addresses() {
    let entry = |user: &str| json!({"username": user});
    let auths = json!({"auths": {
        "https://x.example": entry("address"),
        "x.example": entry("name"),
    }});
    assert_eq!(
        find(&[&auths], "x.example/a").await.as_deref(),
        Some("name:")
    );
    // The first file still comes first.
    let first = json!({"auths": {"https://x.example": entry("first")}});
    let found = find(&[&first, &auths], "x.example/a").await;
    assert_eq!(found.as_deref(), Some("first:"));
}
