//! What lies around the code agrees with it and with itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::needs::skip_without;

#[test]
fn the_test_command_of_the_readme_is_the_one_that_ci_runs() {
    let command = "cargo test --workspace";
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.lines()
            .any(|line| line.ends_with(&format!("{command} --locked"))),
        ".ci/run does not run `{command}`, which the README tells people to run"
    );
    for page in ["README.md", "docs/how-to/develop.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(
            text.contains(command),
            "{page} has no `{command}`, the command that .ci/run runs: keep them alike"
        );
    }
}

#[test]
fn the_readme_can_be_read_in_a_minute() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme.lines().count();
    assert!(lines <= 65, "{lines} lines: move some to docs");
}

#[test]
fn the_ci_script_can_be_read_by_bash() {
    if skip_without("bash") {
        return;
    }
    let status = Command::new("bash")
        .arg("-n")
        .arg(root().join(".ci/run"))
        .status()
        .unwrap();
    assert!(status.success(), "bash -n .ci/run: {status}");
}

#[test]
fn the_sample_catalog_stays_small() {
    let mut size = 0;
    for package in fs::read_dir(root().join("deploy/catalog")).unwrap() {
        for file in fs::read_dir(package.unwrap().path()).unwrap() {
            size += file.unwrap().metadata().unwrap().len();
        }
    }
    assert!(size > 0, "deploy/catalog holds nothing");
    assert!(
        size < 60_000,
        "deploy/catalog has {size} bytes: it is a sample"
    );
}

#[test]
fn the_oldest_rust_is_the_same_everywhere() {
    let oldest = oldest_rust();
    for (file, text) in [
        ("README.md", format!("Rust {oldest} or newer")),
        ("Dockerfile", format!("FROM rust:{oldest}-bookworm")),
        ("fuzz/Cargo.toml", format!("rust-version = \"{oldest}\"")),
    ] {
        let content = fs::read_to_string(root().join(file)).unwrap();
        assert!(content.contains(&text), "{file} does not say {text:?}");
    }
}

#[test]
fn the_oldest_rust_is_the_one_that_the_dependencies_need() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let numbers = |version: &str| -> Vec<u32> {
        let parts = version.split('.').take(2);
        parts.map(|part| part.parse().unwrap()).collect()
    };
    let needed = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| package["source"].is_string())
        .filter_map(|package| Some((package["rust_version"].as_str()?, &package["name"])))
        .max_by_key(|(version, _)| numbers(version))
        .unwrap();
    assert_eq!(
        numbers(&oldest_rust()),
        numbers(needed.0),
        "{} needs Rust {}: write that into Cargo.toml",
        needed.1,
        needed.0
    );
}

#[test]
fn the_program_of_the_image_is_stripped_and_its_debug_information_is_kept() {
    if skip_without("objcopy") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (stripped, debug) = (
        folder.path().join("almanac"),
        folder.path().join("almanac.debug"),
    );
    let status = Command::new(root().join("deploy/split-debug-info"))
        .arg(env!("CARGO_BIN_EXE_almanac"))
        .args([&stripped, &debug])
        .status()
        .unwrap();
    assert!(status.success(), "split-debug-info: {status}");
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    let whole = size(Path::new(env!("CARGO_BIN_EXE_almanac")));
    assert!(
        size(&stripped) * 2 < whole,
        "{} of {whole} bytes",
        size(&stripped)
    );
    let sections = |path: &Path| {
        let output = Command::new("objdump")
            .arg("-h")
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let left = sections(&stripped);
    assert!(!left.contains(".debug_line"), "{left}");
    assert!(left.contains(".gnu_debuglink"), "{left}");
    assert!(sections(&debug).contains(".debug_line"));
    let version = Command::new(&stripped).arg("--version").output().unwrap();
    assert!(version.status.success(), "{version:?}");
}

/// `rust-version` of the workspace.
fn oldest_rust() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let version = &manifest["workspace"]["package"]["rust-version"];
    version.as_str().unwrap().to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}
