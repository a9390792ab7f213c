//! What a replica takes from the others stays within its own settings, and what it cannot do
//! itself it leaves to them.

use std::path::Path;

use serde_json::json;

use super::archives::digests;
use super::fixture::{prepared, start};
use super::{
    HOLDER, PUBLISHED, REPOSITORY, status_of, until, until_at, until_mirrored, until_replicas,
    until_waiting,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog};
use crate::support::catalog::{Catalog, Format, entry, text_of};
use crate::support::image::{CONFIGS_LABEL, Image, image_of};
use crate::support::layer::Layer;
use crate::support::objects::KEY;
use crate::support::port::free_port;

/// The longest file with `SMALL`: eight times as many bytes, and 1 MiB.
const LONGEST: u64 = 800_000 + (1 << 20);
const SMALL: &str = "\n[limits]\ncatalog_bytes = 100_000\n";
const LARGE: &str = "\n[limits]\ncatalog_bytes = 1_000_000\n";

#[test]
fn a_replica_takes_no_lines_that_its_settings_do_not_allow() {
    let Some(mut fleet) = prepared() else { return };
    // In the bucket this is short, and it is part of nothing but the lines.
    let note = "a".repeat(3 << 20);
    let catalog = Catalog::new().package("first", |package| {
        let package = package.field("note", note);
        package.channel("stable", [entry("first.v1.0.0")])
    });
    let image = Image::of_catalog(&catalog).build();
    fleet.upstream.push(REPOSITORY, "latest", &image);
    fleet.start_replicas(1);
    fleet.until_all_at("a", &image);

    let mut small = fleet.another_with(&format!("{}{SMALL}", fleet.catalogs));
    until_waiting(&mut small, "the file metas.jsonl of revision");
    let advice = format!("more than the {LONGEST} that catalog_bytes");
    until_waiting(&mut small, &advice);
    assert!(small.status("a")["revision"].is_null());
    let stored = small.files("revisions");
    let is_allowed = stored.values().all(|(size, _)| *size <= LONGEST);
    assert!(is_allowed, "{stored:?}");
    // The remedy of the message, without a restart.
    small.reconfigure(&(fleet.config() + LARGE));
    until_at(&mut small, "a", &image);
}

#[test]
fn an_object_that_is_too_long_by_its_row_is_not_asked_for() {
    let Some(mut fleet) = start(1) else { return };
    let name = "SELECT DISTINCT encode(digest, 'hex') FROM objects WHERE name = 'all.zst'";
    let name = fleet.postgres.ask(name);
    let damage = "UPDATE objects SET size = 1::bigint << 50 WHERE name = 'all.zst'";
    fleet.postgres.ask(damage);
    fleet.objects.forget_requests();
    let mut late = fleet.another();
    until_waiting(&mut late, "the file all.zst of revision");
    until_waiting(&mut late, "has 1125899906842624 bytes");
    let requests = fleet.objects.requests();
    let is_asked = requests.iter().any(|line| line.contains(&name));
    assert!(!is_asked, "{requests:?}");
    // Whoever has it serves on.
    until_at(&mut fleet.replicas[0], "a", &image_of("first"));
}

/// A catalog within `SMALL` whose files are longer than others with it take: each of these
/// short documents becomes 800,000 bytes.
fn expanding() -> Image {
    let text = "a".repeat(20_000);
    let aliases = vec!["*text"; 40].join(", ");
    let note = format!("schema: example.note\ntext: &text {text}\nnotes: [{aliases}]\n");
    let first = Catalog::one("first").text(Format::Yaml);
    let notes = [note.as_str(); 3].join("---\n");
    let all = format!("{first}\n---\n{notes}");
    let layer = Layer::new().file("configs/catalog.yaml", all);
    Image::new().label(CONFIGS_LABEL, "/configs").layer(layer)
}

#[test]
fn a_holder_shares_no_revision_that_others_with_its_settings_would_not_take() {
    let Some(fleet) = prepared() else { return };
    let first = fleet.push("first");
    let mut holder = fleet.another_with(&format!("{}{SMALL}", fleet.catalogs));
    until_at(&mut holder, "a", &first);
    holder.until_pullable("a");
    let shared = || (fleet.postgres.ask(PUBLISHED), fleet.objects.keys());
    let before = shared();

    let large = expanding().build();
    fleet.upstream.push(REPOSITORY, "latest", &large);
    let failed = holder.until_within(LONG_PATIENCE, "a", "the refusal", |status| {
        status["last_result"]["reason"] == "limit"
    });
    assert_eq!(failed["last_result"]["stage"], "share");
    let error = failed["last_result"]["error"].as_str().unwrap();
    let advice = format!("more than the {LONGEST} that catalog_bytes of [limits] allows here");
    for word in ["the file messages.pb of revision", &*advice] {
        assert!(error.contains(word), "{error}");
    }
    // Clients get the revision before, and others get nothing of this one.
    assert_eq!(failed["revision"]["digest"], first.digest().to_string());
    assert_eq!(failed["state"], "serving");
    assert_eq!(shared(), before);

    holder.reconfigure(&(fleet.config() + LARGE));
    until_at(&mut holder, "a", &large);
}

