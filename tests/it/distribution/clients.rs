//! Clients that others wrote pull from the program: skopeo and podman.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use images::digest::Digest;
use serde_json::Value;

use super::{REPOSITORY, Slim, index, mirroring};
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::http;
use crate::support::image::Built;
use crate::support::needs::{shared, skip_without};
use crate::support::program::{Start, wait_for};
use crate::support::tls::Authority;
use crate::support::upstream::Upstream;

/// How long a client may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs a client to its end, with what it keeps of its own in `home`.
fn run(home: &Path, program: &str, arguments: &[&str]) -> String {
    let output = home.join("output");
    let errors = home.join("errors");
    let mut child = Command::new(program)
        .args(arguments)
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("XDG_DATA_HOME", home)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&output).unwrap())
        .stderr(fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let status = wait_for(&mut child, PATIENCE);
    let errors = fs::read_to_string(errors).unwrap();
    assert!(status.success(), "{program} {arguments:?}: {errors}");
    fs::read_to_string(output).unwrap()
}

fn skopeo(home: &Path, arguments: &[&str]) -> String {
    let all = [&["--insecure-policy"], arguments].concat();
    run(home, "skopeo", &all)
}

#[test]
fn skopeo_inspects_copies_and_syncs() {
    if skip_without("skopeo") {
        return;
    }
    let slim = Slim::start();
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let image = format!("docker://{}/a:latest", slim.address);
    let seen = skopeo(home, &["inspect", "--tls-verify=false", &image]);
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let digest = Digest::of(&slim.manifest.body).to_string();
    assert_eq!(seen["Digest"], digest.as_str());
    assert_eq!(seen["RepoTags"], serde_json::json!(["latest"]));

    let layout = format!("oci:{}:latest", home.join("layout").display());
    let options = [
        "copy",
        "--quiet",
        "--src-tls-verify=false",
        "--preserve-digests",
    ];
    skopeo(home, &[&options[..], &[&image, &layout]].concat());
    let index = fs::read_to_string(home.join("layout/index.json")).unwrap();
    assert!(index.contains(&digest), "{index}");

    let synced = home.join("synced");
    fs::create_dir(&synced).unwrap();
    let source = format!("{}/a", slim.address);
    skopeo(
        home,
        &[
            "sync",
            "--src=docker",
            "--dest=dir",
            "--src-tls-verify=false",
            &source,
            synced.to_str().unwrap(),
        ],
    );
    let manifest = fs::read(synced.join("a:latest/manifest.json")).unwrap();
    assert_eq!(manifest, slim.manifest.body);
}

/// An image of several platforms, where it comes from, and who has all of it.
fn mirrored() -> (Upstream, Built, Almanac) {
    let upstream = Upstream::start();
    let image = index();
    upstream.push(REPOSITORY, "v4.20", &image);
    let mut almanac = mirroring(&upstream);
    almanac.until_pullable("a");
    (upstream, image, almanac)
}

#[test]
fn skopeo_copies_all_platforms_and_signatures_of_a_mirror() {
    if skip_without("skopeo") {
        return;
    }
    let (_upstream, image, mut almanac) = mirrored();
    let address = almanac.program.address("http");
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let source = format!("docker://{address}/{REPOSITORY}:v4.20");
    let layout = home.join("layout");
    let target = format!("oci:{}:v4.20", layout.display());
    let options = [
        "copy",
        "--quiet",
        "--all",
        "--preserve-digests",
        "--src-tls-verify=false",
    ];
    skopeo(home, &[&options[..], &[&source, &target]].concat());
    image.for_each_blob(|blob| {
        let path = layout.join("blobs/sha256").join(blob.digest.hex());
        assert_eq!(fs::read(path).unwrap(), blob.bytes);
    });
}

