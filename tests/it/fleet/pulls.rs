//! Pulls by digest of images that other replicas have shown.

use super::{Following, REPOSITORY, push, tag, until, until_all_at};
use crate::support::almanac::following;
use crate::support::http::get;

/// A client that began a pull elsewhere may go on with it at a replica that was not there.
#[test]
fn a_replica_that_starts_answers_digests_that_others_have_shown_before() {
    let Some(mut following) = Following::start(2) else {
        return;
    };
    let before = tag(&mut following.replicas[0]);
    let path = format!("/v2/a/manifests/{before}");
    let address = following.replicas[0].program.address("http");
    let manifest = get(address, &path).unwrap().body;
    let second = push(&following.upstream, "second");
    until_all_at(&mut following.replicas, "a", &second.digest());
    following.replicas[1].program.kill9();
    following.replicas[1].program.restart();
    let config = following.upstream.reference(REPOSITORY, "latest");
    let empty = following.shared.replica(&self::following(&config));
    following.replicas.push(empty);
    for replica in &mut following.replicas[1..] {
        until("readiness", || replica.ready().status == 200);
        let address = replica.program.address("http");
        let pulled = get(address, &path).unwrap();
        assert_eq!(pulled.status, 200, "{}", pulled.text());
        assert_eq!(pulled.body, manifest);
        let parts: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let layers = parts["layers"].as_array().unwrap().iter();
        for part in layers.chain([&parts["config"]]) {
            let digest = part["digest"].as_str().unwrap();
            let blob = get(address, &format!("/v2/a/blobs/{digest}")).unwrap();
            assert_eq!(blob.status, 200, "{}", blob.text());
        }
        assert_ne!(tag(replica), before);
    }
}

/// Each image counts alone, and one that fails is tried again.
#[test]
fn a_replaced_image_that_cannot_be_fetched_keeps_no_other_away() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    let mut images = vec![tag(&mut replicas[0])];
    for package in ["second", "third"] {
        let next = push(&upstream, package);
        until_all_at(&mut replicas, "a", &next.digest());
        until("its image", || !images.contains(&tag(&mut replicas[0])));
        images.push(tag(&mut replicas[0]));
    }
    let own = "SELECT encode(p.digest, 'hex') FROM image_parts p
        WHERE p.image = (SELECT id FROM images ORDER BY id OFFSET 1 LIMIT 1)
          AND NOT EXISTS (SELECT 1 FROM image_parts o
            WHERE o.digest = p.digest AND o.image <> p.image)";
    let own = shared.postgres.ask(own);
    let part: &'static str = own.lines().next().unwrap().to_owned().leak();
    shared.objects.lie(|lies| lies.altered = Some(part));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut new = shared.replica(&config);
    new.program.wait_until_ready();
    let address = new.program.address("http");
    let pull = |digest: &str| get(address, &format!("/v2/a/manifests/{digest}")).unwrap();
    assert_eq!(pull(&images[0]).status, 200);
    new.program.wait_for_log("the reason", |log| {
        log.contains("cannot be pulled here yet")
    });
    shared.objects.behave();
    until("the second image", || pull(&images[1]).status == 200);
}
