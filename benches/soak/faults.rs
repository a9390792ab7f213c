//! The faults, and the program that they happen to.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::known::{Known, Variant};
use crate::support::clock::Clock;
use crate::support::faults::Faults as DiskErrors;
use crate::support::h2::{self, Connection};
use crate::support::program::{Program, Start};
use crate::support::upstream::Upstream;
use crate::support::{file, http};
use crate::world::World;

const REPOSITORY: &str = "soak/image";
/// The longest time until new content is served everywhere.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The duration of a flood, of a full disk, and of a registry that is away.
pub(crate) const DURATION: Duration = Duration::from_secs(3);
/// The connections of a flood: more than the program admits.
const CONNECTIONS: usize = 150;
const ADMITTED: usize = 100;
/// The size of the disk, where one can be mounted.
const DISK: &str = "48m";

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// New content of all catalogs at once.
    Change,
    /// A kill in the middle of the passes over new content.
    Kill,
    /// A polite end and a new start.
    Restart,
    /// Connections that begin calls and reset them.
    Resets,
    /// Connections that never finish a request, and some that make no sense.
    HalfOpen,
    /// A registry that answers 503, and new content there.
    Registry,
    /// A disk without room, and new content.
    FullDisk,
    /// A start on a disk without room.
    FullStart,
    /// Reads of stored files that fail now and then.
    ReadErrors,
    /// A data folder that is removed while the program runs.
    RemovedFolder,
    /// A byte of a stored file that changes without a trace.
    FlippedByte,
    /// A clock that is wrong for a while, and new content.
    ClockJump,
}

impl Fault {
    pub(crate) const ALL: [Self; 12] = [
        Self::Change,
        Self::Kill,
        Self::Restart,
        Self::Resets,
        Self::HalfOpen,
        Self::Registry,
        Self::FullDisk,
        Self::FullStart,
        Self::ReadErrors,
        Self::RemovedFolder,
        Self::FlippedByte,
        Self::ClockJump,
    ];
}

/// The program, its sources, and the faults injected so far.
pub(crate) struct Faults {
    pub(crate) program: Program,
    catalogs: Vec<Arc<Known>>,
    pub(crate) world: Arc<World>,
    sources: Sources,
    pub(crate) disk: Disk,
    /// Errors of the disk, where there is a compiler for them.
    pub(crate) errors: Option<DiskErrors>,
    /// The clock of the program, where there is a library for it.
    clock: Option<Clock>,
    random: fastrand::Rng,
    counts: BTreeMap<Fault, u64>,
    /// The most anonymous memory, in bytes.
    memory: u64,
}

/// Where the catalogs come from.
struct Sources {
    registry: Upstream,
    folder: TempDir,
}

/// The folder of the data, on a small disk if one can be mounted.
pub(crate) struct Disk {
    folder: TempDir,
    pub(crate) mounted: bool,
}

impl Faults {
    /// Publishes the first content and starts the program.
    pub(crate) fn start(catalogs: &[Arc<Known>], world: &Arc<World>, seed: u64) -> Self {
        let sources = Sources::new(catalogs);
        let disk = Disk::new();
        for catalog in catalogs {
            sources.publish(catalog.name, catalog.next());
        }
        let errors = DiskErrors::compiled();
        let clock = Clock::right();
        let start = Start::new(["serve", "--config"])
            .argument(sources.configuration())
            .argument("--data-dir={data}")
            .data(&disk.folder.path().join("data"));
        let mut variables: BTreeMap<&str, String> = BTreeMap::new();
        let of_errors = errors.iter().flat_map(DiskErrors::variables);
        for (name, value) in of_errors.chain(clock.iter().flat_map(Clock::variables)) {
            // Each has a library.
            let known = variables.entry(name).or_default();
            if !known.is_empty() {
                known.push(':');
            }
            known.push_str(&value);
        }
        let program = variables
            .iter()
            .fold(start, |start, (name, value)| start.variable(name, value))
            .start();
        let mut faults = Self {
            program,
            catalogs: catalogs.to_vec(),
            world: Arc::clone(world),
            sources,
            disk,
            errors,
            clock,
            random: fastrand::Rng::with_seed(seed),
            counts: BTreeMap::new(),
            memory: 0,
        };
        faults.wait_until_up();
        faults.wait_until_served();
        faults
    }

