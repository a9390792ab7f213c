//! Debian's `PostgreSQL`, in a folder of its own.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::almanac::LONG_PATIENCE;
use super::needs;
use super::port;
use super::program::{PATIENCE, STEP};
use super::tls::Pair;

/// `PostgreSQL` refuses to run as the superuser. Nothing needs this user to have a name.
const USER: u32 = 65_534;

/// Where a server listens. Clients take the first for this machine, and all others for
/// other machines.
const ADDRESSES: &str = "127.0.0.1,127.0.0.2,127.0.0.3";
/// The user `guarded` needs a password.
const RULES: &str = "local all all trust\n\
    host all guarded 127.0.0.0/8 scram-sha-256\n\
    host all all 127.0.0.0/8 trust\n";

/// The server that tests share, while one of them runs.
static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
/// Numbers the databases of a server.
static DATABASES: AtomicU32 = AtomicU32::new(0);
/// The time between two looks at a database. Each starts a program.
const LOOK: Duration = Duration::from_millis(100);

/// A database of a test's own.
pub(crate) struct Postgres {
    server: Arc<Server>,
    database: String,
}

/// A server that runs until it is dropped.
struct Server {
    address: SocketAddr,
    process: Mutex<Child>,
    folder: TempDir,
}

/// Whether a test has to be skipped, because `PostgreSQL` is not installed.
#[track_caller]
pub(crate) fn is_missing() -> bool {
    needs::skip_without("psql") || (path_of("initdb").is_none() && needs::skip_without("initdb"))
}

