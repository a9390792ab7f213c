//! The real program, run as a user runs it, and the helpers around it.
//!
//! Everything here is bounded in time, and a program that is started is killed
//! at the latest when its [`Program`] is dropped. What it writes is kept in
//! files, so that it never waits for a reader and a failing test can show it.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::http;

/// How long the program may take to do what a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two looks whether that has happened.
pub(crate) const STEP: Duration = Duration::from_millis(10);

/// Waits between two looks, of which the first was at `begin`: the longer it takes, the less
/// often a test looks, so that its looks do not slow down what it waits for.
pub(crate) fn pause(begin: Instant) {
    let pause = begin.elapsed() / 10;
    std::thread::sleep(pause.clamp(STEP / 2, STEP * 10));
}

/// How the program is to be started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    data: Option<PathBuf>,
    stdin: Vec<u8>,
    name: Option<String>,
    program: Option<PathBuf>,
    user: Option<u32>,
    within: Option<PathBuf>,
}

/// The program while it runs.
#[derive(Debug)]
pub(crate) struct Program {
    start: Start,
    child: Child,
    data: PathBuf,
    /// Its output, and its data unless that is kept elsewhere. Removed at
    /// the end.
    folder: TempDir,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Another program, which ends with the test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until another program ends by itself, and kills it after so long.
pub(crate) fn wait_for(child: &mut Child, limit: Duration) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > limit {
            let _ = child.kill();
        }
        std::thread::sleep(STEP);
    }
}

impl Start {
    /// A start with these arguments, of which each `{data}` is replaced by the
    /// data folder.
    pub(crate) fn new<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Adds an argument.
    pub(crate) fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Takes this data folder, which is kept, instead of a new one.
    pub(crate) fn data(mut self, folder: &Path) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Calls the program by another name.
    pub(crate) fn called(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Takes the program from another file.
    pub(crate) fn program(mut self, path: &Path) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Runs it as another user, which only the superuser can.
    pub(crate) fn user(mut self, number: u32) -> Self {
        self.user = Some(number);
        self
    }

    /// Runs it in this folder.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.within = Some(folder.into());
        self
    }

    /// Gives it this to read on standard input; else there is nothing.
    pub(crate) fn stdin(mut self, content: impl Into<Vec<u8>>) -> Self {
        self.stdin = content.into();
        self
    }

    /// Starts the program.
    pub(crate) fn start(self) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let own_data = || folder.path().join("data");
        let data = self.data.clone().unwrap_or_else(own_data);
        fs::create_dir_all(&data).unwrap();
        Program {
            child: self.spawn(&data, folder.path()),
            start: self,
            data,
            folder,
        }
    }

    /// Runs the program to its end, which comes within the time limit.
    pub(crate) fn run(self) -> Finished {
        let mut program = self.start();
        let status = program.wait(PATIENCE);
        Finished {
            status,
            stdout: program.output("stdout"),
            stderr: program.output("stderr"),
        }
    }

    fn spawn(&self, data: &Path, output: &Path) -> Child {
        let data = data.to_str().unwrap();
        let own = Path::new(env!("CARGO_BIN_EXE_almanac"));
        let mut command = Command::new(self.program.as_deref().unwrap_or(own));
        if let Some(name) = &self.name {
            command.arg0(name);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        if let Some(folder) = &self.within {
            command.current_dir(folder);
        }
        for argument in &self.arguments {
            command.arg(argument.replace("{data}", data));
        }
        // Settings of whoever runs the tests do not reach the program.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("ALMANAC_") || text.to_lowercase().ends_with("_proxy") {
                command.env_remove(&name);
            }
        }
        // Without a terminal, `serve` would log JSON.
        command.env("ALMANAC_LOG_FORMAT", "text");
        for (name, value) in &self.variables {
            command.env(name, value.replace("{data}", data));
        }
        let file = |name| File::create(output.join(name)).unwrap();
        fs::write(output.join("stdin"), &self.stdin).unwrap();
        let stdin = File::open(output.join("stdin")).unwrap();
        command
            .env("NO_COLOR", "1")
            .stdin(stdin)
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        let begin = Instant::now();
        loop {
            match command.spawn() {
                // Another test may have begun a program while this one was
                // written, which then has it open for a moment.
                Err(error)
                    if error.kind() == io::ErrorKind::ExecutableFileBusy
                        && begin.elapsed() < PATIENCE =>
                {
                    pause(begin);
                }
                spawned => return spawned.unwrap(),
            }
        }
    }
}

