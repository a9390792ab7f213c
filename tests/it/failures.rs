//! A pass that fails changes nothing that is served, says what went wrong and
//! where, and is made good by the next one that goes well.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::http::get;
use crate::support::image::{Built, CONFIGS_LABEL, Image, Layer};
use crate::support::port::free_port;
use crate::support::program::{Killed, PATIENCE, STEP};
use crate::support::registry::{Access, Behaviour, DigestHeader};
use crate::support::served::{Folders, Served, start, with};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";

/// Something that goes wrong.
struct Failure {
    what: &'static str,
    /// How the registry misbehaves.
    registry: fn(&mut Behaviour),
    /// How the server misbehaves that it sends for blobs.
    storage: fn(&mut Behaviour),
    /// The image to which the tag moves; by default a good one.
    image: Option<Image>,
    stage: &'static str,
    reason: &'static str,
    /// What the operator is told. `{image}`, `{digest}` and `{layer}` stand for
    /// the reference, the image's digest and that of its last layer.
    told: &'static [&'static str],
}

impl Failure {
    fn new(
        what: &'static str,
        stage: &'static str,
        reason: &'static str,
        told: &'static [&'static str],
    ) -> Self {
        Self {
            what,
            registry: |_| {},
            storage: |_| {},
            image: None,
            stage,
            reason,
            told,
        }
    }

    fn of_registry(self, registry: fn(&mut Behaviour)) -> Self {
        Self { registry, ..self }
    }

    fn of_storage(self, storage: fn(&mut Behaviour)) -> Self {
        Self { storage, ..self }
    }

    fn of_image(self, image: Image) -> Self {
        let image = Some(image);
        Self { image, ..self }
    }

    fn of_layer(self, layer: Layer) -> Self {
        self.of_image(Image::new().label(CONFIGS_LABEL, "/configs").layer(layer))
    }
}

fn failures_of_the_registry() -> Vec<Failure> {
    vec![
        Failure::new(
            "too many requests",
            "resolve",
            "too_many_requests",
            &["{image}", "429"],
        )
        .of_registry(|registry| registry.status = Some(429)),
        Failure::new(
            "an error of the server",
            "resolve",
            "server_error",
            &["{image}", "500"],
        )
        .of_registry(|registry| registry.status = Some(500)),
        Failure::new(
            "silence",
            "resolve",
            "timeout",
            &["{image}", "did not respond in time"],
        )
        .of_registry(|registry| registry.silent = true),
        Failure::new(
            "no access",
            "resolve",
            "unauthorized",
            &["{image}", "401", "no credentials are configured"],
        )
        .of_registry(|registry| registry.access = Access::Basic("user", "word")),
        Failure::new("no such tag", "resolve", "not_found", &["{image}", "404"])
            .of_registry(|registry| registry.status = Some(404)),
        Failure::new(
            "a digest that is not that of the image",
            "pull",
            "digest_mismatch",
            &["{image}", "returned a manifest with the digest"],
        )
        .of_registry(|registry| registry.digest_header = DigestHeader::Wrong),
        Failure::new(
            "a page that is no manifest",
            "pull",
            "bad_manifest",
            &["{image}", "not a JSON object"],
        )
        .of_registry(|registry| registry.not_a_manifest = true),
        Failure::new(
            "an altered manifest",
            "pull",
            "digest_mismatch",
            &["{image}", "{digest}"],
        )
        .of_registry(|registry| registry.altered = true),
        Failure::new(
            "an altered blob",
            "pull",
            "digest_mismatch",
            &["{image}", "/blobs/sha256:"],
        )
        .of_storage(|storage| storage.altered = true),
        Failure::new(
            "a body that breaks off",
            "pull",
            "interrupted",
            &["{image}", "broke off"],
        )
        .of_storage(|storage| storage.cut = Some(50)),
        Failure::new(
            "a body that is too short",
            "pull",
            "cut_short",
            &["{image}"],
        )
        .of_storage(|storage| storage.percent = Some(50)),
        Failure::new(
            "a body that is too long",
            "pull",
            "digest_mismatch",
            &["{image}"],
        )
        .of_storage(|storage| storage.percent = Some(150)),
        Failure::new(
            "storage that is away",
            "pull",
            "server_error",
            &["{image}", "503"],
        )
        .of_storage(|storage| storage.status = Some(503)),
        Failure::new("storage that is silent", "pull", "timeout", &["{image}"])
            .of_storage(|storage| storage.silent = true),
    ]
}

