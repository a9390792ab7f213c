//! What lies around the code agrees with it and with itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::program::skip_without;

#[test]
fn the_test_command_of_the_readme_is_the_one_that_ci_runs() {
    let command = "cargo test --workspace";
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.lines()
            .any(|line| line.ends_with(&format!("{command} --locked"))),
        ".ci/run does not run `{command}`, which the README tells people to run"
    );
    let Ok(readme) = fs::read_to_string(root().join("README.md")) else {
        eprintln!("skipped: there is no README.md");
        return;
    };
    assert!(
        readme.lines().any(|line| line.trim() == command),
        "README.md has no line `{command}`, the command that .ci/run runs: keep the two alike"
    );
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}
