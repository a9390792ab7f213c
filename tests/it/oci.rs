//! The registry client against a registry that behaves, and one that does not.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, IF_NONE_MATCH, RANGE, USER_AGENT};
use images::digest::Digest;
use images::manifest::{DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use images::{Client, Descriptor, Error, ImageConfig, Manifest, Platform, Reference, Settings};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::support::image::CONFIGS_LABEL;
use crate::support::registry::{Access, Behaviour, DigestHeader, TestRegistry};

const REPOSITORY: &str = "catalogs/a";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";
const GET: &str = "GET /v2/catalogs/a/manifests/latest";

/// Settings that end a test that hangs.
fn settings() -> Settings {
    Settings {
        user_agent: "client-under-test/1.0".into(),
        idle_timeout: Duration::from_secs(10),
        manifest_timeout: Duration::from_secs(20),
        blob_timeout: Duration::from_secs(20),
        ..Settings::default()
    }
}

fn client() -> Client {
    Client::new(&settings()).unwrap()
}

/// A client that gives up when nothing comes for a moment.
fn hurried_client() -> Client {
    let settings = Settings {
        idle_timeout: Duration::from_millis(300),
        ..settings()
    };
    Client::new(&settings).unwrap()
}

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

fn reference(registry: &TestRegistry) -> Reference {
    registry.reference(REPOSITORY, "latest").parse().unwrap()
}

/// A registry with one image, and the digest of its manifest.
async fn registry() -> (TestRegistry, Reference, Digest) {
    let registry = TestRegistry::start().await;
    let digest = put_image(&registry, REPOSITORY, "latest");
    let reference = reference(&registry);
    (registry, reference, digest)
}

/// Puts a small image: a configuration, named after its tag, and one layer
/// (which is no archive, as nobody in here unpacks it).
fn put_image(registry: &TestRegistry, repository: &str, tag: &str) -> Digest {
    let config = json!({"config": {"Labels": {CONFIGS_LABEL: "/configs", "tag": tag}}});
    let descriptor = |media_type: &str, content: String| {
        let size = content.len();
        let digest = registry.put_blob(content).to_string();
        json!({"mediaType": media_type, "digest": digest, "size": size})
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", config.to_string()),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", "layer".into())],
    });
    registry.put_manifest(repository, tag, manifest.to_string(), OCI_MANIFEST)
}

/// A registry with one blob of some size.
async fn registry_with_blob() -> (TestRegistry, Reference, Descriptor) {
    let registry = TestRegistry::start().await;
    let bytes = (0..100_000_u32)
        .flat_map(u32::to_le_bytes)
        .collect::<Vec<_>>();
    let descriptor = Descriptor {
        media_type: "application/octet-stream".into(),
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    };
    registry.put_blob(bytes);
    let reference = reference(&registry);
    (registry, reference, descriptor)
}

async fn pull(
    client: &Client,
    reference: &Reference,
    descriptor: &Descriptor,
) -> Result<Vec<u8>, Error> {
    let mut stream = client.blob(reference, descriptor).await?;
    let mut bytes = Vec::new();
    loop {
        match stream.next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => {
                assert!(
                    stream.next().await.unwrap().is_none(),
                    "the end stays the end"
                );
                return Ok(bytes);
            }
            Err(error) => {
                assert!(
                    stream.next().await.is_err(),
                    "a failed stream never ends well"
                );
                return Err(error);
            }
        }
    }
}

/// The message with all of its causes.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[tokio::test]
async fn an_image_is_resolved_and_pulled_to_its_last_layer() {
    let (registry, reference, digest) = registry().await;
    let client = client();
    let resolved = client.resolve(&reference).await.unwrap();
    assert_eq!(resolved.digest, digest);
    assert_eq!(resolved.media_type.as_deref(), Some(OCI_MANIFEST));
    let bytes = client.manifest(&reference, &digest).await.unwrap();
    assert_eq!(resolved.size, Some(bytes.len() as u64));
    let Manifest::Image(image) = Manifest::parse(&bytes, None).unwrap() else {
        panic!("an image was put");
    };
    let config = pull(&client, &reference, &image.config).await.unwrap();
    let config = ImageConfig::parse(&config).unwrap();
    assert_eq!(config.label(CONFIGS_LABEL), Some("/configs"));
    let layer = pull(&client, &reference, &image.layers[0]).await.unwrap();
    assert_eq!(Digest::of(&layer), image.layers[0].digest);
    assert_eq!(registry.lines().len(), 4);
}

