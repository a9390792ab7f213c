//! Replicas of two configurations, one after the other or side by side.

use std::time::SystemTime;

use super::{REPOSITORY, Shared, image_of, push, replicas, tag, until, until_all_at, until_at};
use crate::support::almanac::{Almanac, LONG_PATIENCE, following};
use crate::support::postgres;
use crate::support::upstream::Upstream;

/// The date of what a replica serves of a catalog.
fn date(replica: &mut Almanac, catalog: &str) -> SystemTime {
    let reply = replica.all(catalog);
    let date = reply.header("last-modified").unwrap();
    httpdate::parse_http_date(date).unwrap()
}

/// Waits until a replica serves this package, at a later date than before, and nothing older on
/// the way.
fn until_later(replica: &mut Almanac, catalog: &str, package: &str, before: &mut SystemTime) {
    until(package, || {
        let now = date(replica, catalog);
        assert!(now >= *before, "{now:?} after {before:?}");
        let is_later = now > std::mem::replace(before, now);
        is_later || replica.packages(catalog).unwrap() == [package]
    });
    until(package, || replica.packages(catalog).unwrap() == [package]);
    let now = date(replica, catalog);
    assert!(now >= *before, "{now:?} after {before:?}");
    *before = now;
}

/// The configuration of a catalog at a tag, and of one that is made of it.
fn at(upstream: &Upstream, tag: &str) -> String {
    let ours = "\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n";
    following(&upstream.reference(REPOSITORY, tag)) + ours
}

#[test]
fn a_rollback_brings_the_earlier_content_at_a_later_date() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, second) = (image_of("first"), image_of("second"));
    upstream.push(REPOSITORY, "v1", &first);
    upstream.push(REPOSITORY, "v2", &second);
    let mut both = replicas(&shared, &at(&upstream, "v1"), 2);
    until_all_at(&mut both, "a", &first.digest());
    for replica in &mut both {
        replica.until_within(LONG_PATIENCE, "ours", "a revision", |status| {
            status["state"] == "serving"
        });
    }
    let mut dates = [[SystemTime::UNIX_EPOCH; 2]; 2];
    for (tag, package) in [("v1", "first"), ("v2", "second"), ("v1", "first")] {
        for replica in &mut both {
            replica.reconfigure(&format!("{}{}", shared.settings(), at(&upstream, tag)));
        }
        for (replica, dates) in both.iter_mut().zip(&mut dates) {
            for (name, date) in ["a", "ours"].into_iter().zip(dates) {
                until_later(replica, name, package, date);
            }
        }
    }
    let tracks = "SELECT count(*) FROM tracks WHERE catalog = 'a'";
    assert_eq!(shared.postgres.ask(tracks), "2");
}

/// Each was published once, so that its files are in the fleet.
#[test]
fn a_rollback_needs_no_source() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, second) = (image_of("first"), image_of("second"));
    upstream.push(REPOSITORY, "v1", &first);
    upstream.push(REPOSITORY, "v2", &second);
    let mut both = replicas(&shared, &at(&upstream, "v1"), 2);
    until_all_at(&mut both, "a", &first.digest());
    let configured = |tag| format!("{}{}", shared.settings(), at(&upstream, tag));
    for replica in &mut both {
        replica.reconfigure(&configured("v2"));
    }
    until_all_at(&mut both, "a", &second.digest());
    let mut dates = [[SystemTime::UNIX_EPOCH; 2]; 2];
    for (replica, dates) in both.iter_mut().zip(&mut dates) {
        for (name, date) in ["a", "ours"].into_iter().zip(dates) {
            until_later(replica, name, "second", date);
        }
    }
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    for replica in &mut both {
        replica.reconfigure(&configured("v1"));
    }
    for (replica, dates) in both.iter_mut().zip(&mut dates) {
        for (name, date) in ["a", "ours"].into_iter().zip(dates) {
            until_later(replica, name, "first", date);
        }
    }
    // Nor does one without a network.
    for replica in &mut both {
        replica.stop();
    }
    let offline = format!("offline = true\n{}", configured("v2"));
    for replica in &mut both {
        replica.restart_with(&offline);
    }
    for (replica, dates) in both.iter_mut().zip(&mut dates) {
        for (name, date) in ["a", "ours"].into_iter().zip(dates) {
            until_later(replica, name, "second", date);
        }
    }
}

