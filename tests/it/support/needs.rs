//! Programs and data that a test needs and that may be missing here. A test
//! without them is skipped, which a run says at its end.

use std::io::Write as _;
use std::os::unix::process::parent_id;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::skip_records;

/// Whether a test has to be skipped because something is missing here, which is
/// said. A need is the name of a program (`skopeo`), of a Python module
/// (`python:grpc`), of a package of node (`node:@sigstore/mock`), or the folder
/// `shared`.
///
/// With `ALMANAC_TEST_REQUIRE_ALL=1` a missing program or module is a failure;
/// the folder is not part of the project and may be absent all the same.
#[track_caller]
pub(crate) fn skip_without(need: &str) -> bool {
    let there = match need.split_once(':') {
        Some(("python", module)) => Command::new("python3")
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success()),
        Some(("node", package)) => Command::new("node")
            .args(["-e", &format!("require({package:?})")])
            .current_dir(node_scripts())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success()),
        _ if need == "shared" => shared().is_some(),
        _ => on_path(need),
    };
    if there {
        return false;
    }
    let required = std::env::var_os("ALMANAC_TEST_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(
        !required || need == "shared",
        "{need} is missing and ALMANAC_TEST_REQUIRE_ALL is set"
    );
    skip(&match need {
        "shared" => "there is no folder ../shared, which is not part of the project".into(),
        _ => format!("{need} is missing"),
    });
    true
}

/// Says that the calling test is skipped, at once and at the end of the run.
#[track_caller]
pub(crate) fn skip(reason: &str) {
    let thread = std::thread::current();
    // With a single thread, the tests run in the main one. nextest names a process's test.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => std::env::var("NEXTEST_TEST_NAME").unwrap_or(Location::caller().to_string()),
    };
    // Unlike `eprintln`, this is shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    skip_records::add(parent_id(), &test, reason).unwrap();
}

/// The folder of what is shared with other work, which is no part of the
/// project: `ALMANAC_SHARED`, or `shared` beside the project.
pub(crate) fn shared() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ALMANAC_SHARED") {
        let named = PathBuf::from(named);
        assert!(
            named.is_dir(),
            "ALMANAC_SHARED names no folder: {}",
            named.display()
        );
        return Some(named);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    beside.is_dir().then_some(beside)
}

/// The folder of scripts for node. Their packages lie there or in a folder above, or in
/// the folder that `NODE_PATH` names.
pub(crate) fn node_scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sigstore")
}

pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

mod checks {
    use std::process::Command;

    use super::super::skip_records::{self, Skipped};
    use super::*;

    #[test]
    fn a_missing_program_is_seen() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-anywhere"));
    }

    /// As `cargo test` runs them, with nothing on the `PATH`.
    #[test]
    fn a_skipped_test_is_named_while_it_passes_and_at_the_end() {
        let test = "repository::the_ci_script_can_be_read_by_bash";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("PATH", "")
            // A single one would have no name.
            .env("RUST_TEST_THREADS", "2")
            .env_remove("ALMANAC_TEST_REQUIRE_ALL")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let line = format!("skipped: {test}: bash is missing");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.lines().any(|it| it == line), "{stderr}");

        let recorded = skip_records::take(std::process::id()).unwrap();
        let reason = "bash is missing".to_owned();
        let test = test.to_owned();
        assert_eq!(recorded, [Skipped { reason, test }]);
        // Each run has its own records.
        assert_eq!(skip_records::take(std::process::id()).unwrap(), []);
    }

    #[test]
    fn the_end_of_a_run_lists_skipped_tests_by_reason() {
        let skipped = |reason: &str, test: &str| Skipped {
            reason: reason.into(),
            test: test.into(),
        };
        let all = [
            skipped("a is missing", "x::first"),
            skipped("a is missing", "x::second"),
            skipped("b is missing", "y"),
        ];
        assert_eq!(
            skip_records::report(&all),
            "3 tests were skipped:\n  a is missing\n    x::first\n    x::second\n  b is missing\n    y\n"
        );
        assert_eq!(
            skip_records::report(&all[2..]),
            "1 test was skipped:\n  b is missing\n    y\n"
        );
        assert_eq!(skip_records::report(&[]), "No test was skipped.\n");
    }
}