impl Program {
    /// Starts the program with these arguments and a data folder of its own,
    /// which they name as `{data}`.
    pub(crate) fn start<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Start::new(arguments).start()
    }

    /// Starts it anew, with the same arguments and data, after it has ended.
    pub(crate) fn restart(&mut self) {
        assert!(self.ended().is_some(), "the program still runs");
        self.child = self.start.spawn(&self.data, self.folder.path());
    }

    /// The data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its anonymous memory, in bytes: without the files that it maps.
    pub(crate) fn anonymous_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mut lines = status.lines();
        let found = lines.find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = found.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// Its output since its last start: standard output, then
    /// standard error.
    pub(crate) fn log(&self) -> String {
        self.output("stdout") + &self.output("stderr")
    }

    fn output(&self, name: &str) -> String {
        // No panic here: this is called while one is on its way.
        let bytes = fs::read(self.folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until its log is as `good` wants it.
    pub(crate) fn wait_for_log(&mut self, what: &str, good: impl Fn(&str) -> bool) {
        self.until(what, |program| good(&program.log()).then_some(()));
    }

    /// Waits until it says that it is ready.
    pub(crate) fn wait_until_ready(&mut self) {
        let admin = self.address("admin");
        self.until("readiness", |_| {
            http::get(admin, "/readyz")
                .is_ok_and(|reply| reply.status == 200)
                .then_some(())
        });
    }

    /// Waits until it says where a service (`grpc`, `http`, `admin`) listens.
    pub(crate) fn address(&mut self, service: &str) -> SocketAddr {
        self.until(&format!("an address of {service}"), |program| {
            program
                .log()
                .lines()
                .find_map(|line| listening(line, service))
        })
    }

    /// Waits until it says where the gRPC port of a catalog's own listens.
    pub(crate) fn own_address(&mut self, catalog: &str) -> SocketAddr {
        self.until(&format!("an address of {catalog} alone"), |program| {
            let log = program.log();
            let mut own = log
                .lines()
                .filter(|line| field(line, "catalog") == Some(catalog));
            own.find_map(|line| listening(line, "grpc"))
        })
    }

    /// Looks again and again until there is something, and fails when there is
    /// nothing in time or the program has ended.
    fn until<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            // The end is asked for first: what it wrote before that still counts.
            let ended = self.ended();
            if let Some(found) = look(self) {
                return found;
            }
            if let Some(status) = ended {
                panic!("waiting for {what}: the program ended, {status}");
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "waiting for {what}: nothing after {PATIENCE:?}"
            );
            pause(begin);
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Asks it to end (SIGTERM), and does not wait.
    pub(crate) fn terminate(&mut self) {
        self.signal("TERM");
    }

    /// Sends it a signal, such as `HUP`. It has to be running: the number of a
    /// process that has ended may be another's by now.
    pub(crate) fn signal(&mut self, name: &str) {
        assert_eq!(self.ended(), None, "the program has ended");
        // A shell has its own `kill`; the program of that name may be missing.
        let command = format!("kill -{name} {}", self.pid());
        let status = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(status.success(), "{command}: {status}");
    }

    /// Ends it without a chance to tidy up (SIGKILL).
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, and fails when that takes longer.
    pub(crate) fn wait(&mut self, limit: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                begin.elapsed() < limit,
                "the program still runs after {limit:?}"
            );
            pause(begin);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the program's log:\n{}", self.log());
        }
    }
}

/// The address in a line that says that `service` is listening, whether the
/// line is text (`service="grpc" address=127.0.0.1:1`) or JSON.
fn listening(line: &str, service: &str) -> Option<SocketAddr> {
    (line.contains("listening") && field(line, "service")? == service)
        .then(|| field(line, "address")?.parse().ok())
        .flatten()
}

/// The value of a field of a log line, without its quotes.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let part_of_name = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == '.';
    line.match_indices(name).find_map(|(at, _)| {
        if line[..at].ends_with(part_of_name) {
            return None;
        }
        let rest = line[at + name.len()..].trim_start_matches('"');
        let rest = rest.trim_start_matches(' ');
        let value = rest.strip_prefix('=').or_else(|| rest.strip_prefix(':'))?;
        let value = value.trim_start_matches([' ', '"']);
        let end = value.find([' ', '"', ',', '}']).unwrap_or(value.len());
        Some(&value[..end])
    })
}

mod checks {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn an_address_is_found_in_text_and_in_json() {
        for line in [
            r#"2026-01-01T00:00:00Z  INFO almanac: listening service="grpc" address=127.0.0.1:4711"#,
            r"INFO listening address=127.0.0.1:4711 service=grpc",
            r#"{"level":"INFO","fields":{"message":"listening","service":"grpc","address":"127.0.0.1:4711"}}"#,
            r#"{"message": "listening", "address": "127.0.0.1:4711", "service": "grpc"}"#,
        ] {
            let expected = "127.0.0.1:4711".parse().ok();
            assert_eq!(listening(line, "grpc"), expected, "{line}");
            assert_eq!(listening(line, "http"), None, "{line}");
        }
        let later = r#"peer_address=10.0.0.1:1 listening service="http" address=[::1]:80"#;
        assert_eq!(listening(later, "http"), "[::1]:80".parse().ok());
        assert_eq!(
            listening("stopped service=grpc address=1.2.3.4:5", "grpc"),
            None
        );
    }

    #[test]
    fn a_run_comes_to_its_end() {
        let finished = Start::new(["--version"]).run();
        assert!(finished.status.success(), "{finished:?}");
    }

    /// A shell script in the place of the program.
    fn stand_in(script: &str) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| File::create(folder.path().join(name)).unwrap();
        Program {
            start: Start::default(),
            child: Command::new("sh")
                .args(["-c", script])
                .stdout(file("stdout"))
                .stderr(file("stderr"))
                .spawn()
                .unwrap(),
            data: folder.path().join("data"),
            folder,
        }
    }

    #[test]
    fn readiness_is_asked_for_at_the_address_in_the_log() {
        let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = admin.local_addr().unwrap();
        let asked = std::thread::spawn(move || {
            for status in ["503 Not Yet", "200 OK"] {
                let (mut connection, _) = admin.accept().unwrap();
                assert!(connection.read(&mut [0; 1024]).unwrap() > 0);
                write!(connection, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            }
        });
        let line = format!("listening service=admin address={address}");
        let mut program = stand_in(&format!("echo {line} >&2; exec sleep 60"));
        program.wait_until_ready();
        asked.join().unwrap();
        assert_eq!(program.log().trim(), line);
    }

    #[test]
    fn a_program_is_ended_in_each_way() {
        let mut program = stand_in("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");
        program.wait_for_log("its first word", |log| log.contains("up"));
        program.terminate();
        assert_eq!(program.wait(PATIENCE).code(), Some(7));

        let mut program = stand_in("exec sleep 60");
        assert_eq!(program.ended(), None);
        program.kill9();
        assert!(!program.ended().unwrap().success());
    }
}
