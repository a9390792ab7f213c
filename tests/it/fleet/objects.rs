//! The client of the bucket, against a store that lies, and against moto's and Azurite.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use almanac::objects::{
    Body, Bucket, CredentialSource, Listed, ObjectError, ObjectProblem, Settings, Store,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;

use crate::support::needs::skip_without;
use crate::support::objects::{BUCKET, KEY, ObjectStore};
use crate::support::port;
use crate::support::program::Killed;
use crate::support::runtime::block_on;
use crate::support::tls::Authority;

fn bucket(url: &str) -> Bucket {
    bucket_with(url, CredentialSource::from_key(KEY, "secret"), Vec::new())
}

fn bucket_with(url: &str, credentials: CredentialSource, ca_files: Vec<PathBuf>) -> Bucket {
    let settings = Settings {
        location: url.parse().unwrap(),
        credentials,
        ca_files,
    };
    Bucket::new(&settings).unwrap()
}

/// All objects whose names begin so.
async fn listed(bucket: &Bucket, beginning: &str) -> Vec<Listed> {
    let mut pages = bucket.list(beginning);
    let mut objects = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        objects.extend(page);
    }
    objects
}

async fn names(bucket: &Bucket, beginning: &str) -> Vec<String> {
    let objects = listed(bucket, beginning).await.into_iter();
    objects.map(|object| object.name).collect()
}

async fn whole(bucket: &Bucket, name: &str) -> Result<Vec<u8>, ObjectError> {
    let body = bucket.get(name, 4 << 20).await?;
    bytes(body).await
}

async fn bytes(mut body: Body) -> Result<Vec<u8>, ObjectError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(bytes.len() as u64, body.length());
    Ok(bytes)
}

/// What a store must do.
async fn use_it(bucket: &Bucket) {
    let large = Bytes::from(vec![7; 3 << 20]);
    for number in 0..5 {
        let name = format!("a/{number}");
        assert!(bucket.put_if_absent(&name, large.clone()).await.unwrap());
    }
    let other = Bytes::from_static(b"other");
    assert!(!bucket.put_if_absent("a/0", other.clone()).await.unwrap());
    assert_eq!(whole(bucket, "a/0").await.unwrap(), large);
    bucket.put("a/0", other).await.unwrap();
    let read = bucket.read("a/0").await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"other"[..]));
    let range = bucket.get_range("a/0", 1..4).await.unwrap();
    assert_eq!(bytes(range).await.unwrap(), b"the");
    assert_eq!(bucket.read("b").await.unwrap(), None);
    let error = whole(bucket, "b").await.unwrap_err();
    assert_eq!(error.problem, ObjectProblem::Missing);

    let objects = listed(bucket, "a/").await;
    let sizes: Vec<_> = objects
        .iter()
        .map(|object| (&*object.name, object.size))
        .collect();
    let size = 3 << 20;
    let wanted = [
        ("a/0", 5),
        ("a/1", size),
        ("a/2", size),
        ("a/3", size),
        ("a/4", size),
    ];
    assert_eq!(sizes, wanted);
    let found = bucket.head("a/0").await.unwrap();
    assert_eq!(found.as_ref(), objects.first());
    assert_eq!(bucket.head("a").await.unwrap(), None);
    bucket.delete("a/1").await.unwrap();
    bucket.delete("a/1").await.unwrap();
    assert_eq!(names(bucket, "a/").await, ["a/0", "a/2", "a/3", "a/4"]);
    assert!(names(bucket, "c").await.is_empty());
}

#[test]
fn objects_are_written_read_listed_and_removed() {
    let store = ObjectStore::start();
    block_on(use_it(&bucket(&store.url("p/q"))));
    assert!(store.keys().iter().all(|key| key.starts_with("p/q/a/")));
}

