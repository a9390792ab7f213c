//! Images of every kind, folders, and catalogs that are not valid.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::{HEAD, REPOSITORY, serving_first, text};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{CONFIGS_LABEL, Compression, Image, Index, Layer, image_of};
use crate::support::registry::Access;
use crate::support::store::make_older;
use crate::support::upstream::Upstream;

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
