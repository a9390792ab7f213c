//! Replicas of two configurations, one after the other or side by side.

use std::time::SystemTime;

use super::{
    REPOSITORY, Shared, date, image_of, push, replicas, tag, until, until_all_at, until_at,
    until_serving,
};
use crate::support::almanac::{Almanac, following};
use crate::support::postgres;
use crate::support::upstream::Upstream;

/// The catalog `a`, and one that is made of it.
const BOTH: [&str; 2] = ["a", "ours"];

/// What replicas share, and a registry with the tag `v1`.
struct Rollout {
    shared: Shared,
    upstream: Upstream,
}

impl Rollout {
    /// With two replicas at `v1`, whose package is `first`.
    fn start() -> Option<(Self, Vec<Almanac>)> {
        if postgres::is_missing() {
            return None;
        }
        let (shared, upstream) = (Shared::start(), Upstream::start());
        let first = image_of("first");
        upstream.push(REPOSITORY, "v1", &first);
        let rollout = Self { shared, upstream };
        let mut both = replicas(&rollout.shared, &rollout.config("v1"), 2);
        until_all_at(&mut both, "a", &first.digest());
        for replica in &mut both {
            until_serving(replica, "ours");
        }
        Some((rollout, both))
    }

    /// The configuration of both catalogs at a tag.
    fn config(&self, tag: &str) -> String {
        let ours = "\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n";
        following(&self.upstream.reference(REPOSITORY, tag)) + ours
    }

    fn push(&self, tag: &str, package: &str) {
        self.upstream.push(REPOSITORY, tag, &image_of(package));
    }

    /// Gives a replica the configuration of a tag.
    fn configure(&self, replica: &mut Almanac, tag: &str) {
        let config = format!("{}{}", self.shared.settings(), self.config(tag));
        replica.reconfigure(&config);
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
        for replica in &mut both {
            rollout.configure(replica, tag);
        }
        for (replica, last) in both.iter_mut().zip(&mut last) {
            for (name, last) in BOTH.into_iter().zip(last) {
                let before = *last;
                until_serves(replica, name, package, last);
                assert!(*last > before, "{name} at {tag}: {last:?}");
            }
        }
    }
    for name in BOTH {
        let dates = both.iter_mut().map(|replica| date(replica, name));
        let mut dates: Vec<_> = dates.collect();
        dates.dedup();
        assert_eq!(dates.len(), 1, "{name}");
    }
    let tracks = "SELECT count(*) FROM tracks WHERE catalog = 'a'";
    assert_eq!(rollout.shared.postgres.ask(tracks), "2");
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
                until(package, || replica.packages(name).unwrap() == [package]);
            }
        }
    };
    for replica in &mut both {
        rollout.configure(replica, "v2");
    }
    until_all_serve(&mut both, "second");
    rollout
        .upstream
        .misbehave(|behaviour| behaviour.status = Some(503));
    for replica in &mut both {
        rollout.configure(replica, "v1");
    }
    until_all_serve(&mut both, "first");
}

/// The tracks of both kinds of image are of the same source.
#[test]
fn a_change_of_the_kind_of_image_keeps_the_content_its_date_and_pulls_by_digest() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let slim = following(&upstream.reference(REPOSITORY, "latest"));
    let full = format!("{slim}mirror = \"full\"\n");
    let mut both = replicas(&shared, &slim, 2);
    until_all_at(&mut both, "a", &first.digest());
    let (slim_tag, dated) = (tag(&mut both[0]), date(&mut both[0], "a"));
    let configure = |both: &mut [Almanac], config: &str| {
        for replica in both {
            replica.reconfigure(&format!("{}{config}", shared.settings()));
        }
    };
    configure(&mut both, &full);
    let wanted = first.digest().to_string();
    for replica in &mut both {
        until("the mirrored image", || tag(replica) == wanted);
        assert_eq!(date(replica, "a"), dated);
    }
    // A pull of the image before may go on, also at a replica that starts.
    both.push(shared.replica(&full));
    until_all_at(&mut both, "a", &first.digest());
    let path = format!("/v2/a/manifests/{slim_tag}");
    for replica in &mut both {
        assert_eq!(replica.http(&path).status, 200);
    }
    let second = push(&upstream, "second");
    until_all_at(&mut both, "a", &second.digest());
    let dated = date(&mut both[0], "a");
    configure(&mut both, &slim);
    for replica in &mut both {
        until("the slim image", || {
            assert_eq!(replica.packages("a").unwrap(), ["second"]);
            assert_eq!(date(replica, "a"), dated);
            let shown = tag(replica);
            shown != wanted && shown != second.digest().to_string() && shown != slim_tag
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
    rollout.configure(early, "v2");
    early.until_failed("a");
    rollout.push("v1", "second");
    let mut last = dates(late);
    for (name, last) in BOTH.into_iter().zip(&mut last) {
        until_serves(late, name, "second", last);
    }
    rollout.configure(late, "v2");
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
    for (name, last) in BOTH.into_iter().zip(&mut last) {
        let before = *last;
        until_serves(late, name, "third", last);
        assert!(*last > before);
        until("the same", || early.packages(name).unwrap() == ["third"]);
        until("the same date", || date(early, name) == *last);
    }
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
    rollout.configure(early, "v2");
    until_at(early, "a", &image_of("new").digest());
    until("the curated one", || {
        early.packages("ours").unwrap() == ["new"]
    });
    rollout.push("v1", "second");
    let mut last = dates(late);
    for (name, last) in BOTH.into_iter().zip(&mut last) {
        until_serves(late, name, "second", last);
    }
    rollout.configure(late, "v2");
    for (name, last) in BOTH.into_iter().zip(&mut last) {
        let before = *last;
        until_serves(late, name, "new", last);
        assert!(*last > before, "{name}");
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
        until_serving(replica, "ours");
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
