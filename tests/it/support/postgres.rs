//! Debian's `PostgreSQL`, in a folder of its own.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use tempfile::TempDir;

use super::almanac::LONG_PATIENCE;
use super::needs;
use super::port;
use super::program::{PATIENCE, pause};
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

/// Where the processes of a run find the server that they share.
const SHARED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/postgres");
/// Numbers the databases of this process.
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A database of a test's own.
pub(crate) struct Postgres {
    address: SocketAddr,
    database: String,
    /// The server, unless others use it.
    own: Option<Server>,
}

/// A server that runs until it is dropped.
struct Server {
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
        Self::of(shared(), None)
    }

    /// An empty database of a server that no other test uses, and that may be ended.
    pub(crate) fn alone() -> Self {
        let (server, address) = Server::start(None);
        Self::of(address, Some(server))
    }

    /// The same, of a server that shows a certificate if a client asks for TLS.
    pub(crate) fn with_tls(certificate: &Pair) -> Self {
        let (server, address) = Server::start(Some(certificate));
        Self::of(address, Some(server))
    }

    fn of(address: SocketAddr, own: Option<Server>) -> Self {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let database = format!("test{}x{number}", std::process::id());
        // Unlike the usual template, nobody can be connected to this one.
        let statement = format!("CREATE DATABASE {database} TEMPLATE template0");
        let made = psql(address, "postgres", &statement);
        assert!(made.status.success(), "{made:?}");
        Self {
            address,
            database,
            own,
        }
    }

    /// Its URL with another user or address of the server.
    pub(crate) fn url_of(&self, user: &str, host: &str) -> String {
        let port = self.address.port();
        format!("postgres://{user}@{host}:{port}/{}", self.database)
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        url(self.address, &self.database)
    }

    /// The address of its server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs a statement, and returns its rows as lines with `|` between columns.
    pub(crate) fn ask(&self, statement: &str) -> String {
        let asked = psql(self.address, &self.database, statement);
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
            pause(begin);
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
        let mut restoring = Command::new(path_of("psql").unwrap())
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
        let mut process = self.own().process.lock().unwrap();
        // Its other processes end when they find that it is gone.
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts it again, after it has ended.
    pub(crate) fn restart(&self) {
        let server = self.own();
        let begin = Instant::now();
        loop {
            let mut process = run(server.folder.path(), self.address);
            // Processes of the one before may hold its memory for a moment.
            while process.try_wait().unwrap().is_none() {
                if psql(self.address, "postgres", "SELECT 1").status.success() {
                    *server.process.lock().unwrap() = process;
                    return;
                }
                pause(begin);
            }
            let late = begin.elapsed() >= LONG_PATIENCE;
            let folder = server.folder.path();
            assert!(!late, "it does not start again: {}", log(folder));
            pause(begin);
        }
    }

    fn own(&self) -> &Server {
        self.own.as_ref().expect("a server of this test alone")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.own.is_none() {
            let statement = format!("DROP DATABASE {} WITH (FORCE)", self.database);
            psql(self.address, "postgres", &statement);
        }
    }
}

/// The address of the server that the test processes of a build share.
///
/// Each of them holds a lock while it runs. Whoever finds no server starts it, with a
/// shell beside it that waits until nobody holds the lock and then ends it.
fn shared() -> SocketAddr {
    static USER: OnceLock<(File, SocketAddr)> = OnceLock::new();
    USER.get_or_init(|| {
        let folder = Path::new(SHARED);
        fs::create_dir_all(folder).unwrap();
        let users = File::create(folder.join("users")).unwrap();
        let starting = File::create(folder.join("starting")).unwrap();
        starting.lock().unwrap();
        users.lock_shared().unwrap();
        let address = folder.join("address");
        let noted = fs::read_to_string(&address).ok();
        let noted = noted.and_then(|noted| noted.parse().ok());
        if let Some(noted) = noted
            && psql(noted, "postgres", "SELECT 1").status.success()
        {
            return (users, noted);
        }
        let (server, found) = Server::start(None);
        server.end_after_all_users(folder);
        fs::write(&address, found.to_string()).unwrap();
        (users, found)
    })
    .1
}

impl Server {
    fn start(certificate: Option<&Pair>) -> (Self, SocketAddr) {
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
        let begin = Instant::now();
        while !psql(address, "postgres", "SELECT 1").status.success() {
            let late = begin.elapsed() >= LONG_PATIENCE;
            assert!(!late, "it does not start: {}", log(folder.path()));
            pause(begin);
        }
        let process = Mutex::new(process);
        (Self { process, folder }, address)
    }

    /// Leaves it to a shell that ends it when nobody holds the lock of the users.
    #[expect(clippy::zombie_processes, reason = "it ends after this process")]
    fn end_after_all_users(mut self, shared: &Path) {
        let process = self.process.get_mut().unwrap().id();
        // Not dropped: this would end it now.
        let server = std::mem::ManuallyDrop::new(self);
        let script = r#"flock --exclusive "$1/users" sh -c '
            rm -f "$0/address"
            kill -QUIT "$1"
            for look in $(seq 100); do kill -0 "$1" 2>/dev/null && sleep 0.1; done
            rm -rf "$2"' "$1" "$2" "$3""#;
        Command::new("setsid")
            .args(["sh", "-c", script, "sh"])
            .arg(shared)
            .arg(process.to_string())
            .arg(server.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
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
            pause(begin);
        }
    }
}

fn url(address: SocketAddr, database: &str) -> String {
    format!("postgres://almanac@{address}/{database}")
}

fn psql(address: SocketAddr, database: &str, statement: &str) -> Output {
    Command::new(path_of("psql").unwrap())
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet"])
        .args(["--command", statement])
        .arg(url(address, database))
        .output()
        .unwrap()
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
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
        // What ends a test does not end a server that others use.
        .process_group(0)
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

/// A program of `PostgreSQL`: of the newest version that Debian has installed, which is on
/// no `PATH`, or of the `PATH`. What Debian has there of clients are scripts that take
/// longer than the clients. In full, since it looks for others beside itself.
fn path_of(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let folders = versions.map(|entry| entry.unwrap().path().join("bin"));
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::split_paths(&path);
    let mut files = folders
        .into_iter()
        .rev()
        .chain(named)
        .map(|it| it.join(name));
    files.find(|file| file.is_file())
}
