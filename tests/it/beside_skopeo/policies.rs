//! `policy.json` beside skopeo: which scope decides for images of registries,
//! layouts and archives, and which files are refused.

use std::path::Path;
use std::process::{Command, Stdio};

use fastrand::Rng;
use images::policy::PolicySubject;
use images::{Admission, Format, PolicyFiles};
use serde_json::{Map, Value, json};

use super::conf_cases::one_of;
use super::network::{Host, Network, World};
use super::{pki, programs};
use crate::support::catalog::Catalog;
use crate::support::image::Image;
use crate::support::needs::skip_without;

/// An image of a registry with a port.
const IMAGE: &str = "x.c.test:5000/team/app:v1";
const SEEDS: u64 = 90;

/// The layout and the archives of a trial.
struct Files<'f> {
    root: &'f Path,
}

impl Files<'_> {
    /// The names of a source for skopeo and for the policy.
    fn subject(&self, transport: &str) -> (String, PolicySubject) {
        let path = |name: &str| self.root.join("a/b").join(name);
        let (name, format) = match transport {
            "oci" => ("layout", Format::Folder),
            "oci-archive" => ("oci.tar", Format::Archive),
            "docker-archive" => ("docker.tar", Format::DockerArchive),
            _ => {
                let subject = PolicySubject::Registry(IMAGE.parse().unwrap());
                return (format!("docker://{IMAGE}"), subject);
            }
        };
        let source = format!("{transport}:{}", path(name).display());
        (source, PolicySubject::Layout(format, path(name)))
    }

    /// A scope of paths, which mostly has to do with the files.
    fn path_scope(&self, rng: &mut Rng) -> String {
        let root = self.root.display();
        let name = one_of(rng, &["layout", "oci.tar", "docker.tar"]);
        match rng.u8(..20) {
            0..=4 => format!("{root}/a/b/{name}"),
            5..=7 => format!("{root}/a/b"),
            8..=9 => format!("{root}/a"),
            10 => root.to_string(),
            11 => format!("{root}/a/b/{name}x"),
            12 => format!("{root}/a/b/layou"),
            13 => format!("{root}/link"),
            14..=17 => String::new(),
            _ => self.odd_scope(rng),
        }
    }

    /// A scope that the format may not allow.
    fn odd_scope(&self, rng: &mut Rng) -> String {
        let root = self.root.display();
        match rng.u8(..6) {
            0 => "/".to_owned(),
            1 => "a/b".to_owned(),
            2 => format!("{root}/a/"),
            3 => format!("{root}//a"),
            4 => format!("{root}/a/../a"),
            _ => format!("{root}/a/./b"),
        }
    }

    fn policy(&self, rng: &mut Rng) -> Value {
        let requirement = |rng: &mut Rng| {
            let kind = one_of(rng, &["reject", "insecureAcceptAnything"]);
            json!([{ "type": kind }])
        };
        let mut transports = Map::new();
        for transport in [
            "docker",
            "oci",
            "oci-archive",
            "docker-archive",
            "dir",
            "containers-storage",
            "docker-daemon",
        ] {
            let mut scopes = Map::new();
            for _ in 0..rng.u8(..4) {
                let scope = match transport {
                    "docker" => registry_scope(rng).to_owned(),
                    "containers-storage" => storage_scope(rng),
                    "docker-daemon" => daemon_scope(rng),
                    "docker-archive" if rng.u8(..8) > 0 => String::new(),
                    _ => self.path_scope(rng),
                };
                scopes.insert(scope, requirement(rng));
            }
            if !scopes.is_empty() {
                transports.insert(transport.to_owned(), scopes.into());
            }
        }
        json!({ "default": requirement(rng), "transports": transports })
    }
}

/// A scope of images in local storage, rarely one that is not allowed.
fn storage_scope(rng: &mut Rng) -> String {
    let digest = "0123456789abcdef".repeat(4);
    match rng.u8(..60) {
        0 => "name".to_owned(),
        1 => "[a]".to_owned(),
        2 => "[@/a]".to_owned(),
        3 => format!("[/a]name@{}", &digest[1..]),
        4 => "[/a]name@sha256:0@".to_owned(),
        5 => "[]".to_owned(),
        6..20 => format!("[overlay@/a]name@sha256:{digest}"),
        20..30 => format!("[/a]name@sha256:{digest}@{digest}"),
        30..40 => format!("[/a]name@{digest}"),
        40..50 => "[/a]".to_owned(),
        _ => String::new(),
    }
}

/// A scope of images of a daemon, rarely a digest, which is not allowed.
fn daemon_scope(rng: &mut Rng) -> String {
    let length = match rng.u8(..40) {
        0 => 64,
        1 => 128,
        2 => 63,
        _ => return "name:tag".to_owned(),
    };
    let algorithm = if length == 128 { "sha512" } else { "sha256" };
    format!("{algorithm}:{}", &"0123456789abcdef".repeat(8)[..length])
}

fn registry_scope(rng: &mut Rng) -> &'static str {
    let scopes = [
        "x.c.test:5000/team/app:v1",
        "x.c.test:5000/team/app",
        "x.c.test:5000/team",
        "x.c.test:5000",
        "x.c.test",
        "*.c.test:5000",
        "*.c.test",
        "*.test",
        "*.test",
        "",
    ];
    one_of(rng, &scopes)
}

#[test]
fn the_policy_admits_what_skopeo_copies() {
    if skip_without("skopeo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let files = Files { root: &root };
    let layout = root.join("a/b/layout");
    std::fs::create_dir_all(&layout).unwrap();
    Image::of_catalog(&Catalog::one("first"))
        .build()
        .add_to_layout(&layout, "v1");
    std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
    let network = Network::start();
    let world = World::from([("x.c.test:5000".to_owned(), Host::open())]);
    let target = format!("dir:{}", root.join("copy").display());
    let copy = |policy: &str, source: &str, target: &str| {
        let mut command = Command::new("skopeo");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &root)
            .envs(pki::variables())
            .envs(programs::proxies(&network))
            .args(["--command-timeout=30s", policy, "copy", "--quiet"])
            .args([source, target])
            .stdin(Stdio::null());
        let (output, _) = network.visit(&world, || command.output().unwrap());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    };
    let (source, _) = files.subject("oci");
    for transport in ["oci-archive", "docker-archive"] {
        let (archive, _) = files.subject(transport);
        copy("--insecure-policy", &source, &archive).unwrap();
    }
    let path = root.join("policy.json");
    let flag = format!("--policy={}", path.display());
    let named = PolicyFiles {
        named: Some(path.clone()),
        ..PolicyFiles::default()
    };
    let mut admitted = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let policy = files.policy(&mut rng).to_string();
        std::fs::write(&path, &policy).unwrap();
        let transport = one_of(
            &mut rng,
            &["docker", "oci", "oci-archive", "docker-archive"],
        );
        let (source, subject) = files.subject(transport);
        let theirs = copy(&flag, &source, &target);
        let ours = Admission::read(&named, &subject);
        assert_eq!(
            ours.is_ok(),
            theirs.is_ok(),
            "{source}\n{policy}\nalmanac: {ours:?}\nskopeo: {theirs:?}"
        );
        admitted += u64::from(theirs.is_ok());
    }
    assert!((SEEDS / 5..SEEDS * 4 / 5).contains(&admitted), "{admitted}");
}
