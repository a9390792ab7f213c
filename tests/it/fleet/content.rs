//! What a fleet serves: the same everywhere, whole, and nothing that was removed
//! too early.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use almanac::objects::{self, AccessKey, CredentialSource};
use almanac::store::fleet::{Collected, Fleet, Settings};

use super::{Shared, replicas, until, until_all_at};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http::get;
use crate::support::image::{Built, Image};
use crate::support::objects::KEY;
use crate::support::postgres;
use crate::support::program::PATIENCE;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";

fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

fn text(package: &str) -> String {
    Catalog::one(package).text(Format::JsonLines)
}

/// The digest that a replica shows under the tag.
fn tag(replica: &mut Almanac) -> String {
    let image = replica.until_pullable("a");
    image.header("docker-content-digest").unwrap().to_owned()
}

/// A client follows the tag at one replica and pulls by digest at another, as it does
/// behind a balancer, while the catalog changes.
#[test]
fn a_tag_leads_to_no_digest_that_another_replica_lacks() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let images = ["first", "second", "third"].map(image_of);
    upstream.push(REPOSITORY, "latest", &images[0]);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 3);
    until_all_at(&mut replicas, "a", &images[0].digest());
    for replica in &mut replicas {
        replica.until_pullable("a");
    }
    let addresses: Vec<_> = replicas
        .iter_mut()
        .map(|replica| replica.program.address("http"))
        .collect();
    for image in &images[1..] {
        let before = tag(&mut replicas[0]);
        upstream.push(REPOSITORY, "latest", image);
        let begin = Instant::now();
        let mut first_new = None;
        let mut seen_by = [false; 3];
        while !seen_by.iter().all(|seen| *seen) {
            assert!(begin.elapsed() < LONG_PATIENCE, "{seen_by:?}");
            for (number, address) in addresses.iter().enumerate() {
                let shown = get(*address, "/v2/a/manifests/latest").unwrap();
                let digest = shown.header("docker-content-digest").unwrap().to_owned();
                let asked = Instant::now();
                if digest != before {
                    seen_by[number] = true;
                    first_new.get_or_insert(asked);
                } else if let Some(first) = first_new {
                    // Processes of a busy machine may wait for the processor.
                    assert!(asked - first < PATIENCE, "an old tag is shown");
                }
                let other = addresses[(number + 1) % addresses.len()];
                let pulled = get(other, &format!("/v2/a/manifests/{digest}")).unwrap();
                assert_eq!(pulled.status, 200, "{digest}");
                assert_eq!(pulled.body, shown.body);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        until_all_at(&mut replicas, "a", &image.digest());
    }
}

#[test]
fn curated_catalogs_and_full_mirrors_come_to_every_replica() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let source = upstream.reference(REPOSITORY, "latest");
    let config = following(&source)
        + "mirror = \"full\"\n"
        + "\n[[catalog]]\nname = \"ours\"\nfrom = [\"a\"]\n"
        + &catalog("slim", &source);
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());
    for replica in &mut replicas {
        for name in ["ours", "slim"] {
            replica.until_within(LONG_PATIENCE, name, "a revision", |status| {
                status["state"] == "serving"
            });
            assert_eq!(replica.packages(name).unwrap(), ["first"]);
        }
        // The image of the source itself.
        let wanted = first.digest().to_string();
        until("the mirrored image", || tag(replica) == wanted);
    }
    // Both replicas follow some of the three.
    let spread = "SELECT count(DISTINCT holder) FROM leases";
    shared.postgres.until(spread, "2");

    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    until_all_at(&mut replicas, "a", &second.digest());
    for replica in &mut replicas {
        until("the curated catalog", || {
            replica.packages("ours").unwrap() == ["second"]
        });
        let wanted = second.digest().to_string();
        until("the mirrored image", || tag(replica) == wanted);
    }
}

