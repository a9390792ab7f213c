//! Catalogs are followed: what the source holds is served, at the price of one
//! question a poll, and what went before is tidied away.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{Built, CONFIGS_LABEL, Compression, Image, Index, Layer};
use crate::support::registry::Access;
use crate::support::store::make_older;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";

/// A catalog as it is served: its blobs, a line each.
fn text(catalog: &Catalog) -> String {
    catalog.text(Format::JsonLines)
}

fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

/// An almanac that serves the package `first` from a registry.
fn serving_first() -> (Upstream, Almanac) {
    let upstream = Upstream::start();
    let image = image_of("first");
    upstream.push(REPOSITORY, "latest", &image);
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    almanac.until_at("a", &image.digest());
    (upstream, almanac)
}

#[test]
fn a_moved_tag_is_served_after_a_poll() {
    let (upstream, mut almanac) = serving_first();
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("first")));
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    let status = almanac.until_at("a", &second.digest());
    assert_eq!(status["state"], "serving");
    assert_eq!(status["last_result"]["outcome"], "committed");
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("second")));
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);
}

#[test]
fn an_unchanged_digest_costs_one_request_a_poll_and_writes_nothing() {
    let (upstream, mut almanac) = serving_first();
    almanac.until_pullable("a");
    almanac.until_encoded(1);
    // What the first pass still has to tidy up is done by the next poll, which ends before
    // the one after it asks.
    upstream.forget_requests();
    almanac.until("a", "two polls", |_| upstream.asked(HEAD) >= 2);

    let files = almanac.files("");
    let begin = Instant::now();
    upstream.forget_requests();
    almanac.until("a", "five polls", |_| upstream.asked(HEAD) >= 5);
    // A tenth of a second between polls, or a tenth less than that.
    assert!(begin.elapsed() > Duration::from_millis(4 * 90));
    let lines = upstream.lines();
    assert!(lines.iter().all(|line| line == HEAD), "{lines:?}");
    assert_eq!(almanac.files(""), files);
    let status = almanac.status("a");
    assert_eq!(status["failures"], 0);
    assert_eq!(status["revision"]["id"], 1);
}

#[test]
fn a_digest_is_pulled_once_and_never_polled() {
    let upstream = Upstream::start();
    let image = image_of("etcd");
    upstream.push(REPOSITORY, "latest", &image);
    let source = format!("{}/{REPOSITORY}@{}", upstream.host(), image.digest());
    let mut almanac = Almanac::start(&following(&source));
    let status = almanac.until("a", "the end of following", |status| {
        status["revision"]["digest"] == image.digest().to_string()
            && status["next_pass"].is_null()
            && !status["last_pass"].is_null()
    });
    assert_eq!(status["failures"], 0);
    // No alert about a pass that is overdue.
    almanac.until_metrics("almanac_next_pass_timestamp_seconds{catalog=\"a\"} NaN\n");
    upstream.forget_requests();
    sleep(Duration::from_millis(500));
    assert_eq!(upstream.lines(), [""; 0]);

    // What is stored is that digest, so a start has nothing to ask.
    almanac.stop();
    almanac.program.restart();
    sleep(Duration::from_millis(500));
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("etcd")));
    assert_eq!(upstream.lines(), [""; 0]);
}

#[test]
fn a_catalog_that_is_never_polled_is_looked_at_once_a_start() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    let source = upstream.reference(REPOSITORY, "latest");
    let config = format!("{}poll = \"never\"\n", catalog("a", &source));
    upstream.forget_requests();
    almanac.restart_with(&config);
    almanac.until("a", "a pass", |status| !status["last_pass"].is_null());
    sleep(Duration::from_millis(500));
    assert_eq!(upstream.lines(), [HEAD]);
    assert!(almanac.status("a")["next_pass"].is_null());
}

#[test]
fn images_of_every_kind_are_read() {
    let upstream = Upstream::start();
    let kinds = [Compression::Plain, Compression::Gzip, Compression::Zstd];
    let mut expected = Vec::new();
    let mut config = String::new();
    for compression in kinds {
        for docker in [false, true] {
            let flavour = if docker { "docker" } else { "oci" };
            let name = format!("{flavour}-{compression:?}").to_lowercase();
            let content = Catalog::one(&name);
            let layer = Layer::of_catalog(&content, Format::Yaml, "configs");
            let mut image = Image::new()
                .label(CONFIGS_LABEL, "/configs")
                .layer(layer.compressed(compression));
            if docker {
                image = image.docker();
            }
            upstream.push(&name, "v1", &image.build());
            config += &catalog(&name, &upstream.reference(&name, "v1"));
            expected.push(name);
        }
    }
    let mut almanac = Almanac::start(&config);
    for name in expected {
        almanac.until(&name, "a revision", |status| status["state"] == "serving");
        assert_eq!(almanac.all(&name).text(), text(&Catalog::one(&name)));
    }
}