#[tokio::test]
async fn an_index_leads_to_the_image_of_the_platform() {
    let registry = TestRegistry::start().await;
    let entry = |architecture: &str| {
        let digest = put_image(&registry, REPOSITORY, architecture);
        json!({
            "mediaType": OCI_MANIFEST,
            "digest": digest.to_string(),
            "size": 1,
            "platform": {"os": "linux", "architecture": architecture},
        })
    };
    let entries = [entry("arm64"), entry("amd64")];
    let amd64 = entries[1]["digest"].clone();
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries});
    let digest = registry.put_manifest(REPOSITORY, "latest", index.to_string(), OCI_INDEX);
    let (client, reference) = (client(), reference(&registry));
    let resolved = client.resolve(&reference).await.unwrap();
    assert_eq!(resolved.digest, digest);
    assert_eq!(resolved.media_type.as_deref(), Some(OCI_INDEX));
    let bytes = client.manifest(&reference, &digest).await.unwrap();
    let Manifest::Index(index) = Manifest::parse(&bytes, None).unwrap() else {
        panic!("an index was put");
    };
    let selected = index.select(&Platform::default()).unwrap();
    assert_eq!(selected.digest.to_string(), amd64);
    client.manifest(&reference, &selected.digest).await.unwrap();
}

#[tokio::test]
async fn a_poll_is_one_request_that_says_what_it_takes() {
    let (registry, reference, _) = registry().await;
    let client = client();
    client.resolve(&reference).await.unwrap();
    client.resolve(&reference).await.unwrap();
    assert_eq!(registry.lines(), [HEAD, HEAD]);
    let headers = &registry.requests()[0].headers;
    let accept = headers[ACCEPT].to_str().unwrap();
    assert!(
        accept.contains(OCI_INDEX) && accept.contains(DOCKER_MANIFEST),
        "{accept}"
    );
    assert_eq!(headers[ACCEPT_ENCODING], "identity");
    assert_eq!(headers[USER_AGENT], "client-under-test/1.0");
    assert!(!headers.contains_key(AUTHORIZATION));
}

#[tokio::test]
async fn a_reference_by_digest_is_resolved_without_asking() {
    let (registry, reference, digest) = registry().await;
    let resolved = client()
        .resolve(&reference.with_digest(digest))
        .await
        .unwrap();
    assert_eq!(resolved.digest, digest);
    assert!(registry.lines().is_empty());
}

#[tokio::test]
async fn a_registry_without_head_is_asked_with_get() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.no_head = true);
    assert_eq!(client().resolve(&reference).await.unwrap().digest, digest);
    assert_eq!(registry.lines(), [HEAD, GET]);
}

#[tokio::test]
async fn a_missing_digest_header_is_computed_from_the_body() {
    let (registry, reference, digest) = registry().await;
    for header in [DigestHeader::Absent, DigestHeader::Nonsense] {
        registry.misbehave(|behaviour| behaviour.digest_header = header);
        let resolved = client().resolve(&reference).await.unwrap();
        assert_eq!(resolved.digest, digest);
        assert_eq!(resolved.media_type.as_deref(), Some(OCI_MANIFEST));
    }
    assert_eq!(registry.lines(), [HEAD, GET, HEAD, GET]);
}

#[tokio::test]
async fn a_wrong_digest_header_leads_to_nothing() {
    let (registry, reference, _) = registry().await;
    let client = client();
    registry.misbehave(|behaviour| behaviour.digest_header = DigestHeader::Wrong);
    let lie = client.resolve(&reference).await.unwrap().digest;
    let error = client.manifest(&reference, &lie).await.unwrap_err();
    assert_eq!(error.reason(), "not_found");
    registry.misbehave(|behaviour| behaviour.no_head = true);
    let error = client.resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
    assert!(!error.is_temporary());
}

#[tokio::test]
async fn an_altered_manifest_is_refused() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.altered = true);
    let error = client().manifest(&reference, &digest).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
    assert!(told(&error).contains(&digest.to_string()), "{error}");
}

#[tokio::test]
async fn a_page_is_not_taken_for_a_manifest() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| {
        behaviour.not_a_manifest = true;
        behaviour.digest_header = DigestHeader::Absent;
    });
    let error = client().resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "bad_manifest");
    let error = client().manifest(&reference, &digest).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
}