#[test]
fn a_store_that_breaks_off_is_asked_for_the_rest() {
    let store = ObjectStore::start();
    block_on(async {
        let bucket = bucket(&store.url(""));
        let large: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        bucket.put("a", large.clone().into()).await.unwrap();
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
    block_on(async {
        let bucket = bucket(&store.url(""));
        store.lie(|lies| {
            lies.status = Some((409, "ConditionalRequestConflict"));
            lies.times = Some(1);
        });
        let written = bucket.put_if_absent("a", Bytes::from_static(b"a"));
        assert!(written.await.unwrap());
        assert_eq!(store.keys(), ["a"]);
    });
}

#[test]
fn an_answer_of_something_before_the_store_is_no_word_of_an_object() {
    let store = ObjectStore::start();
    let bucket = bucket(&store.url("almanac"));
    block_on(async {
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
    block_on(async {
        let bucket = bucket(&store.url("p"));
        for key in ["fleet-of-another", "fleets", "fleet/1", "fleet/2"] {
            bucket.put(key, Bytes::from_static(b"a")).await.unwrap();
        }
        assert_eq!(bucket.head("fleet").await.unwrap(), None);
        bucket.put("fleet", Bytes::from_static(b"a")).await.unwrap();
        store.forget_requests();
        assert!(bucket.head("fleet").await.unwrap().is_some());
        assert_eq!(store.requests().len(), 1);
    });
}

#[test]
fn the_store_of_moto_is_used_as_any_other() {
    if skip_without("moto_server") {
        return;
    }
    let (server, address) = port::listening("moto_server", |address| {
        Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    });
    let _server = Killed(server);
    let made = crate::support::http::ask(address, "PUT", &format!("/{BUCKET}"), &[], b"");
    assert_eq!(made.unwrap().status, 200);
    block_on(use_it(&bucket(&format!(
        "s3://{BUCKET}/p?endpoint=http://{address}"
    ))));
}

#[test]
fn a_bucket_of_google_is_used_with_the_key_of_a_service_account() {
    if skip_without("openssl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &[&str]| {
        let made = Command::new("openssl")
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    openssl(&["genpkey", "-algorithm", "RSA", "-out", "key"]);
    openssl(&[
        "rsa",
        "-in",
        "key",
        "-RSAPublicKey_out",
        "-outform",
        "DER",
        "-out",
        "public",
    ]);
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let private_key = String::from_utf8(read("key")).unwrap();
    let account = serde_json::json!({
        "type": "service_account",
        "private_key": private_key,
        "private_key_id": "1",
        "client_email": "almanac@example.com",
    });
    let file = folder.path().join("account.json");
    std::fs::write(&file, account.to_string()).unwrap();
    let store = ObjectStore::start();
    let url = store.google_url("p/q", read("public"));

    let named = |file: &Path| {
        let file = file.to_str().unwrap().to_owned();
        CredentialSource::from_variables(&Store::Google, |name| {
            (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| file.clone())
        })
    };
    block_on(use_it(&bucket_with(&url, named(&file), Vec::new())));
    assert!(store.keys().iter().all(|key| key.starts_with("p/q/a/")));
    // A changed file is read at once.
    let bucket = bucket_with(&url, CredentialSource::File(file.clone()), Vec::new());
    block_on(async { assert_eq!(names(&bucket, "a/").await.len(), 4) });
    openssl(&["genpkey", "-algorithm", "RSA", "-out", "other"]);
    let other = account.to_string().replace(
        &serde_json::Value::from(private_key).to_string(),
        &serde_json::Value::from(String::from_utf8(read("other")).unwrap()).to_string(),
    );
    std::fs::write(&file, other).unwrap();
    block_on(async {
        let refused = bucket.head("a/0").await.unwrap_err();
        let kind = matches!(refused.problem, ObjectProblem::CredentialsRefused(_));
        assert!(kind && refused.subject.starts_with("gs://"), "{refused}");
        std::fs::write(&file, "{\"type\": \"S3CRET\"}").unwrap();
        let unusable = bucket.head("a/0").await.unwrap_err();
        let kind = matches!(unusable.problem, ObjectProblem::NoCredentials(_));
        assert!(
            kind && !unusable.to_string().contains("S3CRET"),
            "{unusable}"
        );
    });
}

#[test]
fn azurite_is_used_with_an_account_key_and_a_shared_access_signature() {
    if skip_without("azurite-blob") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let key = BASE64_STANDARD.encode("a key of this test");
    let (server, address) = port::listening("azurite-blob", |address| {
        Command::new("azurite-blob")
            .args([
                "--blobHost",
                "127.0.0.1",
                "--skipApiVersionCheck",
                "--silent",
            ])
            .args([
                "--disableTelemetry",
                "--blobPort",
                &address.port().to_string(),
            ])
            .arg("--location")
            .arg(folder.path())
            .env("AZURITE_ACCOUNTS", format!("ours:{key}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    });
    let _server = Killed(server);
    let signature = azure_signature(&key);
    let path = format!("/ours/{BUCKET}?restype=container&{signature}");
    let made = crate::support::http::ask(address, "PUT", &path, &[], b"");
    assert_eq!(made.unwrap().status, 201);
    let file = folder.path().join("key");
    let azure = Store::Azure("ours".into());
    for (variable, value) in [
        ("AZURE_STORAGE_ACCOUNT_KEY", key),
        ("AZURE_STORAGE_SAS_TOKEN", signature),
    ] {
        let url = |bucket: &str| {
            format!("az://{bucket}/{variable}?account=ours&endpoint=http://{address}")
        };
        let named = CredentialSource::from_variables(&azure, |name| {
            (name == variable).then(|| value.clone())
        });
        let bucket = bucket_with(&url(BUCKET), named.clone(), Vec::new());
        if variable == "AZURE_STORAGE_ACCOUNT_KEY" {
            block_on(use_it(&bucket));
        } else {
            // Azurite answers 500 to a batch of removals with a signature.
            block_on(async {
                for name in ["a/0", "a/1", "a/2", "a/3"] {
                    let bytes = Bytes::from_static(b"a");
                    assert!(bucket.put_if_absent(name, bytes).await.unwrap());
                }
                assert_eq!(whole(&bucket, "a/0").await.unwrap(), b"a");
            });
        }
        std::fs::write(&file, format!("{value}\n")).unwrap();
        let named_file = CredentialSource::File(file.clone());
        let same = bucket_with(&url(BUCKET), named_file.clone(), Vec::new());
        block_on(async { assert_eq!(names(&same, "a/").await.len(), 4) });

        let none = bucket_with(&url("none"), named, Vec::new());
        std::fs::write(&file, BASE64_STANDARD.encode("another")).unwrap();
        block_on(async {
            let missing = none.put("a", Bytes::new()).await.unwrap_err();
            let kind = matches!(missing.problem, ObjectProblem::NoBucket(_));
            assert!(
                kind && missing.subject.starts_with("az://none/"),
                "{missing}"
            );
            let refused = same.head("a/0").await.unwrap_err();
            // Azure itself has another code for it, AuthenticationFailed.
            let kind = matches!(refused.problem, ObjectProblem::AccessRefused(_));
            assert!(kind, "{refused}");
        });
    }
}

#[test]
fn an_identity_that_its_platform_does_not_trust_is_reported_as_such() {
    let store = ObjectStore::start();
    store.lie(|lies| lies.status = Some((403, "AccessDenied")));
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let authority = store.platform("login");
    let azure = Store::Azure("ours".into());
    let credentials = CredentialSource::from_variables(&azure, |name| match name {
        "AZURE_FEDERATED_TOKEN_FILE" => Some(token.to_str().unwrap().to_owned()),
        "AZURE_CLIENT_ID" | "AZURE_TENANT_ID" => Some("ours".to_owned()),
        "AZURE_AUTHORITY_HOST" => Some(authority.clone()),
        _ => None,
    });
    let bucket = bucket_with("az://catalogs?account=ours", credentials, Vec::new());
    block_on(async {
        std::fs::write(&token, "S3CRET").unwrap();
        let error = bucket.head("a").await.unwrap_err();
        let is_lender = matches!(error.problem, ObjectProblem::NotLent(_));
        assert!(
            is_lender && !error.to_string().contains("S3CRET"),
            "{error}"
        );
        assert_eq!(
            store.requests(),
            ["POST /platform/login/ours/oauth2/v2.0/token"]
        );
        std::fs::write(&token, "S3CRET\n").unwrap();
        let error = bucket.head("a").await.unwrap_err();
        let is_named = matches!(error.problem, ObjectProblem::NoCredentials(_));
        assert!(is_named && !error.to_string().contains("S3CRET"), "{error}");
    });
}

/// A shared access signature of the account `ours` for all that clients do.
fn azure_signature(key: &str) -> String {
    let (version, end) = ("2021-12-02", "2100-01-01T00:00:00Z");
    let text = format!("ours\nrwdlac\nb\nsco\n\n{end}\n\n\n{version}\n\n");
    let key = BASE64_STANDARD.decode(key).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let signature = BASE64_STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    let signature = signature
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    format!("sv={version}&ss=b&srt=sco&sp=rwdlac&se={end}&sig={signature}")
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
        let key = CredentialSource::from_key(KEY, "secret");
        let bucket = bucket_with(&store.url_at("p", host), key, ca_files);
        block_on(bucket.put("a", Bytes::from_static(b"a")))
    };
    put("localhost", vec![file.clone()]).unwrap();
    assert_eq!(store.keys(), ["p/a"]);
    for (host, ca_files) in [("127.0.0.1", vec![file]), ("localhost", Vec::new())] {
        let error = put(host, ca_files).unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
    }
}