#[test]
fn the_image_of_the_platform_is_taken() {
    let upstream = Upstream::start();
    let of_platform = |architecture: &str| {
        Image::of_catalog(&Catalog::one(architecture))
            .platform("linux", architecture)
            .build()
    };
    let index = Index::new()
        .image(of_platform("arm64"))
        .image(of_platform("amd64"));
    upstream.push(REPOSITORY, "oci", &index.clone().build());
    upstream.push(REPOSITORY, "docker", &index.docker().build());

    let source = |tag: &str| upstream.reference(REPOSITORY, tag);
    let mut config = String::new();
    for (name, tag, platform) in [
        ("oci", "oci", "linux/amd64"),
        ("docker", "docker", "linux/arm64"),
        ("neither", "oci", "linux/s390x"),
    ] {
        config += &catalog(name, &source(tag));
        config.extend(["platform = \"", platform, "\"\n"]);
    }
    let mut almanac = Almanac::start(&config);
    for (name, architecture) in [("oci", "amd64"), ("docker", "arm64")] {
        almanac.until(name, "a revision", |status| status["state"] == "serving");
        assert_eq!(almanac.packages(name).unwrap(), [architecture]);
    }
    let status = almanac.until_failed("neither");
    let error = status["last_error"].as_str().unwrap();
    for part in ["linux/s390x", "linux/amd64", "linux/arm64", &source("oci")] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn credentials_are_found_for_registries_that_ask_for_them() {
    let basic = Upstream::start();
    basic.misbehave(|behaviour| behaviour.access = Access::Basic("user", "word"));
    let token = Upstream::start();
    token.misbehave(|behaviour| behaviour.access = Access::Token("user", "word"));
    let anonymous = Upstream::start();
    anonymous.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);

    let folder = tempfile::tempdir().unwrap();
    // "user:word"
    let entry = json!({"auth": "dXNlcjp3b3Jk"});
    let auths = json!({"auths": {basic.host(): entry, token.host(): entry}});
    let file = folder.path().join("auth.json");
    fs::write(&file, auths.to_string()).unwrap();

    let image = image_of("etcd");
    let mut config = "poll = \"100ms\"\n".to_owned();
    let registries = [
        ("basic", &basic),
        ("token", &token),
        ("anonymous", &anonymous),
    ];
    for (name, upstream) in registries {
        upstream.push(REPOSITORY, "latest", &image);
        config += &catalog(name, &upstream.reference(REPOSITORY, "latest"));
    }
    let mut almanac = Almanac::start(&format!("{config}[registries]\nauth_files = [{file:?}]\n"));
    for (name, _) in registries {
        almanac.until_at(name, &image.digest());
        assert_eq!(almanac.packages(name).unwrap(), ["etcd"]);
    }
    // A token that is not taken any more is replaced by a new one.
    let newer = image_of("newer");
    token.push(REPOSITORY, "latest", &newer);
    token.revoke_tokens();
    almanac.until_at("token", &newer.digest());
    let log = almanac.program.log();
    assert!(!log.contains("word") && !log.contains("dXNlcjp3b3Jk"));
}

#[test]
fn a_registry_that_asks_for_time_is_left_alone() {
    let (upstream, mut almanac) = serving_first();
    let begin = SystemTime::now();
    upstream.misbehave(|behaviour| {
        behaviour.status = Some(429);
        behaviour.retry_after = Some("60".into());
    });
    let status = almanac.until("a", "the next pass", |status| status["failures"] == 1);
    let next = humantime::parse_rfc3339(status["next_pass"].as_str().unwrap()).unwrap();
    // Whole seconds are shown.
    let wait = next.duration_since(begin).unwrap();
    assert!(wait > Duration::from_secs(58), "{wait:?}");
    upstream.forget_requests();
    sleep(Duration::from_millis(500));
    assert_eq!(upstream.lines(), [""; 0]);
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("first")));
}

