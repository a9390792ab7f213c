//! Mirrors, blocked places and short names.

use std::fs;
use std::time::{Duration, Instant};

use images::{MirrorFiles, Settings};

use super::{Conf, REPOSITORY, SOURCE, mirror, registry, resolve, upstream_of};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::image::image_of;
use crate::support::program::Start;
use crate::support::registry::{Access, DigestHeader};
use crate::support::upstream::Upstream;

#[test]
fn a_mirror_serves_under_the_name_that_was_asked_for() {
    let (upstream, image) = upstream_of("first");
    let conf = Conf::new(&registry(&mirror(&upstream.host(), "")));
    let mut almanac = Almanac::start(&(following(SOURCE) + &conf.key()));
    let status = almanac.until_at("a", &image.digest());
    let served_by = format!("{}/{REPOSITORY}", upstream.host());
    assert_eq!(status["served_by"], served_by);
    assert_eq!(status["source"], SOURCE);
    assert_eq!(
        status["revision"]["source"],
        format!("{SOURCE} linux/amd64")
    );
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    almanac
        .program
        .wait_for_log("who served it", |log| log.contains(&served_by));

    // The files count anew at each pass.
    let (other, second) = upstream_of("second");
    conf.write(&registry(&mirror(&other.host(), "")));
    let status = almanac.until_at("a", &second.digest());
    assert_eq!(
        status["served_by"],
        format!("{}/{REPOSITORY}", other.host())
    );

    // A broken file stops pulls and not what is served.
    conf.write("[[registry]]\nlocation = 7\n");
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "mirrors");
    let error = status["last_error"].as_str().unwrap();
    assert!(
        error.contains("registries.conf") && error.contains("line 2"),
        "{error}"
    );
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);
    conf.write(&registry(&mirror(&other.host(), "")));
    almanac.until("a", "a pass", |status| status["failures"] == 0);
}

#[test]
fn a_mirror_that_fails_is_followed_by_the_next() {
    let (good, image) = upstream_of("first");
    let bad = Upstream::start();
    let conf = Conf::new(&registry(
        &(mirror(&bad.host(), "") + &mirror(&good.host(), "")),
    ));
    let faults: [fn(&Upstream); 5] = [
        |_| {},
        |bad| bad.misbehave(|behaviour| behaviour.status = Some(500)),
        |bad| bad.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret")),
        |bad| {
            bad.push(REPOSITORY, "latest", &image_of("first"));
            bad.misbehave(|behaviour| behaviour.altered = true);
        },
        |bad| {
            bad.misbehave(|behaviour| {
                behaviour.not_a_manifest = true;
                behaviour.digest_header = DigestHeader::Absent;
            });
        },
    ];
    for fault in faults {
        bad.behave();
        fault(&bad);
        let (digest, served_by) = resolve(&conf.settings(), SOURCE).unwrap();
        assert_eq!(digest, image.digest().to_string());
        assert_eq!(served_by, Some(format!("{}/{REPOSITORY}", good.host())));
    }
}

#[test]
fn a_mirror_whose_blobs_break_off_is_left_for_the_next() {
    let (good, image) = upstream_of("first");
    for altered in [true, false] {
        let (bad, _) = upstream_of("first");
        bad.misbehave(|behaviour| {
            behaviour.altered = altered;
            behaviour.cut = (!altered).then_some(50);
        });
        // By digest, so that the manifest comes from the store of the good one.
        let conf = Conf::new(&registry(
            &(mirror(&bad.host(), "") + &mirror(&good.host(), "")),
        ));
        let mut almanac = Almanac::start(&(following(SOURCE) + &conf.key()));
        almanac.until_at("a", &image.digest());
        assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    }
}

