//! Three replicas: one follows a catalog, all serve it.

use std::time::{Duration, Instant};

use super::{
    Following, HOLDER, REPOSITORY, Shared, push, replicas, status_of, text, until, until_all_at,
    until_at,
};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::http::ask;
use crate::support::postgres;
use crate::support::upstream::Upstream;

fn entity_tag(replica: &mut Almanac, coding: &str) -> (String, String, Vec<u8>) {
    let address = replica.program.address("http");
    let path = "/catalogs/a/api/v1/all";
    let reply = ask(address, "GET", path, &[("Accept-Encoding", coding)], b"").unwrap();
    assert_eq!(reply.status, 200);
    let header = |name| reply.header(name).unwrap().to_owned();
    (header("etag"), header("last-modified"), reply.body.clone())
}

/// The digest of the catalog's image, once it is not this one.
fn other_image(replica: &mut Almanac, before: &str) -> String {
    let mut digest = String::new();
    until("another image", || {
        let image = replica.until_pullable("a");
        let found = image.header("docker-content-digest").unwrap();
        found.clone_into(&mut digest);
        digest != before
    });
    digest
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
    shared
        .postgres
        .until(&format!("SELECT count(*) FROM ({HOLDER}) held"), "1");
    let mut image = String::new();
    for replica in &mut replicas {
        image = other_image(replica, "");
    }
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    // All answers are the same, byte for byte, whoever gives them.
    for coding in ["identity", "gzip", "zstd"] {
        let mut answers = replicas.iter_mut().map(|it| entity_tag(it, coding));
        let answer = answers.next().unwrap();
        assert!(answers.all(|other| other == answer), "{coding}");
    }
    let images = replicas.iter_mut().map(|it| other_image(it, &image));
    let mut images: Vec<String> = images.collect();
    images.dedup();
    assert_eq!(images.len(), 1, "{images:?}");
    let ids = replicas.iter_mut();
    let ids = ids.map(|replica| replica.status("a")["revision"]["id"].clone());
    let mut ids: Vec<_> = ids.collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("second"));
        assert_eq!(replica.packages("a").unwrap(), ["second"]);
        let status = status_of(replica);
        assert_eq!(status["replicas"], 3, "{status}");
        assert_eq!(status["behind"], serde_json::json!([]), "{status}");
    }
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
    let mut dead = replicas.swap_remove(holder.parse().unwrap());
    let begin = Instant::now();
    dead.program.kill9();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    eprintln!("taken over after {:?}", begin.elapsed());
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    // It comes back with what it has, and catches up.
    dead.program.restart();
    until_at(&mut dead, "a", &second.digest());
    // A clean stop gives the catalog back at once.
    for replica in &mut replicas {
        replica.stop();
    }
    shared.postgres.until(HOLDER, &holder);
}

#[test]
fn a_holder_that_was_stopped_publishes_nothing_when_it_goes_on() {
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
    let mut stopped = replicas.swap_remove(holder.parse().unwrap());
    // It is stopped while it uploads.
    shared
        .objects
        .lie(|lies| lies.slow = Duration::from_millis(500));
    let second = push(&upstream, "second");
    until("an upload", || {
        let requests = shared.objects.requests();
        requests.iter().any(|request| request.starts_with("PUT"))
    });
    stopped.program.signal("STOP");
    shared.objects.behave();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    until_all_at(&mut replicas, "a", &second.digest());
    let published = "SELECT count(*) FROM generations";
    let before = shared.postgres.ask(published);
    stopped.program.signal("CONT");
    let mut stopped = [stopped];
    until_all_at(&mut stopped, "a", &second.digest());
    until("its place among the replicas", || {
        status_of(&mut stopped[0])["replicas"] == 2
    });
    let files = "SELECT count(DISTINCT revision) FROM generations";
    assert_eq!(shared.postgres.ask(files), "2");
    assert!(before.parse::<u32>().unwrap() >= 2);
}

#[test]
fn what_is_served_stays_while_the_database_and_the_objects_are_away() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
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
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("first"));
        replica.program.wait_until_ready();
    }
    shared.objects.behave();
    until_all_at(&mut replicas, "a", &second.digest());

    shared.postgres.kill9();
    let third = push(&upstream, "third");
    for replica in &mut replicas {
        until("the error", || !status_of(replica)["error"].is_null());
        assert_eq!(replica.all("a").text(), text("second"));
        replica.program.wait_until_ready();
    }
    // A start without both serves what is stored.
    shared.objects.lie(|lies| lies.gone = true);
    let last = &mut replicas[1];
    last.program.kill9();
    last.program.restart();
    last.program.wait_until_ready();
    assert_eq!(last.all("a").text(), text("second"));
    shared.objects.behave();
    shared.postgres.restart();
    until_all_at(&mut replicas, "a", &third.digest());
    assert_ne!(first.digest(), third.digest());
}

#[test]
fn catalogs_are_shared_out_and_a_new_replica_gets_some() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let image = push(&upstream, "first");
    let source = upstream.reference(REPOSITORY, "latest");
    let mut config = following(&source);
    for number in 1..10 {
        config += &catalog(&format!("c{number}"), &source);
    }
    let mut all = replicas(&shared, &config, 2);
    until_all_at(&mut all, "c9", &image.digest());
    let follows = |replicas: &mut [Almanac]| {
        let follows = replicas.iter_mut().map(|replica| {
            let status = status_of(replica);
            status["follows"].as_array().map_or(0, Vec::len)
        });
        follows.collect::<Vec<_>>()
    };
    until("a share for both", || {
        let follows = follows(&mut all);
        follows.iter().sum::<usize>() == 10 && !follows.contains(&0)
    });
    all.push(shared.replica(&config));
    until("a share for all", || {
        let follows = follows(&mut all);
        follows.iter().sum::<usize>() == 10 && !follows.contains(&0)
    });
}
