//! What the commands for mirrors make of several catalogs at once: those of an
//! `ImageSetConfiguration`, and those of a configuration.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::program::{Finished, Start};
use crate::support::upstream::Upstream;

/// A package at one version, which needs one that there is and one that there
/// is not, and with `more` the first of these.
fn crane(version: &str, more: bool) -> Catalog {
    let name = format!("crane.v{version}");
    let catalog = Catalog::new().package("crane", |package| {
        package.channel("stable", [entry(&name)]).bundle(
            bundle(&name)
                .image(&format!("quay.io/harbor/crane:{version}"))
                .requires_package("hook", ">=1.0.0")
                .requires_package("sling", ">=1.0.0"),
        )
    });
    if !more {
        return catalog;
    }
    catalog.package("hook", |package| {
        package
            .channel("stable", [entry("hook.v1.0.0")])
            .bundle(bundle("hook.v1.0.0").image("quay.io/harbor/hook:1.0.0"))
    })
}

/// A package whose channel has two heads.
fn broken(catalog: Catalog) -> Catalog {
    catalog.package("broken", |package| {
        package
            .channel("stable", [entry("broken.v1.0.0"), entry("broken.v2.0.0")])
            .bundle(bundle("broken.v1.0.0"))
            .bundle(bundle("broken.v2.0.0"))
    })
}

/// Two catalogs in folders, and a file that selects one package of both.
struct Upgrade {
    folder: TempDir,
}

impl Upgrade {
    fn new() -> Self {
        let upgrade = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        upgrade.write("old", &crane("1.0.0", false));
        upgrade.write("new", &crane("2.0.0", true));
        let operators = |name: &str| {
            let source = upgrade.source(name);
            format!("  - catalog: {source}\n    packages:\n    - name: crane\n")
        };
        let set = format!(
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
             operators:\n{}{}",
            operators("old"),
            operators("new")
        );
        fs::write(upgrade.path("set.yaml"), set).unwrap();
        upgrade
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, catalog: &Catalog) {
        catalog.write_to(&self.path(name), Format::Yaml);
    }

    fn source(&self, name: &str) -> String {
        format!("file:{}", self.path(name).display())
    }

    /// Runs a command on what the file selects.
    fn run(&self, command: &[&str], more: &[&str]) -> Finished {
        let set = format!("curated:{}", self.path("set.yaml").display());
        let start = Start::new(command.iter().copied()).argument(match command {
            ["manifests"] => format!("ours={set}"),
            _ => set,
        });
        let more = more.iter();
        more.fold(start, |start, argument| start.argument(*argument))
            .run()
    }

    /// Writes a configuration, and the manifests of it.
    fn manifests(&self, config: &str, more: &[&str]) -> Finished {
        let path = self.path("almanac.toml");
        fs::write(&path, config).unwrap();
        let start = Start::new(["manifests", "--config"]).argument(path.display().to_string());
        let more = more.iter();
        more.fold(start, |start, argument| start.argument(*argument))
            .run()
    }
}

#[test]
fn each_catalog_of_a_file_is_selected_from_by_itself() {
    let upgrade = Upgrade::new();
    let images = upgrade.run(&["images"], &[]);
    assert_eq!(
        images.stdout, "quay.io/harbor/crane:1.0.0\nquay.io/harbor/crane:2.0.0\n",
        "{images:?}"
    );
    let manifests = upgrade.run(&["manifests"], &["--mirror=m.example.com"]);
    assert!(
        manifests.stdout.contains("source: quay.io/harbor"),
        "{manifests:?}"
    );
    // One catalog has one of the two.
    let list = upgrade.run(&["list", "packages"], &[]);
    assert_eq!(list.status.code(), Some(3), "{list:?}");
    for said in ["\"crane\"", "narrow with from", "a catalog of each"] {
        assert!(list.stderr.contains(said), "{list:?}");
    }
}