#[test]
fn a_replica_takes_no_image_that_its_settings_do_not_allow() {
    let Some(mut fleet) = prepared() else { return };
    // Nothing of it compresses well, and the catalog is not in it.
    let mut program = vec![0; 3 << 20];
    let mut state = 1_u32;
    program.fill_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let program = Layer::new().file("bin/program", program);
    let image = Image::of_catalog(&Catalog::one("first"))
        .layer(program)
        .build();
    fleet.upstream.push(REPOSITORY, "latest", &image);
    fleet.catalogs += "mirror = \"full\"\n";
    fleet.start_replicas(1);
    fleet.until_all_at("a", &image);
    until_mirrored(&mut fleet.replicas[0], "a", &image);

    let small = "\n[limits]\nbytes = 100_000\n";
    let mut late = fleet.another_with(&format!("{}{small}", fleet.catalogs));
    until_waiting(&mut late, "the image of revision ");
    let advice = "more than the 1600000 that bytes of [limits] allows here";
    until_waiting(&mut late, advice);
    assert!(late.blobs().is_empty());
    // The remedy of the message, without a restart.
    let large = small.replace("100_000", "1_000_000");
    late.reconfigure(&(fleet.config() + &large));
    until_at(&mut late, "a", &image);
    until_mirrored(&mut late, "a", &image);
}

/// Writes a file with the key of a bucket.
fn write_key(file: &Path, id: &str) {
    let key = format!("aws_access_key_id = {id}\naws_secret_access_key = secret\n");
    crate::support::file::replace(file, &key);
}

/// Its passes end at the bucket, and those of the other one do not.
#[test]
fn after_three_passes_that_failed_for_its_own_reasons_a_replica_leaves_the_catalog_to_another() {
    let Some(fleet) = prepared() else { return };
    let first = fleet.push("first");
    let folder = tempfile::tempdir().unwrap();
    let key_of = |replica: usize| folder.path().join(replica.to_string());
    let mut both = [0, 1].map(|replica| {
        let (key, name) = (key_of(replica), replica.to_string());
        write_key(&key, KEY);
        let key = format!("\n[fleet]\ncredentials_file = {key:?}\n");
        Almanac::start_with(&(fleet.config() + &key), &[("HOSTNAME", &name)])
    });
    for replica in &mut both {
        until_at(replica, "a", &first);
        until_replicas(replica, 2);
    }
    let unable = fleet.holder();
    let able = 1 - unable;
    write_key(&key_of(unable), "AKIAOTHER");
    let second = fleet.push("second");
    fleet.postgres.until(HOLDER, &able.to_string());
    until_at(&mut both[able], "a", &second);
    // It serves on, and says what it lacks.
    until_waiting(&mut both[unable], "check the key in credentials_file");
    assert_eq!(both[unable].all("a").text(), text_of("first"));
    assert_eq!(both[unable].ready().status, 200);
    write_key(&key_of(unable), KEY);
    until_at(&mut both[unable], "a", &second);
    assert_eq!(fleet.holder(), able);
}

/// It would follow none of them, and they would pass them on to it again and again.
#[test]
fn a_replica_that_cannot_reach_the_bucket_is_left_out_when_catalogs_are_shared_out() {
    let Some(mut fleet) = prepared() else { return };
    fleet.catalogs += &catalog("b", &fleet.source());
    let first = fleet.serve_first(2);
    fleet.until_all_at("b", &first);
    let config = fleet.config();
    let [able, unable] = &mut fleet.replicas[..] else {
        unreachable!("two were started");
    };
    for name in ["a", "b"] {
        // It is stored before it is in the history.
        until("the history", || digests(unable, name).len() == 1);
    }
    unable.program.kill9();
    let used = fleet.objects.url("almanac");
    let (_, server) = used.rsplit_once("//").unwrap();
    let elsewhere = config.replace(server, &free_port().to_string());
    assert_ne!(elsewhere, config);
    unable.restart_with(&elsewhere);
    until("the problem", || {
        !status_of(unable)["bucket_error"].is_null()
    });
    until_replicas(able, 2);
    until("the only holder", || {
        status_of(able)["follows"] == json!(["a", "b"]) && status_of(unable)["follows"] == json!([])
    });
    // What is stored here is what the fleet serves.
    unable.program.wait_until_ready();
    assert_eq!(unable.all("b").text(), text_of("first"));
}