#[tokio::test]
async fn a_manifest_that_is_too_large_is_not_read() {
    let registry = TestRegistry::start().await;
    let large = vec![b' '; (4 << 20) + 1];
    let digest = registry.put_manifest(REPOSITORY, "latest", large, OCI_MANIFEST);
    let reference = reference(&registry);
    for percent in [None, Some(100)] {
        registry.misbehave(|behaviour| behaviour.percent = percent);
        let error = client().manifest(&reference, &digest).await.unwrap_err();
        assert_eq!(error.reason(), "too_large");
    }
}

#[tokio::test]
async fn a_missing_tag_is_told_in_the_registrys_words() {
    let (registry, _, _) = registry().await;
    let missing: Reference = registry.reference(REPOSITORY, "missing").parse().unwrap();
    let error = client().resolve(&missing).await.unwrap_err();
    assert_eq!(error.reason(), "not_found");
    assert!(!error.is_temporary());
    let text = told(&error);
    assert!(
        text.contains("MANIFEST_UNKNOWN: manifest unknown"),
        "{text}"
    );
    assert!(text.contains(&missing.to_string()), "{text}");
}

#[tokio::test]
async fn a_blob_is_had_in_pieces() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.slow = Some((64 << 10, Duration::from_millis(20))));
    let bytes = pull(&client(), &reference, &descriptor).await.unwrap();
    assert_eq!(Digest::of(&bytes), descriptor.digest);
}

#[tokio::test]
async fn a_missing_blob_is_told() {
    let (_registry, reference, mut descriptor) = registry_with_blob().await;
    descriptor.digest = Digest::of(b"missing");
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "not_found");
    assert!(told(&error).contains("BLOB_UNKNOWN"), "{error}");
}

#[tokio::test]
async fn an_altered_blob_is_not_taken_for_the_blob() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.altered = true);
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
    assert!(!error.is_temporary());
}

#[tokio::test]
async fn a_cut_body_is_not_taken_for_a_blob() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.cut = Some(0));
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "interrupted");
    assert!(error.is_temporary());
}

#[tokio::test]
async fn a_body_that_ends_early_is_not_taken_for_a_blob() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| {
        behaviour.percent = Some(50);
        behaviour.no_ranges = true;
    });
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "cut_short");
    assert!(error.is_temporary());
}

#[tokio::test]
async fn a_body_that_is_cut_again_and_again_comes_whole_and_once() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    for lie in [
        (|behaviour| behaviour.cut = Some(60)) as fn(&mut Behaviour),
        |behaviour| behaviour.percent = Some(60),
    ] {
        registry.behave();
        registry.misbehave(lie);
        registry.forget_requests();
        let before = registry.sent();
        let bytes = pull(&client(), &reference, &descriptor).await.unwrap();
        assert_eq!(Digest::of(&bytes), descriptor.digest);
        assert_eq!(registry.sent() - before, descriptor.size);
        let requests = registry.requests();
        assert_eq!(requests[0].headers.get(RANGE), None);
        let begin = descriptor.size * 60 / 100;
        assert_eq!(requests[1].headers[RANGE], format!("bytes={begin}-"));
    }
}

#[tokio::test]
async fn a_server_without_ranges_sends_all_again_but_not_for_ever() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| {
        behaviour.cut = Some(60);
        behaviour.no_ranges = true;
    });
    // A slack of a megabyte is meant for blobs that are much smaller.
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "interrupted");
    assert!(registry.sent() < 2 * descriptor.size + (1 << 20));

    // The cut was bad luck: what came then is passed over.
    let mut stream = client().blob(&reference, &descriptor).await.unwrap();
    let mut bytes = stream.next().await.unwrap().unwrap().to_vec();
    registry.misbehave(|behaviour| behaviour.cut = None);
    while let Some(piece) = stream.next().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(Digest::of(&bytes), descriptor.digest);
    assert_eq!(stream.resumptions(), 1);
    assert!(stream.transferred() > descriptor.size);
}

#[tokio::test]
async fn another_part_than_the_one_asked_for_is_refused() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| {
        behaviour.cut = Some(60);
        behaviour.wrong_range = true;
    });
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "bad_range");
    assert!(
        told(&error).contains("from byte 240000 of 400000"),
        "{error}"
    );
}

#[tokio::test]
async fn an_end_that_is_altered_does_not_pass_with_a_beginning_that_is_not() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.cut = Some(60));
    let mut stream = client().blob(&reference, &descriptor).await.unwrap();
    stream.next().await.unwrap();
    registry.misbehave(|behaviour| {
        behaviour.cut = None;
        behaviour.altered = true;
    });
    let error = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end was altered"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason(), "digest_mismatch");
}

