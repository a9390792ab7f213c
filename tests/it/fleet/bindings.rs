//! A fleet, its database and its bucket belong together: another one in their place is refused,
//! at a start and later.

use std::time::{Duration, Instant};

use almanac::store::fleet::FleetError;

use super::archives::Desk;
use super::{
    Following, REPOSITORY, Shared, claim, collect, credentials, push, status_of, try_collect,
    until, until_all_at,
};
use crate::support::almanac::following;
use crate::support::postgres;
use crate::support::program::{Finished, Start};

/// Tries a configuration.
fn check(config: &str) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    std::fs::write(&path, config).unwrap();
    let start = Start::new(["serve", "--check", "--config", path.to_str().unwrap()])
        .argument("--data-dir={data}")
        .argument("--grpc=127.0.0.1:0")
        .argument("--http=127.0.0.1:0")
        .argument("--admin=127.0.0.1:0");
    let variables = credentials().into_iter();
    variables
        .fold(start, |start, (name, value)| start.variable(name, value))
        .run()
}

#[test]
fn an_empty_place_is_not_taken_for_the_bucket_of_a_fleet() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    let config = shared.settings() + &following("quay.io/a/b:v1");
    claim(&shared, "almanac");
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
    let good = check(&config);
    assert!(good.status.success(), "{good:?}");

    let wrong = config.replace("/almanac?", "/wrong?");
    assert_ne!(wrong, config);
    let refused = check(&wrong);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for told in ["s3://catalogs/wrong at ", "which is s3://catalogs/almanac"] {
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
    let desk = Desk::new(&wrong);
    let refused = desk.run("export", &desk.path("none"), &["--file=none.tar"]);
    assert!(refused.stderr.contains("not the bucket of this fleet"));

    // A bucket that was restored without its mark is marked again.
    shared.objects.remove(|key| key == "almanac/fleet");
    let good = check(&config);
    assert!(good.status.success(), "{good:?}");
    claim(&shared, "almanac");

    // One that was moved has it, and is the fleet's from then on.
    shared.objects.copy("almanac/fleet", "wrong/fleet");
    let good = check(&wrong);
    assert!(good.status.success(), "{good:?}");
    claim(&shared, "wrong");
    shared.objects.remove(|key| key == "almanac/fleet");
    let refused = check(&config);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("which is s3://catalogs/wrong"));
}

#[test]
fn a_check_leaves_nothing_in_the_database_and_the_bucket() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    let config = shared.settings() + &following("quay.io/a/b:v1");
    let bound = || shared.postgres.ask("SELECT bucket FROM fleet");
    let good = check(&config);
    assert!(good.status.success(), "{good:?}");
    assert!(shared.objects.keys().is_empty());
    assert_eq!(bound(), "");
    // What it tries does not stay if it fails, either.
    shared.objects.lie(|lies| lies.no_conditions = true);
    assert!(!check(&config).status.success());
    shared.objects.behave();
    assert!(shared.objects.keys().is_empty());

    // A fleet whose database was made anew finds the mark of the lost one.
    claim(&shared, "almanac");
    shared
        .postgres
        .ask("UPDATE fleet SET id = 'x', bucket = NULL");
    let refused = check(&config);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for told in [
        "object s3://catalogs/almanac/fleet names a fleet",
        "another prefix",
        "remove that object",
    ] {
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    assert_eq!(shared.objects.keys(), ["almanac/fleet"]);
    shared.objects.remove(|key| key == "almanac/fleet");
    let good = check(&config);
    assert!(good.status.success(), "{good:?}");
    claim(&shared, "almanac");
}

#[test]
fn a_replica_does_nothing_in_a_database_that_has_become_another_fleets() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(1)
    else {
        return;
    };
    shared.postgres.ask("UPDATE fleet SET id = 'x' || id");
    until("the refusal", || {
        let status = status_of(&mut replicas[0]);
        let error = status["error"].as_str().unwrap_or_default();
        error.contains("of another fleet") && status["follows"] == serde_json::json!([])
    });
    // It does not live there, and nobody removes anything of the bucket.
    shared.postgres.until(
        "SELECT count(*) FROM replicas WHERE expires > clock_timestamp()",
        "0",
    );
    let collected = try_collect(&shared);
    assert!(
        matches!(collected, Err(FleetError::Refused(_))),
        "{collected:?}"
    );
    shared.postgres.ask("UPDATE fleet SET id = substr(id, 2)");
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
}