impl Postgres {
    /// An empty database, of a server that other tests use too.
    pub(crate) fn start() -> Self {
        let server = {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let server = Arc::new(Server::start(None));
                *shared = Arc::downgrade(&server);
                server
            })
        };
        Self::of(server)
    }

    /// An empty database of a server that no other test uses, and that may be ended.
    pub(crate) fn alone() -> Self {
        Self::of(Arc::new(Server::start(None)))
    }

    /// The same, of a server that shows a certificate if a client asks for TLS.
    pub(crate) fn with_tls(certificate: &Pair) -> Self {
        Self::of(Arc::new(Server::start(Some(certificate))))
    }

    fn of(server: Arc<Server>) -> Self {
        let database = format!("test{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        // Unlike the usual template, nobody can be connected to this one.
        let statement = format!("CREATE DATABASE {database} TEMPLATE template0");
        let made = server.psql("postgres", &statement);
        assert!(made.status.success(), "{made:?}");
        Self { server, database }
    }

    /// Its URL with another user or address of the server.
    pub(crate) fn url_of(&self, user: &str, host: &str) -> String {
        let port = self.server.address.port();
        format!("postgres://{user}@{host}:{port}/{}", self.database)
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        self.server.url(&self.database)
    }

    /// The address of its server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Runs a statement, and returns its rows as lines with `|` between columns.
    pub(crate) fn ask(&self, statement: &str) -> String {
        let asked = self.server.psql(&self.database, statement);
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
            let late = begin.elapsed() >= LONG_PATIENCE;
            assert!(!late, "waiting for {wanted} of {statement}, it is {found}");
            std::thread::sleep(LOOK);
        }
    }

    /// The statements that bring back what it has now.
    pub(crate) fn dump(&self) -> String {
        let dumped = command("pg_dump")
            .args(["--clean", "--if-exists", "--dbname"])
            .arg(self.url())
            .output()
            .unwrap();
        assert!(dumped.status.success(), "{dumped:?}");
        String::from_utf8(dumped.stdout).unwrap()
    }

    /// Brings that back, beside clients that go on.
    pub(crate) fn restore(&self, dump: &str) {
        let mut restoring = Command::new("psql")
            .args(["--no-psqlrc", "--quiet", "--single-transaction"])
            .args(["--set", "ON_ERROR_STOP=1"])
            .arg(self.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = restoring.stdin.take().unwrap();
        stdin.write_all(dump.as_bytes()).unwrap();
        drop(stdin);
        assert!(restoring.wait().unwrap().success());
    }

    /// Ends the server, which is this test's alone, without a chance to tidy up.
    pub(crate) fn kill9(&self) {
        assert_eq!(Arc::strong_count(&self.server), 1, "others use it");
        let mut process = self.server.process.lock().unwrap();
        // Its other processes end when they find that it is gone.
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts it again, after it has ended.
    pub(crate) fn restart(&self) {
        let server = &self.server;
        let begin = Instant::now();
        loop {
            let mut process = run(server.folder.path(), server.address);
            // Processes of the one before may hold its memory for a moment.
            while process.try_wait().unwrap().is_none() {
                if server.psql("postgres", "SELECT 1").status.success() {
                    *server.process.lock().unwrap() = process;
                    return;
                }
                std::thread::sleep(LOOK);
            }
            let late = begin.elapsed() >= LONG_PATIENCE;
            assert!(!late, "it does not start again: {}", server.log());
            std::thread::sleep(LOOK);
        }
    }
}

impl Server {
    fn start(certificate: Option<&Pair>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            chown(folder.path(), Some(USER), Some(USER)).unwrap();
        }
        let made = command("initdb")
            .arg("--pgdata")
            .arg(folder.path().join("data"))
            .args(["--username=almanac", "--auth=trust", "--no-sync"])
            .args(["--encoding=UTF8", "--locale=C"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        fs::write(folder.path().join("data/pg_hba.conf"), RULES).unwrap();
        if let Some(certificate) = certificate {
            certificate.write(folder.path());
            let key = folder.path().join("tls.key");
            fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
            for file in [key, folder.path().join("tls.crt")] {
                if rustix::process::geteuid().is_root() {
                    chown(&file, Some(USER), Some(USER)).unwrap();
                }
            }
        }
        let start = |address| run(folder.path(), address);
        let (process, address) = port::listening("PostgreSQL", start);
        let server = Self {
            address,
            process: Mutex::new(process),
            folder,
        };
        let begin = Instant::now();
        while !server.psql("postgres", "SELECT 1").status.success() {
            let late = begin.elapsed() >= LONG_PATIENCE;
            assert!(!late, "it does not start: {}", server.log());
            std::thread::sleep(LOOK);
        }
        server
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://almanac@{}/{database}", self.address)
    }

    fn psql(&self, database: &str, statement: &str) -> Output {
        Command::new("psql")
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet"])
            .args(["--command", statement])
            .arg(self.url(database))
            .output()
            .unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.get_mut();
        let process = process.unwrap_or_else(PoisonError::into_inner);
        // An immediate shutdown: it ends its other processes itself.
        let stop = format!("kill -QUIT {}", process.id());
        let _ = Command::new("sh").args(["-c", &stop]).status();
        let begin = Instant::now();
        while matches!(process.try_wait(), Ok(None)) {
            if begin.elapsed() >= PATIENCE {
                let _ = process.kill();
                let _ = process.wait();
            }
            std::thread::sleep(STEP);
        }
    }
}

fn run(folder: &Path, address: SocketAddr) -> Child {
    let tls = folder.join("tls.crt").is_file();
    let tls = [
        "ssl=on",
        "ssl_cert_file=../tls.crt",
        "ssl_key_file=../tls.key",
    ]
    .into_iter()
    .filter(|_| tls)
    .flat_map(|setting| ["-c", setting]);
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    command("postgres")
        .arg("-D")
        .arg(folder.join("data"))
        .args(["-h", ADDRESSES, "-p", &address.port().to_string(), "-k"])
        .arg(folder)
        .args(["-c", "fsync=off", "-c", "max_connections=200"])
        .args(tls)
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

/// A program of `PostgreSQL`: of the `PATH`, or of the newest version that Debian has
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
