//! Who may pull from a fleet, whichever replica is asked.

use std::fs;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{REPOSITORY, Shared, image_of, replicas, until, until_all_at};
use crate::support::almanac::{catalog, following};
use crate::support::http::{Reply, ask};
use crate::support::postgres;
use crate::support::upstream::Upstream;

const OPEN: &str = "/v2/a/manifests/latest";
const CLOSED: &str = "/v2/closed/manifests/latest";

fn basic(user: &str, password: &str) -> String {
    let login = BASE64_STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {login}")
}

fn pull(address: SocketAddr, path: &str, authorization: &str) -> Reply {
    let headers = [("Authorization", authorization)];
    ask(address, "GET", path, &headers, b"").unwrap()
}

/// A token for one repository, from this replica.
fn token(address: SocketAddr, repository: &str, login: &str) -> String {
    let path = format!("/v2/token?service=almanac&scope=repository:{repository}:pull");
    let reply = pull(address, &path, login);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    format!("Bearer {}", document["token"].as_str().unwrap())
}

#[test]
fn a_token_of_one_replica_pulls_from_the_others() {
    if postgres::is_missing() {
        return;
    }
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
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let image = image_of("first");
    upstream.push(REPOSITORY, "latest", &image);
    let source = upstream.reference(REPOSITORY, "latest");
    let config = following(&source)
        + &catalog("closed", &source)
        + &format!(
            "token_files = [{tokens:?}]\n[distribution]\nuser_files = [{users:?}]\n\
             flow = \"token\"\ntoken_key_files = [{key:?}]\n"
        );
    let mut replicas = replicas(&shared, &config, 3);
    for name in ["a", "closed"] {
        until_all_at(&mut replicas, name, &image.digest());
    }
    let addresses: Vec<_> = replicas
        .iter_mut()
        .map(|replica| replica.program.address("http"))
        .collect();
    let (ann, reader) = (basic("ann", "word"), basic("any", "catalog-secret"));
    for (number, address) in addresses.iter().enumerate() {
        let ann = token(*address, "a", &ann);
        let reader = token(*address, "closed", &reader);
        let path = "/v2/token?service=almanac&scope=repository:a:pull";
        let nobody = ask(*address, "GET", path, &[], b"").unwrap();
        assert_eq!(nobody.status, 200);
        let nobody: Value = serde_json::from_slice(&nobody.body).unwrap();
        let nobody = format!("Bearer {}", nobody["token"].as_str().unwrap());
        for other in addresses.iter().cycle().skip(number + 1).take(2) {
            for (repository, manifest, good, bad) in [
                ("a", OPEN, &ann, &reader),
                ("closed", CLOSED, &reader, &ann),
            ] {
                // Its image is made once its revision is served.
                until("an image", || pull(*other, manifest, good).status == 200);
                let pulled = pull(*other, manifest, good);
                assert_eq!(pulled.status, 200, "{}", pulled.text());
                let document: Value = serde_json::from_slice(&pulled.body).unwrap();
                let layer = &document["layers"][0];
                let blob = layer["digest"].as_str().unwrap();
                let blob = format!("/v2/{repository}/blobs/{blob}");
                let content = pull(*other, &blob, good);
                assert_eq!(content.status, 200, "{}", content.text());
                assert_eq!(Some(content.body.len() as u64), layer["size"].as_u64());
                // What other credentials may pull does not exist for known ones.
                let refused = [(bad.as_str(), 404), (&nobody, 401), ("Bearer made-up", 401)];
                for (refused, status) in refused {
                    for path in [manifest, &blob] {
                        assert_eq!(pull(*other, path, refused).status, status, "{path}");
                    }
                }
            }
        }
    }

    // A replica that does not have the key takes none of their tokens.
    let own = file("own", "another-key-of-tokens-of-one-replica\n");
    let strange = config.replace(&format!("{key:?}"), &format!("{own:?}"));
    let mut strange = shared.replica(&strange);
    until_all_at(std::slice::from_mut(&mut strange), "a", &image.digest());
    let given = token(addresses[0], "a", &ann);
    let strange = strange.program.address("http");
    assert_eq!(pull(strange, OPEN, &given).status, 401);
    let given = token(strange, "a", &ann);
    until("an image", || pull(strange, OPEN, &given).status == 200);
    assert_eq!(pull(addresses[0], OPEN, &given).status, 401);
}
