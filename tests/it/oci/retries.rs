//! What is tried again, and what is given up.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::IF_NONE_MATCH;
use images::digest::Digest;
use images::manifest::OCI_MANIFEST;
use images::{Client, Settings};
use tokio::net::{TcpListener, TcpStream};

use super::{
    HEAD, REPOSITORY, client, pull, put_image, registry, registry_with_blob, settings, told,
};

/// A client that gives up when nothing comes for a moment.
fn hurried_client() -> Client {
    let settings = Settings {
        idle_timeout: Duration::from_millis(300),
        ..settings()
    };
    Client::new(&settings).unwrap()
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
