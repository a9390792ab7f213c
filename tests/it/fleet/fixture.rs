//! The fixture: a database, a bucket, a registry of images, and replicas that share them.
//!
//! A test begins with one of the constructors, which give `None` where `PostgreSQL` is missing:
//! `let Some(mut fleet) = start(2) else { return };`

use almanac::fleet::{Fleet, FleetError, Settings};
use almanac::objects::{self as bucket, CredentialSource};

use super::{HOLDER, REPOSITORY, until, until_at};
use crate::support::almanac::{Almanac, following};
use crate::support::image::{Built, image_of};
use crate::support::objects::{KEY, ObjectStore};
use crate::support::postgres::{self, Postgres};
use crate::support::program::{Finished, Start};
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

/// Replicas of one configuration, and what they need. Dropped in this order.
pub(super) struct TestFleet {
    pub(super) replicas: Vec<Almanac>,
    /// What the configuration has beside the database and the bucket: the catalog `a`.
    pub(super) catalogs: String,
    pub(super) upstream: Upstream,
    pub(super) objects: ObjectStore,
    pub(super) postgres: Postgres,
}

/// So many replicas that serve the package `first`.
#[track_caller]
pub(super) fn start(count: usize) -> Option<TestFleet> {
    Some(prepared()?.with_first(count))
}

/// The same over a server of this test alone, which may be ended.
#[track_caller]
pub(super) fn start_alone(count: usize) -> Option<TestFleet> {
    Some(prepared_on(Postgres::alone)?.with_first(count))
}

/// The database has its tables, and there are no replicas.
#[track_caller]
pub(super) fn prepared() -> Option<TestFleet> {
    prepared_on(Postgres::start)
}

/// The same with a database that is made so.
#[track_caller]
pub(super) fn prepared_on(database: impl FnOnce() -> Postgres) -> Option<TestFleet> {
    let fleet = unprepared_on(database)?;
    fleet.migrate();
    Some(fleet)
}

/// The database is empty, and there are no replicas.
#[track_caller]
pub(super) fn unprepared() -> Option<TestFleet> {
    unprepared_on(Postgres::start)
}

#[track_caller]
fn unprepared_on(database: impl FnOnce() -> Postgres) -> Option<TestFleet> {
    if postgres::is_missing() {
        return None;
    }
    let mut fleet = TestFleet {
        replicas: Vec::new(),
        catalogs: String::new(),
        upstream: Upstream::start(),
        objects: ObjectStore::start(),
        postgres: database(),
    };
    fleet.catalogs = following(&fleet.source());
    Some(fleet)
}

impl TestFleet {
    fn with_first(mut self, count: usize) -> Self {
        self.serve_first(count);
        self
    }

    // configuration

    /// Where the image of the catalog `a` lies.
    pub(super) fn source(&self) -> String {
        self.upstream.reference(REPOSITORY, "latest")
    }

    /// The lines of a configuration that name the database and the bucket.
    pub(super) fn settings(&self) -> String {
        format!(
            "database = {:?}\nobjects = {:?}\n",
            self.postgres.url(),
            self.objects.url("almanac")
        )
    }

    /// The configuration of the replicas.
    pub(super) fn config(&self) -> String {
        self.config_with(&self.catalogs)
    }

    /// The same with other catalogs.
    pub(super) fn config_with(&self, catalogs: &str) -> String {
        format!("{}{catalogs}", self.settings())
    }

    // commands

    pub(super) fn migrate(&self) {
        let done = self.try_migrate();
        assert!(done.status.success(), "{done:?}");
    }

    pub(super) fn try_migrate(&self) -> Finished {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("almanac.toml");
        std::fs::write(&config, self.settings()).unwrap();
        Start::new(["migrate", "--config", config.to_str().unwrap()]).run()
    }

    // replicas

    /// Starts replicas whose names are their numbers.
    pub(super) fn start_replicas(&mut self, count: usize) {
        for number in 0..count {
            let [id, secret] = credentials();
            let name = number.to_string();
            let variables = [id, secret, ("HOSTNAME", &*name)];
            let replica = Almanac::start_with(&self.config(), &variables);
            self.replicas.push(replica);
        }
    }

    /// Starts replicas and waits until they serve the package `first`.
    pub(super) fn serve_first(&mut self, count: usize) -> Built {
        let first = self.push("first");
        self.start_replicas(count);
        self.until_all_at("a", &first);
        first
    }

