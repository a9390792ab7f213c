//! A served folder, and its cache.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Place, copy, end, half_good, packages, put_program};
use crate::support::catalog::Catalog;
use crate::support::program::Start;
use crate::support::store::make_older;

/// Somebody who owns nothing.
const NOBODY: u32 = 65_534;

/// The files below a folder, each with its length and the time of its change.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            let said = (metadata.len(), metadata.modified().unwrap());
            files.insert(entry.path(), said);
        }
    }
    files
}

#[test]
fn a_folder_is_served_until_it_is_told_to_end() {
    let place = Place::of(&Catalog::small());
    let mut program = place.serve().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert_eq!(files(&place.temporary()).len(), 0, "nothing is left behind");
    let log = end(program);
    assert_eq!(log.matches("listening").count(), 1, "{log}");
    assert!(
        log.contains("serving registry") && log.contains("stopped"),
        "{log}"
    );
    assert!(!place.termination_log().exists());
}

#[test]
fn the_subcommand_does_the_same_as_the_name() {
    let place = Place::of(&Catalog::small());
    let configs = place.configs();
    let mut program = Start::new(["opm", "serve", configs.to_str().unwrap(), "-p", "0"]).start();
    assert_eq!(packages(&mut program), ["etcd"]);
    end(program);
}

#[test]
fn a_cache_is_built_once_and_then_only_read() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    let built = files(&place.cache());
    for mut start in [
        place.cached(),
        place.cached().argument("--cache-enforce-integrity"),
    ] {
        start = start.argument("--debug");
        let mut program = start.start();
        assert_eq!(packages(&mut program), ["etcd"]);
        let log = end(program);
        assert!(log.contains("the cache fits"), "{log}");
        // Nothing of the catalog was read, but for its digest.
        assert!(
            !log.contains("stage done") && !log.contains("building"),
            "{log}"
        );
    }
    place.build_cache();
    assert_eq!(files(&place.cache()), built);
    assert_eq!(files(&place.temporary()).len(), 0);
}

#[test]
fn the_cache_of_another_user_is_read_where_nobody_can_write() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    for path in files(&place.cache()).keys().chain([&place.cache()]) {
        let mode = fs::metadata(path).unwrap().mode();
        let folders = ["revisions", "outlines"];
        let mut folders = folders.iter().map(|name| place.cache().join(name));
        let is_stored = folders.any(|folder| path.starts_with(folder));
        let wanted = if path.is_dir() {
            0o755
        } else if is_stored {
            0o444
        } else {
            0o644
        };
        assert_eq!(mode & 0o777, wanted, "{}", path.display());
        let without_writing = fs::Permissions::from_mode(wanted & 0o555);
        fs::set_permissions(path, without_writing).unwrap();
    }
    let mut start = place.cached();
    if fs::metadata(place.cache()).unwrap().uid() == 0 {
        // The superuser may write everywhere, and lend its place.
        fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path("opm");
        put_program(&program);
        start = start.program(&program).user(NOBODY);
    }
    let built = files(&place.cache());
    let mut program = start.start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(
        log.contains("the cache fits") && !log.contains("WARN"),
        "{log}"
    );
    assert_eq!(files(&place.cache()), built);
}

#[test]
fn what_else_lies_in_the_folder_of_the_cache_is_let_be() {
    let place = Place::of(&Catalog::small());
    fs::create_dir_all(place.cache().join("private")).unwrap();
    let secret = place.cache().join("private/secret");
    fs::write(&secret, "secret").unwrap();
    let private = [(place.cache(), 0o700), (secret, 0o600)];
    for (path, mode) in &private {
        fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    place.build_cache();
    for (path, mode) in &private {
        let now = fs::metadata(path).unwrap().mode();
        assert_eq!(now & 0o777, *mode, "{}", path.display());
    }
    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    end(program);
}

#[test]
fn several_serve_from_one_cache() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    let mut first = place.cached().start();
    let mut second = place.cached().start();
    assert_eq!(packages(&mut first), packages(&mut second));
    // Whoever finds that it does not fit any more leaves it to the others.
    place.write(&Catalog::one("kafka"));
    let mut third = place
        .cached()
        .argument("--cache-enforce-integrity=false")
        .start();
    assert_eq!(packages(&mut third), ["kafka"]);
    assert_eq!(packages(&mut first), ["etcd"]);
    end(second);
    end(first);
    let log = end(third);
    assert!(log.contains("using a temporary one"), "{log}");
}

/// As it goes on the way through an image or an init container.
#[test]
fn a_cache_fits_wherever_it_and_the_catalog_are_moved() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    let elsewhere = Place::of(&Catalog::new());
    fs::remove_dir_all(elsewhere.configs()).unwrap();
    copy(&place.configs(), &elsewhere.configs());
    copy(&place.cache(), &elsewhere.cache());
    drop(place);
    let mut program = elsewhere.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains("the cache fits"));
}

