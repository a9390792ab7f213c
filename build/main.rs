//! Passes facts about the build to the program, where `src/build_info.rs` has
//! them. Nothing is run for it, so a build needs no tool besides Rust's.
#![allow(
    clippy::print_stdout,
    reason = "a build script prints what cargo reads"
)]

mod commit;

use std::env;
use std::path::PathBuf;

/// The variable that names the commit where the source has no repository, as in
/// the build of a container image.
const COMMIT: &str = "BUILD_COMMIT";

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let given = variable(COMMIT);
    let mut commit = if given.is_empty() {
        commit::of_package(&root)
    } else {
        let commit = commit::parse(&given);
        assert!(
            commit.is_some(),
            "{COMMIT}={given:?} is no hash of a commit"
        );
        commit
    };
    // Only optimised builds: after each commit, cargo compiles everything again.
    if commit.is_none() && variable("PROFILE") == "release" {
        let head = commit::of_repository(&root);
        for file in &head.files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        commit = head.commit;
    }
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=BUILD_PROFILE={}", variable("PROFILE"));
    println!("cargo::rustc-env=BUILD_FEATURES={}", features().join(","));
}

/// The features of the package that are switched on, sorted.
fn features() -> Vec<String> {
    let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut features: Vec<String> = variables
        .filter_map(|name| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .map(|name| name.replace('_', "-"))
        .collect();
    features.sort();
    features
}