fn failures_of_the_image() -> Vec<Failure> {
    let good = || Layer::of_catalog(&Catalog::one("etcd"), Format::JsonLines, "configs");
    vec![
        Failure::new(
            "a manifest that is none",
            "pull",
            "bad_manifest",
            &["{image}", "{digest}"],
        )
        .of_image(
            Image::of_catalog(&Catalog::one("etcd"))
                .edit_manifest(|manifest| *manifest = "nothing".into()),
        ),
        Failure::new(
            "an old manifest",
            "pull",
            "bad_manifest",
            &["{image}", "{digest}"],
        )
        .of_image(
            Image::of_catalog(&Catalog::one("etcd"))
                .edit_manifest(|manifest| manifest["schemaVersion"] = 1.into()),
        ),
        Failure::new(
            "a path out of the image",
            "unpack",
            "hostile",
            &["{layer}", "../etc/passwd"],
        )
        .of_layer(good().file("../etc/passwd", "x")),
        Failure::new(
            "a layer that is no archive",
            "unpack",
            "damaged",
            &["{layer}"],
        )
        .of_layer(Layer::raw("nothing that is an archive".repeat(100))),
        Failure::new(
            "YAML that cannot be read",
            "build",
            "refused",
            &["etcd/broken.yaml:3", "document 1"],
        )
        .of_layer(good().file(
            "configs/etcd/broken.yaml",
            "schema: olm.package\nname: etcd\n  bad: [\n",
        )),
        Failure::new(
            "JSON that cannot be read",
            "build",
            "refused",
            &["etcd/broken.json:2:10 ", "document 2"],
        )
        .of_layer(good().file(
            "configs/etcd/broken.json",
            "{\"schema\": \"a\"}\n{\"schema\"\n",
        )),
        Failure::new(
            "a blob without a schema",
            "build",
            "refused",
            &["readme.yaml:4", "document 2", "schema"],
        )
        .of_layer(good().file("configs/readme.yaml", "---\nschema: a\n---\nname: b\n")),
        Failure::new(
            "a file that is no catalog",
            "build",
            "refused",
            &["README.md:3 ", "document 1"],
        )
        .of_layer(good().file("configs/README.md", "# Operators\n\nThese are ours.\n")),
    ]
}

#[test]
fn a_registry_that_fails_changes_nothing_that_is_served() {
    check(failures_of_the_registry());
}

#[test]
fn an_image_that_is_not_good_changes_nothing_that_is_served() {
    check(failures_of_the_image());
}

/// A limit on the length of files stands for a full disk: a write fails in the
/// middle of a pass.
#[test]
fn a_full_disk_keeps_the_last_revision() {
    let script = tempfile::tempdir().unwrap();
    let limited = script.path().join("limited");
    let own = env!("CARGO_BIN_EXE_almanac");
    // In blocks of 512 bytes. Without the trap the signal ends the program.
    let text = format!("#!/bin/sh\ntrap '' XFSZ\nulimit -f 4096\nexec {own} \"$@\"\n");
    std::fs::write(&limited, text).unwrap();
    std::fs::set_permissions(&limited, std::fs::Permissions::from_mode(0o755)).unwrap();

    let folders = Folders::of("a", &Catalog::one("first"));
    let arguments = folders.sources().into_iter();
    let start = with(
        start().program(&limited),
        arguments.chain(["--poll=1s".into()]),
    );
    let mut served = Served::begin(start);
    served.wait_for_status("a", |status| status["state"] == "serving");
    let before = served.get("/catalogs/a/api/v1/all").body;

    let mut random = fastrand::Rng::with_seed(1);
    let text: String = (0..3 << 20).map(|_| random.alphanumeric()).collect();
    let large = Catalog::new().package("large", |package| {
        package
            .description(&text)
            .channel("stable", [entry("large.v1.0.0")])
    });
    folders.replace("a", &large);
    served.wait_for_status("a", |status| status["failures"].as_u64() >= Some(1));
    let status = served.status("a");
    let reason = status["last_result"]["reason"].as_str().unwrap();
    assert!(["store", "io"].contains(&reason), "{status:#}");
    assert_eq!(status["state"], "serving");
    assert!(served.get("/catalogs/a/api/v1/all").body == before);

    // Content that fits is taken.
    folders.replace("a", &Catalog::one("second"));
    served.wait_for_status("a", |status| status["failures"] == 0);
    let after = served.get("/catalogs/a/api/v1/all").text();
    assert!(after.contains("second"), "{after}");
}

