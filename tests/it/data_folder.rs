//! Data folders that are damaged, or that cannot be written.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::http::{Reply, get};
use crate::support::program::{PATIENCE, Program, Start};

const SEARCH: &str = "/catalogs/a/api/v1/search?q=et";
/// A user without rights.
const NOBODY: u32 = 65_534;

/// A data folder with one revision of the catalog `a`, whose source is gone, and
/// the answers of the almanac that made it.
struct Stored {
    folder: TempDir,
    all: Reply,
    search: Reply,
}

/// An almanac that follows the catalog `a`, in a folder with the source and the data.
fn started() -> (TempDir, Almanac) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("catalog");
    fs::create_dir(&source).unwrap();
    Catalog::small().write_to(&source, Format::JsonLines);
    let config = catalog("a", &format!("file:{}", source.display()));
    let almanac = Almanac::start_in(&folder.path().join("data"), &config);
    (folder, almanac)
}

impl Stored {
    /// Made by an almanac that ends in this way.
    fn by(end: impl FnOnce(&mut Program)) -> Self {
        let (folder, mut almanac) = started();
        almanac.until("a", "a revision", |status| status["state"] == "serving");
        almanac.until_encoded(1);
        let all = almanac.all("a");
        let search = almanac.http(SEARCH);
        assert_eq!((all.status, search.status), (200, 200));
        end(&mut almanac.program);
        fs::remove_dir_all(folder.path().join("catalog")).unwrap();
        Self {
            folder,
            all,
            search,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// An almanac that serves what is stored.
    fn start(&self, flags: &[&str]) -> Start {
        let source = format!("a=file:{}", self.folder.path().join("catalog").display());
        let arguments = [
            "serve",
            source.as_str(),
            "--data-dir={data}",
            "--grpc=127.0.0.1:0",
            "--http=127.0.0.1:0",
            "--admin=127.0.0.1:0",
        ];
        Start::new(arguments.into_iter().chain(flags.iter().copied())).data(&self.data())
    }

    /// Fails unless the answers are those of before, with their dates and tags.
    fn is_served_by(&self, program: &mut Program) {
        program.wait_until_ready();
        let http = program.address("http");
        for (path, before) in [
            ("/catalogs/a/api/v1/all", &self.all),
            (SEARCH, &self.search),
        ] {
            let reply = get(http, path).unwrap();
            assert_eq!(reply.status, 200, "{}\n{}", reply.text(), program.log());
            assert_eq!(reply.text(), before.text());
            for header in ["etag", "last-modified"] {
                assert_eq!(reply.header(header), before.header(header), "{path}");
            }
        }
    }
}

fn terminate(program: &mut Program) {
    program.terminate();
    assert!(program.wait(PATIENCE).success(), "{}", program.log());
}

#[test]
fn a_damaged_database_is_rebuilt_while_the_source_is_away() {
    let stored = Stored::by(terminate);
    let database = stored.data().join("almanac.db");
    let mut file = fs::File::options().write(true).open(&database).unwrap();
    // A program that was stopped within a commit leaves a log, whose pages would count instead.
    let _ = fs::remove_file(stored.data().join("almanac.db-wal"));
    file.write_all(&[0xa5; 8192]).unwrap();

    let mut program = stored.start(&["--offline"]).start();
    stored.is_served_by(&mut program);
    let log = program.log();
    assert!(
        log.contains("the database is damaged: it is moved aside"),
        "{log}"
    );
    assert!(log.contains("almanac.db.damaged"), "{log}");
    let aside = fs::read(stored.data().join("almanac.db.damaged")).unwrap();
    assert!(aside.starts_with(&[0xa5; 8192]));
    terminate(&mut program);

    let mut program = stored.start(&["--offline"]).start();
    stored.is_served_by(&mut program);
    assert!(!program.log().contains("damaged"), "{}", program.log());
    terminate(&mut program);
}

#[test]
fn a_data_folder_that_is_removed_ends_the_program_with_a_clear_line() {
    let remove: [fn(&Path); 2] = [
        |data| fs::remove_dir_all(data).unwrap(),
        |data| fs::rename(data.join("revisions"), data.join("elsewhere")).unwrap(),
    ];
    for remove in remove {
        let (folder, mut almanac) = started();
        let data = folder.path().join("data");
        almanac.until_whole("a");
        almanac.until_encoded(1);
        // Nothing is written any more.
        almanac.until_pullable("a");
        let before = almanac.all("a").text();
        remove(&data);
        let status = almanac.program.wait(PATIENCE);
        assert_eq!(status.code(), Some(1));
        let log = almanac.program.log();
        assert!(
            log.contains("was removed or replaced while almanac ran"),
            "{log}"
        );

        almanac.program.restart();
        almanac.until_whole("a");
        assert_eq!(almanac.all("a").text(), before);
    }
}

/// All files and folders below one, with their sizes and dates.
fn entries(folder: &Path) -> Vec<(PathBuf, u64, i64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(entries(&path));
        }
        found.push((path, metadata.len(), metadata.mtime_nsec()));
    }
    found.sort();
    found
}

#[test]
fn a_data_folder_that_cannot_be_written_is_served_offline() {
    // The second leaves commits in the log of the database.
    for end in [terminate as fn(&mut Program), |program| program.kill9()] {
        let stored = Stored::by(end);
        let before = entries(&stored.data());
        for (path, ..) in &before {
            let mode = if path.is_dir() { 0o555 } else { 0o444 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(stored.data(), fs::Permissions::from_mode(0o555)).unwrap();
        // The superuser may write everywhere, and lends its place.
        let copy = stored.folder.path().join("almanac");
        let is_root = stored.folder.path().metadata().unwrap().uid() == 0;
        if is_root {
            fs::set_permissions(stored.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            let program = env!("CARGO_BIN_EXE_almanac");
            if fs::hard_link(program, &copy).is_err() {
                fs::copy(program, &copy).unwrap();
            }
        }
        let reader = |flags: &[&str]| {
            let start = stored.start(flags);
            if is_root {
                return start.program(&copy).user(NOBODY);
            }
            start
        };

        let mut program = reader(&["--offline"]).start();
        stored.is_served_by(&mut program);
        let log = program.log();
        assert!(log.contains("the data folder cannot be written"), "{log}");
        assert!(!log.contains("ERROR"), "{log}");
        let admin = program.address("admin");
        let status = get(admin, "/status").unwrap();
        let status: Value = serde_json::from_slice(&status.body).unwrap();
        let error = status["data_folder_error"].to_string();
        assert!(error.contains("Permission denied"), "{status:#}");
        terminate(&mut program);
        assert_eq!(entries(&stored.data()), before);

        // Who follows sources has to write.
        let finished = reader(&[]).run();
        assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
        for said in ["data folder", "--offline serves what is stored there"] {
            assert!(finished.stderr.contains(said), "{finished:#?}");
        }

        // So that the folder can be removed.
        for (path, ..) in &before {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(stored.data(), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