#[test]
fn what_an_older_version_left_is_not_served_before_it_was_read_again() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    make_older(almanac.program.data());
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    almanac.program.restart();
    almanac.until_failed("a");
    assert!(almanac.packages("a").is_err());

    upstream.behave();
    let status = almanac.until("a", "a revision", |status| {
        status["last_result"]["outcome"] == "committed"
    });
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("first")));
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    // What went before goes at the end of the pass.
    almanac.until_encoded(1);
    assert_eq!(almanac.revisions(), [status["revision"]["id"].to_string()]);
}

#[test]
fn retries_come_further_and_further_apart_and_polls_are_quick_again_afterwards() {
    let (upstream, mut almanac) = serving_first();
    upstream.misbehave(|behaviour| behaviour.status = Some(503));
    almanac.until_failed("a");
    let begin = Instant::now();
    almanac.until("a", "the fifth failure", |status| {
        status["failures"].as_u64() >= Some(5)
    });
    // 100 ms, 200, 400 and 800 ms, each at most a tenth shorter.
    assert!(begin.elapsed() > Duration::from_millis(1300));

    upstream.behave();
    almanac.until("a", "recovery", |status| status["failures"] == 0);
    // Some take as long as the machine is busy, but not all.
    let polls = || {
        let begin = Instant::now();
        upstream.forget_requests();
        almanac.until("a", "three polls", |_| upstream.asked(HEAD) >= 3);
        begin.elapsed()
    };
    let soonest = std::iter::repeat_with(polls).take(3).min().unwrap();
    assert!(soonest < Duration::from_secs(3), "{soonest:?}");
}

#[test]
fn an_image_without_a_catalog_is_refused_with_a_reason() {
    let upstream = Upstream::start();
    let catalog_layer = || Layer::of_catalog(&Catalog::one("etcd"), Format::JsonLines, "configs");
    let cases = [
        (
            "no-label",
            Image::new().layer(catalog_layer()),
            ["unpack", "no_label", CONFIGS_LABEL],
        ),
        (
            "no-folder",
            Image::new()
                .label(CONFIGS_LABEL, "/elsewhere")
                .layer(catalog_layer()),
            ["unpack", "missing_folder", "/elsewhere"],
        ),
        (
            "no-file",
            Image::new()
                .label(CONFIGS_LABEL, "/configs")
                .layer(Layer::new().folder("configs")),
            ["unpack", "empty", "/configs"],
        ),
    ];
    let mut config = String::new();
    for (name, image, _) in &cases {
        upstream.push(name, "latest", &image.build());
        config += &catalog(name, &upstream.reference(name, "latest"));
    }
    let mut almanac = Almanac::start(&config);
    for (name, _, [stage, reason, part]) in &cases {
        let status = almanac.until_failed(name);
        assert_eq!(status["state"], "failing", "{name}");
        assert_eq!(status["last_result"]["stage"], *stage, "{name}");
        assert_eq!(status["last_result"]["reason"], *reason, "{name}");
        let error = status["last_error"].as_str().unwrap();
        assert!(error.contains(part), "{error}");
        assert_eq!(almanac.all(name).status, 503);
    }
}

/// A catalog with a package that is as it should be and one that has two heads.
fn half_valid() -> Catalog {
    Catalog::one("good").package("headless", |package| {
        package.channel(
            "stable",
            [entry("headless.v1.0.0"), entry("headless.v2.0.0")],
        )
    })
}

#[test]
fn a_package_that_is_not_valid_is_left_out_of_grpc() {
    let (upstream, mut almanac) = serving_first();
    let image = Image::of_catalog(&half_valid()).build();
    upstream.push(REPOSITORY, "latest", &image);
    let status = almanac.until_at("a", &image.digest());
    assert_eq!(status["revision"]["counts"]["quarantined"], 1);
    let problem = &status["problems"][0];
    assert_eq!(problem["package"], "headless");
    assert_eq!(problem["file"], "headless/catalog.json");
    assert_eq!(almanac.packages("a").unwrap(), ["good"]);
    assert_eq!(almanac.all("a").text(), text(&half_valid()));
}