fn check(failures: Vec<Failure>) {
    let (upstream, storage) = (Upstream::start(), Upstream::start());
    let redirect = format!("http://{}", storage.host());
    let behave = || {
        storage.behave();
        upstream.behave();
        upstream.misbehave(|behaviour| behaviour.redirect_blobs = Some(redirect.clone()));
    };
    let push = |image: &Built| {
        storage.push(REPOSITORY, "latest", image);
        upstream.push(REPOSITORY, "latest", image);
    };
    behave();
    push(&Image::of_catalog(&Catalog::one("first")).build());
    let source = upstream.reference(REPOSITORY, "latest");
    let timeout = "[registries]\nauth_files = []\nattempts = 1\nidle_timeout = \"2s\"\n";
    let mut almanac = Almanac::start(&(following(&source) + timeout));
    almanac.until("a", "a revision", |status| status["state"] == "serving");

    for (number, failure) in failures.into_iter().enumerate() {
        eprintln!("== {}", failure.what);
        let what = failure.what;
        let before = almanac.all("a");
        let packages = almanac.packages("a").unwrap();
        let revision = almanac.until_whole("a")["revision"].clone();

        upstream.misbehave(failure.registry);
        storage.misbehave(failure.storage);
        let package = format!("package-{number}");
        let good = Image::of_catalog(&Catalog::one(&package)).build();
        let moved = failure.image.as_ref().map_or(good.clone(), Image::build);
        push(&moved);
        // What it fails with may change while the registry begins to
        // misbehave; from the second time on it is what was asked for.
        let status = almanac.until("a", what, |status| status["failures"].as_u64() >= Some(2));

        let result = &status["last_result"];
        let error = status["last_error"].as_str().unwrap();
        assert_eq!(status["state"], "serving", "{what}");
        assert_eq!(result["stage"], failure.stage, "{what}: {error}");
        assert_eq!(result["reason"], failure.reason, "{what}: {error}");
        assert!(error.starts_with(failure.stage), "{what}: {error}");
        for part in failure.told {
            let part = part
                .replace("{image}", &source)
                .replace("{digest}", &moved.digest().to_string())
                .replace("{layer}", &last_blob(&moved));
            assert!(
                error.contains(&part),
                "{what}: {part:?} is not in {error:?}"
            );
        }
        let log = almanac.program.log();
        assert!(log.contains(error), "{what}: {error:?} is not logged");

        let after = almanac.all("a");
        assert_eq!(after.text(), before.text(), "{what}");
        for header in ["etag", "last-modified"] {
            assert_eq!(after.header(header), before.header(header), "{what}");
        }
        assert_eq!(almanac.packages("a").unwrap(), packages, "{what}");
        assert_eq!(status["revision"], revision, "{what}");
        assert_eq!(almanac.ready().status, 200, "{what}");

        behave();
        push(&good);
        let status = almanac.until_at("a", &good.digest());
        let status = match status["failures"].as_u64() {
            Some(0) => status,
            _ => almanac.until("a", "no failure", |status| status["failures"] == 0),
        };
        assert!(status["last_error"].is_null(), "{what}");
        assert_eq!(almanac.packages("a").unwrap(), [package], "{what}");
    }
}

/// The digest of the layer on top.
fn last_blob(image: &Built) -> String {
    let mut last = String::new();
    image.for_each_blob(|blob| last = blob.digest.to_string());
    last
}

/// A log often goes through a pipe, and its reader may end first.
#[test]
fn a_catalog_is_followed_on_when_nobody_reads_the_log_any_more() {
    let folders = Folders::of("a", &Catalog::one("first"));
    let data = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut serve = std::process::Command::new(env!("CARGO_BIN_EXE_almanac"));
    serve
        .args([
            "serve",
            "--poll=100ms",
            "--grpc=127.0.0.1:0",
            "--admin=127.0.0.1:0",
        ])
        .arg(format!("--http={port}"))
        .arg(format!("--data-dir={}", data.path().display()))
        .args(folders.sources())
        // Those of the tests are none of the program's.
        .env_remove("ALMANAC_SHARED")
        .env_remove("ALMANAC_TEST_REQUIRE_ALL")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut serve = Killed(serve.spawn().unwrap());
    // The pipe is closed from the beginning.
    drop(serve.0.stderr.take());
    for package in ["first", "second", "third"] {
        folders.replace("a", &Catalog::one(package));
        let text = Catalog::one(package).text(Format::JsonLines);
        let begun = std::time::Instant::now();
        let path = "/catalogs/a/api/v1/all";
        while get(port, path).map(|reply| reply.text()).ok() != Some(text.clone()) {
            assert!(
                serve.0.try_wait().unwrap().is_none(),
                "the program has ended"
            );
            assert!(begun.elapsed() < PATIENCE, "{package} is not served");
            std::thread::sleep(STEP);
        }
    }
}
