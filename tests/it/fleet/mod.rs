//! Several replicas over a real `PostgreSQL` and a store of objects.

mod access;
mod archives;
mod bindings;
mod content;
mod limits;
mod objects;
mod pulls;
mod repairs;
mod replicas;
mod rollouts;
mod stale;
mod starts;

use std::path::Path;
use std::time::{Instant, SystemTime};

use almanac::fleet::{Fleet, FleetError, Settings};
use almanac::objects::{self as bucket, CredentialSource};
use images::digest::Digest;
use serde_json::Value;

use crate::support::almanac::{Almanac, LONG_PATIENCE, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http::get;
use crate::support::image::{Built, Image};
use crate::support::objects::{KEY, ObjectStore};
use crate::support::postgres::{self, Postgres};
use crate::support::program::{Finished, Start, pause};
use crate::support::upstream::Upstream;

/// Where the image of the catalog `a` lies.
const REPOSITORY: &str = "catalogs/a";

/// Asks for the name of the replica that follows the only catalog.
const HOLDER: &str = "SELECT r.name FROM pg_locks h JOIN pg_locks p USING (pid, database, locktype)
    JOIN replicas r ON r.id = p.objid::bigint
    WHERE locktype = 'advisory' AND h.classid = 2 AND h.granted AND p.classid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

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

/// Replicas that follow the catalog `a` and serve its first image.
struct Following {
    shared: Shared,
    upstream: Upstream,
    replicas: Vec<Almanac>,
    /// The first image.
    first: Built,
}

impl Following {
    /// So many replicas; none where the test has to be skipped.
    #[track_caller]
    fn start(count: usize) -> Option<Self> {
        Self::start_over(Shared::start, count)
    }

    /// The same over a database of this test alone.
    #[track_caller]
    fn start_alone(count: usize) -> Option<Self> {
        Self::start_over(|| Shared::of(Postgres::alone()), count)
    }

    #[track_caller]
    fn start_over(shared: impl FnOnce() -> Shared, count: usize) -> Option<Self> {
        if postgres::is_missing() {
            return None;
        }
        let (shared, upstream) = (shared(), Upstream::start());
        let first = push(&upstream, "first");
        let config = following(&upstream.reference(REPOSITORY, "latest"));
        let mut replicas = replicas(&shared, &config, count);
        until_all_at(&mut replicas, "a", &first.digest());
        Some(Self {
            shared,
            upstream,
            replicas,
            first,
        })
    }
}

/// The image of a catalog with this package.
fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

/// Its lines.
fn text(package: &str) -> String {
    Catalog::one(package).text(Format::JsonLines)
}

/// Makes this the image of the catalog `a`.
fn push(upstream: &Upstream, package: &str) -> Built {
    let image = image_of(package);
    upstream.push(REPOSITORY, "latest", &image);
    image
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

/// What the replicas share, for a test that takes part itself.
fn fleet(shared: &Shared) -> Fleet {
    fleet_at(shared, "almanac")
}

/// The same with a prefix of the bucket.
fn fleet_at(shared: &Shared, prefix: &str) -> Fleet {
    let settings = Settings {
        database: shared.postgres.url().parse().unwrap(),
        password_file: None,
        ca_files: Vec::new(),
        objects: bucket::Settings {
            location: shared.objects.url(prefix).parse().unwrap(),
            credentials: CredentialSource::from_key(KEY, "secret"),
            ca_files: Vec::new(),
        },
        name: "test".into(),
        stale: None,
    };
    Fleet::open(&settings).unwrap()
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

/// What a replica tells of itself and of the fleet.
fn status_of(replica: &mut Almanac) -> Value {
    let address = replica.program.address("admin");
    let reply = get(address, "/status").unwrap();
    let status: Value = serde_json::from_slice(&reply.body).unwrap();
    status["fleet"].clone()
}

/// Waits until a replica tells that the catalog `a` waits for this.
fn until_waiting(replica: &mut Almanac, reason: &str) {
    let begin = Instant::now();
    loop {
        let status = status_of(replica);
        let told = status["waits"]["a"].as_str();
        if told.is_some_and(|told| told.contains(reason)) {
            return;
        }
        assert!(
            begin.elapsed() < LONG_PATIENCE,
            "{reason:?} is not in {status}"
        );
        pause(begin);
    }
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG_PATIENCE, "waiting for {what}");
        pause(begin);
    }
}

/// The digest that a replica shows under the tag.
fn tag(replica: &mut Almanac) -> String {
    let image = replica.until_pullable("a");
    image.header("docker-content-digest").unwrap().to_owned()
}

/// Checks the fleet as a start does, which writes its mark.
fn claim(shared: &Shared, prefix: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fleet = fleet_at(shared, prefix);
        fleet.check().await.unwrap();
        fleet.close().await;
    });
}

// starts

/// Tries a configuration by `serve --check`.
fn check(config: &str, variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    check_in(&folder.path().join("data"), config, variables)
}

/// The same with a data folder.
fn check_in(data: &Path, config: &str, variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    std::fs::write(&path, config).unwrap();
    let start = Start::new(["serve", "--check", "--config", path.to_str().unwrap()])
        .argument("--data-dir={data}")
        .argument("--grpc=127.0.0.1:0")
        .argument("--http=127.0.0.1:0")
        .argument("--admin=127.0.0.1:0")
        .data(data);
    let start = variables
        .iter()
        .fold(start, |start, (name, value)| start.variable(name, value));
    start.run()
}

/// Checks that a command was refused with these words.
#[track_caller]
fn assert_refused(refused: &Finished, words: &[&str]) {
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for word in words {
        assert!(
            refused.stderr.contains(word),
            "{word:?} is not in {refused:?}"
        );
    }
}

/// Checks that a command ended well.
#[track_caller]
fn assert_good(done: &Finished) {
    assert!(done.status.success(), "{done:?}");
}

// content

/// Runs a collection beside the replicas. Returns how many objects it has removed.
fn collect(shared: &Shared) -> usize {
    try_collect(shared).unwrap()
}

/// The same, which may fail.
fn try_collect(shared: &Shared) -> Result<usize, FleetError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fleet = fleet(shared);
        let removed = fleet.collect().await;
        fleet.close().await;
        removed
    })
}

/// The place of the replica that follows the only catalog, among those of [`replicas`].
fn holder(shared: &Shared) -> usize {
    let mut holder = None;
    until("a holder", || {
        holder = shared.postgres.ask(HOLDER).parse().ok();
        holder.is_some()
    });
    holder.unwrap()
}

/// The date of what a replica serves of a catalog.
fn date(replica: &mut Almanac, catalog: &str) -> SystemTime {
    let reply = replica.all(catalog);
    let date = reply.header("last-modified").unwrap();
    httpdate::parse_http_date(date).unwrap()
}

/// Why a replica does not show the newest revision of the catalog `a`.
fn waits(replica: &mut Almanac) -> String {
    let status = status_of(replica);
    status["waits"]["a"].as_str().unwrap_or_default().to_owned()
}

/// Waits until a replica serves some revision of a catalog.
fn until_serving(replica: &mut Almanac, catalog: &str) {
    replica.until_within(LONG_PATIENCE, catalog, "a revision", |status| {
        status["state"] == "serving"
    });
}

/// Waits until a replica lacks nothing.
fn until_settled(replica: &mut Almanac) {
    until("an end of what it lacks", || {
        let status = status_of(replica);
        status["behind"] == serde_json::json!([]) && status["waits"] == serde_json::json!({})
    });
}