#[test]
fn what_a_selection_of_a_file_needs_is_listed_too() {
    let upgrade = Upgrade::new();
    let images = upgrade.run(&["images"], &["--dependencies"]);
    assert_eq!(
        images.stdout,
        "quay.io/harbor/crane:1.0.0\nquay.io/harbor/crane:2.0.0\nquay.io/harbor/hook:1.0.0\n",
        "{images:?}"
    );
    // What cannot be met is said once for each who needs it.
    for needing in ["crane.v1.0.0", "crane.v2.0.0"] {
        let note = format!("{needing} of crane needs the package sling");
        assert_eq!(images.stderr.matches(&note).count(), 1, "{images:?}");
    }
    for more in [["--package=crane"], ["--heads"]] {
        let refused = upgrade.run(&["images", "--dependencies"], &more);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains("--dependencies"), "{refused:?}");
    }
}

#[test]
fn a_note_about_a_selection_of_a_file_is_printed_once() {
    let upgrade = Upgrade::new();
    let set = fs::read_to_string(upgrade.path("set.yaml")).unwrap();
    let (set, _) = set.split_once("    packages:").unwrap();
    let set = format!(
        "{set}    packages:\n    - name: crane\n      channels:\n      - name: stable\n      - name: edge\n        minVersion: \"9.0.0\"\n"
    );
    fs::write(upgrade.path("set.yaml"), set).unwrap();
    let name = "crane.v1.0.0";
    let two = Catalog::new().package("crane", |package| {
        package
            .channel("stable", [entry(name)])
            .channel("edge", [entry(name)])
            .bundle(bundle(name).image("quay.io/harbor/crane:1.0.0"))
    });
    fs::remove_dir_all(upgrade.path("old")).unwrap();
    upgrade.write("old", &two);
    for (command, more) in [
        ("images", &[][..]),
        ("manifests", &["--mirror=m.example.com"]),
    ] {
        let finished = upgrade.run(&[command], more);
        assert!(finished.status.success(), "{finished:?}");
        let notes = finished.stderr.matches("is left out").count();
        assert_eq!(notes, 1, "{finished:?}");
    }
}

#[test]
fn packages_with_errors_are_not_left_out_silently() {
    let upgrade = Upgrade::new();
    upgrade.write("old", &broken(crane("1.0.0", false)));
    let note = "packages with errors: broken";
    let source = upgrade.source("old");
    let images = Start::new(["images", &source]).run();
    assert!(images.status.success(), "{images:?}");
    assert!(images.stderr.contains(note), "{images:?}");
    let named = format!("ours={source}");
    let manifests = Start::new(["manifests", &named, "--mirror=m.example.com"]).run();
    assert!(manifests.stderr.contains(note), "{manifests:?}");
    for finished in [
        upgrade.run(&["images"], &[]),
        upgrade.manifests(&catalog("ours", &source), &["--mirror=m.example.com"]),
    ] {
        assert_eq!(finished.stderr.matches(note).count(), 1, "{finished:?}");
    }
}

fn curated(name: &str, from: &str) -> String {
    format!(
        "\n[[catalog]]\nname = {name:?}\nfrom = [{from:?}]\npackages = [{{ name = \"crane\" }}]\n"
    )
}

#[test]
fn manifests_know_curated_catalogs_of_curated_ones() {
    let upgrade = Upgrade::new();
    let config = format!(
        "{}{}{}",
        curated("last", "middle"),
        curated("middle", "first"),
        catalog("first", &upgrade.source("new"))
    );
    let finished = upgrade.manifests(&config, &["--mirror=m.example.com"]);
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        finished.stdout.contains("source: quay.io/harbor"),
        "{finished:?}"
    );
}