#[test]
fn when_no_place_has_it_each_is_named() {
    let bad = Upstream::start();
    let conf = Conf::new(&registry(&mirror(&format!("{}/below", bad.host()), "")));
    let error = resolve(&conf.settings(), SOURCE).unwrap_err();
    let text = error.to_string();
    for part in [
        SOURCE,
        &format!("{}/below/catalogs/a:latest", bad.host()),
        "MANIFEST_UNKNOWN",
        "https://source.invalid/v2/catalogs/a/manifests/latest",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(error.reason(), "unreachable");
    assert!(error.is_temporary());
}

#[test]
fn a_mirror_is_asked_for_digests_or_tags_as_it_says() {
    let (upstream, image) = upstream_of("first");
    let by_digest = format!("source.invalid/catalogs/a@{}", image.digest());
    for (lines, takes_tags, takes_digests) in [
        ("", true, true),
        ("pull-from-mirror = \"all\"", true, true),
        ("pull-from-mirror = \"digest-only\"", false, true),
        ("pull-from-mirror = \"tag-only\"", true, false),
    ] {
        let conf = Conf::new(&registry(&mirror(&upstream.host(), lines)));
        assert_eq!(
            resolve(&conf.settings(), SOURCE).is_ok(),
            takes_tags,
            "{lines}"
        );
        let found = resolve(&conf.settings(), &by_digest).is_ok();
        assert_eq!(found, takes_digests, "{lines}");
    }
    let lines = "mirror-by-digest-only = true\n".to_owned() + &mirror(&upstream.host(), "");
    let conf = Conf::new(&registry(&lines));
    assert!(resolve(&conf.settings(), SOURCE).is_err());
    assert!(resolve(&conf.settings(), &by_digest).is_ok());
}

#[test]
fn what_is_blocked_is_not_asked() {
    let (upstream, image) = upstream_of("first");
    let source = upstream.reference(REPOSITORY, "latest");
    let blocked = format!(
        "[[registry]]\nlocation = {:?}\nblocked = true\n",
        upstream.host()
    );
    let conf = Conf::new(&blocked);
    let error = resolve(&conf.settings(), &source).unwrap_err();
    assert_eq!(error.reason(), "blocked");
    assert!(error.to_string().contains(&source), "{error}");
    assert!(upstream.lines().is_empty());

    // Its mirror still is.
    let (other, _) = upstream_of("first");
    let conf = Conf::new(&(blocked.clone() + &mirror(&other.host(), "")));
    let (digest, _) = resolve(&conf.settings(), &source).unwrap();
    assert_eq!(digest, image.digest().to_string());
    other.misbehave(|behaviour| behaviour.status = Some(503));
    let error = resolve(&conf.settings(), &source).unwrap_err();
    assert_eq!(error.reason(), "server_error");
    assert!(error.to_string().contains("blocks"), "{error}");
    assert!(upstream.lines().is_empty());
}

#[test]
fn the_mirrors_of_openshift_are_taken_as_they_are() {
    let (upstream, image) = upstream_of("first");
    let set = |kind: &str, list: &str, policy: &str| {
        let (group, version) = match kind {
            "ImageContentSourcePolicy" => ("operator.openshift.io", "v1alpha1"),
            _ => ("config.openshift.io", "v1"),
        };
        format!(
            "apiVersion: {group}/{version}\nkind: {kind}\nmetadata:\n  name: mirrors\nspec:\n  \
             {list}:\n  - source: source.invalid\n    mirrors:\n    - {}\n{policy}",
            upstream.host()
        )
    };
    let by_digest = format!("source.invalid/catalogs/a@{}", image.digest());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mirrors.yaml");
    let settings = Settings {
        mirrors: MirrorFiles {
            kubernetes: vec![path.clone()],
            ..MirrorFiles::default()
        },
        ..Settings::default()
    };
    let never = "    mirrorSourcePolicy: NeverContactSource\n";
    let allow = "    mirrorSourcePolicy: AllowContactingSource\n";
    for (kind, list, policy, takes_tags) in [
        ("ImageDigestMirrorSet", "imageDigestMirrors", never, false),
        ("ImageTagMirrorSet", "imageTagMirrors", allow, true),
        (
            "ImageContentSourcePolicy",
            "repositoryDigestMirrors",
            "",
            false,
        ),
    ] {
        fs::write(&path, set(kind, list, policy)).unwrap();
        let tags = resolve(&settings, SOURCE);
        assert_eq!(tags.is_ok(), takes_tags, "{kind}");
        assert_eq!(
            resolve(&settings, &by_digest).is_ok(),
            !takes_tags,
            "{kind}"
        );
        if policy == never {
            assert_eq!(tags.unwrap_err().reason(), "blocked");
        }
    }
    let arguments = ["check", &by_digest, "--mirror-file", path.to_str().unwrap()];
    fs::write(
        &path,
        set("ImageDigestMirrorSet", "imageDigestMirrors", never),
    )
    .unwrap();
    let finished = Start::new(arguments).run();
    assert_ne!(finished.status.code(), Some(3), "{finished:?}");
}

#[test]
fn a_short_name_is_refused_whatever_the_files_say() {
    let conf = Conf::new("unqualified-search-registries = [\"quay.io\"]\n");
    let path = conf.folder.path().join("registries.conf");
    let finished = Start::new(["check", "operatorhubio/catalog:latest"])
        .argument(format!("--registries-conf={}", path.display()))
        .run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("fully qualified"), "{finished:?}");
}

#[test]
fn a_mirror_that_makes_no_reference_is_named_and_passed_over() {
    let (upstream, _) = upstream_of("first");
    let bad = mirror("mirror.invalid/UPPER", "");
    let good = mirror(&upstream.host(), "");
    let conf = Conf::new(&registry(&format!("{bad}{good}")));
    let (_, served_by) = resolve(&conf.settings(), SOURCE).unwrap();
    assert_eq!(served_by, Some(format!("{}/{REPOSITORY}", upstream.host())));
    conf.write(&registry(&format!("blocked = true\n{bad}")));
    let error = resolve(&conf.settings(), SOURCE).unwrap_err().to_string();
    for said in [SOURCE, "mirror.invalid/UPPER/catalogs/a:latest", "blocks"] {
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_signal_has_a_catalog_that_failed_tried_again_at_once() {
    let (upstream, image) = upstream_of("first");
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("registries.conf");
    let host = upstream.host();
    let blocked = format!("[[registry]]\nlocation = \"{host}\"\nblocked = true\n");
    fs::write(&conf, blocked).unwrap();
    let source = upstream.reference("catalogs/a", "latest");
    let mut almanac = Almanac::start(&format!(
        "poll = \"1h\"\n{}[registries]\nregistries_conf = [{conf:?}]\n",
        catalog("a", &source)
    ));
    // The next try is nine seconds away then, or more.
    almanac.until("a", "two failures", |status| status["failures"] == 2);
    fs::write(&conf, "").unwrap();
    let begin = Instant::now();
    almanac.program.signal("HUP");
    almanac.until_at("a", &image.digest());
    assert!(begin.elapsed() < Duration::from_secs(7));
}
