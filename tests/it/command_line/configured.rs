//! Catalogs of a configuration file as sources of commands.

use std::fs;

use super::{printed, run};
use crate::support::file::root;
use crate::support::program::Start;

/// A configuration with the sample, a selection from it, and a catalog that cannot be
/// read.
const CATALOGS: &str = "
[[catalog]]
name = \"community\"
source = \"file:catalog\"

[[catalog]]
name = \"team\"
from = [\"community\"]
packages = [{ name = \"ferry-operator\" }]

[[catalog]]
name = \"lost\"
source = \"file:nowhere\"
";

#[test]
fn the_name_of_a_configured_catalog_is_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("almanac.toml");
    let sample = root().join("deploy/catalog").display().to_string();
    fs::write(
        &file,
        CATALOGS.replace("file:catalog", &format!("file:{sample}")),
    )
    .unwrap();
    let config = format!("--config {}", file.display());

    let listed = printed("list packages file:deploy/catalog");
    assert_eq!(
        printed(&format!("list packages community {config}")),
        listed
    );
    let named = Start::new(["list", "packages", "community"]);
    let named = named.variable("ALMANAC_CONFIG", &file.display().to_string());
    assert_eq!(named.run().stdout, listed, "by the environment");
    // A selection is made as `serve` makes it.
    let selected = printed(&format!("search team operator -o name {config}"));
    assert_eq!(selected, "ferry-operator\n");
    let images = printed(&format!("images team {config}"));
    let of_all = printed(&format!("images community {config}"));
    assert!(images.lines().count() < of_all.lines().count(), "{images}");
    let checked = printed(&format!("check community {config} -o json"));
    assert!(checked.contains("\"source\": \"community\""), "{checked}");
    let differ = run(&format!("diff community team {config} -o name"));
    // The selection has the head of ferry-operator only.
    assert_eq!(
        differ.stdout,
        "ferry-operator\ngranary-operator\nlantern-operator\n"
    );

    for (source, code, said) in [
        ("comunity", 2, "did you mean \"community\"?"),
        (
            "nothing-like-it",
            2,
            "there are \"community\", \"lost\", \"team\"",
        ),
        ("file:deploy/catalog", 2, "leave out --config"),
        ("lost", 3, "nowhere"),
    ] {
        let finished = run(&format!("list packages {source} {config}"));
        assert_eq!(finished.status.code(), Some(code), "{finished:#?}");
        assert!(finished.stderr.contains(said), "{finished:#?}");
    }
}

#[test]
fn the_registries_of_a_configuration_apply_to_its_catalogs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("almanac.toml");
    let text = "[registries]\npolicy_file = \"policy.json\"\n[[catalog]]\nname = \"a\"\nsource = \"oci:layout\"\n";
    fs::write(&file, text).unwrap();
    fs::create_dir(folder.path().join("layout")).unwrap();
    fs::write(folder.path().join("policy.json"), "{").unwrap();
    let finished = run(&format!("list packages a --config {}", file.display()));
    assert_eq!(finished.status.code(), Some(3), "{finished:#?}");
    assert!(finished.stderr.contains("policy.json"), "{finished:#?}");
}
