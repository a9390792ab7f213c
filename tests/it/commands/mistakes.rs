//! What cannot be read or meant, and the exit codes.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Written, catalog, parsed, printed, run};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::http;
use crate::support::port::NOBODY;
use crate::support::program::Start;
use crate::support::served::Served;

#[test]
fn what_cannot_be_read_ends_with_three_and_what_cannot_be_meant_with_two() {
    let closed = format!("http://{NOBODY}/catalogs/a");
    for command in [&["check"][..], &["render"], &["list", "packages"]] {
        for source in ["file:no/such/folder", "oci:no/such/folder", "-", &closed] {
            let finished = run(command.iter().copied().chain([source]));
            assert!(finished.stderr.starts_with("almanac: "), "{finished:#?}");
            assert_eq!(printed(finished, 3), "");
        }
        for source in [
            "",
            "catalog",
            "http://127.0.0.1",
            "http://me:secret@127.0.0.1/catalogs/a",
        ] {
            let finished = run(command.iter().copied().chain([source]));
            assert!(!finished.stderr.contains("secret@"), "{finished:#?}");
            assert_eq!(printed(finished, 2), "");
        }
    }
    let finished = run(["list", "everything", "-"]);
    assert_eq!(printed(finished, 2), "");
}

#[test]
fn a_file_or_folder_that_a_flag_names_has_to_be_there() {
    for flag in [
        "--auth-file",
        "--ca-file",
        "--certs-dir",
        "--registries-conf",
        "--mirror-file",
        "--policy-file",
        "--image-policy-file",
        "--registries-d",
        "--token-file",
        "--link-folder",
    ] {
        let argument = format!("{flag}=no/such");
        for command in [&["check", "-"][..], &["serve", "file:deploy/catalog"]] {
            if command[0] == "serve" && ["--token-file", "--link-folder"].contains(&flag) {
                continue;
            }
            let arguments = command.iter().copied().chain([argument.as_str()]);
            let finished = run(arguments);
            let message = format!("almanac: {flag} no/such: No such file");
            assert!(finished.stderr.contains(&message), "{finished:#?}");
            assert_eq!(printed(finished, 2), "");
        }
    }
    for (line, code) in [
        ("serve --config no/such", 2),
        ("manifests --config no/such", 2),
        ("health --config no/such", 2),
        ("status --config no/such", 2),
        ("prune --config no/such", 2),
        ("export --config no/such --file a.tar", 2),
        ("export --data-dir no/such --file a.tar", 3),
        ("prune --data-dir no/such --catalog a", 1),
        ("import no/such", 3),
    ] {
        let finished = run(line.split(' '));
        assert!(finished.stderr.contains("no/such"), "{line}: {finished:#?}");
        assert_eq!(printed(finished, code), "", "{line}");
    }
}

#[test]
fn an_unknown_catalog_of_a_server_is_told() {
    let written = Written::new(&catalog(), Format::JsonLines);
    let server = Served::start([format!("a={}", written.source())]);
    let url = format!("http://{}/catalogs/b", server.http);
    let finished = run(["check", &url]);
    assert!(
        finished
            .stderr
            .contains(&format!("{url} cannot be read: 404")),
        "{finished:#?}"
    );
    assert_eq!(printed(finished, 3), "");
}

#[test]
fn nobody_reading_is_no_failure() {
    // More than a pipe holds.
    let long = Catalog::new().package("long", |package| {
        package
            .description(&"long ".repeat(100_000))
            .channel("stable", [entry("long.v1.0.0")])
    });
    let written = Written::new(&long, Format::JsonLines);
    let script = format!(
        "{{ \"$0\" render {}; echo \"code $?\" >&2; }} | true",
        written.source()
    );
    let shell = |script: &str| {
        std::process::Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_almanac")])
            // Those of the tests are none of the program's.
            .env_remove("ALMANAC_SHARED")
            .env_remove("ALMANAC_TEST_REQUIRE_ALL")
            .output()
            .unwrap()
    };
    let output = shell(&script);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "code 0\n");
}

#[test]
fn the_sample_catalog_has_no_problems() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
    let text = printed(run(["check", sample.to_str().unwrap()]), 0);
    assert!(text.starts_with("no problems: 3 packages"), "{text}");
}

#[test]
fn a_display_name_from_a_yaml_manifest_is_the_same_everywhere() {
    let manifest = "kind: ClusterServiceVersion\nspec:\n  displayName: Lantern Operator\n";
    let mut data = BASE64_STANDARD.encode(manifest);
    data.insert(20, '\n');
    let catalog = Catalog::new().package("lantern", |package| {
        package
            .channel("stable", [entry("lantern.v1.0.0")])
            .bundle(bundle("lantern.v1.0.0").property("olm.bundle.object", json!({"data": data})))
    });
    let written = Written::new(&catalog, Format::Yaml);
    let source = written.source();
    let listed = parsed(run(["list", "packages", &source, "--output", "json"]), 0);
    assert_eq!(listed[0]["displayName"], "Lantern Operator");

    let server = Served::start(["--poll=never".into(), format!("a={source}")]);
    let address = server.http;
    let reply = http::get(address, "/catalogs/a/api/v1/packages").unwrap();
    let packages: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(packages["items"][0]["displayName"], "Lantern Operator");
}

#[test]
fn a_path_without_its_prefix_is_proposed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("my/catalog")).unwrap();
    std::fs::create_dir_all(folder.path().join("my/layout")).unwrap();
    std::fs::write(folder.path().join("my/layout/oci-layout"), "{}").unwrap();
    std::fs::write(folder.path().join("my/image.tar"), "").unwrap();
    for (path, proposal) in [
        ("my/catalog", "write file:my/catalog"),
        ("my/layout", "write oci:my/layout"),
        ("my/image.tar", "oci-archive:my/image.tar"),
    ] {
        for command in ["serve", "verify"] {
            let finished = Start::new([command, path]).within(folder.path()).run();
            assert_eq!(finished.status.code(), Some(2), "{finished:?}");
            assert!(finished.stderr.contains(proposal), "{finished:?}");
        }
    }
    let finished = Start::new(["serve", "my/nothing"])
        .within(folder.path())
        .run();
    assert!(finished.stderr.contains("fully qualified"), "{finished:?}");
}

#[test]
fn an_installed_version_may_be_written_short_or_with_a_v() {
    let ask = |from: &str| {
        let words = [
            "updates",
            "file:deploy/catalog",
            "ferry-operator",
            "--from",
            from,
        ];
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        Start::new(words.into_iter().chain(["--output=json"]))
            .within(root)
            .run()
    };
    let whole = ask("2.0.0");
    assert!(whole.status.success(), "{whole:?}");
    for from in ["v2.0.0", "2.0", "v2", "2"] {
        let finished = ask(from);
        assert_eq!(
            (finished.stdout, finished.stderr),
            (whole.stdout.clone(), String::new())
        );
    }
    // Nothing leads from a version that the catalog does not have.
    let finished = ask("9.9.9");
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    for said in [
        "no update leads from it",
        "has no entry \"9.9.9\"",
        "nearest versions",
    ] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
}
