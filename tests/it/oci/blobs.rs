//! Blobs that are altered, cut or too large.

use std::time::Duration;

use http::header::RANGE;
use images::Descriptor;
use images::digest::Digest;

use super::{client, pull, registry, registry_with_blob, told};
use crate::support::registry::Behaviour;

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