#[test]
fn nothing_is_removed_from_a_bucket_without_the_mark_of_the_fleet() {
    let Some(Following { shared, .. }) = Following::start(1) else {
        return;
    };
    let listed = "UPDATE fleet SET listed = listed - interval '8 days'";
    shared.postgres.ask(listed);
    let unused = "INSERT INTO objects (digest, incarnation, size, coding, state, touched)
        VALUES (sha256('a'), 77, 1, 'identity', 'going', clock_timestamp() - interval '1 day')";
    shared.postgres.ask(unused);
    let is_there = "SELECT count(*) FROM objects WHERE incarnation = 77";
    let is_due = "SELECT listed < clock_timestamp() - interval '7 days' FROM fleet";
    shared.objects.lie(|lies| lies.gone = true);
    try_collect(&shared).unwrap_err();
    shared.objects.behave();
    let objects = || {
        let mut keys = shared.objects.keys();
        keys.retain(|key| key.contains("/sha256/"));
        keys
    };
    let before = objects();
    shared.objects.copy("almanac/fleet", "almanac/kept");
    shared.objects.remove(|key| key == "almanac/fleet");
    let collected = try_collect(&shared);
    assert!(
        matches!(collected, Err(FleetError::Unmarked)),
        "{collected:?}"
    );
    assert_eq!(shared.postgres.ask(is_there), "1");
    // The list is tried again.
    assert_eq!(shared.postgres.ask(is_due), "t");
    shared.objects.copy("almanac/kept", "almanac/fleet");
    shared.objects.remove(|key| key == "almanac/kept");
    assert_eq!(collect(&shared).objects, 1);
    assert_eq!(shared.postgres.ask(is_there), "0");
    assert_eq!(shared.postgres.ask(is_due), "f");
    assert_eq!(objects(), before);
}

/// It lives in the fleet, which tells it that there is something newer.
#[test]
fn a_replica_that_starts_without_the_bucket_is_not_ready_with_what_was_replaced() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    let mut late = replicas.pop().unwrap();
    late.stop();
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    shared.objects.kill();
    late.program.restart();
    let begun = Instant::now();
    until("a word to the fleet", || {
        let status = status_of(&mut late);
        let error = status["bucket_error"].as_str().unwrap_or_default();
        status["replicas"] == 2 && error.contains("s3://")
    });
    // Longer than a replica waits for a database that does not answer.
    while begun.elapsed() < Duration::from_secs(13) {
        let ready = late.ready();
        assert_eq!(ready.status, 503, "{}", ready.text());
        assert_eq!(status_of(&mut late)["follows"], serde_json::json!([]));
        std::thread::sleep(Duration::from_millis(100));
    }
    shared.objects.restart();
    until_all_at(std::slice::from_mut(&mut late), "a", &second.digest());
    until("readiness", || late.ready().status == 200);
    until("the end of the error", || {
        status_of(&mut late)["bucket_error"].is_null()
    });
}

#[test]
fn an_export_needs_no_right_to_write_and_writes_nothing() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start_alone(1)
    else {
        return;
    };
    replicas[0].until_pullable("a");
    replicas[0].stop();
    shared.postgres.ask(
        "CREATE ROLE reader LOGIN PASSWORD 'right';
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "right\n").unwrap();
    let url = shared.postgres.url_of("reader", "127.0.0.1");
    let settings = shared.settings().replace(&shared.postgres.url(), &url);
    let catalog = following(&upstream.reference(REPOSITORY, "latest"));
    let desk = Desk::new(&format!(
        "{settings}{catalog}\n[fleet]\npassword_file = {file:?}\n"
    ));
    let is_written = || {
        let mut requests = shared.objects.requests();
        requests.retain(|request| !request.starts_with("GET ") && !request.starts_with("HEAD "));
        requests
    };
    shared.objects.forget_requests();
    desk.export(&desk.path("none"), "all.tar");
    // A lost object is told of, and its loss is not noted.
    shared.objects.remove(|key| key.contains("/sha256/"));
    let archive = desk.path("none.tar");
    let failed = desk.run(
        "export",
        &desk.path("none"),
        &["--file", archive.to_str().unwrap()],
    );
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(
        failed.stderr.contains("there is no such object"),
        "{failed:?}"
    );
    assert_eq!(is_written(), Vec::<String>::new());
    let lost = "SELECT count(*) FROM objects WHERE state = 'lost'";
    assert_eq!(shared.postgres.ask(lost), "0");
}
