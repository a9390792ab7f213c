//! Facts about the build, and the command that prints them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::program::Start;

#[path = "../../build/commit.rs"]
mod commit;

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

/// Writes files below a folder.
fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// The commit of a repository of these files.
fn commit_of(files: &[(&str, &str)]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), files);
    let head = commit::of_repository(folder.path());
    assert!(head.files.iter().all(|file| file.exists()));
    head.commit
}

#[test]
fn the_commit_of_a_build_is_that_of_the_repository() {
    let line = format!("{HASH}\n");
    let loose = [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/refs/heads/main", &line),
    ];
    assert_eq!(commit_of(&loose).as_deref(), Some(HASH));
    let packed = format!(
        "# pack-refs with: peeled\n{} refs/heads/m\n{HASH} refs/heads/main\n^{}\n",
        "f".repeat(40),
        "e".repeat(40)
    );
    let packed = [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/packed-refs", &packed),
    ];
    assert_eq!(commit_of(&packed).as_deref(), Some(HASH));
    let sha256 = "0f".repeat(32);
    assert_eq!(commit_of(&[(".git/HEAD", &sha256)]), Some(sha256));
}

#[test]
fn the_commit_of_a_worktree_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("main/.git/worktrees/w");
    write(
        folder.path(),
        &[
            ("w/.git", &format!("gitdir: {}\n", own.display())),
            ("main/.git/HEAD", "ref: refs/heads/main\n"),
            ("main/.git/refs/heads/main", &"f".repeat(40)),
            ("main/.git/refs/heads/w", HASH),
            ("main/.git/worktrees/w/HEAD", "ref: refs/heads/w\n"),
            ("main/.git/worktrees/w/commondir", "../..\n"),
            ("main/.git/worktrees/w/logs/HEAD", ""),
        ],
    );
    let head = commit::of_repository(&folder.path().join("w"));
    assert_eq!(head.commit.as_deref(), Some(HASH));
    // The script runs again when one of these changes.
    let files = [
        own.join("HEAD"),
        own.join("logs/HEAD"),
        own.join("../../refs/heads/w"),
    ];
    assert_eq!(head.files, files);
}

#[test]
fn a_source_without_a_repository_has_no_commit() {
    for files in [
        &[][..],
        &[(".git", "gitdir: nowhere")],
        &[(".git/HEAD", "ref: refs/heads/main\n")],
        &[(".git/HEAD", "")],
        &[(".git/HEAD", "0123456")],
        &[
            (".git/HEAD", "ref: refs/heads/main"),
            (".git/refs/heads/main", "no hash"),
        ],
    ] {
        assert_eq!(commit_of(files), None, "{files:?}");
    }
}

#[test]
fn a_package_has_the_commit_that_cargo_wrote_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let info =
        format!("{{\n  \"git\": {{\n    \"sha1\": \"{HASH}\"\n  }},\n  \"path_in_vcs\": \"\"\n}}");
    write(folder.path(), &[(".cargo_vcs_info.json", &info)]);
    assert_eq!(commit::of_package(folder.path()).as_deref(), Some(HASH));
    assert_eq!(commit::of_package(&folder.path().join("none")), None);
}

#[test]
fn the_version_tells_how_the_program_was_built() {
    let finished = Start::new(["version", "--output", "json"]).run();
    assert!(finished.status.success(), "{finished:?}");
    let version: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let commit = version["commit"].as_str().unwrap();
    assert!(
        commit == "unknown" || commit::parse(commit).is_some(),
        "{commit}"
    );
    let target = version["target"].as_str().unwrap();
    assert!(target.starts_with(std::env::consts::ARCH), "{target}");
    assert!(version["features"].is_array(), "{version}");

    let finished = Start::new(["version"]).run();
    let first = format!("almanac {}\ncommit: {commit}\n", env!("CARGO_PKG_VERSION"));
    assert!(finished.stdout.starts_with(&first), "{}", finished.stdout);
}
