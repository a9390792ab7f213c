//! `almanac check`: what it prints and how it ends, for each kind of source.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{Built, CONFIGS_LABEL, Image, Layer};
use crate::support::program::{Finished, Start};
use crate::support::registry::TestRegistry;

fn check<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    Start::new(["check"].into_iter().chain(arguments)).run()
}

fn file(path: &Path) -> String {
    format!("file:{}", path.display())
}

/// A good package, and one with two heads and an entry without a bundle.
fn wrong() -> Catalog {
    let two = json!([{"name": "quince.v1.0.0"}, {"name": "quince.v2.0.0"}]);
    Catalog::small()
        .package("quince", |package| {
            package.channel("fast", [entry("quince.v1.0.0")])
        })
        .blob(json!({
            "schema": "olm.channel", "package": "quince", "name": "stable", "entries": two,
        }))
}

/// Its problems, as the summary counts them.
const WRONG: &str = "2 problems in 1 package: 2 errors\n";

const GOOD: &str = "no problems: 1 package, 1 channel, 2 entries, 2 bundles\n";

fn assert_good(finished: &Finished) {
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert_eq!(finished.stdout, GOOD);
    assert_eq!(finished.stderr, "");
}

/// Nothing is printed, and one line says why; it has all of `parts`.
fn assert_refused(finished: &Finished, code: i32, parts: &[&str]) {
    assert_eq!(finished.status.code(), Some(code), "{finished:?}");
    assert_eq!(finished.stdout, "");
    for part in parts {
        assert!(finished.stderr.contains(part), "{part}: {finished:?}");
    }
}

fn push(registry: &TestRegistry, repository: &str, tag: &str, image: &Built) {
    image.for_each_blob(|blob| {
        registry.put_blob(blob.bytes.clone());
    });
    image.for_each_manifest(|manifest| {
        let (bytes, media_type) = (manifest.bytes.clone(), manifest.media_type);
        registry.put_manifest(repository, tag, bytes, media_type);
    });
}

#[test]
fn a_good_folder_has_no_problems() {
    let folder = tempfile::tempdir().unwrap();
    for format in [Format::JsonLines, Format::PrettyJson, Format::Yaml] {
        Catalog::small().write_to(folder.path(), format);
        assert_good(&check([&*file(folder.path())]));
        fs::remove_dir_all(folder.path().join("etcd")).unwrap();
    }
}

#[test]
fn a_good_file_has_no_problems() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("any.name");
    fs::write(&path, Catalog::small().text(Format::Yaml)).unwrap();
    assert_good(&check([&*file(&path)]));
}

#[test]
fn a_boolean_in_the_place_of_a_name_is_told_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.yaml");
    for name in ["y", "n", "yes", "no", "on", "off"] {
        let text = format!("schema: olm.channel\npackage: {name}\nname: stable\nentries: []\n");
        fs::write(&path, &text).unwrap();
        let finished = check([&*file(&path)]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let message = "fatal[document-key-not-string]: the value of \"package\" must be a string; \
            this is a boolean, as y, n, yes, no, on and off are in YAML: quote it as it is written, \
            as in \"y\"\n";
        assert!(finished.stdout.starts_with(message), "{finished:?}");
        let quoted = format!("package: \"{name}\"");
        fs::write(&path, text.replace(&format!("package: {name}"), &quoted)).unwrap();
        let finished = check([&*file(&path)]);
        assert!(!finished.stdout.contains("not-string"), "{finished:?}");
    }
}

#[test]
fn the_names_of_packages_with_problems_are_a_list() {
    let folder = tempfile::tempdir().unwrap();
    wrong().write_to(folder.path(), Format::Yaml);
    let finished = check([&*file(folder.path()), "--output", "name"]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert_eq!(finished.stdout, "quince\n");
    let finished = check(["file:deploy/catalog", "-o", "name"]);
    assert_eq!(finished.stdout, "");
}

#[test]
fn the_sample_catalog_has_no_problems() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
    let finished = check([&*file(&path)]);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert!(finished.stdout.starts_with("no problems: 3 packages, "));
}