#[tokio::test]
async fn a_manifest_that_is_cut_comes_whole() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.cut = Some(60));
    let bytes = client().manifest(&reference, &digest).await.unwrap();
    assert_eq!(Digest::of(&bytes), digest);
}

#[tokio::test]
async fn a_hiccup_is_not_the_end_of_a_pull() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    for status in [408, 429, 500, 502, 503, 504] {
        registry.misbehave(|behaviour| {
            behaviour.status = Some(status);
            behaviour.times = Some(2);
        });
        let bytes = pull(&client(), &reference, &descriptor).await.unwrap();
        assert_eq!(Digest::of(&bytes), descriptor.digest, "{status}");
    }
    for status in [401, 403, 404, 501] {
        registry.forget_requests();
        registry.misbehave(|behaviour| {
            behaviour.status = Some(status);
            behaviour.times = Some(1);
        });
        pull(&client(), &reference, &descriptor).await.unwrap_err();
        assert_eq!(registry.lines().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_request_that_is_reset_or_not_answered_is_made_again() {
    let (registry, _, digest) = registry().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = registry.host();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let forwarding = tokio::spawn(async move {
        let accept = async || {
            let (client, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
            client
        };
        // With a request in it that was not read, it is reset.
        let reset = accept().await;
        reset.readable().await.unwrap();
        drop(reset);
        let _silent = accept().await;
        loop {
            let mut client = accept().await;
            let mut server = TcpStream::connect(&host).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let reference = format!("{address}/{REPOSITORY}:latest").parse().unwrap();
    // What is forwarded has to come in that time.
    let settings = Settings {
        idle_timeout: Duration::from_secs(1),
        ..settings()
    };
    let client = Client::new(&settings).unwrap();
    let resolved = client.resolve(&reference).await.unwrap();
    assert_eq!(resolved.digest, digest);
    assert!(connections.load(Ordering::Relaxed) >= 3);
    assert_eq!(registry.lines(), [HEAD]);
    forwarding.abort();
}

#[tokio::test]
async fn a_registry_that_asked_to_be_left_alone_is() {
    let (registry, reference, digest) = registry().await;
    let client = client();
    registry.misbehave(|behaviour| {
        behaviour.status = Some(429);
        behaviour.retry_after = Some("60".into());
        behaviour.times = Some(1);
    });
    let error = client.resolve(&reference).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_mins(1)));
    // For every catalog of it, without asking.
    let error = client.manifest(&reference, &digest).await.unwrap_err();
    assert_eq!(error.reason(), "too_many_requests");
    assert!(error.to_string().contains("asked for a pause"), "{error}");
    assert!(error.retry_after().unwrap() > Duration::from_secs(50));
    assert_eq!(registry.lines(), [HEAD]);
}

#[tokio::test]
async fn a_short_wait_is_waited_for() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| {
        behaviour.status = Some(503);
        behaviour.retry_after = Some("1".into());
        behaviour.times = Some(1);
    });
    let begin = Instant::now();
    let resolved = client().resolve(&reference).await.unwrap();
    assert_eq!(resolved.digest, digest);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert_eq!(registry.lines(), [HEAD, HEAD]);
}

#[tokio::test]
async fn a_registry_gets_no_more_requests_at_once_than_it_is_said_to_bear() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.slow = Some((200_000, Duration::from_millis(30))));
    let settings = Settings {
        requests_per_host: NonZeroUsize::new(3).unwrap(),
        ..settings()
    };
    let client = Client::new(&settings).unwrap();
    let pulls = (0..8).map(|_| pull(&client, &reference, &descriptor));
    for bytes in futures_util::future::join_all(pulls).await {
        assert_eq!(Digest::of(&bytes.unwrap()), descriptor.digest);
    }
    // One place is left for polls.
    assert_eq!(registry.most_at_once(), 2);
}