#[test]
fn a_revision_with_such_a_package_can_be_refused_instead() {
    let upstream = Upstream::start();
    let source = upstream.reference(REPOSITORY, "latest");
    upstream.push(REPOSITORY, "latest", &image_of("first"));
    let config = format!("{}on_invalid = \"reject\"\n", following(&source));
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &image_of("first").digest());

    let image = Image::of_catalog(&half_valid()).build();
    upstream.push(REPOSITORY, "latest", &image);
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["outcome"], "refused");
    assert_eq!(status["last_result"]["digest"], image.digest().to_string());
    let error = status["last_error"].as_str().unwrap();
    for part in ["headless", "stable", "headless/catalog.json"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("first")));
}

#[test]
fn a_layer_that_takes_the_catalog_away_and_brings_another_is_obeyed() {
    let whole = Catalog::one("kept").package("dropped", |package| {
        package.channel("stable", [entry("dropped.v1.0.0")])
    });
    let filtered = Layer::of_catalog(&Catalog::one("kept"), Format::JsonLines, "configs");
    // As a mirroring tool writes it: the whiteout in the layer of the new
    // content, or in one of its own.
    let in_one = Image::of_catalog(&whole).layer(
        Layer::of_catalog(&Catalog::one("kept"), Format::JsonLines, "configs").whiteout("configs"),
    );
    let in_two = Image::of_catalog(&whole)
        .layer(Layer::new().whiteout("configs"))
        .layer(filtered);
    let opaque = Image::of_catalog(&whole)
        .layer(Layer::new().opaque("configs"))
        .layer(Layer::of_catalog(
            &Catalog::one("kept"),
            Format::JsonLines,
            "configs",
        ));
    let by_path = Image::of_catalog(&whole).layer(Layer::new().whiteout("configs/dropped"));

    let upstream = Upstream::start();
    let images = [
        ("in-one", in_one),
        ("in-two", in_two),
        ("opaque", opaque),
        ("by-path", by_path),
    ];
    let mut config = String::new();
    for (name, image) in &images {
        upstream.push(name, "latest", &image.build());
        config += &catalog(name, &upstream.reference(name, "latest"));
    }
    let mut almanac = Almanac::start(&config);
    for (name, _) in &images {
        almanac.until(name, "a revision", |status| status["state"] == "serving");
        assert_eq!(almanac.all(name).text(), text(&Catalog::one("kept")));
        assert_eq!(almanac.packages(name).unwrap(), ["kept"]);
    }
}

#[test]
fn a_layout_folder_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    image_of("first").add_to_layout(folder.path(), "v1");
    image_of("other").add_to_layout(folder.path(), "v2");
    let source = format!("oci:{}:v1", folder.path().display());
    let mut almanac = Almanac::start(&following(&source));
    almanac.until_at("a", &image_of("first").digest());
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    image_of("second").add_to_layout(folder.path(), "v1");
    almanac.until_at("a", &image_of("second").digest());
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("second")));

    // A folder that is gone is a failure, and what was read is served on.
    fs::remove_dir_all(folder.path()).unwrap();
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "layout");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);
}

#[test]
fn a_folder_of_files_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::one("first").write_to(folder.path(), Format::Yaml);
    let source = format!("file:{}", folder.path().display());
    let mut almanac = Almanac::start(&following(&source));
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("first")));

    Catalog::one("second").write_to(folder.path(), Format::PrettyJson);
    fs::remove_dir_all(folder.path().join("first")).unwrap();
    let expected = text(&Catalog::one("second"));
    let begin = Instant::now();
    while almanac.all("a").text() != expected {
        assert!(begin.elapsed() < Duration::from_secs(30));
        sleep(Duration::from_millis(10));
    }
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);
}

#[test]
fn the_same_content_in_another_image_is_the_same_to_clients() {
    let (upstream, mut almanac) = serving_first();
    let before = almanac.all("a");
    let revision = almanac.status("a")["revision"].clone();
    // Dates are in whole seconds.
    sleep(Duration::from_millis(1100));

    let rebuilt = Image::of_catalog(&Catalog::one("first"))
        .annotation("example.com/build", "2")
        .build();
    upstream.push(REPOSITORY, "latest", &rebuilt);
    let status = almanac.until_at("a", &rebuilt.digest());
    let after = almanac.all("a");
    for header in ["last-modified", "etag"] {
        assert!(before.header(header).is_some());
        assert_eq!(after.header(header), before.header(header));
    }
    assert_eq!(status["revision"]["content"], revision["content"]);
    assert_eq!(status["revision"]["modified"], revision["modified"]);
    assert_ne!(status["revision"]["committed"], revision["committed"]);

    sleep(Duration::from_millis(1100));
    let changed = image_of("second");
    upstream.push(REPOSITORY, "latest", &changed);
    almanac.until_at("a", &changed.digest());
    for header in ["last-modified", "etag"] {
        assert_ne!(almanac.all("a").header(header), before.header(header));
    }
}

