//! Debian's PostgreSQL, in a folder of its own.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use super::needs;
use super::port::free_port;
use super::program::{PATIENCE, STEP};

/// PostgreSQL refuses to run as the superuser. Nothing needs this user to have a name.
const USER: u32 = 65_534;

/// A server that runs until it is dropped.
pub(crate) struct Postgres {
    address: SocketAddr,
    server: Child,
    folder: TempDir,
}

/// Whether a test has to be skipped, because PostgreSQL is not installed.
#[track_caller]
pub(crate) fn is_missing() -> bool {
    needs::skip_without("psql") || (path_of("initdb").is_none() && needs::skip_without("initdb"))
}

impl Postgres {
    /// Starts a server with an empty database.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        if rustix::process::geteuid().is_root() {
            chown(folder.path(), Some(USER), Some(USER)).unwrap();
        }
        let made = command("initdb")
            .arg("--pgdata")
            .arg(&data)
            .args([
                "--username=almanac",
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
            ])
            .args(["--locale=C"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let address = free_port();
        let server = run(&data, folder.path(), address);
        let postgres = Self {
            address,
            server,
            folder,
        };
        postgres.wait();
        postgres
    }

    /// The URL of its database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://almanac@{}/postgres", self.address)
    }

    /// Runs a statement, and returns its rows as lines with `|` between columns.
    pub(crate) fn ask(&self, statement: &str) -> String {
        let asked = self.psql(statement);
        assert!(asked.status.success(), "{statement}: {asked:?}");
        String::from_utf8(asked.stdout).unwrap().trim().to_owned()
    }

    /// Waits until a statement has this result.
    pub(crate) fn until(&self, statement: &str, wanted: &str) {
        let begin = Instant::now();
        loop {
            let found = self.ask(statement);
            if found == wanted {
                return;
            }
            let late = begin.elapsed() >= PATIENCE;
            assert!(!late, "waiting for {wanted} of {statement}, it is {found}");
            std::thread::sleep(STEP);
        }
    }

    /// Ends it without a chance to tidy up.
    pub(crate) fn kill9(&mut self) {
        // The others end when they find that it is gone.
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Starts it again, after it has ended.
    pub(crate) fn restart(&mut self) {
        let data = self.folder.path().join("data");
        let begin = Instant::now();
        loop {
            self.server = run(&data, self.folder.path(), self.address);
            // Processes of the one before may hold its memory for a moment.
            while self.server.try_wait().unwrap().is_none() {
                if self.psql("SELECT 1").status.success() {
                    return;
                }
                std::thread::sleep(STEP);
            }
            assert!(begin.elapsed() < PATIENCE, "it does not start again");
            std::thread::sleep(STEP);
        }
    }

    fn wait(&self) {
        let begin = Instant::now();
        while !self.psql("SELECT 1").status.success() {
            let log = fs::read_to_string(self.folder.path().join("log"));
            assert!(
                begin.elapsed() < PATIENCE,
                "PostgreSQL does not start: {log:?}"
            );
            std::thread::sleep(STEP);
        }
    }

    fn psql(&self, statement: &str) -> std::process::Output {
        let mut psql = Command::new("psql");
        psql.args([
            "--no-psqlrc",
            "--tuples-only",
            "--no-align",
            "--quiet",
            "--command",
        ])
        .arg(statement)
        .arg(self.url())
        .output()
        .unwrap()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown: it ends its other processes itself.
        let stop = format!("kill -QUIT {}", self.server.id());
        let _ = Command::new("sh").args(["-c", &stop]).status();
        let begin = Instant::now();
        while matches!(self.server.try_wait(), Ok(None)) {
            if begin.elapsed() >= PATIENCE {
                let _ = self.server.kill();
                let _ = self.server.wait();
            }
            std::thread::sleep(STEP);
        }
    }
}

fn run(data: &Path, folder: &Path, address: SocketAddr) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    command("postgres")
        .arg("-D")
        .arg(data)
        .args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-k"])
        .arg(folder)
        .args(["-c", "fsync=off", "-c", "max_connections=100"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn command(name: &str) -> Command {
    let mut command = Command::new(path_of(name).unwrap());
    if rustix::process::geteuid().is_root() {
        command.uid(USER).gid(USER);
    }
    command
}

/// A program of PostgreSQL: of the `PATH`, or of the newest version that Debian has
/// installed, which is on no `PATH`. In full, since it looks for others beside itself.
fn path_of(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut named = std::env::split_paths(&path).map(|folder| folder.join(name));
    let named = named.find(|file| file.is_file());
    named.or_else(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let folders = versions.map(|entry| entry.unwrap().path().join("bin").join(name));
        let mut found: Vec<PathBuf> = folders.filter(|file| file.is_file()).collect();
        found.sort();
        found.pop()
    })
}
