//! What a replica takes from the others stays within its own settings, and what it cannot do
//! itself it leaves to them.

use std::path::Path;

use super::archives::digests;
use super::{
    Following, HOLDER, REPOSITORY, Shared, holder, push, replicas, status_of, tag, text, until,
    until_all_at, until_at, until_waiting,
};
use crate::support::almanac::{Almanac, LONG_PATIENCE, catalog, following};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{CONFIGS_LABEL, Image};
use crate::support::layer::Layer;
use crate::support::objects::KEY;
use crate::support::port::free_port;
use crate::support::postgres;
use crate::support::upstream::Upstream;

/// The longest file with `SMALL`: eight times as many bytes, and 1 MiB.
const LONGEST: u64 = 800_000 + (1 << 20);
const SMALL: &str = "\n[limits]\ncatalog_bytes = 100_000\n";
const LARGE: &str = "\n[limits]\ncatalog_bytes = 1_000_000\n";

#[test]
fn a_replica_takes_no_lines_that_its_settings_do_not_allow() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    // In the bucket this is short, and it is part of nothing but the lines.
    let note = "a".repeat(3 << 20);
    let catalog = Catalog::new().package("first", |package| {
        let package = package.field("note", note);
        package.channel("stable", [entry("first.v1.0.0")])
    });
    let image = Image::of_catalog(&catalog).build();
    upstream.push(REPOSITORY, "latest", &image);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut holder = replicas(&shared, &config, 1);
    until_all_at(&mut holder, "a", &image.digest());

    let mut small = shared.replica(&format!("{config}{SMALL}"));
    until_waiting(&mut small, "the file metas.jsonl of revision");
    let advice = format!("more than the {LONGEST} that catalog_bytes");
    until_waiting(&mut small, &advice);
    assert!(small.status("a")["revision"].is_null());
    let stored = small.files("revisions");
    let is_allowed = stored.values().all(|(size, _)| *size <= LONGEST);
    assert!(is_allowed, "{stored:?}");
    // The remedy of the message, without a restart.
    small.reconfigure(&format!("{}{config}{LARGE}", shared.settings()));
    until_at(&mut small, "a", &image.digest());
}

#[test]
fn an_object_that_is_too_long_by_its_row_is_not_asked_for() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(1)
    else {
        return;
    };
    let name = "SELECT DISTINCT encode(digest, 'hex') FROM objects WHERE name = 'all.zst'";
    let name = shared.postgres.ask(name);
    let damage = "UPDATE objects SET size = 1::bigint << 50 WHERE name = 'all.zst'";
    shared.postgres.ask(damage);
    shared.objects.forget_requests();
    let mut late = shared.replica(&following(&upstream.reference(REPOSITORY, "latest")));
    until_waiting(&mut late, "the file all.zst of revision");
    until_waiting(&mut late, "has 1125899906842624 bytes");
    let requests = shared.objects.requests();
    let is_asked = requests.iter().any(|line| line.contains(&name));
    assert!(!is_asked, "{requests:?}");
    // Whoever has it serves on.
    until_at(&mut replicas[0], "a", &first.digest());
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
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut holder = shared.replica(&format!("{config}{SMALL}"));
    until_at(&mut holder, "a", &first.digest());
    holder.until_pullable("a");
    let rows = "SELECT count(*) FROM generations";
    let (generations, objects) = (shared.postgres.ask(rows), shared.objects.keys());

    let large = expanding().build();
    upstream.push(REPOSITORY, "latest", &large);
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
    assert_eq!(shared.postgres.ask(rows), generations);
    assert_eq!(shared.objects.keys(), objects);

    holder.reconfigure(&format!("{}{config}{LARGE}", shared.settings()));
    until_at(&mut holder, "a", &large.digest());
}

