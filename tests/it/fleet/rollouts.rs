//! Replicas of two configurations, one after the other or side by side.

use std::time::SystemTime;

use super::fixture::{TestFleet, prepared};
use super::{
    OURS, REPOSITORY, date, same, tag, until, until_at, until_mirrored, until_package,
    until_serving,
};
use crate::support::almanac::{Almanac, following};
use crate::support::image::image_of;

/// The catalog `a`, and one that is made of it.
const BOTH: [&str; 2] = ["a", "ours"];

/// What replicas share, and a registry with the tag `v1`.
struct Rollout(TestFleet);

impl Rollout {
    /// With two replicas at `v1`, whose package is `first`.
    fn start() -> Option<(Self, Vec<Almanac>)> {
        let mut rollout = Self(prepared()?);
        rollout.push("v1", "first");
        rollout.0.catalogs = rollout.config("v1");
        rollout.0.start_replicas(2);
        rollout.0.until_all_at("a", &image_of("first"));
        let mut both = std::mem::take(&mut rollout.0.replicas);
        for replica in &mut both {
            until_serving(replica, "ours");
        }
        Some((rollout, both))
    }

    /// The configuration of both catalogs at a tag.
    fn config(&self, tag: &str) -> String {
        following(&self.0.upstream.reference(REPOSITORY, tag)) + OURS
    }

    fn push(&self, tag: &str, package: &str) {
        let image = image_of(package);
        self.0.upstream.push(REPOSITORY, tag, &image);
    }

    /// Gives replicas the configuration of a tag.
    fn configure<'a>(&self, replicas: impl IntoIterator<Item = &'a mut Almanac>, tag: &str) {
        let config = self.0.config_with(&self.config(tag));
        for replica in replicas {
            replica.reconfigure(&config);
        }
    }
}

/// Waits until a replica serves this package. No date on the way is earlier than the last one.
fn until_serves(replica: &mut Almanac, catalog: &str, package: &str, last: &mut SystemTime) {
    let mut look = |replica: &mut Almanac| {
        let now = date(replica, catalog);
        assert!(now >= *last, "{catalog}: {now:?} after {last:?}");
        *last = now;
    };
    until(package, || {
        look(replica);
        replica.packages(catalog).unwrap() == [package]
    });
    look(replica);
}

/// The same for both catalogs. Each date is later than the last one.
fn until_both_serve(replica: &mut Almanac, package: &str, last: &mut [SystemTime; 2]) {
    for (name, last) in BOTH.into_iter().zip(last) {
        let before = *last;
        until_serves(replica, name, package, last);
        assert!(*last > before, "{name} with {package}: {last:?}");
    }
}

fn dates(replica: &mut Almanac) -> [SystemTime; 2] {
    BOTH.map(|name| date(replica, name))
}

#[test]
fn a_rollback_brings_the_earlier_content_at_a_later_date() {
    let Some((rollout, mut both)) = Rollout::start() else {
        return;
    };
    rollout.push("v2", "second");
    for (tag, package) in [("v2", "second"), ("v1", "first")] {
        let mut last: Vec<_> = both.iter_mut().map(dates).collect();
        rollout.configure(&mut both, tag);
        for (replica, last) in both.iter_mut().zip(&mut last) {
            until_both_serve(replica, package, last);
        }
    }
    same(both.iter_mut().map(dates));
    let tracks = "SELECT count(*) FROM tracks WHERE catalog = 'a'";
    assert_eq!(rollout.0.postgres.ask(tracks), "2");
}

/// It was published before, so that its files are in the fleet.
#[test]
fn a_rollback_needs_no_source() {
    let Some((rollout, mut both)) = Rollout::start() else {
        return;
    };
    rollout.push("v2", "second");
    let until_all_serve = |both: &mut [Almanac], package: &str| {
        for replica in both {
            for name in BOTH {
                until_package(replica, name, package);
            }
        }
    };
    rollout.configure(&mut both, "v2");
    until_all_serve(&mut both, "second");
    rollout.0.disconnect();
    rollout.configure(&mut both, "v1");
    until_all_serve(&mut both, "first");
}