#[test]
fn a_good_layout_has_no_problems() {
    let folder = tempfile::tempdir().unwrap();
    let good = Image::of_catalog(&Catalog::small()).build();
    good.add_to_layout(folder.path(), "v1");
    let layout = format!("oci:{}", folder.path().display());
    // The only image of a layout needs no tag.
    assert_good(&check([&*layout]));
    Image::of_catalog(&wrong())
        .build()
        .add_to_layout(folder.path(), "v2");
    assert_good(&check([&*format!("{layout}:v1")]));
    let finished = check([&*format!("{layout}:v2")]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert_refused(&check([&*layout]), 3, &["cannot be read", "v1", "v2"]);
    assert_refused(
        &check([&*format!("{layout}:v3")]),
        3,
        &["cannot be read", "v3"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_image_is_checked_from_its_registry() {
    let registry = TestRegistry::start().await;
    let good = Image::of_catalog(&Catalog::small()).build();
    push(&registry, "catalogs/a", "v1", &good);
    let reference = registry.reference("catalogs/a", "v1");
    assert_good(&check([&*reference]));
    let by_digest = format!("{}/catalogs/a@{}", registry.host(), good.digest());
    assert_good(&check([&*by_digest]));
    let finished = check([&*reference, "--output", "json"]);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["source"], reference);
    assert_eq!(document["digest"], good.digest().to_string());

    push(
        &registry,
        "catalogs/a",
        "v2",
        &Image::of_catalog(&wrong()).build(),
    );
    let finished = check([&*registry.reference("catalogs/a", "v2")]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stdout.ends_with(WRONG), "{finished:?}");

    let missing = registry.reference("catalogs/a", "v3");
    assert_refused(&check([&*missing]), 3, &[&missing, "resolve", "404"]);
    registry.misbehave(|behaviour| behaviour.altered = true);
    assert_refused(&check([&*reference]), 3, &[&reference, "digest"]);
}

#[test]
fn each_problem_points_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    wrong().write_to(folder.path(), Format::JsonLines);
    let finished = check([&*file(folder.path())]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let root = folder.path().to_str().unwrap();
    let text = finished.stdout.replace(root, "FOLDER");
    insta::assert_snapshot!(text, @r#"
    error[channel-entry-without-bundle]: package "quince": channel "stable" has entries without an olm.bundle blob: "quince.v2.0.0"; add the blobs or remove the entries
     --> FOLDER/others/catalog.json:1 (document 1)
      |
    1 | {"entries":[{"name":"quince.v1.0.0"},{"name":"quince.v2.0.0"}],"name":"stable","package":"quince","schema":"olm.channel"…
      |

    error[channel-multiple-heads]: package "quince": channel "stable" has several heads: "quince.v1.0.0", "quince.v2.0.0"; let one of them replace or skip the others
     --> FOLDER/others/catalog.json:1 (document 1)
      |
    1 | {"entries":[{"name":"quince.v1.0.0"},{"name":"quince.v2.0.0"}],"name":"stable","package":"quince","schema":"olm.channel"…
      |

    2 problems in 1 package: 2 errors
    "#);
}

#[test]
fn the_place_of_a_problem_is_counted_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = "# A comment\n---\nschema: olm.package\nname: plum\ndefaultChannel: stable\n\
        ---\nschema: olm.channel\npackage: plum\nname: stable\nentries: []\n";
    fs::create_dir(folder.path().join("plum")).unwrap();
    fs::write(folder.path().join("plum/a.yaml"), text).unwrap();
    let finished = check([&*file(folder.path()), "--output", "json"]);
    assert_eq!(finished.status.code(), Some(1));
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    let problem = &document["problems"][0];
    assert_eq!(problem["code"], "document-empty");
    assert_eq!(problem["document"], 1);
    assert_eq!(problem["line"], 1);
    let problem = &document["problems"][1];
    assert_eq!(problem["code"], "channel-empty");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["package"], "plum");
    assert_eq!(problem["channel"], "stable");
    assert_eq!(problem["file"], "plum/a.yaml");
    assert_eq!(problem["document"], 3);
    assert_eq!(problem["line"], 7);
}

#[test]
fn a_document_of_comments_is_an_error_of_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = Catalog::small().text(Format::Yaml);
    let good = good.trim_start_matches("---\n");
    let path = folder.path().join("catalog.yaml");
    // A comment within a document is none of its own.
    fs::write(&path, format!("# A catalog\n{good}")).unwrap();
    assert_good(&check([&*file(folder.path())]));
    fs::write(&path, format!("# A catalog\n---\n{good}")).unwrap();
    let finished = check([&*file(folder.path())]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let root = folder.path().to_str().unwrap();
    insta::assert_snapshot!(finished.stdout.replace(root, "FOLDER"), @r"
    error[document-empty]: this document holds only comments or blank lines, and opm refuses a catalog with such a document; remove the `---` between it and its neighbour
     --> FOLDER/catalog.yaml:1 (document 1)
      |
    1 | # A catalog
      |

    1 problem: 1 error
    ");
    let finished = check([&*file(folder.path()), "--output", "sarif"]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let sarif: Value = serde_json::from_str(&finished.stdout).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "document-empty");
    assert_eq!(result["level"], "error");
    let location = &result["locations"][0]["physicalLocation"];
    assert_eq!(location["region"], json!({"startLine": 1}));
    let validated = Start::new(["opm", "validate", root]).run();
    assert_eq!(validated.status.code(), Some(1), "{validated:?}");
}

#[test]
fn the_document_tells_what_was_read() {
    let folder = tempfile::tempdir().unwrap();
    wrong().write_to(folder.path(), Format::JsonLines);
    let source = file(folder.path());
    let finished = check([&*source, "--output", "json"]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["source"], source);
    assert!(document["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(
        document["counts"],
        json!({
            "metas": 8, "packages": 1, "channels": 1, "entries": 2, "bundles": 2,
            "quarantined": 1,
        })
    );
    let codes: Vec<_> = document["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        ["channel-entry-without-bundle", "channel-multiple-heads"]
    );
}

#[test]
fn what_is_no_catalog_is_a_problem_of_its_document() {
    let folder = tempfile::tempdir().unwrap();
    let good = Catalog::small().text(Format::Yaml);
    for (bad, code, column) in [
        ("---\nname: [a\n", "file-unreadable", ":7"),
        ("---\nname: a\n", "schema-missing", ""),
        ("---\n- a\n", "document-not-object", ""),
    ] {
        fs::write(folder.path().join("catalog.yaml"), format!("{good}{bad}")).unwrap();
        let finished = check([&*file(folder.path())]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let mut shown = finished.stdout.lines();
        let line = shown.next().unwrap();
        assert!(line.starts_with(&format!("fatal[{code}]: ")), "{line}");
        let line = shown.next().unwrap();
        // Behind the separator.
        let number = good.lines().count() + 2;
        let place = format!("/catalog.yaml:{number}{column} (document 5)");
        assert!(line.ends_with(&place), "{line}");
    }
}

#[test]
fn what_is_no_json_is_pointed_at() {
    let folder = tempfile::tempdir().unwrap();
    let long = "a".repeat(3000);
    let text = format!("{{\"schema\":\"x\"}}\n{{\"schema\":\"{long}\" \"b\"}}\n");
    fs::write(folder.path().join("catalog.json"), text).unwrap();
    let finished = check([&*file(folder.path())]);
    let shown: Vec<&str> = finished.stdout.lines().collect();
    assert!(
        shown[1].ends_with("/catalog.json:2:3014 (document 2)"),
        "{shown:?}"
    );
    assert!(shown[3].ends_with("aaa\" \"b\"}"), "{shown:?}");
    let caret = shown[4].chars().position(|char| char == '^').unwrap();
    assert_eq!(shown[3].chars().nth(caret + 1), Some('b'), "{shown:?}");
    let finished = check([&*file(folder.path()), "--output", "json"]);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["problems"][0]["column"], 3014);
    let finished = check([&*file(folder.path()), "--output", "sarif"]);
    let sarif: Value = serde_json::from_str(&finished.stdout).unwrap();
    let location = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        location["region"],
        json!({"startLine": 2, "startColumn": 3014})
    );
}

#[test]
fn warnings_alone_fail_only_when_they_are_denied() {
    let catalog = Catalog::new().package("plum", |package| {
        let entries = [
            entry("plum.v1.0.0"),
            entry("plum.v2.0.0").replaces("plum.v1.5.0"),
            entry("plum.v3.0.0")
                .replaces("plum.v1.0.0")
                .skips(["plum.v2.0.0"]),
        ];
        package.channel("stable", entries)
    });
    let folder = tempfile::tempdir().unwrap();
    catalog.write_to(folder.path(), Format::JsonLines);
    let finished = check([&*file(folder.path())]);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    let text = &finished.stdout;
    let start = "warning[replaces-absent]: package \"plum\"";
    assert!(text.starts_with(start), "{text}");
    assert!(
        text.contains("/plum/catalog.json:2 (document 2)\n"),
        "{text}"
    );
    let summary = "\n1 problem in 1 package: 1 warning\n";
    assert!(finished.stdout.ends_with(summary), "{text}");
    for output in ["text", "json", "sarif"] {
        let told = check([&*file(folder.path()), "--output", output]);
        assert_eq!(told.status.code(), Some(0), "{told:?}");
        for flag in ["--strict", "--deny-warnings"] {
            let denied = check([&*file(folder.path()), "--output", output, flag]);
            assert_eq!(denied.status.code(), Some(1), "{denied:?}");
            assert_eq!(denied.stdout, told.stdout);
        }
    }
    wrong().write_to(folder.path(), Format::JsonLines);
    for flags in [&[][..], &["--strict"]] {
        let path = file(folder.path());
        let finished = check([&*path].into_iter().chain(flags.iter().copied()));
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    }
    let good = tempfile::tempdir().unwrap();
    Catalog::small().write_to(good.path(), Format::JsonLines);
    assert_good(&check([&*file(good.path()), "--strict"]));
}

#[test]
fn a_path_that_is_written_as_something_else_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    Catalog::small().write_to(&root.join("deploy"), Format::JsonLines);
    fs::write(
        root.join("catalog.yaml"),
        Catalog::small().text(Format::Yaml),
    )
    .unwrap();
    Image::of_catalog(&Catalog::small())
        .build()
        .add_to_layout(&root.join("layout"), "v1");
    for (typed, proposal) in [
        ("catalog.yaml", "write ./catalog.yaml"),
        ("deploy", "write ./deploy"),
        ("./layout", "write oci:./layout"),
        ("http://localhost/catalogs/", "names no catalog"),
    ] {
        let finished = Start::new(["check", typed]).within(root).run();
        assert_refused(&finished, 2, &[proposal]);
    }
}

#[test]
fn what_is_not_there_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = file(&folder.path().join("missing"));
    assert_refused(&check([&*missing]), 3, &[&missing, "cannot be read"]);
    // An empty folder is no catalog: opm and catalogd take it for an empty one.
    let empty = file(folder.path());
    assert_refused(&check([&*empty]), 3, &[&empty, "no file", "check the path"]);
    let layout = format!("oci:{}", folder.path().display());
    assert_refused(&check([&*layout]), 3, &[&layout]);
}

#[test]
fn an_image_without_a_catalog_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let layout = |tag: &str, image: &Image| {
        image.build().add_to_layout(folder.path(), tag);
        check([&*format!("oci:{}:{tag}", folder.path().display())])
    };
    let layer = || Layer::of_catalog(&Catalog::small(), Format::JsonLines, "configs");
    let finished = layout("no-label", &Image::new().layer(layer()));
    assert_refused(&finished, 3, &["unpack", CONFIGS_LABEL]);
    let elsewhere = Image::new()
        .label(CONFIGS_LABEL, "/elsewhere")
        .layer(layer());
    assert_refused(
        &layout("no-folder", &elsewhere),
        3,
        &["unpack", "elsewhere"],
    );
    let broken = Image::new()
        .label(CONFIGS_LABEL, "/configs")
        .layer(Layer::raw("this is no archive"));
    assert_refused(&layout("no-archive", &broken), 3, &["unpack"]);
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    for arguments in [
        &[][..],
        &["no-registry"],
        &["file:"],
        &["docker://quay.io/a/b"],
        &["file:a", "--output", "xml"],
        &["file:a", "--platform", "nonsense"],
        &["file:a", "--bogus"],
        &["file:a", "file:b"],
    ] {
        let finished = check(arguments.iter().copied());
        assert_refused(&finished, 2, &[]);
        assert!(!finished.stderr.is_empty());
    }
}

#[test]
fn nothing_of_a_file_outside_of_the_folder_is_shown() {
    let place = tempfile::tempdir().unwrap();
    let (catalog, shared) = (place.path().join("catalog"), place.path().join("shared"));
    for folder in [&catalog, &shared] {
        fs::create_dir(folder).unwrap();
    }
    Catalog::small().write_to(&catalog, Format::JsonLines);
    fs::write(shared.join("keys.yaml"), "secret: [\n").unwrap();
    symlink("../shared/keys.yaml", catalog.join("keys.yaml")).unwrap();
    let source = file(&catalog);
    for command in [&["check"][..], &["render"], &["list", "packages"]] {
        let run = Start::new(command.iter().copied().chain([source.as_str()])).run();
        assert_eq!(run.status.code(), Some(3), "{run:?}");
        assert!(
            !run.stdout.contains("secret") && !run.stderr.contains("secret"),
            "{run:?}"
        );
        assert!(
            run.stderr.contains("the link \"keys.yaml\" leads out"),
            "{run:?}"
        );
    }
    let allowed = format!("--link-folder={}", shared.display());
    let run = check([source.as_str(), allowed.as_str()]);
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(run.stdout.contains("secret: ["), "{run:?}");
    // opm follows links wherever they lead.
    let run = Start::new(["opm", "validate", catalog.to_str().unwrap()]).run();
    assert!(run.stderr.contains("keys.yaml:"), "{run:?}");
}
