//! Several replicas over a real `PostgreSQL` and a store of objects.

mod content;
mod objects;
mod replicas;
mod starts;

use std::time::{Duration, Instant};

use images::digest::Digest;

use crate::support::almanac::{Almanac, LONG_PATIENCE};
use crate::support::objects::{KEY, ObjectStore};
use crate::support::postgres::Postgres;
use crate::support::program::{Finished, Start};

/// A database and a bucket.
struct Shared {
    postgres: Postgres,
    objects: ObjectStore,
}

impl Shared {
    /// Starts both, and prepares the database.
    fn start() -> Self {
        Self::of(Postgres::start())
    }

    fn of(postgres: Postgres) -> Self {
        let shared = Self {
            postgres,
            objects: ObjectStore::start(),
        };
        shared.migrate();
        shared
    }

    fn migrate(&self) {
        let done = self.try_migrate();
        assert!(done.status.success(), "{done:?}");
    }

    fn try_migrate(&self) -> Finished {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("almanac.toml");
        std::fs::write(&config, self.settings()).unwrap();
        let start = Start::new(["migrate", "--config", config.to_str().unwrap()]);
        start.run()
    }

    /// The lines of a configuration that name both.
    fn settings(&self) -> String {
        format!(
            "database = {:?}\nobjects = {:?}\n",
            self.postgres.url(),
            self.objects.url("almanac")
        )
    }

    /// A replica with this configuration besides.
    fn replica(&self, config: &str) -> Almanac {
        let config = format!("{}{config}", self.settings());
        Almanac::start_with(&config, &credentials())
    }
}

/// Replicas whose names are their numbers.
fn replicas(shared: &Shared, config: &str, count: usize) -> Vec<Almanac> {
    let config = format!("{}{config}", shared.settings());
    let start = |number: usize| {
        let [id, secret] = credentials();
        let name = number.to_string();
        Almanac::start_with(&config, &[id, secret, ("HOSTNAME", &name)])
    };
    (0..count).map(start).collect()
}

fn credentials() -> [(&'static str, &'static str); 2] {
    [
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]
}

/// Waits until all replicas serve a catalog at a digest. A replica that dies, or is slow
/// to start, delays the others for half a minute.
fn until_all_at(replicas: &mut [Almanac], catalog: &str, digest: &Digest) {
    for replica in replicas {
        until_at(replica, catalog, digest);
    }
}

/// As [`Almanac::until_at`], with the patience that a fleet needs.
fn until_at(replica: &mut Almanac, catalog: &str, digest: &Digest) {
    let digest = digest.to_string();
    replica.until_within(LONG_PATIENCE, catalog, &digest, |status| {
        status["revision"]["digest"] == digest.as_str()
    });
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG_PATIENCE, "waiting for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