#[test]
fn what_is_stored_is_not_pulled_again_for_another_catalog() {
    let upstream = Upstream::start();
    let base = Layer::new().file("etc/release", "a base that many images have");
    let image = |package: &str| {
        let content = Layer::of_catalog(&Catalog::one(package), Format::JsonLines, "configs");
        let image = Image::new().label(CONFIGS_LABEL, "/configs");
        image.layer(base.clone()).layer(content).build()
    };
    let (one, other) = (image("one"), image("other"));
    let shared = Image::new().layer(base.clone()).build();
    let mut shared_layer = None;
    shared.for_each_blob(|blob| shared_layer = Some(blob.digest));
    let shared_layer = format!("/blobs/{}", shared_layer.unwrap());

    upstream.push("one", "latest", &one);
    let config = "poll = \"100ms\"\n".to_owned()
        + &catalog("one", &upstream.reference("one", "latest"))
        + &catalog("other", &upstream.reference("other", "latest"));
    let mut almanac = Almanac::start(&config);
    almanac.until_at("one", &one.digest());
    upstream.push("other", "latest", &other);
    almanac.until_at("other", &other.digest());
    assert_eq!(upstream.asked(&shared_layer), 1);

    // It is kept as long as one of them needs it.
    let last = image_of("last");
    upstream.push("one", "latest", &last);
    almanac.until_at("one", &last.digest());
    let layer = shared_layer.rsplit_once(':').unwrap().1.to_owned();
    let gone = blobs_of(&one)
        .into_iter()
        .find(|blob| *blob != layer)
        .unwrap();
    eventually("the old image to be removed", || {
        !almanac.blobs().contains(&gone)
    });
    assert!(almanac.blobs().contains(&layer));
    upstream.push("other", "latest", &last);
    almanac.until_at("other", &last.digest());
    eventually("the layer to be removed", || {
        !almanac.blobs().contains(&layer)
    });
}

#[test]
fn old_revisions_and_their_blobs_are_removed() {
    let (upstream, mut almanac) = serving_first();
    let mut made = almanac.until_pullable("a").body;
    for package in ["second", "third"] {
        let image = image_of(package);
        upstream.push(REPOSITORY, "latest", &image);
        almanac.until_at("a", &image.digest());
        // What is made of a revision that is replaced meanwhile stays for a while.
        eventually("the image of the revision", || {
            let latest = almanac.until_pullable("a").body;
            latest != std::mem::replace(&mut made, latest.clone())
        });
    }
    let id = almanac.status("a")["revision"]["id"].to_string();
    let expected = blobs_of(&image_of("third"));
    let begin = Instant::now();
    loop {
        let there = (almanac.revisions(), almanac.pulled_blobs("a"));
        if there == (vec![id.clone()], expected.clone()) {
            break;
        }
        let patience = Duration::from_secs(30);
        assert!(
            begin.elapsed() < patience,
            "{there:?} instead of {id} and {expected:?}"
        );
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_refused_image_brought_is_removed_as_well() {
    let upstream = Upstream::start();
    upstream.push(REPOSITORY, "latest", &image_of("first"));
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut almanac = Almanac::start(&(config + "[cache]\nmax_age = \"0s\"\n"));
    almanac.until_at("a", &image_of("first").digest());
    let bad = Image::new()
        .label(CONFIGS_LABEL, "/configs")
        .layer(Layer::new().file("configs/catalog.yaml", "no: schema"));
    upstream.push(REPOSITORY, "latest", &bad.build());
    almanac.until_failed("a");
    let good = image_of("good");
    upstream.push(REPOSITORY, "latest", &good);
    almanac.until_at("a", &good.digest());
    eventually("only the last to be there", || {
        almanac.pulled_blobs("a") == blobs_of(&good)
    });
}

#[test]
fn a_catalog_that_comes_back_into_the_settings_is_served_from_the_store() {
    let upstream = Upstream::start();
    let (one, other) = (image_of("one"), image_of("other"));
    upstream.push("one", "latest", &one);
    upstream.push("other", "latest", &other);
    let of_one = catalog("one", &upstream.reference("one", "latest"));
    let of_other = catalog("other", &upstream.reference("other", "latest"));
    let both = format!("{of_one}{of_other}");
    let mut almanac = Almanac::start(&both);
    almanac.until_at("one", &one.digest());
    almanac.until_at("other", &other.digest());
    almanac.stop();
    almanac.restart_with(&of_one);
    almanac.until_at("one", &one.digest());
    assert_eq!(almanac.all("other").status, 404);
    almanac.stop();
    drop(upstream);
    almanac.restart_with(&both);
    assert_eq!(almanac.all("other").status, 200);
}

#[test]
fn what_is_stored_is_served_for_another_tag_until_that_was_looked_at() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    let next = image_of("next");
    upstream.push(REPOSITORY, "next", &next);
    upstream.misbehave(|behaviour| behaviour.silent = true);
    almanac.restart_with(&following(&upstream.reference(REPOSITORY, "next")));
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    let source = almanac.status("a")["revision"]["source"].clone();
    assert!(source.as_str().unwrap().contains(":latest"), "{source}");

    almanac.stop();
    upstream.behave();
    almanac.program.restart();
    almanac.until_at("a", &next.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["next"]);
}

#[test]
fn what_is_stored_is_not_served_for_another_repository() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    upstream.misbehave(|behaviour| behaviour.silent = true);
    almanac.restart_with(&following(&upstream.reference("catalogs/b", "latest")));
    assert_eq!(almanac.ready().status, 503);
    assert_eq!(almanac.status("a")["state"], "loading");
    assert_eq!(almanac.all("a").status, 503);
    let refusal = almanac.packages("a").unwrap_err();
    assert_eq!(refusal.code(), tonic::Code::Unavailable, "{refusal}");
    let log = almanac.program.log();
    assert!(log.contains("is of another source"), "{log}");
}