/// The tracks of both kinds of image are of the same source.
#[test]
fn a_change_of_the_kind_of_image_goes_on_with_the_latest_content() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let slim = following(&upstream.reference(REPOSITORY, "latest"));
    let full = format!("{slim}mirror = \"full\"\n");
    let mut both = replicas(&shared, &slim, 2);
    until_all_at(&mut both, "a", &first.digest());
    for replica in &mut both {
        replica.reconfigure(&format!("{}{full}", shared.settings()));
    }
    let wanted = first.digest().to_string();
    for replica in &mut both {
        until("the mirrored image", || tag(replica) == wanted);
    }
    let second = push(&upstream, "second");
    until_all_at(&mut both, "a", &second.digest());
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    let mut dates: Vec<_> = both.iter_mut().map(|replica| date(replica, "a")).collect();
    for replica in &mut both {
        replica.reconfigure(&format!("{}{slim}", shared.settings()));
    }
    // An image of the latest content is made here.
    for (replica, before) in both.iter_mut().zip(&mut dates) {
        until("the slim image", || {
            assert_eq!(replica.packages("a").unwrap(), ["second"]);
            let now = date(replica, "a");
            assert!(now >= std::mem::replace(before, now));
            let shown = tag(replica);
            shown != wanted && shown != second.digest().to_string()
        });
    }
}

/// The source of the new configuration cannot be read, and that of the old one changes.
#[test]
fn a_replica_that_comes_later_to_a_new_configuration_does_not_go_back() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    upstream.push(REPOSITORY, "v1", &image_of("first"));
    let mut both = replicas(&shared, &at(&upstream, "v1"), 2);
    let configured = |tag| format!("{}{}", shared.settings(), at(&upstream, tag));
    until_all_at(&mut both, "a", &image_of("first").digest());
    for replica in &mut both {
        replica.until_within(LONG_PATIENCE, "ours", "a revision", |status| {
            status["state"] == "serving"
        });
    }
    let [early, late] = &mut both[..] else {
        unreachable!("two were started");
    };
    early.reconfigure(&configured("v2"));
    early.until_within(LONG_PATIENCE, "a", "a failure", |status| {
        status["failures"].as_u64() > Some(0)
    });
    let second = image_of("second");
    upstream.push(REPOSITORY, "v1", &second);
    until_at(late, "a", &second.digest());
    until("the curated one", || {
        late.packages("ours").unwrap() == ["second"]
    });
    let mut dates = ["a", "ours"].map(|name| date(late, name));
    late.reconfigure(&configured("v2"));
    // Both serve the latest content.
    until("the same", || {
        for (name, before) in ["a", "ours"].into_iter().zip(&mut dates) {
            assert_eq!(late.packages(name).unwrap(), ["second"]);
            let now = date(late, name);
            assert!(now >= *before, "{name}: {now:?} after {before:?}");
            *before = now;
        }
        ["a", "ours"]
            .iter()
            .all(|name| early.packages(name).unwrap() == ["second"])
    });
    upstream.push(REPOSITORY, "v2", &image_of("third"));
    for (name, mut before) in ["a", "ours"].into_iter().zip(dates) {
        until_later(late, name, "third", &mut before);
        until("the same", || early.packages(name).unwrap() == ["third"]);
    }
}

