//! Three replicas: one follows a catalog, all serve it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::fixture::{prepared, start, start_alone};
use super::{HOLDER, PUBLISHED, same, status_of, tag, until, until_at, until_replicas};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::text_of;
use crate::support::http::ask;
use crate::support::image::image_of;

fn entity_tag(replica: &mut Almanac, coding: &str) -> (String, String, Vec<u8>) {
    let address = replica.program.address("http");
    let path = "/catalogs/a/api/v1/all";
    let reply = ask(address, "GET", path, &[("Accept-Encoding", coding)], b"").unwrap();
    assert_eq!(reply.status, 200);
    let header = |name| reply.header(name).unwrap().to_owned();
    (header("etag"), header("last-modified"), reply.body.clone())
}

#[test]
fn one_replica_follows_a_catalog_and_all_serve_it() {
    let Some(mut fleet) = start(3) else { return };
    let held = format!("SELECT count(*) FROM ({HOLDER}) held");
    fleet.postgres.until(&held, "1");
    let mut image = String::new();
    for replica in &mut fleet.replicas {
        image = tag(replica);
    }
    fleet.publish("second");
    let replicas = &mut fleet.replicas;
    // All answers are the same, byte for byte, whoever gives them.
    for coding in ["identity", "gzip", "zstd"] {
        same(replicas.iter_mut().map(|it| entity_tag(it, coding)));
    }
    for replica in replicas.iter_mut() {
        until("another image", || tag(replica) != image);
    }
    same(replicas.iter_mut().map(tag));
    same(
        replicas
            .iter_mut()
            .map(|it| it.status("a")["revision"]["id"].take()),
    );
    for replica in replicas.iter_mut() {
        assert_eq!(replica.all("a").text(), text_of("second"));
        assert_eq!(replica.packages("a").unwrap(), ["second"]);
        let status = status_of(replica);
        assert_eq!(status["replicas"], 3, "{status}");
        assert_eq!(status["behind"], json!([]), "{status}");
    }
}

#[test]
fn another_replica_follows_when_the_holder_is_killed() {
    let Some(mut fleet) = start(3) else { return };
    let holder = fleet.holder();
    let mut dead = fleet.replicas.swap_remove(holder);
    let begin = Instant::now();
    dead.program.kill9();
    fleet.until_holder_is_not(holder);
    eprintln!("taken over after {:?}", begin.elapsed());
    let second = fleet.publish("second");
    // It comes back with what it has, and catches up.
    dead.program.restart();
    until_at(&mut dead, "a", &second);
    // A clean stop gives the catalog back at once.
    for replica in &mut fleet.replicas {
        replica.stop();
    }
    fleet.postgres.until(HOLDER, &holder.to_string());
}

#[test]
fn a_holder_that_was_stopped_publishes_nothing_when_it_goes_on() {
    let Some(mut fleet) = start(2) else { return };
    let holder = fleet.holder();
    let mut stopped = fleet.replicas.swap_remove(holder);
    // It is stopped while it uploads.
    let slow = Duration::from_millis(500);
    fleet.objects.lie(|lies| lies.slow = slow);
    let second = fleet.push("second");
    until("an upload", || {
        let requests = fleet.objects.requests();
        requests.iter().any(|request| request.starts_with("PUT"))
    });
    stopped.program.signal("STOP");
    fleet.objects.behave();
    fleet.until_holder_is_not(holder);
    fleet.until_all_at("a", &second);
    let before = fleet.postgres.ask(PUBLISHED);
    stopped.program.signal("CONT");
    until_at(&mut stopped, "a", &second);
    until_replicas(&mut stopped, 2);
    let files = "SELECT count(DISTINCT revision) FROM generations";
    assert_eq!(fleet.postgres.ask(files), "2");
    assert!(before.parse::<u32>().unwrap() >= 2);
}

#[test]
fn what_is_served_stays_while_the_database_and_the_objects_are_away() {
    let Some(mut fleet) = start_alone(2) else {
        return;
    };
    // A pass fails where it shares, and the revision of before stays.
    fleet.objects.lie(|lies| lies.gone = true);
    let second = fleet.push("second");
    until("a failure of the holder", || {
        let results = fleet.replicas.iter_mut();
        let mut results = results.map(|replica| replica.status("a")["last_result"].take());
        results.any(|result| result["stage"] == "share" && result["reason"] == "objects")
    });
    for replica in &mut fleet.replicas {
        assert_eq!(replica.all("a").text(), text_of("first"));
        replica.program.wait_until_ready();
    }
    fleet.objects.behave();
    fleet.until_all_at("a", &second);

    fleet.postgres.kill9();
    let third = fleet.push("third");
    for replica in &mut fleet.replicas {
        until("the error", || !status_of(replica)["error"].is_null());
        assert_eq!(replica.all("a").text(), text_of("second"));
        replica.program.wait_until_ready();
    }
    // A start without both serves what is stored.
    fleet.objects.lie(|lies| lies.gone = true);
    let last = &mut fleet.replicas[1];
    last.program.kill9();
    last.program.restart();
    last.program.wait_until_ready();
    assert_eq!(last.all("a").text(), text_of("second"));
    fleet.objects.behave();
    fleet.postgres.restart();
    fleet.until_all_at("a", &third);
    assert_ne!(image_of("first").digest(), third.digest());
}

#[test]
fn catalogs_are_shared_out_and_a_new_replica_gets_some() {
    let Some(mut fleet) = prepared() else { return };
    for number in 1..10 {
        fleet.catalogs += &catalog(&format!("c{number}"), &fleet.source());
    }
    let image = fleet.serve_first(2);
    fleet.until_all_at("c9", &image);
    let until_shared_out = |replicas: &mut [Almanac]| {
        until("a share for all", || {
            let follows = replicas.iter_mut().map(|replica| {
                let status = status_of(replica);
                status["follows"].as_array().map_or(0, Vec::len)
            });
            let follows: Vec<usize> = follows.collect();
            follows.iter().sum::<usize>() == 10 && !follows.contains(&0)
        });
    };
    until_shared_out(&mut fleet.replicas);
    fleet.add_replica();
    until_shared_out(&mut fleet.replicas);
}