/// An almanac that serves `my catalogs/x` of a folder.
fn serving_a_folder(root: &Path) -> Almanac {
    let path = root.join("my catalogs/x");
    fs::create_dir_all(&path).unwrap();
    Catalog::one("first").write_to(&path, Format::JsonLines);
    let mut almanac = Almanac::start(&following(&format!("file:{}", path.display())));
    almanac.until("a", "the folder", |status| status["state"] == "serving");
    almanac.stop();
    almanac
}

#[test]
fn a_folder_with_a_space_in_its_name_is_served_from_the_store() {
    let root = tempfile::tempdir().unwrap();
    let mut almanac = serving_a_folder(root.path());
    fs::remove_dir_all(root.path().join("my catalogs")).unwrap();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
}

#[test]
fn what_came_from_one_folder_is_not_served_for_another_whose_name_begins_the_same() {
    let root = tempfile::tempdir().unwrap();
    let mut almanac = serving_a_folder(root.path());
    let source = format!("file:{}", root.path().join("my").display());
    almanac.restart_with(&following(&source));
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").status, 503);
    let log = almanac.program.log();
    assert!(log.contains("is of another source"), "{log}");
}

#[test]
fn a_start_with_the_registry_down_serves_what_is_stored() {
    let (upstream, mut almanac) = serving_first();
    let before = almanac.all("a");
    almanac.stop();
    let host = upstream.host();
    drop(upstream);

    let begin = Instant::now();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert!(begin.elapsed() < Duration::from_secs(10));
    let after = almanac.all("a");
    assert_eq!(after.text(), text(&Catalog::one("first")));
    for header in ["last-modified", "etag"] {
        assert_eq!(after.header(header), before.header(header));
    }
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    let status = almanac.until_failed("a");
    assert_eq!(status["state"], "serving");
    assert_eq!(status["last_result"]["stage"], "resolve");
    assert_eq!(status["last_result"]["reason"], "unreachable");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains(&host), "{error}");
    assert_eq!(almanac.ready().status, 200);
}

/// The names of an image's blobs in the store, sorted.
fn blobs_of(image: &Built) -> Vec<String> {
    let mut blobs = Vec::new();
    image.for_each_blob(|blob| blobs.push(blob.digest.hex()));
    image.for_each_manifest(|manifest| blobs.push(manifest.digest.hex()));
    blobs.sort();
    blobs
}

fn eventually(what: &str, mut good: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !good() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "waiting for {what}"
        );
        sleep(Duration::from_millis(10));
    }
}