#[tokio::test]
async fn a_poll_asks_whether_anything_has_changed() {
    let (registry, reference, digest) = registry().await;
    registry.misbehave(|behaviour| behaviour.etags = true);
    let client = client();
    for _ in 0..2 {
        assert_eq!(client.resolve(&reference).await.unwrap().digest, digest);
    }
    let asked = |number: usize| {
        let requests = registry.requests();
        requests[number].headers.get(IF_NONE_MATCH).cloned()
    };
    assert_eq!(asked(0), None);
    assert_eq!(asked(1).unwrap(), format!("\"{digest}\""));
    assert_eq!(registry.lines(), [HEAD, HEAD]);

    let moved = put_image(&registry, REPOSITORY, "other");
    registry.move_tag(REPOSITORY, "latest", "other");
    assert_eq!(client.resolve(&reference).await.unwrap().digest, moved);
    // A registry that gives none any more is asked without.
    registry.behave();
    client.resolve(&reference).await.unwrap();
    client.resolve(&reference).await.unwrap();
    assert_eq!(asked(4), None);
}

#[tokio::test]
async fn bytes_too_many_stop_a_blob_at_once() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.percent = Some(150));
    let error = pull(&client(), &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "digest_mismatch");
    assert!(told(&error).contains("longer"), "{error}");
}

#[tokio::test]
async fn a_blob_of_another_announced_size_is_not_begun() {
    let (_registry, reference, descriptor) = registry_with_blob().await;
    for (size, reason) in [
        (descriptor.size - 1, "digest_mismatch"),
        (descriptor.size + 1, "cut_short"),
    ] {
        let other = Descriptor {
            size,
            ..descriptor.clone()
        };
        let error = client().blob(&reference, &other).await.err().unwrap();
        assert_eq!(error.reason(), reason);
    }
}

#[tokio::test]
async fn a_refusal_is_sorted_and_says_how_long_to_wait() {
    let (registry, reference, _) = registry().await;
    for (status, retry_after, reason, temporary, seconds) in [
        (429, Some("7"), "too_many_requests", true, Some(7)),
        (429, Some("999999"), "too_many_requests", true, Some(3600)),
        (503, Some("soon"), "server_error", true, None),
        (500, None, "server_error", true, None),
        (403, None, "forbidden", false, None),
        (418, None, "unexpected_status", false, None),
        (304, None, "unexpected_status", false, None),
        (302, None, "bad_redirect", false, None),
    ] {
        registry.misbehave(|behaviour| {
            behaviour.status = Some(status);
            behaviour.retry_after = retry_after.map(Into::into);
        });
        let settings = Settings {
            attempts: NonZeroU32::MIN,
            ..settings()
        };
        let client = Client::new(&settings).unwrap();
        let error = client.resolve(&reference).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{status}");
        assert_eq!(error.is_temporary(), temporary, "{status}");
        assert_eq!(
            error.retry_after(),
            seconds.map(Duration::from_secs),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_given_up() {
    let (registry, reference, _) = registry().await;
    registry.misbehave(|behaviour| behaviour.silent = true);
    let begin = Instant::now();
    let error = hurried_client().resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "timeout");
    assert!(error.is_temporary());
    // What it was asked for would take minutes.
    assert!(begin.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn a_blob_that_stops_coming_is_given_up() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.slow = Some((1000, Duration::from_mins(1))));
    let begin = Instant::now();
    let error = pull(&hurried_client(), &reference, &descriptor)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "timeout");
    // What it was asked for would take minutes.
    assert!(begin.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn a_trickle_does_not_go_on_for_ever() {
    let (registry, reference, descriptor) = registry_with_blob().await;
    registry.misbehave(|behaviour| behaviour.slow = Some((100, Duration::from_millis(50))));
    let settings = Settings {
        blob_timeout: Duration::from_millis(600),
        manifest_timeout: Duration::from_millis(600),
        ..settings()
    };
    let client = Client::new(&settings).unwrap();
    let begin = Instant::now();
    let error = pull(&client, &reference, &descriptor).await.unwrap_err();
    assert_eq!(error.reason(), "timeout");
    let large = vec![b' '; 100_000];
    let digest = registry.put_manifest(REPOSITORY, "large", large, OCI_MANIFEST);
    let error = client.manifest(&reference, &digest).await.unwrap_err();
    assert_eq!(error.reason(), "timeout");
    // At that pace the last one would take most of a minute.
    assert!(begin.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_registry_that_is_gone_is_unreachable() {
    let (registry, reference, _) = registry().await;
    let client = client();
    client.resolve(&reference).await.unwrap();
    drop(registry);
    // The server's task ends at its next turn.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = client.resolve(&reference).await.unwrap_err();
    assert_eq!(error.reason(), "unreachable", "{}", told(&error));
    assert!(error.is_temporary());
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
