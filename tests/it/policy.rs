//! Which images are let in: `policy.json` with signatures that are made here,
//! against a registry that has them, lacks them or lies about them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use images::{Error, PolicyFiles, Registries, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::cosign::Signer;
use crate::support::image::{Built, Image, Index};
use crate::support::needs::skip_without;
use crate::support::program::{PATIENCE, Start};
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;
use crate::support::{file, http};

const REPOSITORY: &str = "catalogs/a";

/// A registry with an image, and a policy for it.
struct Setup {
    upstream: Upstream,
    image: Built,
    folder: TempDir,
}

impl Setup {
    fn new() -> Self {
        let setup = Self {
            upstream: Upstream::start(),
            image: Image::of_catalog(&Catalog::one("first")).build(),
            folder: tempfile::tempdir().unwrap(),
        };
        setup.upstream.push(REPOSITORY, "latest", &setup.image);
        setup
    }

    fn digest(&self) -> Digest {
        self.image.digest()
    }

    fn name(&self) -> String {
        format!("{}/{REPOSITORY}", self.upstream.host())
    }

    /// The scope for images of the registry.
    fn requiring(&self, requirements: &Value) {
        let policy = json!({
            "default": [{"type": "reject"}],
            "transports": {"docker": {(self.upstream.host()): requirements}},
        });
        fs::write(self.path(), policy.to_string()).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("policy.json")
    }

    /// Whether the image, or the part of it that was chosen, is let in.
    fn admitted(&self, source: &str, instance: Option<&Digest>) -> Result<(), Error> {
        let settings = Settings {
            policy: PolicyFiles {
                named: Some(self.path()),
                ..PolicyFiles::default()
            },
            ..Settings::default()
        };
        block_on(async {
            let registries = Registries::new(&settings).unwrap();
            let route = registries.route(&source.parse().unwrap()).await?;
            let digest = route.resolve().await?.digest;
            route.admit(&digest, instance).await.map(drop)
        })
    }

    fn by_tag(&self) -> Result<(), Error> {
        self.admitted(&self.upstream.reference(REPOSITORY, "latest"), None)
    }

    fn by_digest(&self) -> Result<(), Error> {
        self.admitted(&format!("{}@{}", self.name(), self.digest()), None)
    }
}

fn signed_by(signer: &Signer) -> Value {
    json!({"type": "sigstoreSigned", "keyData": signer.key_data(),
        "signedIdentity": {"type": "matchRepository"}})
}

/// The reason and the whole text of a refusal.
fn refused(result: Result<(), Error>) -> (&'static str, String) {
    let error = result.unwrap_err();
    (error.reason(), error.to_string())
}

#[test]
fn a_signature_lets_an_image_in_wherever_cosign_puts_it() {
    let signer = Signer::new();
    let put: [fn(&Setup, &Signer); 3] = [
        |setup, signer| {
            let made = signer.sign(&setup.digest(), &setup.name());
            made.put_tag(&setup.upstream, REPOSITORY, &setup.digest());
        },
        |setup, signer| {
            let made = signer.sign(&setup.digest(), &setup.name());
            made.put_referrer(&setup.upstream, REPOSITORY, &setup.digest());
        },
        |setup, signer| {
            let made = signer.sign(&setup.digest(), &setup.name());
            made.put_referrer_tag(&setup.upstream, REPOSITORY, &setup.digest());
        },
    ];
    for put in put {
        let setup = Setup::new();
        setup.requiring(&json!([signed_by(&signer)]));
        let (reason, text) = refused(setup.by_tag());
        assert_eq!(reason, "signature");
        assert!(text.contains("there is no signature"), "{text}");
        assert!(text.contains(&setup.name()), "{text}");
        put(&setup, &signer);
        setup.by_tag().unwrap();
        setup.by_digest().unwrap();
    }
}