#[test]
fn a_replica_takes_no_image_that_its_settings_do_not_allow() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
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
    upstream.push(REPOSITORY, "latest", &image);
    let source = upstream.reference(REPOSITORY, "latest");
    let config = format!("{}mirror = \"full\"\n", following(&source));
    let mut holder = replicas(&shared, &config, 1);
    until_all_at(&mut holder, "a", &image.digest());
    until("the mirrored image", || {
        tag(&mut holder[0]) == image.digest().to_string()
    });

    let small = "\n[limits]\nbytes = 100_000\n";
    let mut late = shared.replica(&format!("{config}{small}"));
    until_waiting(&mut late, "the image of revision ");
    let advice = "more than the 1600000 that bytes of [limits] allows here";
    until_waiting(&mut late, advice);
    assert!(late.blobs().is_empty());
    // The remedy of the message, without a restart.
    let large = small.replace("100_000", "1_000_000");
    late.reconfigure(&format!("{}{config}{large}", shared.settings()));
    until_at(&mut late, "a", &image.digest());
    until("the mirrored image", || {
        tag(&mut late) == image.digest().to_string()
    });
}

/// Writes a file with the key of a bucket.
fn write_key(file: &Path, id: &str) {
    let key = format!("aws_access_key_id = {id}\naws_secret_access_key = secret\n");
    crate::support::file::replace(file, &key);
}

/// Its passes end at the bucket, and those of the other one do not.
#[test]
fn after_three_passes_that_failed_for_its_own_reasons_a_replica_leaves_the_catalog_to_another() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let folder = tempfile::tempdir().unwrap();
    let key_of = |replica: usize| folder.path().join(replica.to_string());
    let start = |replica: usize| {
        let (key, name) = (key_of(replica), replica.to_string());
        write_key(&key, KEY);
        let fleet = format!("\n[fleet]\ncredentials_file = {key:?}\n");
        let config = format!("{}{config}{fleet}", shared.settings());
        Almanac::start_with(&config, &[("HOSTNAME", &name)])
    };
    let mut both = [0, 1].map(start);
    until_all_at(&mut both, "a", &first.digest());
    for replica in &mut both {
        until("both replicas", || status_of(replica)["replicas"] == 2);
    }
    let unable = holder(&shared);
    let able = 1 - unable;
    write_key(&key_of(unable), "AKIAOTHER");
    let second = push(&upstream, "second");
    shared.postgres.until(HOLDER, &able.to_string());
    until_at(&mut both[able], "a", &second.digest());
    // It serves on, and says what it lacks.
    until_waiting(&mut both[unable], "check the key in credentials_file");
    assert_eq!(both[unable].all("a").text(), text("first"));
    assert_eq!(both[unable].ready().status, 200);
    write_key(&key_of(unable), KEY);
    until_at(&mut both[unable], "a", &second.digest());
    assert_eq!(holder(&shared), able);
}

/// It would follow none of them, and they would pass them on to it again and again.
#[test]
fn a_replica_that_cannot_reach_the_bucket_is_left_out_when_catalogs_are_shared_out() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let first = push(&upstream, "first");
    let source = upstream.reference(REPOSITORY, "latest");
    let config = format!("{}{}", following(&source), catalog("b", &source));
    let mut both = replicas(&shared, &config, 2);
    for name in ["a", "b"] {
        until_all_at(&mut both, name, &first.digest());
    }
    let [able, unable] = &mut both[..] else {
        unreachable!("two were started");
    };
    for name in ["a", "b"] {
        // It is stored before it is in the history.
        until("the history", || digests(unable, name).len() == 1);
    }
    unable.program.kill9();
    let used = shared.objects.url("almanac");
    let (_, server) = used.rsplit_once("//").unwrap();
    let settings = shared.settings().replace(server, &free_port().to_string());
    assert_ne!(settings, shared.settings());
    unable.restart_with(&format!("{settings}{config}"));
    until("the problem", || {
        !status_of(unable)["bucket_error"].is_null()
    });
    until("both replicas", || status_of(able)["replicas"] == 2);
    until("the only holder", || {
        status_of(able)["follows"] == serde_json::json!(["a", "b"])
            && status_of(unable)["follows"] == serde_json::json!([])
    });
    // What is stored here is what the fleet serves.
    unable.program.wait_until_ready();
    assert_eq!(unable.all("b").text(), text("first"));
}
