//! Stored catalogs that are no longer configured.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::run;
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};

/// The files below a folder.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sizes = entries.map(|path| {
        if path.is_dir() {
            size(&path)
        } else {
            path.metadata().unwrap().len()
        }
    });
    sizes.sum()
}

#[test]
fn a_catalog_that_is_no_longer_configured_is_removed_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        Catalog::one(name).write_to(&folder.path().join(name), Format::JsonLines);
    }
    let source = |name: &str| format!("file:{}", folder.path().join(name).display());
    let data = folder.path().join("data");
    let both = format!("{}{}", following(&source("a")), catalog("b", &source("b")));
    let mut almanac = Almanac::start_in(&data, &both);
    for name in ["a", "b"] {
        almanac.until(name, "a revision", |status| status["state"] == "serving");
    }
    let config = folder.path().join("almanac.toml");
    fs::write(&config, following(&source("a"))).unwrap();
    let prune = format!(
        "prune --data-dir {} --config {}",
        data.display(),
        config.display()
    );

    let listed = run(&prune);
    assert_eq!(listed.status.code(), Some(0), "{listed:#?}");
    let row = listed.stdout.lines().nth(1).unwrap();
    let is_listed = row.starts_with("b ") && row.ends_with(" would be removed");
    assert!(is_listed, "{listed:#?}");
    assert!(listed.stderr.contains("--yes removes them"), "{listed:#?}");
    fs::write(
        &config,
        following(&source("c")).replacen("\"a\"", "\"c\"", 1),
    )
    .unwrap();
    let foreign = run(&prune);
    assert_eq!(foreign.status.code(), Some(0), "{foreign:#?}");
    assert!(foreign.stderr.contains("belong together?"), "{foreign:#?}");
    fs::write(&config, following(&source("a"))).unwrap();
    let used = run(&format!("{prune} --yes"));
    assert_eq!(used.status.code(), Some(1), "{used:#?}");
    assert!(
        used.stderr
            .contains("is in use by another almanac; stop it"),
        "{used:#?}"
    );

    almanac.program.terminate();
    almanac.program.wait(crate::support::program::PATIENCE);
    fs::write(
        &config,
        following(&source("c")).replacen("\"a\"", "\"c\"", 1),
    )
    .unwrap();
    let foreign = run(&format!("{prune} --yes"));
    assert_eq!(foreign.status.code(), Some(2), "{foreign:#?}");
    assert!(foreign.stderr.contains("belong together?"), "{foreign:#?}");
    fs::write(&config, following(&source("a"))).unwrap();
    // An outline whose rows were lost with a database.
    let outlines = data.join("outlines");
    let of_a_and_b = fs::read_dir(&outlines).unwrap().count();
    assert_eq!(of_a_and_b, 2);
    fs::write(outlines.join(format!("{}.1.zst", "0".repeat(64))), "").unwrap();
    let before = size(&data.join("revisions")) + size(&data.join("blobs"));
    let removed = run(&format!("{prune} --yes --output json"));
    assert_eq!(removed.status.code(), Some(0), "{removed:#?}");
    let document: Value = serde_json::from_str(&removed.stdout).unwrap();
    assert_eq!(document[0]["name"], "b");
    assert_eq!(document[0]["removed"], true);
    let after = size(&data.join("revisions")) + size(&data.join("blobs"));
    assert_eq!(
        document[0]["bytes"].as_u64(),
        Some(before - after),
        "{removed:#?}"
    );
    assert!(before > after);
    assert_eq!(fs::read_dir(&outlines).unwrap().count(), 2);

    let nothing = run(&format!("{prune} --yes"));
    assert_eq!(nothing.status.code(), Some(0), "{nothing:#?}");
    assert!(nothing.stderr.contains("nothing to remove"), "{nothing:#?}");
    // The other catalog starts from what is stored.
    let offline = following(&source("a")).replacen("poll", "offline = true\npoll", 1);
    let mut again = Almanac::start_in(&data, &offline);
    again.until("a", "a revision", |status| status["state"] == "serving");
}

#[test]
fn a_configured_or_unknown_catalog_is_not_pruned() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::one("a").write_to(folder.path(), Format::JsonLines);
    let source = format!("file:{}", folder.path().display());
    let data = tempfile::tempdir().unwrap();
    let mut almanac = Almanac::start_in(data.path(), &following(&source));
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    let config = data.path().join("almanac.toml");
    fs::write(&config, following(&source)).unwrap();
    let data = data.path().display();
    for (arguments, said) in [
        (
            format!("--config {} --catalog a", config.display()),
            "is configured",
        ),
        ("--catalog aa".to_owned(), "did you mean \"a\"?"),
        (String::new(), "no catalog is configured"),
    ] {
        let finished = run(&format!("prune --data-dir {data} {arguments}"));
        assert_eq!(finished.status.code(), Some(2), "{finished:#?}");
        assert!(finished.stderr.contains(said), "{finished:#?}");
    }
    let finished = run("prune --data-dir /no/such --catalog a");
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    assert!(
        finished.stderr.contains("nothing is stored there"),
        "{finished:#?}"
    );
}
