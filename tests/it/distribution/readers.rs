//! Who may pull.

use std::fs;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{basic, code, status, with};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;
use crate::support::http::Reply;
use crate::support::program::PATIENCE;

/// Two catalogs, of which `closed` has a token of its own.
fn guarded(folder: &TempDir, tables: &str) -> Almanac {
    let path = folder.path().join("catalog");
    fs::create_dir(&path).unwrap();
    Catalog::small().write_to(&path, Format::JsonLines);
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "catalog-secret\n").unwrap();
    let source = format!("file:{}", path.display());
    let config = catalog("open", &source)
        + &catalog("closed", &source)
        + &format!("token_files = [\"{}\"]\n{tables}", tokens.display());
    let mut almanac = Almanac::start(&config);
    let admin = almanac.program.address("admin");
    let begin = Instant::now();
    // The images of both are made.
    let made = |metrics: String| metrics.contains("almanac_image_seconds_count 2\n");
    while !made(http::get(admin, "/metrics").unwrap().text()) {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    almanac
}

#[test]
fn a_catalog_with_tokens_asks_for_them_here_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = guarded(&folder, "");
    let address = almanac.program.address("http");
    let (open, closed) = ("/v2/open/manifests/latest", "/v2/closed/manifests/latest");
    assert_eq!(almanac.http(open).status, 200);
    let reply = almanac.http(closed);
    assert_eq!((reply.status, code(&reply).as_str()), (401, "UNAUTHORIZED"));
    assert_eq!(
        reply.header("www-authenticate"),
        Some("Basic realm=\"almanac\"")
    );
    // Clients only send what they have when the ping asks for it.
    assert_eq!(almanac.http("/v2/").status, 401);
    for (authorization, wanted) in [
        (basic("any", "catalog-secret"), 200),
        ("Bearer catalog-secret".to_owned(), 200),
        (basic("any", "wrong"), 401),
        ("Bearer wrong".to_owned(), 401),
        ("Basic !".to_owned(), 401),
    ] {
        for path in ["/v2/", closed] {
            assert_eq!(
                status(address, path, &authorization),
                wanted,
                "{authorization}"
            );
        }
    }
    // No blob is had by a way around.
    let document: Value = serde_json::from_slice(&almanac.http(open).body).unwrap();
    let layer = document["layers"][0]["digest"].as_str().unwrap();
    assert_eq!(
        almanac.http(&format!("/v2/closed/blobs/{layer}")).status,
        401
    );
    let names = |reply: Reply| serde_json::from_slice::<Value>(&reply.body).unwrap();
    let some = json!({"repositories": ["open"]});
    assert_eq!(names(almanac.http("/v2/_catalog")), some);
}

#[test]
fn a_user_pulls_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(
        &users,
        format!("ann:{}\n", bcrypt::hash("pass:word", 4).unwrap()),
    )
    .unwrap();
    let tables = format!("[distribution]\nuser_files = [{users:?}]\n");
    let mut almanac = guarded(&folder, &tables);
    let address = almanac.program.address("http");
    let (open, closed) = ("/v2/open/manifests/latest", "/v2/closed/manifests/latest");
    for path in ["/v2/", open, closed, "/v2/nobody/tags/list", "/v2/_catalog"] {
        assert_eq!(almanac.http(path).status, 401, "{path}");
    }
    let ann = basic("ann", "pass:word");
    assert_eq!(status(address, "/v2/", &ann), 200);
    assert_eq!(status(address, open, &ann), 200);
    // A catalog with tokens wants those, and does not exist for others.
    for path in ["/v2/closed/tags/list", "/v2/absent/tags/list"] {
        let reply = with(address, path, &[("Authorization", ann.clone())]);
        assert_eq!((reply.status, code(&reply).as_str()), (404, "NAME_UNKNOWN"));
        let wanted = "that these credentials may pull";
        assert!(reply.text().contains(wanted), "{}", reply.text());
    }
    for (user, password) in [("ann", "word"), ("bob", "pass:word")] {
        assert_eq!(status(address, open, &basic(user, password)), 401);
    }

    // New files count without a restart.
    fs::write(&users, format!("bob:{}\n", bcrypt::hash("new", 4).unwrap())).unwrap();
    let begin = Instant::now();
    while status(address, open, &basic("bob", "new")) != 200 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(status(address, open, &ann), 401);
    let log = almanac.program.log();
    assert!(!log.contains("pass:word"), "{log}");
}

