//! Catalogs are followed in a registry that others wrote, with images that
//! another tool pushed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Built, CONFIGS_LABEL, Compression, Image, Index, Layer};
use crate::support::needs::skip_without;
use crate::support::port;
use crate::support::program::{PATIENCE, wait_for};

/// The `distribution` registry with its storage.
pub(crate) struct Distribution {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: TempDir,
}

impl Distribution {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, address) = port::listening("docker-registry", |address| {
            let config = format!(
                "version: 0.1\n\
                 log: {{level: error}}\n\
                 storage: {{filesystem: {{rootdirectory: '{}'}}}}\n\
                 http: {{addr: '{address}'}}\n",
                folder.path().join("storage").display(),
            );
            let path = folder.path().join("config.yml");
            fs::write(&path, config).unwrap();
            Command::new("docker-registry")
                .arg("serve")
                .arg(path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        Self {
            child,
            address,
            folder,
        }
    }

    /// Pushes what the tag of a layout leads to, as the same tag.
    pub(crate) fn push(&self, layout: &Path, repository: &str, tag: &str, options: &[&str]) {
        let mut child = Command::new("skopeo")
            .args(["--insecure-policy", "copy", "--quiet"])
            .args(["--dest-tls-verify=false"])
            .args(options)
            .arg(format!("oci:{}:{tag}", layout.display()))
            .arg(format!("docker://{}", self.reference(repository, tag)))
            // What it keeps of its own goes with the registry's.
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let status = wait_for(&mut child, PATIENCE);
        assert!(status.success(), "skopeo: {status}");
    }

    fn reference(&self, repository: &str, tag: &str) -> String {
        format!("{}/{repository}:{tag}", self.address)
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_pushed_to_a_registry_is_served() {
    if skip_without("docker-registry") || skip_without("skopeo") {
        return;
    }
    let registry = Distribution::start();
    let layout = tempfile::tempdir().unwrap();
    let push = |image: &Built, options: &[&str]| {
        image.add_to_layout(layout.path(), "latest");
        registry.push(layout.path(), "catalogs/a", "latest", options);
    };
    let first = Image::of_catalog(&Catalog::one("first")).build();
    push(&first, &[]);
    let source = registry.reference("catalogs/a", "latest");
    let mut almanac = Almanac::start(&following(&source));
    almanac.until_at("a", &first.digest());
    let expected = Catalog::one("first").text(Format::JsonLines);
    assert_eq!(almanac.all("a").text(), expected);
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    // A tag that is pushed again is picked up by the next poll.
    let layer = Layer::of_catalog(&Catalog::one("second"), Format::Yaml, "configs");
    let second = Image::new()
        .label(CONFIGS_LABEL, "/configs")
        .layer(layer.compressed(Compression::Zstd))
        .build();
    push(&second, &[]);
    almanac.until_at("a", &second.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);

    // Docker's format is made by the tool, so only it knows the digest.
    let third = Image::of_catalog(&Catalog::one("third")).build();
    push(&third, &["--format=v2s2"]);
    let before = second.digest().to_string();
    almanac.until("a", "the third", |status| {
        status["revision"]["digest"] != before.as_str()
    });
    assert_eq!(almanac.packages("a").unwrap(), ["third"]);
    assert_eq!(almanac.status("a")["failures"], 0);
}

#[test]
fn an_image_of_several_platforms_is_taken_from_a_registry() {
    if skip_without("docker-registry") || skip_without("skopeo") {
        return;
    }
    let registry = Distribution::start();
    let layout = tempfile::tempdir().unwrap();
    let of_platform = |architecture: &str| {
        Image::of_catalog(&Catalog::one(architecture))
            .platform("linux", architecture)
            .build()
    };
    let index = Index::new()
        .image(of_platform("amd64"))
        .image(of_platform("arm64"))
        .build();
    index.add_to_layout(layout.path(), "latest");
    registry.push(layout.path(), "catalogs/a", "latest", &["--all"]);

    let source = registry.reference("catalogs/a", "latest");
    let by_digest = format!("{}/catalogs/a@{}", registry.address, index.digest());
    let config =
        following(&source) + "platform = \"linux/arm64\"\n" + &catalog("by-digest", &by_digest);
    let mut almanac = Almanac::start(&config);
    for (name, architecture) in [("a", "arm64"), ("by-digest", "amd64")] {
        almanac.until_at(name, &index.digest());
        assert_eq!(almanac.packages(name).unwrap(), [architecture]);
    }
}

#[test]
fn a_registry_that_goes_away_takes_nothing_with_it() {
    if skip_without("docker-registry") || skip_without("skopeo") {
        return;
    }
    let mut registry = Distribution::start();
    let layout = tempfile::tempdir().unwrap();
    let first = Image::of_catalog(&Catalog::one("first")).build();
    first.add_to_layout(layout.path(), "latest");
    registry.push(layout.path(), "catalogs/a", "latest", &[]);
    let source = registry.reference("catalogs/a", "latest");
    let missing = registry.reference("catalogs/a", "missing");
    let config = following(&source) + &catalog("missing", &missing);
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &first.digest());
    let status = almanac.until_failed("missing");
    let error = status["last_error"].as_str().unwrap();
    for part in [missing.as_str(), "404", "unknown"] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }

    registry.child.kill().unwrap();
    registry.child.wait().unwrap();
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "unreachable");
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
}