#[test]
fn skopeo_logs_in_over_tls_as_a_user() {
    if skip_without("skopeo") {
        return;
    }
    for flow in ["basic", "token"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let authority = Authority::new();
        fs::create_dir(path("trusted")).unwrap();
        fs::write(path("trusted/ca.crt"), authority.pem()).unwrap();
        authority.sign_for(&["127.0.0.1"]).write(folder.path());
        let hash = bcrypt::hash("pass:word", 4).unwrap();
        fs::write(path("users"), format!("ann:{hash}\n")).unwrap();
        fs::create_dir(path("catalog")).unwrap();
        Catalog::small().write_to(&folder.path().join("catalog"), Format::Yaml);
        let config = format!(
            "{}[http_tls]\ncertificate = {:?}\nkey = {:?}\n\
             [distribution]\nuser_files = [{:?}]\nflow = {flow:?}\n",
            following(&format!("file:{}", path("catalog"))),
            path("tls.crt"),
            path("tls.key"),
            path("users"),
        );
        let mut almanac = Almanac::start(&config);
        let admin = almanac.program.address("admin");
        let begin = Instant::now();
        let made = |metrics: String| metrics.contains("almanac_image_seconds_count 1\n");
        while !made(http::get(admin, "/metrics").unwrap().text()) {
            assert!(begin.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
        let home = folder.path();
        let registry = almanac.program.address("http").to_string();
        let (known, trusted) = (path("auth.json"), path("trusted"));
        let login = [
            "login",
            "--cert-dir",
            &trusted,
            "--authfile",
            &known,
            "--username=ann",
            "--password=pass:word",
            &registry,
        ];
        skopeo(home, &login);
        let image = format!("docker://{registry}/a:latest");
        let target = format!("dir:{}", path("pulled"));
        let copy = [
            "copy",
            "--quiet",
            "--src-cert-dir",
            &trusted,
            "--src-authfile",
            &known,
            &image,
            &target,
        ];
        skopeo(home, &copy);
        let manifest = fs::read(path("pulled/manifest.json")).unwrap();
        assert!(manifest.starts_with(b"{"), "{flow}");
    }
}

#[test]
fn skopeo_syncs_what_a_list_of_images_names() {
    if skip_without("skopeo") {
        return;
    }
    let (_upstream, image, mut almanac) = mirrored();
    let host = almanac.program.address("http").to_string();
    let by_digest = format!("{host}/a@{}", image.digest());
    let catalog = Catalog::new().package("etcd", |package| {
        package.channel("stable", [entry("etcd.v1.0.0")]).bundle(
            bundle("etcd.v1.0.0")
                .image(&format!("{host}/{REPOSITORY}:v4.20"))
                .related_image("other", &by_digest),
        )
    });
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let path = |name: &str| home.join(name).display().to_string();
    fs::create_dir(path("catalog")).unwrap();
    catalog.write_to(&home.join("catalog"), Format::Yaml);
    let source = path("catalog");
    let listed = Start::new(["images", &source, "--output", "skopeo"]).run();
    assert!(listed.status.success(), "{listed:?}");
    // The one thing that almanac cannot know.
    let yaml = listed.stdout.replacen('\n', "\n  tls-verify: false\n", 1);
    fs::write(path("images.yaml"), yaml).unwrap();
    fs::create_dir(path("synced")).unwrap();
    let (list, synced) = (path("images.yaml"), path("synced"));
    let sync = [
        "sync",
        "--all",
        "--scoped",
        "--src=yaml",
        "--dest=dir",
        &list,
        &synced,
    ];
    skopeo(home, &sync);
    let by_digest = format!("a@{}", image.digest());
    for repository in [&format!("{REPOSITORY}:v4.20"), &by_digest] {
        let manifest = home.join("synced").join(&host).join(repository);
        let manifest = fs::read(manifest.join("manifest.json")).unwrap();
        assert_eq!(manifest, image.top.bytes, "{repository}");
    }
}

#[test]
fn podman_pulls_and_reads_the_catalog() {
    if skip_without("podman") {
        return;
    }
    let mut slim = Slim::start();
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let policy = home.join("policy.json");
    fs::write(
        &policy,
        r#"{"default":[{"type":"insecureAcceptAnything"}]}"#,
    )
    .unwrap();
    let path = |name: &str| home.join(name).display().to_string();
    let (root, state) = (
        format!("--root={}", path("root")),
        format!("--runroot={}", path("run")),
    );
    let podman = |arguments: &[&str]| {
        // Its usual storage needs what a container does not give.
        let options = [root.as_str(), state.as_str(), "--storage-driver=vfs"];
        run(home, "podman", &[&options[..], arguments].concat())
    };
    let image = format!("{}/a:latest", slim.address);
    let policy = format!("--signature-policy={}", policy.display());
    podman(&["pull", "--quiet", "--tls-verify=false", &policy, &image]);
    let seen = podman(&["image", "inspect", "--format={{.Digest}}", &image]);
    assert_eq!(seen.trim(), Digest::of(&slim.manifest.body).to_string());
    // What was pulled is what was served.
    let archive = home.join("archive.tar");
    let output = format!("--output={}", archive.display());
    podman(&[
        "save",
        "--quiet",
        "--format=docker-archive",
        &output,
        &image,
    ]);
    let mut text = String::new();
    let mut archive = tar::Archive::new(fs::File::open(archive).unwrap());
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        if Path::new(&name)
            .extension()
            .is_some_and(|ending| ending == "tar")
            && entry.header().entry_type().is_file()
        {
            text = files(entry);
        }
    }
    assert_eq!(text, slim.almanac.all("a").text());
}

/// The files of a layer, one after the other.
fn files(layer: impl std::io::Read) -> String {
    let mut text = String::new();
    let mut layer = tar::Archive::new(layer);
    for entry in layer.entries().unwrap() {
        std::io::Read::read_to_string(&mut entry.unwrap(), &mut text).unwrap();
    }
    text
}

/// The slim image of a real catalog, as skopeo pulls it.
#[test]
fn a_real_catalog_is_pulled_byte_for_byte() {
    if skip_without("shared") || skip_without("skopeo") || skip_without("zstd") {
        return;
    }
    let shared = shared().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let archive = shared.join("corpus/community-v4.20.tar.zst");
    let unpacked = Command::new("tar")
        .args(["--zstd", "-xf", archive.to_str().unwrap(), "-C"])
        .arg(folder.path())
        .status();
    assert!(unpacked.unwrap().success());
    let source = format!("file:{}", folder.path().display());
    let start = || {
        let mut almanac = Almanac::start(&following(&source));
        let begin = Instant::now();
        while almanac.http("/v2/a/manifests/latest").status != 200 {
            assert!(
                begin.elapsed() < Duration::from_mins(5),
                "{}",
                almanac.program.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        almanac
    };
    let mut one = start();
    let address = one.program.address("http");
    let copies = tempfile::tempdir().unwrap();
    let layout = copies.path().join("layout");
    let target = format!("dir:{}", layout.display());
    let image = format!("docker://{address}/a:latest");
    skopeo(
        folder.path(),
        &["copy", "--quiet", "--src-tls-verify=false", &image, &target],
    );
    let manifest = fs::read(layout.join("manifest.json")).unwrap();
    // The same on every machine, and until the image is made in another way:
    // then clusters take it for another catalog, and the change log says so.
    let pinned = "sha256:b94164cc96661ce7edf7cbc350f8242eaf4662e9855b177d44493e7e42e03581";
    assert_eq!(Digest::of(&manifest).to_string(), pinned);
    let document: Value = serde_json::from_slice(&manifest).unwrap();
    let layer = document["layers"][0]["digest"].as_str().unwrap();
    let layer = fs::File::open(layout.join(layer.strip_prefix("sha256:").unwrap())).unwrap();
    let text = files(flate2::read::GzDecoder::new(layer));
    assert!(text == one.all("a").text(), "other bytes were pulled");
    one.stop();

    let mut other = start();
    assert_eq!(other.http("/v2/a/manifests/latest").body, manifest);
}
