//! Three replicas: one follows a catalog, all serve it.

use super::{
    Following, HOLDER, REPOSITORY, Shared, credentials, push, replicas, status_of, until,
    until_all_at, until_at, until_waiting,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http::{ask, get};
use crate::support::postgres::{self, Postgres};
use crate::support::program::Start;
use crate::support::relay::Relay;
use crate::support::upstream::Upstream;

fn entity_tag(replica: &mut Almanac, coding: &str) -> (String, Vec<u8>) {
    let address = replica.program.address("http");
    let path = "/catalogs/a/api/v1/all";
    let reply = ask(address, "GET", path, &[("Accept-Encoding", coding)], b"").unwrap();
    assert_eq!(reply.status, 200);
    (reply.header("etag").unwrap().to_owned(), reply.body)
}

/// The digest of the catalog's image, once it is not this one.
fn other_image(replica: &mut Almanac, before: &str) -> String {
    let mut digest = String::new();
    until("another image", || {
        let image = replica.until_pullable("a");
        image
            .header("docker-content-digest")
            .unwrap()
            .clone_into(&mut digest);
        digest != before
    });
    digest
}

/// What `almanac status` writes besides its table.
fn printed_status(replica: &mut Almanac) -> String {
    let address = replica.program.address("admin").to_string();
    let printed = Start::new(["status", "--admin", &address]).run();
    assert!(printed.status.success(), "{printed:?}");
    printed.stderr
}

#[test]
fn one_replica_follows_a_catalog_and_all_serve_it() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(3)
    else {
        return;
    };
    // Each layer is pulled once, for all of them; by another holder once more.
    let holders = shared.postgres.ask("SELECT epoch FROM leases");
    let holders: usize = holders.parse().unwrap();
    let pulled = upstream.lines();
    let blobs = pulled.iter().filter(|line| line.contains("/blobs/"));
    let mut blobs: Vec<&String> = blobs.collect();
    let all = blobs.len();
    blobs.sort();
    blobs.dedup();
    assert!(all <= blobs.len() * holders, "{pulled:#?}");

    // All answers are the same, byte for byte, whoever gives them.
    let mut image = String::new();
    for replica in &mut replicas {
        image = other_image(replica, "");
    }
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    for coding in ["identity", "gzip", "zstd"] {
        let mut answers = replicas.iter_mut().map(|it| entity_tag(it, coding));
        let answer = answers.next().unwrap();
        assert!(answers.all(|other| other == answer), "{coding}");
    }
    // A cache in front asks each time.
    for replica in &mut replicas {
        let address = replica.program.address("http");
        for path in ["all", "metas?package=second"] {
            let path = format!("/catalogs/a/api/v1/{path}");
            let reply = get(address, &path).unwrap();
            assert_eq!(reply.header("cache-control"), Some("no-cache"), "{path}");
            let tag = [("If-None-Match", reply.header("etag").unwrap())];
            let again = ask(address, "GET", &path, &tag, b"").unwrap();
            assert_eq!(again.status, 304);
            assert_eq!(again.header("cache-control"), Some("no-cache"), "{path}");
        }
    }
    let text = Catalog::one("second").text(Format::JsonLines);
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text);
        assert_eq!(replica.packages("a").unwrap(), ["second"]);
    }
    // The image of the second revision comes to all of them, with one digest.
    let digests: Vec<String> = replicas
        .iter_mut()
        .map(|it| other_image(it, &image))
        .collect();
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
    let ids: Vec<_> = replicas
        .iter_mut()
        .map(|replica| replica.status("a")["revision"]["id"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn another_replica_follows_when_the_holder_is_killed() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(3)
    else {
        return;
    };

    let holder = shared.postgres.ask(HOLDER);
    let epoch = shared.postgres.ask("SELECT epoch FROM leases");
    let mut dead = replicas.swap_remove(holder.parse().unwrap());
    dead.program.kill9();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    assert_ne!(shared.postgres.ask("SELECT epoch FROM leases"), epoch);

    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());

    // It comes back with what it has, and catches up.
    dead.program.restart();
    until_at(&mut dead, "a", &second.digest());
    // A clean stop gives the lease back at once: nothing is left that could expire.
    for replica in &mut replicas {
        replica.stop();
    }
    let left = format!("SELECT count(*) FROM replicas WHERE name <> '{holder}'");
    assert_eq!(shared.postgres.ask(&left), "0");
    let kept = "SELECT count(*) FROM leases WHERE holder NOT IN (SELECT id FROM replicas)";
    assert_eq!(shared.postgres.ask(kept), "0");
    shared.postgres.until(HOLDER, &holder);
}

#[test]
fn what_is_served_stays_while_the_database_and_the_objects_are_away() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start_alone(2)
    else {
        return;
    };

    // A pass fails where it shares, and the revision of before stays.
    shared.objects.lie(|lies| lies.gone = true);
    let second = push(&upstream, "second");
    until("a failure of the holder", || {
        let mut results = replicas
            .iter_mut()
            .map(|replica| replica.status("a")["last_result"].take());
        results.any(|result| result["stage"] == "share" && result["reason"] == "objects")
    });
    // Nothing is left of passes that failed.
    until("the end of failed passes", || {
        let mut all = replicas.iter();
        all.all(|replica| replica.revisions().len() == 1)
    });
    for replica in &mut replicas {
        assert_eq!(
            replica.all("a").text(),
            Catalog::one("first").text(Format::JsonLines)
        );
    }
    shared.objects.behave();
    until_all_at(&mut replicas, "a", &second.digest());

    shared.postgres.kill9();
    for replica in &mut replicas {
        replica
            .program
            .wait_for_log("the warning", |log| log.contains("no word to the fleet"));
        until("the reason", || {
            let status = status_of(replica);
            let error = status["error"].as_str().unwrap_or_default();
            error.contains("refused") && status["replicas"] == 0
        });
        replica.until_metrics("almanac_fleet_replicas 0");
        assert_eq!(
            replica.all("a").text(),
            Catalog::one("second").text(Format::JsonLines)
        );
    }
    // A start with what is stored, while nothing answers.
    shared.objects.kill();
    replicas[0].program.kill9();
    replicas[0].program.restart();
    until_at(&mut replicas[0], "a", &second.digest());
    shared.objects.restart();
    shared.postgres.restart();
    let third = push(&upstream, "third");
    until_all_at(&mut replicas, "a", &third.digest());
}