#[test]
fn a_user_pulls_with_a_token_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(
        &users,
        format!("ann:{}\n", bcrypt::hash("word", 4).unwrap()),
    )
    .unwrap();
    let tables = format!("[distribution]\nuser_files = [{users:?}]\nflow = \"token\"\n");
    let mut almanac = guarded(&folder, &tables);
    let address = almanac.program.address("http");
    let open = "/v2/open/manifests/latest";
    let reply = almanac.http(open);
    assert_eq!(reply.status, 401);
    let challenge = format!(
        "Bearer realm=\"http://{address}/v2/token\",service=\"almanac\",\
         scope=\"repository:open:pull\""
    );
    assert_eq!(reply.header("www-authenticate"), Some(challenge.as_str()));

    let token = |scope: &str, authorization: Option<String>| {
        let path = format!("/v2/token?service=almanac&scope={scope}");
        let headers: Vec<_> = authorization
            .map(|a| ("Authorization", a))
            .into_iter()
            .collect();
        let reply = with(address, &path, &headers);
        let document: Value = serde_json::from_slice(&reply.body).unwrap();
        let token = document["token"].as_str().unwrap_or_default().to_owned();
        (reply.status, format!("Bearer {token}"))
    };
    let (given, ann) = token("repository:open:pull", Some(basic("ann", "word")));
    assert_eq!(given, 200);
    assert_eq!(status(address, open, &ann), 200);
    assert_eq!(status(address, "/v2/", &ann), 200);
    // It is good for nothing else.
    assert_eq!(status(address, "/v2/closed/tags/list", &ann), 404);
    // It shows nothing of what it is not good for.
    let content = |token: &str| {
        let (payload, _) = token
            .strip_prefix("Bearer ")
            .unwrap()
            .split_once('.')
            .unwrap();
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap();
        serde_json::from_slice::<Value>(&payload).unwrap()["repositories"].clone()
    };
    let scopes = ["closed", "absent"].map(|name| format!("repository:{name}:pull"));
    for scope in scopes {
        let (_, given) = token(&scope, Some(basic("ann", "word")));
        assert_eq!(content(&given), json!({}), "{scope}");
    }
    let (_, closed) = token(
        "repository%3Aclosed%3Apull,push",
        Some(basic("any", "catalog-secret")),
    );
    assert_eq!(status(address, "/v2/closed/tags/list", &closed), 200);
    assert_eq!(status(address, open, &closed), 404);
    // Whoever says nothing gets a token that is good for what all may have.
    let (given, nobody) = token("repository:open:pull", None);
    assert_eq!(given, 200);
    assert_eq!(status(address, open, &nobody), 401);
    let (given, _) = token("repository:open:pull", Some(basic("ann", "wrong")));
    assert_eq!(given, 401);
}

#[test]
fn a_token_is_given_for_credentials_alone_and_tells_nobody_what_exists() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let line = |user: &str| format!("{user}:{}\n", bcrypt::hash("word", 4).unwrap());
    fs::write(&users, line("ann")).unwrap();
    let tables = format!("[distribution]\nuser_files = [{users:?}]\nflow = \"token\"\n");
    let mut almanac = guarded(&folder, &tables);
    let address = almanac.program.address("http");
    let ask = |authorization: &str| {
        let path = "/v2/token?service=almanac&scope=repository:open:pull";
        let headers = [("Authorization", authorization.to_owned())];
        let headers = &headers[usize::from(authorization.is_empty())..];
        let reply = with(address, path, headers);
        let document: Value = serde_json::from_slice(&reply.body).unwrap();
        let token = document["token"].as_str().unwrap_or_default();
        (reply.status, format!("Bearer {token}"), document)
    };
    let (open, absent) = ("/v2/open/tags/list", "/v2/absent/tags/list");
    let (given, ann, document) = ask(&basic("ann", "word"));
    assert_eq!(given, 200);
    assert!(document["expires_in"].as_u64().unwrap() <= 300);
    assert_eq!(
        [open, absent].map(|path| status(address, path, &ann)),
        [200, 404]
    );
    // A token makes no other token, so that none outlives its user for long.
    assert_eq!(ask(&ann).0, 401);
    // A token for nobody is not better than none.
    let (given, nobody, _) = ask("");
    assert_eq!(given, 200);
    assert_eq!(status(address, "/v2/", &nobody), 200);
    for path in [open, absent, "/v2/_catalog"] {
        assert_eq!(status(address, path, &nobody), 401, "{path}");
        let [with_token, without] = [("Authorization", nobody.clone()), ("Accept", "*/*".into())]
            .map(|header| with(address, path, &[header]));
        assert_eq!(with_token.body, without.body, "{path}");
    }
    assert_eq!(ask(&nobody).0, 401);

    fs::write(&users, line("bob")).unwrap();
    let begin = Instant::now();
    while ask(&basic("ann", "word")).0 != 401 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ask(&ann).0, 401);
}