#[test]
fn without_a_network_manifests_are_those_of_what_is_stored() {
    let upgrade = Upgrade::new();
    let data = upgrade.path("data");
    let of_folder = |folder: &Path| {
        let catalogs = format!(
            "{}{}",
            catalog("first", &upgrade.source("new")),
            curated("ours", "first")
        );
        format!("offline = true\ndata_dir = {folder:?}\n{catalogs}")
    };
    let nothing = upgrade.manifests(&of_folder(&data), &["--mirror=m.example.com"]);
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    for said in ["import it", "first=http://HOST:PORT/catalogs/first"] {
        assert!(nothing.stderr.contains(said), "{nothing:?}");
    }
    let mut almanac = Almanac::start_in(&data, &catalog("first", &upgrade.source("new")));
    almanac.program.wait_until_ready();
    fs::remove_dir_all(upgrade.path("new")).unwrap();
    // Beside an almanac that runs, and without one.
    for runs in [true, false] {
        if !runs {
            almanac.stop();
        }
        let finished = upgrade.manifests(&of_folder(&data), &["--mirror=m.example.com"]);
        assert!(finished.status.success(), "{finished:?}");
        assert!(
            finished.stdout.contains("source: quay.io/harbor"),
            "{finished:?}"
        );
    }
}

#[test]
fn an_image_that_is_served_as_it_is_runs_what_is_in_it() {
    let upgrade = Upgrade::new();
    let upstream = Upstream::start();
    let full = catalog("full", &upstream.reference("harbor", "v1"));
    let config = format!(
        "{full}mirror = \"full\"\n{}",
        catalog("slim", &upgrade.source("new"))
    );
    let more = ["--by=image", "--catalog-host=m.example.com"];
    let finished = upgrade.manifests(&config, &[&more[..], &["--kind=catalog-source"]].concat());
    assert!(finished.status.success(), "{finished:?}");
    let (full, slim) = finished.stdout.split_once("name: slim").unwrap();
    assert!(full.contains("m.example.com/full:latest"), "{full}");
    assert!(!full.contains("extractContent"), "{full}");
    assert!(slim.contains("extractContent"), "{slim}");
}

#[test]
fn a_file_may_begin_with_a_comment_and_a_second_document_is_told() {
    let upgrade = Upgrade::new();
    let set = fs::read_to_string(upgrade.path("set.yaml")).unwrap();
    fs::write(upgrade.path("set.yaml"), format!("# Ours\n---\n{set}")).unwrap();
    let images = upgrade.run(&["images"], &[]);
    assert!(images.status.success(), "{images:?}");
    let note = "only the first document is read";
    assert!(!images.stderr.contains(note), "{images:?}");
    let two = format!("# Ours\n---\n{set}---\nkind: Other\n");
    fs::write(upgrade.path("set.yaml"), &two).unwrap();
    let images = upgrade.run(&["images"], &[]);
    assert!(images.status.success(), "{images:?}");
    let line = format!("set.yaml: line {}: {note}", two.lines().count());
    assert!(images.stderr.contains(&line), "{images:?}");
    // A configuration says so, too.
    let source = upgrade.source("new");
    let set = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
         operators:\n  - catalog: {source}\n---\nkind: Other\n"
    );
    fs::write(upgrade.path("set.yaml"), set).unwrap();
    let config = format!(
        "grpc = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{}[[catalog]]\n\
         name = \"ours\"\nimage_set = {:?}\n",
        catalog("first", &source),
        upgrade.path("set.yaml")
    );
    let path = upgrade.path("almanac.toml");
    fs::write(&path, config).unwrap();
    let checked = Start::new(["serve", "--check", "--data-dir={data}", "--config"]);
    let checked = checked.argument(path.display().to_string()).run();
    assert!(checked.status.success(), "{checked:?}");
    assert!(checked.stderr.contains(note), "{checked:?}");
}

#[test]
fn a_mistake_in_a_file_has_its_place() {
    let upgrade = Upgrade::new();
    let set = fs::read_to_string(upgrade.path("set.yaml")).unwrap();
    let lines = set.lines().count();
    fs::write(
        upgrade.path("set.yaml"),
        format!("{set}      minVersion: 4.10\n"),
    )
    .unwrap();
    let images = upgrade.run(&["images"], &[]);
    assert_eq!(images.status.code(), Some(3), "{images:?}");
    let place = format!(
        "line {}, column 19, mirror.operators[1].packages[0].minVersion: ",
        lines + 1
    );
    for said in [&*place, "in quotes"] {
        assert!(images.stderr.contains(said), "{images:?}");
    }
}
