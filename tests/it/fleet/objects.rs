//! The client of the bucket, against a store that lies, and against moto's.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use almanac::objects::{AccessKey, Bucket, CredentialSource, ObjectError, Put, Settings};
use bytes::Bytes;

use crate::support::needs::skip_without;
use crate::support::objects::{BUCKET, KEY, ObjectStore};
use crate::support::port;
use crate::support::tls::Authority;

fn bucket(url: &str) -> Bucket {
    bucket_of(url, Vec::new())
}

fn bucket_of(url: &str, ca_files: Vec<PathBuf>) -> Bucket {
    let settings = Settings {
        location: url.parse().unwrap(),
        credentials: CredentialSource::Key(AccessKey {
            id: KEY.into(),
            secret: "secret".into(),
            token: None,
        }),
        ca_files,
    };
    Bucket::new(&settings).unwrap()
}

/// All keys that begin so.
async fn keys(bucket: &Bucket, beginning: &str) -> Vec<String> {
    let mut pages = bucket.list(beginning);
    let mut keys = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        keys.extend(page);
    }
    keys
}

async fn whole(bucket: &Bucket, key: &str) -> Result<Vec<u8>, ObjectError> {
    let mut body = bucket.get(key, 4 << 20).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What a store must do.
async fn use_it(bucket: &Bucket) {
    let large = Bytes::from(vec![7; 3 << 20]);
    for number in 0..5 {
        let key = format!("a/{number}");
        assert!(
            bucket
                .put(&key, large.clone(), Put::IfAbsent)
                .await
                .unwrap()
        );
    }
    let other = Bytes::from_static(b"other");
    assert!(
        !bucket
            .put("a/0", other.clone(), Put::IfAbsent)
            .await
            .unwrap()
    );
    assert_eq!(whole(bucket, "a/0").await.unwrap(), large);
    assert!(bucket.put("a/0", other, Put::Replace).await.unwrap());
    assert_eq!(
        bucket.read("a/0").await.unwrap().as_deref(),
        Some(&b"other"[..])
    );
    assert_eq!(bucket.read("b").await.unwrap(), None);
    let error = whole(bucket, "b").await.unwrap_err().to_string();
    assert!(error.ends_with("there is no such object"), "{error}");
    assert_eq!(
        keys(bucket, "a/").await,
        ["a/0", "a/1", "a/2", "a/3", "a/4"]
    );
    bucket.delete("a/1").await.unwrap();
    bucket.delete("a/1").await.unwrap();
    assert_eq!(keys(bucket, "a/").await.len(), 4);
    assert!(keys(bucket, "c").await.is_empty());
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work);
}

#[test]
fn objects_are_written_read_listed_and_removed() {
    let store = ObjectStore::start();
    run(use_it(&bucket(&store.url("p/q"))));
    assert!(store.keys().iter().all(|key| key.starts_with("p/q/a/")));
}

#[test]
fn a_store_that_breaks_off_is_asked_for_the_rest() {
    let store = ObjectStore::start();
    run(async {
        let bucket = bucket(&store.url(""));
        let large: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        bucket
            .put("a", large.clone().into(), Put::Replace)
            .await
            .unwrap();
        store.lie(|lies| lies.cut = true);
        assert_eq!(whole(&bucket, "a").await.unwrap(), large);
        store.behave();
        store.lie(|lies| {
            lies.status = Some((503, "SlowDown"));
            lies.times = Some(2);
        });
        assert_eq!(whole(&bucket, "a").await.unwrap(), large);
        store.behave();
        store.lie(|lies| lies.status = Some((403, "AccessDenied")));
        let error = whole(&bucket, "a").await.unwrap_err();
        assert!(!error.is_temporary());
        let wanted = format!("cannot read s3://{BUCKET}/a: the store answered 403 AccessDenied");
        assert!(error.to_string().starts_with(&wanted), "{error}");
    });
}

#[test]
fn an_answer_to_two_writers_at_once_is_no_proof_that_an_object_is_there() {
    let store = ObjectStore::start();
    run(async {
        let bucket = bucket(&store.url(""));
        store.lie(|lies| {
            lies.status = Some((409, "ConditionalRequestConflict"));
            lies.times = Some(1);
        });
        let written = bucket.put("a", Bytes::from_static(b"a"), Put::IfAbsent);
        assert!(written.await.unwrap());
        assert_eq!(store.keys(), ["a"]);
    });
}

#[test]
fn an_answer_of_something_before_the_store_is_no_word_of_an_object() {
    let store = ObjectStore::start();
    let bucket = bucket(&store.url("almanac"));
    run(async {
        let missing = bucket.get("none", 1).await.err().unwrap();
        assert!(missing.is_missing() && !missing.is_temporary(), "{missing}");
        store.lie(|lies| lies.status = Some((404, "")));
        let other = bucket.get("none", 1).await.err().unwrap();
        assert!(!other.is_missing() && other.is_temporary(), "{other}");
        assert!(other.to_string().contains("check endpoint"), "{other}");
    });
}

#[test]
fn an_object_is_in_the_list_beside_others_that_begin_with_its_name() {
    let store = ObjectStore::start();
    run(async {
        let bucket = bucket(&store.url("p"));
        for key in ["fleet-of-another", "fleets", "fleet/1", "fleet/2"] {
            let body = Bytes::from_static(b"a");
            bucket.put(key, body, Put::IfAbsent).await.unwrap();
        }
        assert!(!bucket.lists("fleet").await.unwrap());
        let body = Bytes::from_static(b"a");
        bucket.put("fleet", body, Put::IfAbsent).await.unwrap();
        store.forget_requests();
        assert!(bucket.lists("fleet").await.unwrap());
        assert_eq!(store.requests().len(), 1);
    });
}

#[test]
fn the_store_of_moto_is_used_as_any_other() {
    if skip_without("moto_server") {
        return;
    }
    let (mut server, address) = port::listening("moto_server", |address| {
        Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    });
    let used = std::panic::catch_unwind(|| {
        let made = crate::support::http::ask(address, "PUT", &format!("/{BUCKET}"), &[], b"");
        assert_eq!(made.unwrap().status, 200);
        run(use_it(&bucket(&format!(
            "s3://{BUCKET}/p?endpoint=http://{address}"
        ))));
    });
    let _ = server.kill();
    let _ = server.wait();
    used.unwrap();
}

#[test]
fn a_store_must_show_a_certificate_with_its_name() {
    let authority = Authority::new();
    let certificate = authority.sign_for(&["localhost"]);
    let store = ObjectStore::start_at("127.0.0.1:0", Some(certificate.server(None)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let put = |host: &str, ca_files: Vec<PathBuf>| {
        let bucket = bucket_of(&store.url_at("p", host), ca_files);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(bucket.put("a", Bytes::from_static(b"a"), Put::Replace))
    };
    assert!(put("localhost", vec![file.clone()]).unwrap());
    assert_eq!(store.keys(), ["p/a"]);
    for (host, ca_files) in [("127.0.0.1", vec![file]), ("localhost", Vec::new())] {
        let error = put(host, ca_files).unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
    }
}