/// The tracks of both kinds of image are of the same source.
#[test]
fn a_change_of_the_kind_of_image_keeps_the_content_its_date_and_pulls_by_digest() {
    let Some(mut fleet) = prepared() else { return };
    let first = fleet.serve_first(2);
    let slim = fleet.catalogs.clone();
    let slim_tag = tag(&mut fleet.replicas[0]);
    let dated = date(&mut fleet.replicas[0], "a");
    fleet.catalogs += "mirror = \"full\"\n";
    let full = fleet.config();
    for replica in &mut fleet.replicas {
        replica.reconfigure(&full);
    }
    for replica in &mut fleet.replicas {
        until_mirrored(replica, "a", &first);
        assert_eq!(date(replica, "a"), dated);
    }
    // A pull of the image before may go on, also at a replica that starts.
    fleet.add_replica();
    fleet.until_all_at("a", &first);
    let path = format!("/v2/a/manifests/{slim_tag}");
    for replica in &mut fleet.replicas {
        assert_eq!(replica.http(&path).status, 200);
    }
    let second = fleet.publish("second");
    let dated = date(&mut fleet.replicas[0], "a");
    let others = [
        first.digest().to_string(),
        second.digest().to_string(),
        slim_tag,
    ];
    let slim = fleet.config_with(&slim);
    for replica in &mut fleet.replicas {
        replica.reconfigure(&slim);
    }
    for replica in &mut fleet.replicas {
        until("the slim image", || {
            assert_eq!(replica.packages("a").unwrap(), ["second"]);
            assert_eq!(date(replica, "a"), dated);
            !others.contains(&tag(replica))
        });
    }
}

/// The source of the new configuration cannot be read, and that of the old one changes.
#[test]
fn a_new_configuration_without_content_leaves_what_is_served() {
    let Some((rollout, mut both)) = Rollout::start() else {
        return;
    };
    let [early, late] = &mut both[..] else {
        unreachable!("two were started");
    };
    rollout.configure([&mut *early], "v2");
    early.until_failed("a");
    rollout.push("v1", "second");
    let mut last = dates(late);
    until_both_serve(late, "second", &mut last);
    rollout.configure([&mut *late], "v2");
    // Whichever of them follows it.
    until("a failure of the new source", || {
        early.status("a")["failures"] != 0 || late.status("a")["failures"] != 0
    });
    for (replica, package) in [(&mut *early, "first"), (&mut *late, "second")] {
        for name in BOTH {
            assert_eq!(replica.packages(name).unwrap(), [package]);
        }
    }
    rollout.push("v2", "third");
    until_both_serve(late, "third", &mut last);
    for name in BOTH {
        until_package(early, name, "third");
    }
    until("the same dates", || dates(early) == last);
}

/// Its source has content of its own, which is older than that of the old configuration.
#[test]
fn content_of_a_new_configuration_gets_a_later_date_when_another_replica_comes() {
    let Some((rollout, mut both)) = Rollout::start() else {
        return;
    };
    let [early, late] = &mut both[..] else {
        unreachable!("two were started");
    };
    rollout.push("v2", "new");
    rollout.configure([&mut *early], "v2");
    until_at(early, "a", &image_of("new"));
    until_package(early, "ours", "new");
    rollout.push("v1", "second");
    let mut last = dates(late);
    until_both_serve(late, "second", &mut last);
    rollout.configure([&mut *late], "v2");
    until_both_serve(late, "new", &mut last);
    for name in BOTH {
        assert_eq!(early.packages(name).unwrap(), ["new"]);
    }
    until("the same dates", || dates(early) == dates(late));
}

/// During a rollout, replicas of two configurations serve side by side.
#[test]
fn a_curated_catalog_whose_source_moves_does_not_change_to_and_fro() {
    let Some(fleet) = prepared() else { return };
    let elsewhere = "b/catalog";
    let config = |repository: &str| {
        let source = fleet.upstream.reference(repository, "latest");
        // Made of a curated one again.
        let ours = OURS.replace("\"a\"", "\"middle\"");
        let middle = OURS.replace("ours", "middle");
        format!("{}{ours}{middle}", following(&source))
    };
    fleet.push("first");
    fleet.push_to(elsewhere, "second");
    let until_ours = |replica: &mut Almanac, package: &str| {
        until_serving(replica, "ours");
        until_package(replica, "ours", package);
    };
    let mut old = fleet.another_with(&config(REPOSITORY));
    until_ours(&mut old, "first");
    let mut new = fleet.another_with(&config(elsewhere));
    until_ours(&mut new, "second");
    assert_eq!(old.packages("ours").unwrap(), ["first"]);
    // Each goes on with its own source.
    fleet.push("third");
    until_ours(&mut old, "third");
    assert_eq!(new.packages("ours").unwrap(), ["second"]);
    fleet.push_to(elsewhere, "fourth");
    until_ours(&mut new, "fourth");
    assert_eq!(old.packages("ours").unwrap(), ["third"]);
    // The rollout ends.
    old.reconfigure(&fleet.config_with(&config(elsewhere)));
    until_ours(&mut old, "fourth");
    let tracks = "SELECT count(*) FROM tracks WHERE catalog = 'ours'";
    assert_eq!(fleet.postgres.ask(tracks), "2");
}
