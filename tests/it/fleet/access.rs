//! Who may pull from a fleet, whichever replica is asked.

use std::fs;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::fixture::prepared;
use super::{until, until_at};
use crate::support::almanac::{Almanac, catalog};
use crate::support::http::{Reply, ask};

const OPEN: &str = "/v2/a/manifests/latest";
const CLOSED: &str = "/v2/closed/manifests/latest";

fn basic(user: &str, password: &str) -> String {
    let login = BASE64_STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {login}")
}

fn pull(address: SocketAddr, path: &str, authorization: &str) -> Reply {
    let headers = [("Authorization", authorization)];
    let count = usize::from(!authorization.is_empty());
    ask(address, "GET", path, &headers[..count], b"").unwrap()
}

/// A token for one repository, from this replica.
fn token(address: SocketAddr, repository: &str, login: &str) -> String {
    let path = format!("/v2/token?service=almanac&scope=repository:{repository}:pull");
    let reply = pull(address, &path, login);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    format!("Bearer {}", document["token"].as_str().unwrap())
}

fn addresses(replicas: &mut [Almanac]) -> Vec<SocketAddr> {
    let addresses = replicas.iter_mut();
    addresses.map(|it| it.program.address("http")).collect()
}

#[test]
fn a_token_of_one_replica_pulls_from_the_others_what_it_is_for() {
    let Some(mut fleet) = prepared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let hash = bcrypt::hash("word", 4).unwrap();
    let users = file("users", &format!("ann:{hash}\n"));
    let tokens = file("tokens", "catalog-secret\n");
    let key = file("key", "one-key-of-tokens-for-all-replicas\n");
    let open = fleet.push("open");
    let closed = fleet.push_to("catalogs/closed", "closed");
    let source = fleet.upstream.reference("catalogs/closed", "latest");
    fleet.catalogs += &catalog("closed", &source);
    let access = format!(
        "token_files = [{tokens:?}]\n[distribution]\nuser_files = [{users:?}]\n\
         flow = \"token\"\ntoken_key_files = [{key:?}]\n"
    );
    fleet.catalogs += &access;
    fleet.start_replicas(2);
    fleet.until_all_at("a", &open);
    fleet.until_all_at("closed", &closed);
    let (ann, reader) = (basic("ann", "word"), basic("any", "catalog-secret"));
    let all = addresses(&mut fleet.replicas);
    let mut kept = String::new();
    for (from, to) in [(all[0], all[1]), (all[1], all[0])] {
        let (ann, reader) = (token(from, "a", &ann), token(from, "closed", &reader));
        let nobody = token(from, "a", "");
        for (repository, manifest, good, bad) in [
            ("a", OPEN, &ann, &reader),
            ("closed", CLOSED, &reader, &ann),
        ] {
            until("an image", || pull(to, manifest, good).status == 200);
            let pulled = pull(to, manifest, good);
            let document: Value = serde_json::from_slice(&pulled.body).unwrap();
            let layer = &document["layers"][0];
            let digest = layer["digest"].as_str().unwrap();
            let blob = format!("/v2/{repository}/blobs/{digest}");
            let content = pull(to, &blob, good);
            assert_eq!(content.status, 200, "{}", content.text());
            assert_eq!(Some(content.body.len() as u64), layer["size"].as_u64());
            // What other credentials may pull does not exist for known ones.
            let refused = [(bad.as_str(), 404), (&nobody, 401), ("Bearer made-up", 401)];
            for (refused, status) in refused {
                for path in [manifest, &blob] {
                    assert_eq!(pull(to, path, refused).status, status, "{path}");
                }
            }
            digest.clone_into(&mut kept);
        }
    }

    // So is what another replica has shown: one that starts reads it through the bucket.
    let next = fleet.push_to("catalogs/closed", "next");
    fleet.until_all_at("closed", &next);
    fleet.add_replica();
    fleet.until_all_at("closed", &next);
    let late = addresses(&mut fleet.replicas)[2];
    let (ann_token, reader) = (token(all[0], "a", &ann), token(all[0], "closed", &reader));
    for (repository, token, status) in [
        ("closed", reader.as_str(), 200),
        ("closed", &ann_token, 404),
        ("closed", "", 401),
        ("a", &ann_token, 404),
    ] {
        let path = format!("/v2/{repository}/blobs/{kept}");
        assert_eq!(pull(late, &path, token).status, status, "{repository}");
    }

    // A replica that does not have the key takes none of their tokens.
    let own = file("own", "another-key-of-tokens-of-one-replica\n");
    let strange = fleet
        .catalogs
        .replace(&format!("{key:?}"), &format!("{own:?}"));
    let mut strange = fleet.another_with(&strange);
    until_at(&mut strange, "a", &open);
    let strange = strange.program.address("http");
    assert_eq!(pull(strange, OPEN, &ann_token).status, 401);
    let given = token(strange, "a", &ann);
    until("an image", || pull(strange, OPEN, &given).status == 200);
    assert_eq!(pull(all[0], OPEN, &given).status, 401);
}
