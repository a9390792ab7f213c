//! The replicas with their database, their bucket and their source.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use images::digest::Digest;

use crate::support::almanac::{Almanac, catalog};
use crate::support::http::get;
use crate::support::objects::{KEY, ObjectStore};
use crate::support::postgres::Postgres;
use crate::support::program::Start;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The locks of the replicas in this database: those that live, and what they follow.
pub(crate) const HELD: &str = "SELECT r.name, h.objid::bigint AS track
    FROM pg_locks h JOIN pg_locks p USING (pid, database, locktype)
    JOIN replicas r ON r.id = p.objid::bigint
    WHERE locktype = 'advisory' AND h.classid = 2 AND h.granted AND p.classid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Some replicas of one configuration.
pub(crate) struct Fleet {
    pub(crate) postgres: Postgres,
    pub(crate) objects: ObjectStore,
    pub(crate) upstream: Upstream,
    pub(crate) replicas: Vec<Almanac>,
    config: String,
    level: String,
}

/// Where the replicas are that clients may ask.
#[derive(Default)]
pub(crate) struct Places(Mutex<Rotation>);

#[derive(Default)]
struct Rotation {
    replicas: Vec<Option<Place>>,
    /// Those that are killed, or will be in a moment.
    killed: Vec<Place>,
}

/// A replica that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Another one after each start.
    start: Instant,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Rotation> {
        self.0.lock().unwrap()
    }

    /// The place of a replica, when clients may ask it.
    pub(crate) fn get(&self, number: usize) -> Option<Place> {
        self.lock().replicas.get(number).copied().flatten()
    }

    /// The replicas that clients may ask.
    pub(crate) fn rotation(&self) -> Vec<Place> {
        self.lock().replicas.iter().flatten().copied().collect()
    }

    /// Whether a replica is in rotation, and alive.
    pub(crate) fn has(&self, place: Place) -> bool {
        let rotation = self.lock();
        rotation.replicas.contains(&Some(place)) && !rotation.killed.contains(&place)
    }

    /// Notes that a replica is about to be killed. It stays in rotation: a proxy finds that
    /// it accepts no connection.
    pub(crate) fn kill(&self, number: usize) {
        let mut rotation = self.lock();
        let place = rotation.replicas.get(number).copied().flatten();
        rotation.killed.extend(place);
    }

    /// Opens or closes a replica for clients.
    pub(crate) fn set(&self, number: usize, place: Option<Place>) {
        let replicas = &mut self.lock().replicas;
        if replicas.len() <= number {
            replicas.resize(number + 1, None);
        }
        replicas[number] = place;
    }
}

impl Fleet {
    /// Starts replicas with one catalog in turns of an image, and further ones that do
    /// not change.
    pub(crate) fn start(count: usize, further: usize) -> Self {
        Self::start_with(count, further, "info")
    }

    /// The same, with logs of this level.
    pub(crate) fn start_with(count: usize, further: usize, level: &str) -> Self {
        let (postgres, objects) = (Postgres::alone(), ObjectStore::start());
        let upstream = Upstream::start();
        let source = upstream.reference(REPOSITORY, "latest");
        let mut config = format!(
            "database = {:?}\nobjects = {:?}\npoll = \"1s\"\n{}",
            postgres.url(),
            objects.url("almanac"),
            catalog("a", &source)
        );
        let still = upstream.reference(REPOSITORY, "still");
        for number in 0..further {
            config.push_str(&catalog(&format!("c{number}"), &still));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("almanac.toml");
        std::fs::write(&path, &config).unwrap();
        let migrated = Start::new(["migrate", "--config", path.to_str().unwrap()]).run();
        assert!(migrated.status.success(), "{migrated:?}");
        let mut fleet = Self {
            postgres,
            objects,
            upstream,
            replicas: Vec::new(),
            config,
            level: level.to_owned(),
        };
        for number in 0..count {
            let replica = fleet.another(number);
            fleet.replicas.push(replica);
        }
        fleet
    }

    /// A replica with an empty cache.
    pub(crate) fn another(&self, number: usize) -> Almanac {
        let name = number.to_string();
        Almanac::start_with(
            &self.config,
            &[
                ("AWS_ACCESS_KEY_ID", KEY),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
                ("HOSTNAME", &name),
                ("ALMANAC_LOG", &self.level),
            ],
        )
    }

    /// Moves the tag of the catalog that changes.
    pub(crate) fn push(&self, image: &crate::support::image::Built) {
        self.upstream.push(REPOSITORY, "latest", image);
    }

    /// The same for the others.
    pub(crate) fn push_still(&self, image: &crate::support::image::Built) {
        self.upstream.push(REPOSITORY, "still", image);
    }

    /// The place of a replica.
    pub(crate) fn place(&mut self, number: usize) -> Place {
        let program = &mut self.replicas[number].program;
        Place {
            http: program.address("http"),
            grpc: program.address("grpc"),
            admin: program.address("admin"),
            start: Instant::now(),
        }
    }

    /// Waits until all replicas serve a digest, which is told.
    pub(crate) fn until_all_at(&mut self, catalog: &str, digest: &Digest) -> bool {
        let begin = Instant::now();
        let wanted = digest.to_string();
        for replica in &mut self.replicas {
            while replica.status(catalog)["revision"]["digest"] != wanted.as_str() {
                if begin.elapsed() > PATIENCE {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        true
    }

    /// Waits until replicas follow all catalogs, other ones than that of a name.
    pub(crate) fn until_followed(&self, but: Option<&str>) {
        let but = but.unwrap_or("-");
        let lost = format!(
            "SELECT count(*) FROM tracks WHERE id NOT IN (
               SELECT track FROM ({HELD}) held WHERE name <> '{but}')"
        );
        let begin = Instant::now();
        while self.postgres.ask(&lost) != "0" {
            assert!(begin.elapsed() < PATIENCE, "some catalogs are not followed");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Waits until a replica is ready.
pub(crate) fn until_ready(place: Place) {
    let begin = Instant::now();
    while !get(place.admin, "/readyz").is_ok_and(|reply| reply.status == 200) {
        assert!(begin.elapsed() < PATIENCE, "a replica is not ready");
        std::thread::sleep(Duration::from_millis(10));
    }
}
