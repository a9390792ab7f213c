//! What lies around the code agrees with it and with itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::file::root;
use crate::support::needs::skip_without;

#[test]
fn ci_runs_the_commands_of_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let ci = [".ci/run", ".ci/first-command"].map(|file| {
        let script = fs::read_to_string(root().join(file)).unwrap();
        // The pattern that takes a command out of the README, in quotes.
        let mut lines = script.lines();
        let grep = lines.find(|line| line.contains("grep") && line.contains("README.md"));
        let pattern = grep.unwrap().split('\'').nth(1).unwrap().to_owned();
        pattern.trim_start_matches('^').to_owned()
    });
    assert_eq!(ci, ["cargo test --workspace", "cargo run --release"]);
    for command in ci {
        assert!(readme.contains(&command), "README.md has no `{command}`");
    }
    let page = fs::read_to_string(root().join("docs/how-to/develop.md")).unwrap();
    assert!(page.contains("cargo test --workspace"));
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
    for script in [
        ".ci/run",
        ".ci/first-command",
        ".ci/newcomer",
        ".ci/next-debian",
    ] {
        let status = Command::new("bash")
            .arg("-n")
            .arg(root().join(script))
            .status()
            .unwrap();
        assert!(status.success(), "bash -n {script}: {status}");
    }
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
        ("docs/how-to/install.md", format!("Rust {oldest} or newer")),
        ("docs/tutorial.md", format!("Rust {oldest} or newer")),
        ("fuzz/Cargo.toml", format!("rust-version = \"{oldest}\"")),
    ] {
        let content = fs::read_to_string(root().join(file)).unwrap();
        assert!(content.contains(&text), "{file} does not say {text:?}");
    }
}

#[test]
fn everyone_builds_with_the_same_compiler() {
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let toolchain: toml::Table = toolchain.parse().unwrap();
    let channel = toolchain["toolchain"]["channel"].as_str().unwrap();
    assert_eq!(channel, oldest_rust());
    let image = fs::read_to_string(root().join("Dockerfile")).unwrap();
    let base = format!("FROM rust:{channel}-bookworm");
    assert!(image.contains(&base), "Dockerfile does not say {base:?}");
}

#[test]
fn the_oldest_rust_is_the_one_that_the_dependencies_need() {
    let version = cargo(&["--version", "--verbose"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    // What only other systems need was not fetched for this build.
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--offline",
        "--filter-platform",
        host.unwrap(),
    ]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
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
fn a_package_has_every_file_that_its_code_is_made_of() {
    for (package, folder) in [
        ("almanac", root().to_path_buf()),
        ("fbc", root().join("crates/fbc")),
        ("images", root().join("crates/images")),
    ] {
        let folder = folder.canonicalize().unwrap();
        let listed = cargo(&[
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
            package,
        ]);
        let listed: BTreeSet<&Path> = listed.lines().map(Path::new).collect();
        let check = |file: &Path| {
            let file = file.canonicalize().unwrap();
            let name = file.strip_prefix(&folder).unwrap();
            assert!(listed.contains(name), "{package} lacks {}", name.display());
        };
        let parts = ["src", "build"].into_iter();
        for file in parts.flat_map(|part| files(&folder.join(part))) {
            if file.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            check(&file);
            let text = fs::read_to_string(&file).unwrap();
            for call in ["include_str!(\"", "include_bytes!(\""] {
                for rest in text.split(call).skip(1) {
                    let (name, _) = rest.split_once('"').unwrap();
                    check(&file.parent().unwrap().join(name));
                }
            }
        }
    }
}

/// All files below a folder; none if there is no such folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.').take(2);
    parts.map(|part| part.parse().unwrap()).collect()
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

/// What a command of cargo prints.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// `rust-version` of the workspace.
fn oldest_rust() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let version = &manifest["workspace"]["package"]["rust-version"];
    version.as_str().unwrap().to_owned()
}