    /// A kind at random.
    pub(crate) fn any(&mut self) -> Fault {
        let number = self.random.usize(..Fault::ALL.len());
        Fault::ALL[number]
    }

    /// Brings a fault about, and waits until all is well again.
    pub(crate) fn bring(&mut self, fault: Fault) {
        let lacks = match fault {
            Fault::FullDisk | Fault::FullStart => !self.disk.mounted,
            Fault::ReadErrors => self.errors.is_none(),
            Fault::ClockJump => self.clock.is_none(),
            _ => false,
        };
        if lacks {
            return;
        }
        *self.counts.entry(fault).or_default() += 1;
        match fault {
            Fault::Change => {
                for _ in 0..3 {
                    self.publish();
                    self.wait_until_served();
                }
            }
            Fault::Kill => {
                self.sources.registry.misbehave(|behaviour| {
                    behaviour.slow = Some((4 << 10, Duration::from_millis(5)));
                });
                self.publish();
                let millis = self.random.u64(..1500);
                thread::sleep(Duration::from_millis(millis));
                self.world.down();
                self.look_at_log();
                self.program.kill9();
                self.sources.registry.behave();
                self.program.restart();
                self.wait_until_up();
            }
            Fault::Restart => {
                self.stop();
                self.program.restart();
                self.wait_until_up();
            }
            Fault::Resets => self.flood(resets),
            Fault::HalfOpen => self.flood(half_open),
            Fault::Registry => {
                self.sources
                    .registry
                    .misbehave(|behaviour| behaviour.status = Some(503));
                self.publish();
                thread::sleep(DURATION);
                self.sources.registry.behave();
                // Else the next attempt comes after a pause.
                self.program.signal("HUP");
            }
            Fault::FullDisk => {
                let ballast = self.disk.fill();
                self.publish();
                thread::sleep(DURATION);
                fs::remove_file(ballast).unwrap();
                self.program.signal("HUP");
            }
            Fault::FullStart => self.start_on_a_full_disk(),
            Fault::ReadErrors => self.fail_reads(),
            Fault::RemovedFolder => self.remove_folder(),
            Fault::FlippedByte => self.flip(),
            Fault::ClockJump => self.jump(),
        }
        self.wait_until_served();
        self.world.damage(false);
        self.memory = self.memory.max(self.program.anonymous_memory());
    }