/// Pulls by digest may go on, at whichever replica.
#[test]
fn an_image_can_be_pulled_after_a_change_of_its_kind_also_at_a_replica_that_starts() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let slim = following(&upstream.reference(REPOSITORY, "latest"));
    let full = format!("{slim}mirror = \"full\"\n");
    let mut both = replicas(&shared, &slim, 2);
    until_all_at(&mut both, "a", &first.digest());
    let before = tag(&mut both[0]);
    for replica in &mut both {
        replica.reconfigure(&format!("{}{full}", shared.settings()));
    }
    let path = format!("/v2/a/manifests/{before}");
    for replica in &mut both {
        let wanted = first.digest().to_string();
        until("the mirrored image", || tag(replica) == wanted);
        assert_eq!(replica.http(&path).status, 200);
    }
    both.push(shared.replica(&full));
    until_all_at(&mut both, "a", &first.digest());
    until("the replaced image", || both[2].http(&path).status == 200);
}

/// Its source has content of its own, which is older than that of the old configuration.
#[test]
fn content_of_a_new_configuration_gets_a_later_date_when_another_replica_comes() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    upstream.push(REPOSITORY, "v1", &image_of("first"));
    upstream.push(REPOSITORY, "v2", &image_of("new"));
    let mut both = replicas(&shared, &at(&upstream, "v1"), 2);
    let configured = |tag| format!("{}{}", shared.settings(), at(&upstream, tag));
    until_all_at(&mut both, "a", &image_of("first").digest());
    for replica in &mut both {
        replica.until_within(LONG_PATIENCE, "ours", "a revision", |status| {
            status["state"] == "serving"
        });
    }
    let [early, late] = &mut both[..] else {
        unreachable!("two were started");
    };
    early.reconfigure(&configured("v2"));
    until_at(early, "a", &image_of("new").digest());
    let second = image_of("second");
    upstream.push(REPOSITORY, "v1", &second);
    until_at(late, "a", &second.digest());
    until("the curated one", || {
        late.packages("ours").unwrap() == ["second"]
    });
    let dates = ["a", "ours"].map(|name| date(late, name));
    late.reconfigure(&configured("v2"));
    for (name, mut before) in ["a", "ours"].into_iter().zip(dates) {
        until_later(late, name, "new", &mut before);
        assert_eq!(early.packages(name).unwrap(), ["new"]);
        until("the same date", || date(early, name) == date(late, name));
    }
}

/// During a rollout, replicas of two configurations serve side by side.
#[test]
fn a_curated_catalog_whose_source_moves_does_not_change_to_and_fro() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let elsewhere = "b/catalog";
    let config = |repository: &str| {
        let source = upstream.reference(repository, "latest");
        // Made of a curated one again.
        let ours = "\n[[catalog]]\nname = \"ours\"\nfrom = [\"middle\"]\n";
        let middle = "\n[[catalog]]\nname = \"middle\"\nfrom = [\"a\"]\n";
        format!("{}{ours}{middle}", following(&source))
    };
    push(&upstream, "first");
    upstream.push(elsewhere, "latest", &image_of("second"));
    let until_ours = |replica: &mut Almanac, package: &str| {
        replica.until_within(LONG_PATIENCE, "ours", "a revision", |status| {
            status["state"] == "serving"
        });
        until(package, || replica.packages("ours").unwrap() == [package]);
    };
    let mut old = shared.replica(&config(REPOSITORY));
    until_ours(&mut old, "first");
    let mut new = shared.replica(&config(elsewhere));
    until_ours(&mut new, "second");
    assert_eq!(old.packages("ours").unwrap(), ["first"]);
    // Each goes on with its own source.
    push(&upstream, "third");
    until_ours(&mut old, "third");
    assert_eq!(new.packages("ours").unwrap(), ["second"]);
    upstream.push(elsewhere, "latest", &image_of("fourth"));
    until_ours(&mut new, "fourth");
    assert_eq!(old.packages("ours").unwrap(), ["third"]);
    // The rollout ends.
    old.reconfigure(&format!("{}{}", shared.settings(), config(elsewhere)));
    until_ours(&mut old, "fourth");
    let tracks = "SELECT count(*) FROM tracks WHERE catalog = 'ours'";
    assert_eq!(shared.postgres.ask(tracks), "2");
}
