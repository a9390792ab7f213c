//! Several replicas over a real `PostgreSQL` and a store of objects. [`fixture`] starts them.

mod access;
mod archives;
mod bindings;
mod content;
mod fixture;
mod limits;
mod objects;
mod pulls;
mod repairs;
mod replicas;
mod rollouts;
mod stale;
mod starts;

use std::path::Path;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

use self::fixture::credentials;
use crate::support::almanac::{Almanac, LONG_PATIENCE};
use crate::support::http::get;
use crate::support::image::Built;
use crate::support::program::{Finished, Start, pause};

/// Where the image of the catalog `a` lies.
const REPOSITORY: &str = "catalogs/a";

/// Asks for the name of the replica that follows the only catalog.
const HOLDER: &str = "SELECT r.name FROM pg_locks h JOIN pg_locks p USING (pid, database, locktype)
    JOIN replicas r ON r.id = p.objid::bigint
    WHERE locktype = 'advisory' AND h.classid = 2 AND h.granted AND p.classid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Counts what was published.
const PUBLISHED: &str = "SELECT count(*) FROM generations";

/// The catalog `ours`, which is made of the catalog `a`.
const OURS: &str = "\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n";

// replicas

/// As [`Almanac::until_at`], with the patience that a fleet needs.
fn until_at(replica: &mut Almanac, catalog: &str, image: &Built) {
    let digest = image.digest().to_string();
    replica.until_within(LONG_PATIENCE, catalog, &digest, |status| {
        status["revision"]["digest"] == digest.as_str()
    });
}

/// What a replica reports of itself and of the fleet.
fn status_of(replica: &mut Almanac) -> Value {
    let address = replica.program.address("admin");
    let reply = get(address, "/status").unwrap();
    let mut status: Value = serde_json::from_slice(&reply.body).unwrap();
    status["fleet"].take()
}

/// Why a replica does not show the newest revision of the catalog `a`.
fn waits(replica: &mut Almanac) -> String {
    let status = status_of(replica);
    status["waits"]["a"].as_str().unwrap_or_default().to_owned()
}

/// Waits until a replica reports that the catalog `a` waits for this.
fn until_waiting(replica: &mut Almanac, reason: &str) {
    let begin = Instant::now();
    while !waits(replica).contains(reason) {
        let is_late = begin.elapsed() >= LONG_PATIENCE;
        assert!(!is_late, "{reason:?} is not in {}", status_of(replica));
        pause(begin);
    }
}

/// Waits until an error of its own in the status of a replica has these words.
fn until_reported(replica: &mut Almanac, field: &str, words: &str) {
    until(words, || {
        status_of(replica)[field].to_string().contains(words)
    });
}

/// Waits until the status of a replica has no such error.
fn until_unreported(replica: &mut Almanac, field: &str) {
    until("the end of the error", || {
        status_of(replica)[field].is_null()
    });
}

/// Waits until a replica knows of so many.
fn until_replicas(replica: &mut Almanac, count: usize) {
    until("the replicas", || status_of(replica)["replicas"] == count);
}

/// Waits until a replica knows of so many lost objects.
fn until_lost(replica: &mut Almanac, is_meant: impl Fn(u64) -> bool) {
    until("the lost objects", || {
        let lost = status_of(replica)["lost_objects"].as_u64();
        lost.is_some_and(&is_meant)
    });
}

/// Waits until a replica serves some revision of a catalog.
fn until_serving(replica: &mut Almanac, catalog: &str) {
    replica.until_within(LONG_PATIENCE, catalog, "a revision", |status| {
        status["state"] == "serving"
    });
}

/// Waits until a replica serves this package of a catalog.
fn until_package(replica: &mut Almanac, catalog: &str, package: &str) {
    until(package, || replica.packages(catalog).unwrap() == [package]);
}

/// Waits until a replica lacks nothing.
fn until_settled(replica: &mut Almanac) {
    until("an end of what it lacks", || {
        let status = status_of(replica);
        status["behind"] == json!([]) && status["waits"] == json!({})
    });
}

/// The numbers of changes that a replica tells of its revisions, the newest first.
fn told_changes(replica: &mut Almanac) -> Vec<Option<u64>> {
    let reply = replica.http("/catalogs/a/api/v1/revisions");
    let list: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let revisions = list["items"].as_array().cloned().unwrap_or_default();
    let changes = revisions.iter().map(|one| one["changes"].as_u64());
    changes.collect()
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG_PATIENCE, "waiting for {what}");
        pause(begin);
    }
}

/// The digest that a replica shows under the tag of the catalog `a`.
fn tag(replica: &mut Almanac) -> String {
    tag_of(replica, "a")
}

fn tag_of(replica: &mut Almanac, catalog: &str) -> String {
    let image = replica.until_pullable(catalog);
    image.header("docker-content-digest").unwrap().to_owned()
}

/// Waits until a replica shows this image of a catalog.
fn until_mirrored(replica: &mut Almanac, catalog: &str, image: &Built) {
    let wanted = image.digest().to_string();
    until("the mirrored image", || tag_of(replica, catalog) == wanted);
}

/// The date of what a replica serves of a catalog.
fn date(replica: &mut Almanac, catalog: &str) -> SystemTime {
    let reply = replica.all(catalog);
    let date = reply.header("last-modified").unwrap();
    httpdate::parse_http_date(date).unwrap()
}

/// Checks that replicas agree. Returns what they agree on.
#[track_caller]
fn same<T: PartialEq + std::fmt::Debug>(of_replicas: impl IntoIterator<Item = T>) -> T {
    let mut all: Vec<T> = of_replicas.into_iter().collect();
    all.dedup();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

// commands

/// Tries a configuration by `serve --check`.
fn check(config: &str) -> Finished {
    check_with(config, &credentials())
}

/// The same with these variables of the environment.
fn check_with(config: &str, variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    check_in(&folder.path().join("data"), config, variables)
}

/// The same with a data folder.
fn check_in(data: &Path, config: &str, variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    std::fs::write(&path, config).unwrap();
    let start = Start::new(["serve", "--check", "--config", path.to_str().unwrap()])
        .argument("--data-dir={data}")
        .argument("--grpc=127.0.0.1:0")
        .argument("--http=127.0.0.1:0")
        .argument("--admin=127.0.0.1:0")
        .data(data);
    let start = variables
        .iter()
        .fold(start, |start, (name, value)| start.variable(name, value));
    start.run()
}

/// Checks that a command was refused with these words.
#[track_caller]
fn assert_refused(refused: &Finished, words: &[&str]) {
    assert_ended(refused, 1, words);
}

/// Checks that a command ended with this code and these words.
#[track_caller]
fn assert_ended(ended: &Finished, code: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in {ended:?}");
    }
}

/// Checks that a command ended well.
#[track_caller]
fn assert_good(done: &Finished) {
    assert!(done.status.success(), "{done:?}");
}
