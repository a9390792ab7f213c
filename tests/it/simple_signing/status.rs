//! Signatures in the status and in the output of commands.

use serde_json::{Value, json};

use super::Setup;
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::cosign::Signer;
use crate::support::http;
use crate::support::image::Image;
use crate::support::needs::skip_without;
use crate::support::program::{Finished, Start};

#[test]
fn the_status_tells_by_which_requirement_an_image_came_in_or_stayed_out() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
    setup.store(&[]);
    let config = following(&setup.tagged())
        + &format!(
            "[registries]\npolicy_file = {:?}\nregistries_d = {:?}\n",
            setup.path("policy.json"),
            setup.path("registries.d")
        );
    let mut almanac = Almanac::start(&config);
    let status = almanac.until_failed("a");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("signedBy with /"), "{error}");
    assert!(error.contains("there is no signature"), "{error}");
    // Refused on all ways, not unread.
    let address = almanac.program.address("http");
    let item = http::get(address, "/catalogs/a").unwrap().text();
    let item: Value = serde_json::from_str(&item).unwrap();
    assert_eq!(item["stale"], "refused", "{item}");
    for path in ["/", "/catalogs/a", "/problems"] {
        let accept = [("Accept", "text/html")];
        let page = http::ask(address, "GET", path, &accept, b"")
            .unwrap()
            .text();
        assert!(!page.contains("cannot be read"), "{path}: {page}");
        let tells = page.contains("the signature policy refused its image");
        assert_eq!(tells, path != "/", "{path}: {page}");
    }
    let metrics = almanac.metrics();
    for (outcome, grew) in [("refused", true), ("failed", false)] {
        let none = format!("almanac_passes_total{{catalog=\"a\",outcome=\"{outcome}\"}} 0\n");
        assert_eq!(metrics.contains(&none), !grew, "{metrics}");
    }
    let none = "almanac_failed_passes_in_a_row{catalog=\"a\"} 0\n";
    assert!(!metrics.contains(none), "{metrics}");
    setup.store(&[setup.signed(&key, &[])]);
    let status = almanac.until_at("a", &setup.image.digest());
    let admitted = status["admitted_by"].as_str().unwrap();
    assert!(admitted.contains("signedBy with /"), "{admitted}");
    assert!(admitted.contains(&key), "{admitted}");
    let admin = almanac.program.address("admin");
    let metrics = http::get(admin, "/metrics").unwrap().text();
    for outcome in ["admitted", "refused"] {
        let line = format!("outcome=\"{outcome}\"");
        let mut lines = metrics.lines();
        let found = lines.any(|text| {
            text.starts_with("almanac_admissions_total{")
                && text.contains("requirement=\"signedBy\"")
                && text.contains(&line)
        });
        assert!(found, "{outcome}: {metrics}");
    }
}

/// Runs `almanac verify` under the policy of a setup.
fn verify(setup: &Setup, image: &str, more: &[&str]) -> Finished {
    let flag = |name: &str, file: &str| format!("--{name}={}", setup.path(file).display());
    let start = Start::new(["verify", image])
        .argument(flag("policy-file", "policy.json"))
        .argument(flag("registries-d", "registries.d"));
    let arguments = more.iter();
    arguments
        .fold(start, |start, more| start.argument(*more))
        .run()
}

#[test]
fn a_verification_names_the_key_and_the_place_of_a_simple_signature() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
    let stranger = setup.gpg.key("stranger", &["ed25519", "sign", "never"]);
    let place = setup.path("store").display().to_string();
    for (signatures, code, texts) in [
        (
            vec![],
            1,
            [
                "fails: there is no signature",
                "no signature",
                "\nnot admitted\n",
            ],
        ),
        (
            vec![setup.signed(&stranger, &[])],
            1,
            [
                "fails: it was not made with a key of the policy",
                "1 signature",
                "\nnot admitted\n",
            ],
        ),
        (
            vec![setup.signed(&key, &[])],
            0,
            [
                "holds: a signature by the key",
                "1 signature",
                "\nadmitted\n",
            ],
        ),
    ] {
        setup.store(&signatures);
        let finished = verify(&setup, &setup.tagged(), &[]);
        assert_eq!(finished.status.code(), Some(code), "{finished:?}");
        for text in texts
            .into_iter()
            .chain(["requires  signedBy with /", &place])
        {
            assert!(finished.stdout.contains(text), "{text:?}: {finished:?}");
        }
    }
    let finished = verify(&setup, &setup.tagged(), &["--output", "json"]);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    let reason = document["requirements"][0]["reason"].as_str().unwrap();
    assert!(reason.contains(&key), "{document}");
}

#[test]
fn a_verification_of_a_layout_tells_that_it_holds_no_signatures_and_which_file_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (layout, archive) = (root.join("layout"), root.join("archive.tar"));
    std::fs::create_dir(&layout).unwrap();
    Image::of_catalog(&Catalog::one("first"))
        .build()
        .add_to_layout(&layout, "v1");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("", &layout).unwrap();
    tar.finish().unwrap();
    let policy = root.join("policy.json");
    let run = |source: &str, requirement: &Value| {
        std::fs::write(&policy, json!({"default": [requirement]}).to_string()).unwrap();
        let policy = policy.to_str().unwrap();
        Start::new(["verify", source, "--policy-file", policy]).run()
    };
    let signed = json!({"type": "sigstoreSigned", "keyData": Signer::new().key_data()});
    let accept = json!({"type": "insecureAcceptAnything"});
    for source in [
        format!("oci:{}:v1", layout.display()),
        format!("oci-archive:{}", archive.display()),
    ] {
        let finished = run(&source, &accept);
        assert_eq!(finished.status.code(), Some(0), "{finished:?}");
        let finished = run(&source, &signed);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        for text in [
            "fails: there is no signature",
            "layouts and archives hold no signatures",
        ] {
            assert!(finished.stdout.contains(text), "{text}: {finished:?}");
        }
    }
    // A flag whose file is not there.
    let layout = format!("oci:{}:v1", layout.display());
    for flag in ["--key", "--policy-file"] {
        let finished = Start::new(["verify", &layout, flag, "missing"]).run();
        assert_eq!(finished.status.code(), Some(2), "{finished:?}");
        let problem = format!("{flag} missing: No such file");
        assert!(finished.stderr.contains(&problem), "{finished:?}");
    }
    let finished = run(&format!("file:{}", root.display()), &accept);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("is not an image"), "{finished:?}");
}