#[test]
fn a_cache_that_does_not_fit_is_refused() {
    let place = Place::of(&Catalog::small());
    let missing = "it is missing, or this version cannot read it";
    place.refused(place.cached(), missing);
    assert!(!place.cache().exists());
    fs::create_dir(place.cache()).unwrap();
    place.refused(place.cached(), missing);
    let only = ["--cache-only", "--cache-enforce-integrity"];
    let check = || only.into_iter().fold(place.cached(), Start::argument);
    place.refused(check(), missing);
    fs::remove_file(place.termination_log()).unwrap();

    place.build_cache();
    let checked = check().run();
    assert!(checked.status.success(), "{checked:?}");
    place.write(&Catalog::one("kafka"));
    place.refused(place.cached(), "it was made of a catalog with the digest");
    place.refused(check(), "it was made of a catalog with the digest");
}

#[test]
fn a_cache_that_does_not_fit_is_built_again_when_that_is_wanted() {
    let place = Place::of(&Catalog::small());
    let rebuild = || place.cached().argument("--cache-enforce-integrity=false");
    let mut program = rebuild().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    end(program);

    place.write(&Catalog::one("kafka"));
    let mut program = rebuild().start();
    assert_eq!(packages(&mut program), ["kafka"]);
    assert!(end(program).contains("building the cache"));

    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["kafka"]);
    end(program);
    let revisions = fs::read_dir(place.cache().join("revisions")).unwrap();
    assert_eq!(revisions.count(), 1, "the old one is gone");
}

#[test]
fn a_damaged_cache_does_not_fit() {
    let place = Place::of(&Catalog::small());
    for damaged in ["index.bin", "messages.pb", "almanac.db"] {
        place.build_cache();
        let all = files(&place.cache());
        let path = all.keys().find(|path| path.ends_with(damaged)).unwrap();
        // Files of a cache are read-only.
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(path, "damaged").unwrap();
        place.refused(place.cached(), "is refused");
        let rebuild = place.cached().argument("--cache-enforce-integrity=false");
        let mut program = rebuild.start();
        assert_eq!(packages(&mut program), ["etcd"], "{damaged}");
        end(program);
        fs::remove_dir_all(place.cache()).unwrap();
        fs::remove_file(place.termination_log()).unwrap();
    }
}

#[test]
fn a_cache_of_an_older_version_does_not_fit() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    make_older(&place.cache());
    let unreadable = "it is missing, or this version cannot read it";
    place.refused(place.cached(), unreadable);
    let rebuild = place.cached().argument("--cache-enforce-integrity=false");
    let mut program = rebuild.start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains(unreadable));

    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains("the cache fits"));
}

/// Where the image of a catalog comes from elsewhere, and only this program
/// takes opm's place.
#[test]
fn a_cache_of_opm_is_no_reason_not_to_serve() {
    let place = Place::of(&Catalog::small());
    let theirs = place.cache().join("pogreb.v1");
    fs::create_dir_all(&theirs).unwrap();
    fs::write(theirs.join("digest"), "0123456789abcdef").unwrap();
    let enforced = place.cached().argument("--cache-enforce-integrity=true");
    place.refused(enforced, "opm made it");

    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(
        log.contains("WARN") && log.contains("opm made the cache"),
        "{log}"
    );
    // It is kept beside theirs.
    assert!(theirs.join("digest").exists());
    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains("the cache fits"));
}

#[test]
fn a_cache_that_cannot_be_kept_is_a_temporary_one() {
    let place = Place::of(&Catalog::small());
    // A file is where the folder would be, which not even the superuser changes.
    fs::write(place.cache(), "").unwrap();
    let rebuild = || place.cached().argument("--cache-enforce-integrity=false");
    let mut program = rebuild().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(log.contains("using a temporary one"), "{log}");
    assert_eq!(files(&place.temporary()).len(), 0);
    place.refused(rebuild().argument("--cache-only"), "cannot");
}

#[test]
fn packages_with_errors_are_left_out_unless_an_image_is_built() {
    let place = Place::of(&half_good());
    let mut program = place.serve().start();
    assert_eq!(packages(&mut program), ["good"]);
    let log = end(program);
    let error = log
        .lines()
        .find(|line| line.contains("channel-multiple-heads"));
    assert!(error.is_some_and(|line| line.contains("ERROR")), "{log}");

    let refused = place.refused(place.cached().argument("--cache-only"), "refused");
    assert!(
        refused.stderr.contains("channel-multiple-heads"),
        "{refused:?}"
    );

    // One that was built at a start says so again at the next.
    let rebuild = place.cached().argument("--cache-enforce-integrity=false");
    end_when_serving(rebuild);
    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["good"]);
    let log = end(program);
    assert!(log.contains("channel-multiple-heads"), "{log}");
}

fn end_when_serving(start: Start) {
    let mut program = start.start();
    program.address("grpc");
    end(program);
}