#[test]
fn a_holder_whose_disk_fails_leaves_the_catalog_to_another() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    let holder = shared.postgres.ask(HOLDER);
    let failing: usize = holder.parse().unwrap();
    let data = replicas[failing].program.data().to_owned();
    let text = Catalog::one("first").text(Format::JsonLines);
    assert_eq!(replicas[failing].all("a").text(), text);
    std::fs::rename(data.join("revisions"), data.join("gone")).unwrap();
    push(&upstream, "second");
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    // It cannot fetch what the other one announces, and tells why.
    until_waiting(&mut replicas[failing], "revisions");
    let printed = printed_status(&mut replicas[failing]);
    assert!(
        printed.contains("almanac: a waits: ") && printed.contains("revisions"),
        "{printed}"
    );
    // What it has open is served until it finds, every two seconds, that its files are gone:
    // from then on, nothing of them is.
    until("the damage", || {
        let served = replicas[failing].all("a");
        if served.status == 200 {
            assert_eq!(served.text(), text);
        } else {
            assert_eq!(served.status, 503, "{}", served.text());
            assert!(served.header("retry-after").is_some());
        }
        served.status == 503
    });
    let status = replicas[failing].status("a");
    assert_eq!(status["state"], "damaged", "{status}");
    assert_eq!(replicas[failing].all("a").status, 503);
}

#[test]
fn an_outage_of_the_bucket_is_shown_by_every_replica_until_a_pass_succeeds() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        ..
    }) = Following::start(2)
    else {
        return;
    };
    shared
        .objects
        .lie(|lies| lies.status = Some((503, "SlowDown")));
    let second = push(&upstream, "second");
    for replica in &mut replicas {
        replica.until_within(LONG_PATIENCE, "a", "its failure", |status| {
            status["failures"].as_u64() >= Some(3) && status["last_error"].is_string()
        });
    }
    // The last one keeps the catalog.
    let given_up = shared.postgres.ask("SELECT given_up FROM leases");
    assert_eq!(given_up, "1");
    for replica in &mut replicas {
        assert!(replica.status("a")["failures"].as_u64() >= Some(3));
    }
    shared.objects.behave();
    until_all_at(&mut replicas, "a", &second.digest());
    for replica in &mut replicas {
        replica.until_within(LONG_PATIENCE, "a", "no failure", |status| {
            status["failures"] == 0 && status["last_error"].is_null()
        });
    }
}

#[test]
fn a_changed_password_of_the_database_counts_without_a_restart() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::of(Postgres::alone()), Upstream::start());
    shared.postgres.ask(
        "CREATE ROLE guarded LOGIN PASSWORD 'old';
         GRANT ALL ON ALL TABLES IN SCHEMA public TO guarded;
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO guarded;",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "old\n").unwrap();
    let first = push(&upstream, "first");
    let url = shared.postgres.url_of("guarded", "127.0.0.1");
    let settings = shared.settings().replace(&shared.postgres.url(), &url);
    let catalog = following(&upstream.reference(REPOSITORY, "latest"));
    let config = format!("{settings}{catalog}\n[fleet]\npassword_file = {file:?}\n");
    let mut replica = Almanac::start_with(&config, &credentials());
    until_at(&mut replica, "a", &first.digest());

    shared.postgres.ask("ALTER ROLE guarded PASSWORD 'new'");
    let connections = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE usename = 'guarded'";
    shared.postgres.ask(connections);
    let program = &mut replica.program;
    program.wait_for_log("the refusal", |log| log.contains("no word to the fleet"));
    std::fs::write(&file, "new\n").unwrap();
    let second = push(&upstream, "second");
    until_at(&mut replica, "a", &second.digest());
}

#[test]
fn a_replica_replaces_connections_to_the_database_that_have_stalled() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let direct = shared.postgres.address();
    let relay = Relay::start(direct);
    let settings = shared.settings();
    let settings = settings.replace(&direct.to_string(), &relay.address().to_string());
    assert_ne!(settings, shared.settings());
    let replica = Almanac::start_with(&format!("{settings}{config}"), &credentials());
    let mut replicas = [replica];
    until_all_at(&mut replicas, "a", &first.digest());
    relay.stall();
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    until("an answer", || {
        status_of(&mut replicas[0])["error"].is_null()
    });
}

#[test]
fn a_signal_to_one_replica_makes_the_holder_retry() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    // Nothing is there yet, and the tries come further and further apart.
    let config = catalog("a", &upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    let mut holder = 0;
    until("a failure of the holder", || {
        let failing = |replica: &mut Almanac| replica.status("a")["failures"] != 0;
        holder = usize::from(failing(&mut replicas[1]));
        failing(&mut replicas[holder])
    });
    // A signal gets lost where the holder begins a try.
    until("another try", || {
        replicas[1 - holder].program.signal("HUP");
        let log = replicas[holder].program.log();
        log.contains("a retry was requested")
    });
}
