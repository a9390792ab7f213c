//! What a replica takes from the others stays within its own settings.

use super::{
    Following, REPOSITORY, Shared, replicas, until, until_all_at, until_at, until_waiting,
};
use crate::support::almanac::{LONG_PATIENCE, following};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{CONFIGS_LABEL, Image};
use crate::support::layer::Layer;
use crate::support::postgres;
use crate::support::upstream::Upstream;

/// The longest file with `SMALL`: eight times as many bytes, and 1 MiB.
const LONGEST: u64 = 800_000 + (1 << 20);
const SMALL: &str = "\n[limits]\ncatalog_bytes = 100_000\n";

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
    until_waiting(
        &mut small,
        &format!("more than the {LONGEST} that catalog_bytes"),
    );
    assert!(small.status("a")["revision"].is_null());
    let stored = small.files("revisions");
    assert!(
        stored.values().all(|(size, _)| *size <= LONGEST),
        "{stored:?}"
    );
    // The remedy of the message, without a restart.
    let large = SMALL.replace("100_000", "1_000_000");
    small.reconfigure(&format!("{}{config}{large}", shared.settings()));
    until_at(&mut small, "a", &image.digest());

    // Of a version whose files have another format, only the lines count.
    shared.postgres.ask("UPDATE files SET format = format - 1");
    let others = "DELETE FROM files WHERE name <> 'all.zst'";
    shared.postgres.ask(others);
    let mut late = shared.replica(&format!("{config}{SMALL}"));
    // It reads no more than one byte beyond.
    let read = format!(
        "the file metas.jsonl of revision 1 has {} bytes",
        LONGEST + 1
    );
    until_waiting(&mut late, &read);
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
    let name = "SELECT encode(digest, 'hex') FROM files WHERE name = 'all.zst'";
    let name = shared.postgres.ask(name);
    let damage =
        format!("UPDATE objects SET size = 1::bigint << 50 WHERE encode(digest, 'hex') = '{name}'");
    shared.postgres.ask(&damage);
    shared.objects.forget_requests();
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut late = shared.replica(&config);
    until_waiting(
        &mut late,
        "the file all.zst of revision 1 has 1125899906842624 bytes",
    );
    let requests = shared.objects.requests();
    assert!(
        !requests.iter().any(|line| line.contains(&name)),
        "{requests:?}"
    );
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
    let first = super::push(&upstream, "first");
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut holder = shared.replica(&format!("{config}{SMALL}"));
    until_at(&mut holder, "a", &first.digest());
    let rows = "SELECT count(*) FROM revisions";
    let (revisions, objects) = (shared.postgres.ask(rows), shared.objects.keys());

    let large = expanding().build();
    upstream.push(REPOSITORY, "latest", &large);
    let failed = holder.until_within(LONG_PATIENCE, "a", "the refusal", |status| {
        status["last_result"]["reason"] == "limit"
    });
    assert_eq!(failed["last_result"]["stage"], "share");
    let error = failed["last_result"]["error"].as_str().unwrap();
    assert!(
        error.contains("the file messages.pb of revision"),
        "{error}"
    );
    let limit = format!("more than the {LONGEST} that catalog_bytes of [limits] allows here");
    assert!(error.contains(&limit), "{error}");
    // Clients get the revision before, and others get nothing of this one.
    assert_eq!(failed["revision"]["digest"], first.digest().to_string());
    assert_eq!(failed["state"], "serving");
    assert_eq!(shared.postgres.ask(rows), revisions);
    assert_eq!(shared.objects.keys(), objects);
    let (metrics, counted) = (
        holder.metrics(),
        "almanac_fleet_errors_total{reason=\"limit\"} ",
    );
    assert!(metrics.contains(counted) && !metrics.contains(&format!("{counted}0\n")));
    let log = holder.program.log();
    let told = log.lines().find(|line| line.contains(&limit));
    assert!(told.is_some_and(|line| line.contains("catalog=a")), "{log}");

    let raised = SMALL.replace("100_000", "1_000_000");
    holder.reconfigure(&format!("{}{config}{raised}", shared.settings()));
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
        holder[0]
            .until_pullable("a")
            .header("docker-content-digest")
            == Some(&*image.digest().to_string())
    });

    let small = "\n[limits]\nbytes = 100_000\n";
    let mut late = shared.replica(&format!("{config}{small}"));
    until_waiting(&mut late, "the image of revision 1 has ");
    until_waiting(
        &mut late,
        "more than the 1600000 that bytes of [limits] allows here",
    );
    assert!(late.blobs().is_empty());
    // The remedy of the message, without a restart.
    let large = small.replace("100_000", "1_000_000");
    late.reconfigure(&format!("{}{config}{large}", shared.settings()));
    until_at(&mut late, "a", &image.digest());
    assert_eq!(
        late.until_pullable("a").body,
        holder[0].until_pullable("a").body
    );
}
