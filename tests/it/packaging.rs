//! The ways to get almanac: packages for cargo, and a container image.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::file::root;
use crate::support::needs::skip_without;
use crate::support::program::{PATIENCE, pause};

/// The packages of the workspace and the folders that hold them.
const PACKAGES: [(&str, &str); 3] = [
    ("almanac", "."),
    ("fbc", "crates/fbc"),
    ("images", "crates/images"),
];

/// Runs a program to its end, which has to be good, and returns what it prints.
fn run(command: &mut Command) -> String {
    let begin = Instant::now();
    let output = loop {
        let output = command.output().unwrap();
        // A process that another test starts has the file open for a moment.
        let is_busy = String::from_utf8_lossy(&output.stderr).contains("Text file busy");
        if !is_busy || begin.elapsed() > PATIENCE {
            break output;
        }
        pause(begin);
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_notes_of_the_chart_name_the_command_that_shows_states() {
    let notes = root().join("deploy/helm/almanac/templates/NOTES.txt");
    let notes = fs::read_to_string(notes).unwrap();
    let (_, states) = notes.split_once("State of the catalogs:").unwrap();
    let command = "almanac status --config /etc/almanac/almanac.toml";
    assert!(states.contains(command), "{notes}");
}

#[test]
fn each_package_says_what_registries_show() {
    for (package, folder) in PACKAGES {
        let folder = root().join(folder);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let facts = manifest["package"].as_table().unwrap();
        for key in [
            "description",
            "license",
            "readme",
            "keywords",
            "categories",
            "rust-version",
        ] {
            assert!(facts.contains_key(key), "{package} has no {key}");
        }
        assert_ne!(facts.get("publish"), Some(&false.into()), "{package}");
        let keywords = facts["keywords"].as_array().unwrap();
        assert!(keywords.len() <= 5, "{package}: registries take five");
        let readme = fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(readme.starts_with("# "), "{package}: README.md");
        let license = fs::read(folder.join("LICENSE")).unwrap();
        assert_eq!(license, fs::read(root().join("LICENSE")).unwrap());
    }
}

#[test]
fn each_package_has_all_that_its_build_reads() {
    for (package, folder) in PACKAGES {
        let listed = run(Command::new(env!("CARGO"))
            .args([
                "package",
                "--list",
                "--allow-dirty",
                "--offline",
                "--locked",
            ])
            .args(["--package", package])
            .current_dir(root()));
        let listed: Vec<&str> = listed.lines().collect();
        for file in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
            assert!(listed.contains(&file), "{package} lacks {file}");
        }
        // The tests of almanac read files that belong to no package.
        assert!(!listed.iter().any(|file| file.starts_with("tests/")));
        let folder = root().join(folder);
        let mut included = 0;
        for file in &listed {
            if Path::new(file).extension().is_none_or(|it| it != "rs") {
                continue;
            }
            let text = fs::read_to_string(folder.join(file)).unwrap();
            for path in included_by(&text) {
                let path = resolved(&Path::new(file).parent().unwrap().join(path));
                let path = path.to_str().unwrap();
                assert!(listed.contains(&path), "{package} lacks {path} of {file}");
                included += 1;
            }
        }
        assert!(
            package != "almanac" || included > 5,
            "only {included} files"
        );
    }
}

/// The paths in `include_str!("…")` and `include_bytes!("…")`.
fn included_by(text: &str) -> Vec<&str> {
    let parts = ["include_str!(\"", "include_bytes!(\""];
    let found = parts.iter().flat_map(|part| text.split(part).skip(1));
    found.filter_map(|rest| rest.split('"').next()).collect()
}

/// A path without `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path {
        if part == ".." {
            assert!(resolved.pop(), "{} leads out", path.display());
        } else {
            resolved.push(part);
        }
    }
    resolved
}

/// An image that `deploy/build-image` made of the program under test.
struct Built {
    folder: tempfile::TempDir,
    manifest: Value,
}

impl Built {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        run(Command::new(root().join("deploy/build-image"))
            .arg(env!("CARGO_BIN_EXE_almanac"))
            .arg(format!("oci:{}:latest", folder.path().display())));
        let index = fs::read(folder.path().join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let mut built = Self {
            folder,
            manifest: Value::Null,
        };
        built.manifest = built.json(&index["manifests"][0]["digest"]);
        built
    }

    fn blob(&self, digest: &Value) -> PathBuf {
        let digits = digest.as_str().unwrap().strip_prefix("sha256:").unwrap();
        self.folder.path().join("blobs/sha256").join(digits)
    }

    fn json(&self, digest: &Value) -> Value {
        serde_json::from_slice(&fs::read(self.blob(digest)).unwrap()).unwrap()
    }
}

#[test]
fn the_image_of_a_built_program_runs_it_without_anything_else() {
    if ["buildah", "ldd", "objcopy"].into_iter().any(skip_without) {
        return;
    }
    let built = Built::new();
    let config = built.json(&built.manifest["config"]["digest"]);
    let config = &config["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/usr/bin/almanac"]));
    let serve = json!(["serve", "--config", "/etc/almanac/almanac.toml"]);
    assert_eq!(config["Cmd"], serve);
    assert_eq!(config["Volumes"], json!({"/var/lib/almanac": {}}));

    let layers = built.manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let layer = File::open(built.blob(&layers[0]["digest"])).unwrap();
    let unpacked = tempfile::tempdir().unwrap();
    let mut owners = BTreeMap::new();
    for entry in tar::Archive::new(layer).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        owners.insert(path, entry.header().uid().unwrap());
        entry.unpack_in(unpacked.path()).unwrap();
    }
    // The data folder belongs to the account, and nothing else does.
    let owned: Vec<_> = owners.iter().filter(|(_, owner)| **owner != 0).collect();
    assert_eq!(owned, [(&PathBuf::from("var/lib/almanac/"), &65532)]);
    let program = unpacked.path().join("usr/bin/almanac");
    let whole = fs::metadata(env!("CARGO_BIN_EXE_almanac")).unwrap();
    assert!(program.metadata().unwrap().size() < whole.size());

    // The unpacked layer as the root of a process.
    let is_root = unpacked.path().metadata().unwrap().uid() == 0;
    let mut command = Command::new(if is_root { "chroot" } else { "unshare" });
    if !is_root {
        command.args(["--map-root-user", "chroot"]);
    }
    let printed = run(command
        .arg(unpacked.path())
        .args(["/usr/bin/almanac", "--version"]));
    assert_eq!(printed, format!("almanac {}\n", env!("CARGO_PKG_VERSION")));
}