    /// Ends the program.
    pub(crate) fn stop(&mut self) {
        self.world.down();
        self.program.terminate();
        let status = self.program.wait(PATIENCE);
        if !status.success() {
            self.world
                .violation(format!("the program ended with {status}"));
        }
        self.look_at_log();
    }

    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.counts.iter();
        counts
            .map(|(fault, count)| (format!("{fault:?}"), *count))
            .collect()
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("most anonymous memory: {} MiB", self.memory >> 20)];
        if !self.disk.mounted {
            notes.push("no full disk: a small disk cannot be mounted here".into());
        }
        if self.clock.is_none() {
            notes.push("no clock that jumps: faketime is missing here".into());
        }
        if self.errors.is_none() {
            notes.push("no read errors: there is no compiler for them here".into());
        }
        notes
    }

    pub(crate) fn publish(&self) {
        for catalog in &self.catalogs {
            self.sources.publish(catalog.name, catalog.next());
        }
    }

    pub(crate) fn wait_until_up(&mut self) {
        self.program.wait_until_ready();
        let (grpc, http) = (self.program.address("grpc"), self.program.address("http"));
        self.world.up(grpc, http);
    }

    /// Waits until the last content of each catalog is served.
    fn wait_until_served(&mut self) {
        let address = self.program.address("http");
        for catalog in &self.catalogs {
            let path = format!("/catalogs/{}/api/v1/all", catalog.name);
            let begin = Instant::now();
            let served = || {
                let reply = http::get(address, &path);
                reply.is_ok_and(|reply| reply.text() == catalog.last().text)
            };
            while !served() {
                if begin.elapsed() > PATIENCE {
                    let problem = format!("{}: new content does not arrive", catalog.name);
                    eprintln!("{}", self.program.log());
                    return self.world.violation(problem);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Sets the clock of the program to another year and back, with new content each time.
    fn jump(&mut self) {
        let years = ["-10y", "+10y"][self.random.usize(..2)];
        for offset in [years, "+0"] {
            let clocks = self.clock.iter();
            clocks.for_each(|clock| clock.set(offset));
            thread::sleep(DURATION);
            self.publish();
            self.wait_until_served();
        }
    }

    /// Flips a byte of a stored file, and waits until that is reported and repaired.
    fn flip(&mut self) {
        let files = self.stored_files();
        let path = &files[self.random.usize(..files.len())];
        let before = self.damage_found();
        self.world.damage(true);
        if let Err(error) = flip(path, self.random.f64()) {
            // Its revision was replaced by another encoding just now.
            return eprintln!("{}: {error}", path.display());
        }
        let begin = Instant::now();
        while self.damage_found() == before || !self.is_repaired() {
            if !path.exists() && self.damage_found() == before {
                // Its revision had been replaced, and is removed now.
                return;
            }
            if begin.elapsed() > PATIENCE {
                let problem = format!("{}: a flipped byte is not repaired", path.display());
                return self.world.violation(problem);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether all damage that was found is repaired.
    fn is_repaired(&mut self) -> bool {
        let status = http::get(self.program.address("admin"), "/status");
        let status = status.map(|reply| serde_json::from_slice::<Value>(&reply.body));
        let Ok(Ok(status)) = status else {
            return false;
        };
        let mut catalogs = status["catalogs"].as_array().into_iter().flatten();
        catalogs.all(|catalog| {
            let repair = &catalog["damage"]["repair"];
            repair.is_null() || repair == "done"
        })
    }

    /// The files of all revisions.
    fn stored_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for revision in fs::read_dir(self.program.data().join("revisions")).unwrap() {
            let revision = revision.unwrap();
            let is_complete = !revision.file_name().to_string_lossy().starts_with("new-");
            let inside = fs::read_dir(revision.path()).into_iter().flatten();
            files.extend(inside.filter(|_| is_complete).map(|it| it.unwrap().path()));
        }
        files.sort();
        files
    }

    /// The damaged files that the metrics count.
    pub(crate) fn damage_found(&mut self) -> u64 {
        let metrics = http::get(self.program.address("admin"), "/metrics");
        let text = metrics.map(|reply| reply.text()).unwrap_or_default();
        let counts = text
            .lines()
            .filter(|line| line.starts_with("almanac_stored_damage_total{"));
        counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Defects show themselves in the log, which ends with the process.
    pub(crate) fn look_at_log(&self) {
        let log = self.program.log();
        for line in log.lines().filter(|line| line.contains("panicked")) {
            self.world.violation(line.to_owned());
        }
    }

    /// Floods both ports. Clients may be turned away meanwhile.
    fn flood(&mut self, attack: fn(SocketAddr, SocketAddr, Instant)) {
        let addresses = (self.program.address("grpc"), self.program.address("http"));
        self.world.flood(true);
        let end = Instant::now() + DURATION;
        let attackers: Vec<_> = (0..8)
            .map(|_| thread::spawn(move || attack(addresses.0, addresses.1, end)))
            .collect();
        self.publish();
        for attacker in attackers {
            attacker.join().unwrap();
        }
        self.wait_until_served();
        self.world.flood(false);
    }
}

/// Changes a byte of a file at this part of its length. Its date stays, as when a
/// disk fails.
fn flip(path: &Path, part: f64) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o644))?;
    let file = File::options().read(true).write(true).open(path)?;
    let metadata = file.metadata()?;
    let at = (metadata.len() as f64 * part) as u64;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ 1], at)?;
    file.set_modified(metadata.modified()?)
}

/// Begins 40 calls at a time and resets them.
fn resets(grpc: SocketAddr, _: SocketAddr, end: Instant) {
    while Instant::now() < end {
        let Ok(mut connection) = Connection::open(grpc, &[]) else {
            continue;
        };
        let mut stream = 1;
        while Instant::now() < end {
            let mut frames = Vec::new();
            for _ in 0..40 {
                let path = "/api.Registry/ListBundles";
                frames.extend(h2::call(stream, "file.olm.svc:50051", path, None));
                // RST_STREAM with CANCEL.
                frames.extend([0, 0, 4, h2::RST_STREAM, 0]);
                frames.extend(stream.to_be_bytes());
                frames.extend(8_u32.to_be_bytes());
                stream += 2;
            }
            if connection.tcp.write_all(&frames).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Opens connections that never finish a request.
fn half_open(grpc: SocketAddr, http: SocketAddr, end: Instant) {
    let mut open = Vec::new();
    while Instant::now() < end {
        for (address, text) in [
            (
                http,
                "GET /catalogs/file/api/v1/all HTTP/1.1\r\nHost: a\r\n",
            ),
            (http, "\u{16}\u{3}\u{1}\0\u{5}nonsense"),
            (grpc, "PRI * HTTP/2.0\r\n\r\nSM"),
            (grpc, "GET / HTTP/1.1\r\n\r\n"),
        ] {
            if let Ok(mut connection) = http::connect(address) {
                // It may be closed already.
                let _ = connection.write_all(text.as_bytes());
                open.push(connection);
            }
        }
        if open.len() > CONNECTIONS / 8 {
            open.drain(..4);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

impl Sources {
    fn new(catalogs: &[Arc<Known>]) -> Self {
        let sources = Self {
            registry: Upstream::start(),
            folder: tempfile::tempdir().unwrap(),
        };
        // A change of the layout is then one file that is replaced.
        let layouts = catalogs.iter().filter(|catalog| catalog.name == "layout");
        for variant in layouts.flat_map(|catalog| &catalog.variants) {
            let layout = sources.path("layout");
            variant.image.add_to_layout(&layout, "latest");
        }
        sources
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration. Returns its path.
    fn configuration(&self) -> String {
        let source = |name: &str, source: &str| {
            format!("[[catalog]]\nname = \"{name}\"\nsource = \"{source}\"\n")
        };
        let shown = |path: PathBuf| path.display().to_string();
        let text = [
            "poll = \"200ms\"\ndrain = \"5s\"\n",
            "grpc = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n",
            &format!("max_connections = {ADMITTED}\n"),
            &source("image", &self.registry.reference(REPOSITORY, "latest")),
            &source("layout", &format!("oci:{}", shown(self.path("layout")))),
            &source(
                "file",
                &format!("file:{}", shown(self.path("catalog.json"))),
            ),
            "[registries]\nauth_files = []\nattempts = 1\n",
            "[scrub]\ninterval = \"1s\"\n",
        ];
        let path = self.path("almanac.toml");
        fs::write(&path, text.concat()).unwrap();
        shown(path)
    }

    /// Puts new content in the place of the last, at once.
    fn publish(&self, name: &str, variant: &Variant) {
        match name {
            "image" => self.registry.push(REPOSITORY, "latest", &variant.image),
            "layout" => {
                let new = tempfile::tempdir().unwrap();
                variant.image.add_to_layout(new.path(), "latest");
                let index = fs::read(new.path().join("index.json")).unwrap();
                file::replace(self.path("layout").join("index.json"), index);
            }
            _ => {
                file::replace(self.path("catalog.json"), &variant.text);
            }
        }
        self.registry.forget_requests();
    }
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK}"), "none"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        Self { folder, mounted }
    }

    /// Leaves no room. Returns the file that takes it.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.folder.path().join("ballast");
        let mut ballast = File::create(&path).unwrap();
        let block = vec![0; 64 << 10];
        while ballast.write_all(&block).is_ok() {}
        while ballast.write_all(&block[..512]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // The program has ended, so nobody uses it.
            let _ = Command::new("umount").arg(self.folder.path()).status();
        }
    }
}