#[test]
fn a_signature_that_does_not_fit_is_refused_with_the_reason() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let other = Digest::of(b"another image");
    for (make, problem) in [
        (
            Box::new(|setup: &Setup| stranger.sign(&setup.digest(), &setup.name()))
                as Box<dyn Fn(&Setup) -> _>,
            "not made with a key of the policy",
        ),
        (
            Box::new(|setup: &Setup| signer.sign(&other, &setup.name())),
            "it signs sha256:",
        ),
        (
            Box::new(|setup: &Setup| signer.sign(&setup.digest(), "quay.io/other/image")),
            "it signs quay.io/other/image, not",
        ),
        (
            Box::new(|_: &Setup| signer.sign_bytes(b"{}".to_vec())),
            "not a simple signing document",
        ),
        (
            Box::new(|setup: &Setup| {
                let mut made = signer.sign(&setup.digest(), &setup.name());
                made.manifest["layers"][0]["annotations"] = json!({});
                made
            }),
            "is not a signature",
        ),
        (
            Box::new(|setup: &Setup| {
                let mut made = signer.sign(&setup.digest(), &setup.name());
                made.manifest["layers"][0]["size"] = json!(1 << 30);
                made
            }),
            "is not a signature",
        ),
    ] {
        let setup = Setup::new();
        setup.requiring(&json!([signed_by(&signer)]));
        make(&setup).put_tag(&setup.upstream, REPOSITORY, &setup.digest());
        let (reason, text) = refused(setup.by_tag());
        assert_eq!(reason, "signature");
        assert!(text.contains(problem), "{problem:?} is not in {text:?}");
    }
}

#[test]
fn one_good_signature_among_others_is_enough_for_each_requirement() {
    let setup = Setup::new();
    let (first, second, stranger) = (Signer::new(), Signer::new(), Signer::new());
    let (digest, name) = (setup.digest(), setup.name());
    setup.requiring(&json!([signed_by(&first), signed_by(&second)]));
    let one = stranger
        .sign(&digest, &name)
        .and(first.sign(&digest, &name));
    one.put_tag(&setup.upstream, REPOSITORY, &digest);
    assert_eq!(refused(setup.by_tag()).0, "signature");
    // The second lies elsewhere.
    let other = second.sign(&digest, &name);
    other.put_referrer(&setup.upstream, REPOSITORY, &digest);
    setup.by_tag().unwrap();
    // Of several keys of one requirement one is enough.
    let keys = json!([stranger.key_data(), first.key_data()]);
    setup.requiring(&json!([{"type": "sigstoreSigned", "keyDatas": keys,
        "signedIdentity": {"type": "exactRepository", "dockerRepository": name}}]));
    setup.by_tag().unwrap();
}

#[test]
fn a_name_with_a_tag_is_asked_for_unless_told_otherwise() {
    let setup = Setup::new();
    let signer = Signer::new();
    let key = setup.folder.path().join("cosign.pub");
    fs::write(&key, signer.public_key()).unwrap();
    setup.requiring(&json!([{"type": "sigstoreSigned", "keyPath": key}]));
    let made = signer.sign(&setup.digest(), &setup.name());
    made.put_tag(&setup.upstream, REPOSITORY, &setup.digest());
    let (_, text) = refused(setup.by_tag());
    assert!(text.contains("matchRepository accepts that"), "{text}");
    // By digest any tag will do, but not none.
    let (_, text) = refused(setup.by_digest());
    assert!(text.contains("matchRepository accepts that"), "{text}");
    let made = signer.sign(&setup.digest(), &format!("{}:latest", setup.name()));
    made.put_tag(&setup.upstream, REPOSITORY, &setup.digest());
    setup.by_tag().unwrap();
    setup.by_digest().unwrap();
}

#[test]
fn layouts_and_archives_need_the_policy_too() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (layout, archive) = (root.join("layout"), root.join("archive.tar"));
    fs::create_dir(&layout).unwrap();
    let image = Image::of_catalog(&Catalog::one("first")).build();
    image.add_to_layout(&layout, "latest");
    let mut tar = tar::Builder::new(fs::File::create(&archive).unwrap());
    tar.append_dir_all("", &layout).unwrap();
    tar.finish().unwrap();
    let path = root.join("policy.json");
    let check = |source: &str, transport: &str, scope: &str| {
        let policy = json!({
            "default": [{"type": "reject"}],
            "transports": {
                "docker": {"": [{"type": "insecureAcceptAnything"}]},
                (transport): {(scope): [{"type": "insecureAcceptAnything"}]},
            },
        });
        fs::write(&path, policy.to_string()).unwrap();
        let policy = path.to_str().unwrap();
        Start::new(["check", source, "--policy-file", policy]).run()
    };
    std::os::unix::fs::symlink(&layout, root.join("link")).unwrap();
    let root = root.to_str().unwrap();
    let sibling = format!("{root}/lay");
    let whole = format!("{root}/layout");
    for (source, transport, scope) in [
        (format!("oci:{root}/layout"), "oci", whole.as_str()),
        (format!("oci:{root}/link"), "oci", root),
        (format!("oci-archive:{root}/archive.tar"), "oci-archive", ""),
    ] {
        let finished = check(&source, transport, scope);
        assert_ne!(finished.status.code(), Some(3), "{finished:?}");
        for (transport, scope) in [
            ("docker-archive", ""),
            (transport, "/elsewhere"),
            (transport, sibling.as_str()),
        ] {
            let finished = check(&source, transport, scope);
            assert_eq!(finished.status.code(), Some(3), "{finished:?}");
            assert!(
                finished.stderr.contains("policy.json rejects"),
                "{finished:?}"
            );
        }
    }
    // Such scopes mean nothing, so that the file is refused for all images.
    for (transport, scope) in [("oci", "layout"), ("oci", "/"), ("docker-archive", root)] {
        let finished = check(&format!("oci:{root}/layout"), transport, scope);
        assert!(finished.stderr.contains("has no scope"), "{finished:?}");
    }
}

