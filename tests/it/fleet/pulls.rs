//! Pulls by digest, at whichever replica.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use images::digest::Digest;

use super::fixture::{TestFleet, start};
use super::{tag, told_changes, until, until_lost};
use crate::support::almanac::{Almanac, LONG_PATIENCE};
use crate::support::http::{Reply, ask, get};

/// A client follows the tag at one replica and pulls by digest at another, as it does
/// behind a balancer, while the catalog changes.
#[test]
fn a_pull_that_begins_at_one_replica_ends_at_another_while_the_catalog_changes() {
    let Some(mut fleet) = start(3) else { return };
    let addresses = fleet.replicas.iter_mut();
    let addresses: Vec<_> = addresses.map(|it| it.program.address("http")).collect();
    for package in ["second", "third"] {
        let before = tag(&mut fleet.replicas[0]);
        for replica in &mut fleet.replicas {
            until("the same image", || tag(replica) == before);
        }
        let image = fleet.push(package);
        let begin = Instant::now();
        let mut has_changed = [false; 3];
        while has_changed.contains(&false) {
            assert!(begin.elapsed() < LONG_PATIENCE, "{has_changed:?}");
            for (number, address) in addresses.iter().enumerate() {
                let shown = get(*address, "/v2/a/manifests/latest").unwrap();
                let digest = shown.header("docker-content-digest").unwrap().to_owned();
                let is_new = digest != before;
                assert!(is_new || !has_changed[number], "{number} went back");
                has_changed[number] = is_new;
                let other = addresses[(number + 1) % addresses.len()];
                let pulled = get(other, &format!("/v2/a/manifests/{digest}")).unwrap();
                assert_eq!(pulled.status, 200, "{digest}");
                assert_eq!(pulled.body, shown.body);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        fleet.until_all_at("a", &image);
    }
}

/// An image that a replica with an empty data folder has never had.
struct Replaced {
    fleet: TestFleet,
    /// The replica, and where it answers.
    new: Almanac,
    address: SocketAddr,
    /// What another one answered for the manifest.
    manifest: Reply,
    /// The paths of the manifest, its configuration and its layers.
    paths: Vec<String>,
}

fn replaced() -> Option<Replaced> {
    let mut fleet = start(1)?;
    let manifest = fleet.replicas[0].until_pullable("a");
    let digest = manifest.header("docker-content-digest").unwrap().to_owned();
    let parts: serde_json::Value = serde_json::from_slice(&manifest.body).unwrap();
    let layers = parts["layers"].as_array().unwrap().iter();
    let blobs = layers.chain([&parts["config"]]).map(|part| {
        let digest = part["digest"].as_str().unwrap();
        format!("/v2/a/blobs/{digest}")
    });
    let mut paths = vec![format!("/v2/a/manifests/{digest}")];
    paths.extend(blobs);
    fleet.publish("second");
    let mut new = fleet.another();
    new.program.wait_until_ready();
    until("another image", || tag(&mut new) != digest);
    // It comes after the image, from the bucket, too.
    until("the history", || {
        matches!(told_changes(&mut new)[..], [Some(_), None])
    });
    let own = new.blobs();
    paths.retain(|path| !own.iter().any(|name| path.ends_with(name)));
    assert!(paths.len() > 1, "{paths:?}");
    Some(Replaced {
        address: new.program.address("http"),
        fleet,
        new,
        manifest,
        paths,
    })
}

/// The digest that a path ends with.
fn digest(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

#[test]
fn what_only_another_replica_has_shown_is_read_through_the_bucket() {
    let Some(replaced) = replaced() else {
        return;
    };
    let (address, paths) = (replaced.address, &replaced.paths);
    for path in paths {
        let pulled = get(address, path).unwrap();
        assert_eq!(pulled.status, 200, "{}", pulled.text());
        assert_eq!(pulled.header("docker-content-digest"), Some(digest(path)));
        let found = Digest::of(&pulled.body).to_string();
        assert_eq!(found, digest(path));
        let head = ask(address, "HEAD", path, &[], b"").unwrap();
        let length = pulled.body.len().to_string();
        assert_eq!(head.header("content-length"), Some(&*length));
        assert!(head.body.is_empty());
    }
    let pulled = get(address, &paths[0]).unwrap();
    assert_eq!(pulled.body, replaced.manifest.body);
    let media_type = replaced.manifest.header("content-type");
    assert_eq!(pulled.header("content-type"), media_type);

    // A manifest is no blob, and a file of a revision is no part of an image.
    let file = "SELECT 'sha256:' || encode(digest, 'hex') FROM objects
        WHERE name = 'record.json' LIMIT 1";
    let file = replaced.fleet.postgres.ask(file);
    let unknown = Digest::of(b"unknown").to_string();
    for path in [
        format!("/v2/a/manifests/{}", digest(&paths[1])),
        format!("/v2/a/blobs/{}", digest(&paths[0])),
        format!("/v2/a/blobs/{file}"),
        format!("/v2/a/blobs/{unknown}"),
    ] {
        assert_eq!(get(address, &path).unwrap().status, 404, "{path}");
    }
}

/// Whether the connection broke before all bytes came.
fn is_broken_off(reply: io::Result<Reply>) -> bool {
    match reply {
        Ok(reply) => reply.status == 200 && reply.body.is_empty(),
        Err(_) => true,
    }
}

#[test]
fn an_answer_is_broken_off_when_the_bucket_has_other_bytes() {
    let Some(mut replaced) = replaced() else {
        return;
    };
    let objects = &replaced.fleet.objects;
    objects.lie(|lies| lies.altered = Some("/sha256/"));
    for path in &replaced.paths {
        assert!(is_broken_off(get(replaced.address, path)), "{path}");
    }
    until_lost(&mut replaced.new, |lost| lost > 0);
    objects.behave();
    for path in &replaced.paths {
        let pulled = get(replaced.address, path).unwrap();
        let found = Digest::of(&pulled.body).to_string();
        assert_eq!(found, digest(path));
    }
    until_lost(&mut replaced.new, |lost| lost == 0);
}