    /// Starts a replica that is not among the others.
    pub(super) fn another(&self) -> Almanac {
        self.another_with(&self.catalogs)
    }

    /// The same with other catalogs.
    pub(super) fn another_with(&self, catalogs: &str) -> Almanac {
        Almanac::start_with(&self.config_with(catalogs), &credentials())
    }

    /// Starts one more among them.
    pub(super) fn add_replica(&mut self) -> &mut Almanac {
        let another = self.another();
        self.replicas.push(another);
        self.replicas.last_mut().unwrap()
    }

    /// Removes the first one from the others.
    pub(super) fn take(&mut self) -> Almanac {
        self.replicas.remove(0)
    }

    /// Waits until all of them serve a catalog of this image. One that dies, or is slow to
    /// start, delays the others for half a minute.
    pub(super) fn until_all_at(&mut self, catalog: &str, image: &Built) {
        for replica in &mut self.replicas {
            until_at(replica, catalog, image);
        }
    }

    /// The place of the replica that follows the only catalog.
    pub(super) fn holder(&self) -> usize {
        let mut holder = None;
        until("a holder", || {
            holder = self.postgres.ask(HOLDER).parse().ok();
            holder.is_some()
        });
        holder.unwrap()
    }

    /// Waits until another replica follows the catalog than this one.
    pub(super) fn until_holder_is_not(&self, before: usize) -> usize {
        let mut holder = before;
        until("another holder", || {
            holder = self.holder();
            holder != before
        });
        holder
    }

    // images

    /// Makes this the image of the catalog `a`.
    pub(super) fn push(&self, package: &str) -> Built {
        self.push_to(REPOSITORY, package)
    }

    /// The same in another repository.
    pub(super) fn push_to(&self, repository: &str, package: &str) -> Built {
        let image = image_of(package);
        self.upstream.push(repository, "latest", &image);
        image
    }

    /// Makes this the image of the catalog `a`, and waits until all replicas serve it.
    pub(super) fn publish(&mut self, package: &str) -> Built {
        let image = self.push(package);
        self.until_all_at("a", &image);
        image
    }

    /// No pass brings anything new from now on.
    pub(super) fn disconnect(&self) {
        self.upstream
            .misbehave(|behaviour| behaviour.status = Some(503));
    }

    // a test that takes part itself

    /// What the replicas share.
    pub(super) fn member(&self) -> Fleet {
        self.member_at("almanac")
    }

    /// The same with a prefix of the bucket.
    fn member_at(&self, prefix: &str) -> Fleet {
        let settings = Settings {
            database: self.postgres.url().parse().unwrap(),
            password_file: None,
            ca_files: Vec::new(),
            objects: bucket::Settings {
                location: self.objects.url(prefix).parse().unwrap(),
                credentials: CredentialSource::from_key(KEY, "secret"),
                ca_files: Vec::new(),
            },
            name: "test".into(),
            stale: None,
        };
        Fleet::open(&settings).unwrap()
    }

    /// Checks the fleet as a start does, which writes its mark.
    pub(super) fn claim(&self, prefix: &str) {
        block_on(async {
            let fleet = self.member_at(prefix);
            fleet.check().await.unwrap();
            fleet.close().await;
        });
    }

    /// Runs a collection beside the replicas. Returns how many objects it has removed.
    pub(super) fn collect(&self) -> usize {
        self.try_collect().unwrap()
    }

    /// The same, which may fail.
    pub(super) fn try_collect(&self) -> Result<usize, FleetError> {
        block_on(async {
            let fleet = self.member();
            let removed = fleet.collect().await;
            fleet.close().await;
            removed
        })
    }

    /// Changes a setting of the sessions that begin from now on.
    pub(super) fn set_in_database(&self, setting: &str) {
        self.postgres.ask(&format!(
            "DO $$ BEGIN
               EXECUTE format('ALTER DATABASE %I SET {setting}', current_database());
             END $$"
        ));
    }

    /// Makes rows two days older.
    pub(super) fn age(&self, table: &str, column: &str) {
        let aged = format!("UPDATE {table} SET {column} = {column} - interval '2 days'");
        self.postgres.ask(&aged);
    }
}

pub(super) fn credentials() -> [(&'static str, &'static str); 2] {
    [
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]
}