#[test]
fn a_layout_has_no_signature_that_a_policy_requires() {
    let setup = Setup::new();
    let layout = setup.folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    setup.image.add_to_layout(&layout, "latest");
    let policy = json!({"default": [signed_by(&Signer::new())]});
    fs::write(setup.path(), policy.to_string()).unwrap();
    let mut almanac = Almanac::start(
        &(following(&format!("oci:{}", layout.display()))
            + &format!("[registries]\npolicy_file = {:?}\n", setup.path())),
    );
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "signature");
    file::replace(
        setup.path(),
        r#"{"default": [{"type": "insecureAcceptAnything"}]}"#,
    );
    almanac.until_at("a", &setup.digest());
}

#[test]
fn a_list_of_images_may_be_signed_as_a_whole_or_in_its_parts() {
    let setup = Setup::new();
    let signer = Signer::new();
    setup.requiring(&json!([signed_by(&signer)]));
    let index = Index::new().image(setup.image.clone()).build();
    setup.upstream.push(REPOSITORY, "list", &index);
    let list = setup.upstream.reference(REPOSITORY, "list");
    let instance = setup.digest();
    assert!(setup.admitted(&list, Some(&instance)).is_err());
    for digest in [instance, index.digest()] {
        let made = signer.sign(&digest, &setup.name());
        made.put_tag(&setup.upstream, REPOSITORY, &digest);
        setup.admitted(&list, Some(&instance)).unwrap();
    }
}

#[test]
fn a_whole_mirror_has_nothing_that_the_policy_keeps_out() {
    let setup = Setup::new();
    let signer = Signer::new();
    setup.requiring(&json!([signed_by(&signer)]));
    let other = Image::of_catalog(&Catalog::one("other"))
        .platform("linux", "arm64")
        .build();
    let index = Index::new()
        .image(setup.image.clone())
        .image(other.clone())
        .build();
    setup.upstream.push(REPOSITORY, "list", &index);
    let sign = |digest: Digest| {
        let made = signer.sign(&digest, &setup.name());
        made.put_tag(&setup.upstream, REPOSITORY, &digest);
    };
    let start = || {
        let source = setup.upstream.reference(REPOSITORY, "list");
        let policy = setup.path();
        let config = following(&source)
            + "mirror = \"full\"\nplatform = \"linux/amd64\"\n"
            + &format!(
                "[registries]\npolicy_file = {:?}\n",
                policy.to_str().unwrap()
            );
        let mut almanac = Almanac::start(&config);
        almanac.until_at("a", &index.digest());
        almanac
    };
    let pulled = |almanac: &mut Almanac, digest: Digest| {
        let path = format!("/v2/a/manifests/{digest}");
        http::get(almanac.program.address("http"), &path)
            .unwrap()
            .status
    };

    // Enough for what is served, and not for all that a mirror has.
    sign(setup.digest());
    let mut almanac = start();
    let refused = other.digest().to_string();
    almanac.program.wait_for_log("a refusal", |log| {
        log.lines()
            .any(|line| line.contains("ERROR") && line.contains(&refused))
    });
    for digest in [other.digest(), index.digest()] {
        assert_eq!(pulled(&mut almanac, digest), 404);
    }
    drop(almanac);

    sign(other.digest());
    let mut almanac = start();
    let begin = Instant::now();
    while pulled(&mut almanac, other.digest()) != 200 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(pulled(&mut almanac, index.digest()), 200);
}

