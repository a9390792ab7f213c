//! The program while it serves catalogs, on free ports.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::catalog::{Catalog, Format};
use super::http::{self, Reply};
use super::program::{Program, Start};

/// Where each listener is put.
const PORTS: [&str; 6] = [
    "--grpc",
    "127.0.0.1:0",
    "--http",
    "127.0.0.1:0",
    "--admin",
    "127.0.0.1:0",
];

/// The program and where it listens.
#[derive(Debug)]
pub(crate) struct Served {
    pub program: Program,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub admin: SocketAddr,
    /// The sources, which stay as long as the program runs.
    folders: Vec<Arc<TempDir>>,
}

/// Catalogs as folders, each served under its name. Removed at the end.
#[derive(Debug)]
pub(crate) struct Folders {
    folder: Arc<TempDir>,
    names: Vec<String>,
}

impl Served {
    /// Serves what these arguments say, and waits until each catalog was tried.
    pub(crate) fn start(arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut served = Self::begin(with(start(), arguments));
        served.program.wait_until_ready();
        served
    }

    /// Serves these catalogs, and waits until they are served.
    pub(crate) fn catalogs(folders: &Folders) -> Self {
        Self::start(folders.sources()).keeping(folders)
    }

    /// Keeps these folders as long as it runs itself.
    pub(crate) fn keeping(mut self, folders: &Folders) -> Self {
        self.folders.push(Arc::clone(&folders.folder));
        self
    }

    /// Starts, and waits only for the ports. `start` is what [`start`] gives,
    /// and more.
    pub(crate) fn begin(start: Start) -> Self {
        Self::of(start.start())
    }

    /// Ends the program politely and starts it anew: the ports change, the
    /// data stays.
    pub(crate) fn restart(mut self) -> Self {
        self.program.terminate();
        let status = self.program.wait(super::program::PATIENCE);
        assert!(status.success(), "{status}");
        self.start_again()
    }

    /// Starts the program, which has ended, anew.
    pub(crate) fn start_again(mut self) -> Self {
        self.program.restart();
        Self {
            folders: self.folders,
            ..Self::of(self.program)
        }
    }

    fn of(mut program: Program) -> Self {
        Self {
            grpc: program.address("grpc"),
            http: program.address("http"),
            admin: program.address("admin"),
            program,
            folders: Vec::new(),
        }
    }

    /// Gets a path of the HTTP port.
    pub(crate) fn get(&self, path: &str) -> Reply {
        http::get(self.http, path).unwrap()
    }

    /// Asks the HTTP port anything without a body.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        http::ask(self.http, method, path, headers, b"").unwrap()
    }

    /// A catalog in `/status`.
    pub(crate) fn status(&self, catalog: &str) -> serde_json::Value {
        let reply = http::get(self.admin, "/status").unwrap();
        let mut status: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let catalogs = status["catalogs"].as_array_mut().unwrap();
        let found = catalogs.iter_mut().find(|status| status["name"] == catalog);
        found.unwrap().take()
    }

    /// Waits until `/status` says of a catalog what `good` wants.
    pub(crate) fn wait_for_status(
        &mut self,
        catalog: &str,
        good: impl Fn(&serde_json::Value) -> bool,
    ) {
        self.wait_for_status_within(super::program::PATIENCE, catalog, good);
    }

    /// The same with another patience.
    pub(crate) fn wait_for_status_within(
        &mut self,
        patience: Duration,
        catalog: &str,
        good: impl Fn(&serde_json::Value) -> bool,
    ) {
        let begin = Instant::now();
        while !good(&self.status(catalog)) {
            assert!(
                begin.elapsed() < patience,
                "the status of {catalog} stays: {:#}",
                self.status(catalog)
            );
            super::program::pause(begin);
        }
    }
}

/// A start of `serve` with a data folder of its own and free ports; sources
/// and other arguments are to be added.
pub(crate) fn start() -> Start {
    Start::new(["serve", "--data-dir", "{data}"].into_iter().chain(PORTS))
}

/// Adds arguments.
pub(crate) fn with(start: Start, arguments: impl IntoIterator<Item = impl Into<String>>) -> Start {
    arguments.into_iter().fold(start, Start::argument)
}

impl Folders {
    /// No catalogs so far.
    pub(crate) fn new() -> Self {
        Self {
            folder: Arc::new(tempfile::tempdir().unwrap()),
            names: Vec::new(),
        }
    }

    /// One catalog.
    pub(crate) fn of(name: &str, catalog: &Catalog) -> Self {
        Self::new().catalog(name, catalog)
    }

    /// Adds a catalog.
    pub(crate) fn catalog(mut self, name: &str, catalog: &Catalog) -> Self {
        self.names.push(name.into());
        self.write(name, catalog);
        self
    }

    /// Puts another catalog in the place of one, at once.
    pub(crate) fn replace(&self, name: &str, catalog: &Catalog) {
        let old = tempfile::tempdir_in(self.folder.path()).unwrap();
        let new = tempfile::tempdir_in(self.folder.path()).unwrap();
        catalog.write_to(&new.path().join(name), Format::JsonLines);
        let place = self.path(name);
        std::fs::rename(&place, old.path().join(name)).unwrap();
        std::fs::rename(new.path().join(name), place).unwrap();
    }

    /// The folder of a catalog.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The sources, as `serve` takes them.
    pub(crate) fn sources(&self) -> Vec<String> {
        let source = |name: &String| source(name, &self.path(name));
        self.names.iter().map(source).collect()
    }

    fn write(&self, name: &str, catalog: &Catalog) {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        catalog.write_to(&folder, Format::JsonLines);
    }
}

/// A folder as a source with a name.
pub(crate) fn source(name: &str, folder: &Path) -> String {
    format!("{name}=file:{}", folder.display())
}