#[test]
fn damaged_files_of_a_replica_are_fetched_again() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());
    // The fleet brings it, not the source.
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    for replica in &mut replicas {
        let id = replica.status("a")["revision"]["id"].to_string();
        let file = replica.program.data().join("revisions").join(id);
        let file = file.join("metas.jsonl");
        let first = fs::read(&file).unwrap()[0];
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        // In place: the replica has mapped it, and a cut file would end it.
        let mut file = fs::File::options().write(true).open(&file).unwrap();
        file.write_all(&[first ^ 1]).unwrap();
        replica.until_within(LONG_PATIENCE, "a", "the repair", |status| {
            status["damage"]["repair"] == "done" && status["state"] == "serving"
        });
        assert_eq!(replica.all("a").text(), text("first"));
    }
}

#[test]
fn a_damaged_object_reaches_no_client() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = image_of("first");
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut replicas = replicas(&shared, &config, 2);
    until_all_at(&mut replicas, "a", &first.digest());
    for replica in &mut replicas {
        replica.until_pullable("a");
    }

    shared.objects.lie(|lies| lies.altered = Some("/sha256/"));
    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    until("a refusal", || {
        let mut logs = replicas.iter().map(|replica| replica.program.log());
        logs.any(|log| log.contains("is damaged"))
    });
    // The holder has the bytes and waits for the other.
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("first"));
    }
    shared.objects.behave();
    until_all_at(&mut replicas, "a", &second.digest());
    for replica in &mut replicas {
        assert_eq!(replica.all("a").text(), text("second"));
    }
}

#[test]
fn a_collection_removes_what_was_replaced_and_nothing_else() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let (first, second) = (image_of("first"), image_of("second"));
    upstream.push(REPOSITORY, "latest", &first);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut one = replicas(&shared, &config, 1);
    until_all_at(&mut one, "a", &first.digest());
    upstream.push(REPOSITORY, "latest", &second);
    until_all_at(&mut one, "a", &second.digest());

    let all = shared.objects.keys();
    assert_eq!(collect(&shared), Collected::default(), "it is too early");
    let age = |rows: &str, columns: &str| {
        let statement = format!("UPDATE {rows} SET {columns} = {columns} - interval '2 days'");
        shared.postgres.ask(&statement);
    };
    age("generations", "flips");
    age("objects", "touched");
    let marked = collect(&shared);
    assert_eq!(marked.generations, 1);
    assert!(marked.marked > 3, "{marked:?}");
    assert_eq!(marked.objects, 0, "a publisher may need them yet");
    assert_eq!(shared.objects.keys(), all);

    // One that is needed again while it goes gets another name.
    upstream.push(REPOSITORY, "latest", &first);
    until_all_at(&mut one, "a", &first.digest());
    age("objects", "touched");
    let removed = collect(&shared);
    assert_eq!(removed.objects, marked.marked);
    let known = "SELECT count(*) FROM objects";
    // All objects have a row, and the mark of the fleet has none.
    let count = (shared.objects.keys().len() - 1).to_string();
    assert_eq!(shared.postgres.ask(known), count);

    // Nothing that a new replica needs is missing.
    let mut others = replicas(&shared, &config, 1);
    until_all_at(&mut others, "a", &first.digest());
    assert_eq!(others[0].all("a").text(), text("first"));
    let image = tag(&mut one[0]);
    until("the image", || tag(&mut others[0]) == image);
}

/// Runs a collection beside the replicas.
fn collect(shared: &Shared) -> Collected {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let settings = Settings {
        database: shared.postgres.url().parse().unwrap(),
        password_file: None,
        ca_files: Vec::new(),
        objects: objects::Settings {
            location: shared.objects.url("almanac").parse().unwrap(),
            credentials: CredentialSource::Key(AccessKey {
                id: KEY.into(),
                secret: "secret".into(),
                token: None,
            }),
            ca_files: Vec::new(),
        },
        name: "test".into(),
        stale: None,
    };
    runtime.block_on(async {
        let fleet = Fleet::open(&settings).unwrap();
        let collected = fleet.collect().await.unwrap();
        fleet.close().await;
        collected.expect("nobody else collects")
    })
}
