//! The program in the place of opm: the arguments, the cache, and what comes
//! of whatever is wrong.

mod arguments;
mod caches;
mod verbs;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use almanac::proto;
use tempfile::TempDir;

use crate::support::catalog::{Catalog, Format, entry};
use crate::support::grpc::Client;
use crate::support::program::{Finished, PATIENCE, Program, Start};
use crate::support::runtime::block_on;

/// A catalog folder, and beside it a place for everything else.
struct Place {
    folder: TempDir,
}

impl Place {
    fn of(catalog: &Catalog) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(place.temporary()).unwrap();
        place.write(catalog);
        place
    }

    fn write(&self, catalog: &Catalog) {
        let configs = self.configs();
        if configs.exists() {
            fs::remove_dir_all(&configs).unwrap();
        }
        fs::create_dir(&configs).unwrap();
        catalog.write_to(&configs, Format::JsonLines);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configs(&self) -> PathBuf {
        self.path("configs")
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// Where temporary files go.
    fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    fn termination_log(&self) -> PathBuf {
        self.path("termination-log")
    }

    /// `opm serve` of the folder on any free port.
    fn serve(&self) -> Start {
        opm(["serve"])
            .argument(self.configs().to_str().unwrap())
            .argument("--port=0")
            .argument(format!("-t={}", self.termination_log().display()))
            .variable("TMPDIR", self.temporary().to_str().unwrap())
    }

    /// The same, with the cache beside the folder.
    fn cached(&self) -> Start {
        let cache = format!("--cache-dir={}", self.cache().display());
        self.serve().argument(cache)
    }

    fn build_cache(&self) {
        let built = self.cached().argument("--cache-only").run();
        assert!(built.status.success(), "{built:?}");
        assert!(!self.termination_log().exists(), "{built:?}");
    }

    /// The start fails with the code 1, and says so in both places.
    fn refused(&self, start: Start, message: &str) -> Finished {
        let run = start.run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.contains(message), "{message}: {run:?}");
        let log = fs::read_to_string(self.termination_log()).unwrap();
        assert!(log.contains(message), "{message}: {log}");
        run
    }
}

fn opm<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Start {
    Start::new(arguments).called("/bin/opm")
}

/// Puts the program there: the very file where that can be done, as nobody has
/// to write it then.
fn put_program(path: &Path) {
    let program = env!("CARGO_BIN_EXE_almanac");
    if fs::hard_link(program, path).is_err() {
        fs::copy(program, path).unwrap();
    }
}

/// Where a program is reached that listens on all addresses.
fn reached(program: &mut Program) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, program.address("grpc").port()).into()
}

/// The names of the packages that are served.
fn packages(program: &mut Program) -> Vec<String> {
    let server = reached(program);
    let listed = block_on(async {
        Client::new(server)
            .stream::<_, proto::PackageName>(
                "/api.Registry/ListPackages",
                proto::ListPackageRequest {},
            )
            .await
    });
    listed
        .unwrap()
        .into_iter()
        .map(|package| package.name)
        .collect()
}

fn end(mut program: Program) -> String {
    program.terminate();
    let status = program.wait(PATIENCE);
    assert!(status.success(), "{status}");
    program.log()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (
            entry.as_ref().unwrap(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A catalog of which one package has two heads.
fn half_good() -> Catalog {
    Catalog::one("good").package("bad", |package| {
        package.channel("stable", [entry("bad.v1.0.0"), entry("bad.v2.0.0")])
    })
}