#[test]
fn a_registry_that_cannot_be_asked_for_signatures_is_asked_again() {
    let setup = Setup::new();
    let signer = Signer::new();
    setup.requiring(&json!([signed_by(&signer)]));
    setup
        .upstream
        .misbehave(|behaviour| behaviour.status = Some(503));
    let error = setup.by_digest().unwrap_err();
    assert_eq!(error.reason(), "server_error");
    assert!(error.is_temporary());
}

#[test]
fn a_key_of_rsa_is_one_too() {
    if skip_without("openssl") {
        return;
    }
    let setup = Setup::new();
    let path = |name: &str| setup.folder.path().join(name).display().to_string();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let (key, public, payload) = (path("key"), path("key.pub"), path("payload"));
    let signature = path("signature");
    openssl(&["genrsa", "-out", &key, "2048"]);
    openssl(&["rsa", "-in", &key, "-pubout", "-out", &public]);
    setup.requiring(&json!([{"type": "sigstoreSigned", "keyPath": public,
        "signedIdentity": {"type": "matchRepository"}}]));
    let mut signed = Signer::new().sign(&setup.digest(), &setup.name());
    fs::write(&payload, &signed.blobs[1]).unwrap();
    openssl(&[
        "dgst", "-sha256", "-sign", &key, "-out", &signature, &payload,
    ]);
    let signature = BASE64_STANDARD.encode(fs::read(signature).unwrap());
    signed.manifest["layers"][0]["annotations"] =
        json!({"dev.cosignproject.cosign/signature": signature});
    signed.put_tag(&setup.upstream, REPOSITORY, &setup.digest());
    setup.by_tag().unwrap();
}

#[test]
fn a_broken_policy_stops_pulls_and_nothing_that_is_served() {
    let setup = Setup::new();
    setup.requiring(&json!([{"type": "insecureAcceptAnything"}]));
    let source = setup.upstream.reference(REPOSITORY, "latest");
    let config = following(&source)
        + &format!(
            "[registries]\npolicy_file = {:?}\n",
            setup.path().to_str().unwrap()
        );
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &setup.digest());
    let second = Image::of_catalog(&Catalog::one("second")).build();
    for (text, reason, problem) in [
        ("{", "policy", "policy.json"),
        (
            r#"{"default":[{"type":"acceptSome"}]}"#,
            "policy",
            "acceptSome",
        ),
        (
            r#"{"default":[{"type":"reject"}]}"#,
            "policy",
            "rejects everything by default",
        ),
        (
            r#"{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/missing/x"}]}"#,
            "policy",
            "signedBy with /missing/x",
        ),
    ] {
        file::replace(setup.path(), text);
        let status = almanac.until("a", problem, |status| {
            status["last_error"]
                .as_str()
                .is_some_and(|error| error.contains(problem))
        });
        // Not before the good policy of the beginning counts no more.
        setup.upstream.push(REPOSITORY, "latest", &second);
        assert_eq!(status["last_result"]["reason"], reason);
        assert_eq!(status["state"], "serving");
        assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    }
    fs::remove_file(setup.path()).unwrap();
    almanac.until("a", "a missing policy", |status| {
        let error = status["last_error"].as_str();
        error.is_some_and(|error| error.contains("cannot be read"))
    });
    // Once it asks for a signature that is there, the pass goes on by itself.
    let signer = Signer::new();
    let made = signer.sign(&second.digest(), &setup.name());
    made.put_tag(&setup.upstream, REPOSITORY, &second.digest());
    setup.requiring(&json!([signed_by(&signer)]));
    almanac.until_at("a", &second.digest());
}

#[test]
fn commands_hold_to_the_policy_as_well() {
    let setup = Setup::new();
    let signer = Signer::new();
    setup.requiring(&json!([signed_by(&signer)]));
    let source = setup.upstream.reference(REPOSITORY, "latest");
    let check = || {
        Start::new(["check", &source])
            .variable("ALMANAC_POLICY_FILE", setup.path().to_str().unwrap())
            .run()
    };
    let finished = check();
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    assert!(finished.stderr.contains("is not admitted"), "{finished:?}");
    let made = signer.sign(&setup.digest(), &setup.name());
    made.put_tag(&setup.upstream, REPOSITORY, &setup.digest());
    assert_ne!(check().status.code(), Some(3));
}
