//! The program as a process: its answers, its processor time and its memory.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almanac::proto;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// The ticks of a second in `/proc`, on all systems that matter.
const TICKS: f64 = 100.0;

/// A program that answers for all its catalogs.
pub(crate) struct Running {
    program: Child,
    pub(crate) http: SocketAddr,
    admin: SocketAddr,
    /// The manifests of the last images, by catalog.
    images: HashMap<String, String>,
    /// The time from its start to its answers.
    pub(crate) elapsed: Duration,
    watching: Arc<AtomicBool>,
    watcher: Option<thread::JoinHandle<u64>>,
}

impl Running {
    /// Starts the program, and waits until both APIs answer for these catalogs.
    pub(crate) async fn start(
        data: &Path,
        arguments: &[&str],
        sources: &[String],
        catalogs: &[&str],
    ) -> Self {
        let log = data.join("log");
        let started = Instant::now();
        let mut program = Command::new(env!("CARGO_BIN_EXE_almanac"))
            .args(["serve", "--log-format=text"])
            .arg("--data-dir")
            .arg(data)
            .args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0"])
            .args(arguments)
            .args(sources)
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let watching = Arc::new(AtomicBool::new(true));
        let watcher = thread::spawn({
            let (watching, id) = (Arc::clone(&watching), program.id());
            move || {
                let mut most = 0;
                while watching.load(Ordering::Relaxed) {
                    most = most.max(anonymous(id));
                    thread::sleep(Duration::from_millis(5));
                }
                most
            }
        });
        let (grpc, http, admin) = loop {
            let text = std::fs::read_to_string(&log).unwrap();
            match ["grpc", "http", "admin"].map(|service| address(&text, service)) {
                [Some(grpc), Some(http), Some(admin)] => break (grpc, http, admin),
                _ => pause(started, &mut program).await,
            }
        };
        for name in catalogs {
            let channel = tonic::transport::Endpoint::from_shared(format!("http://{grpc}"))
                .unwrap()
                .origin(format!("http://{name}").parse().unwrap())
                .connect_lazy();
            while !answers(&channel).await {
                pause(started, &mut program).await;
            }
            while tag(http, name).is_none() {
                pause(started, &mut program).await;
            }
        }
        Self {
            program,
            http,
            admin,
            images: HashMap::new(),
            elapsed: started.elapsed(),
            watching,
            watcher: Some(watcher),
        }
    }

    /// Waits until a catalog has another entity tag than this one.
    pub(crate) async fn until_other(&mut self, name: &str, before: &str) -> String {
        let started = Instant::now();
        loop {
            match tag(self.http, name) {
                Some(tag) if tag != before => return tag,
                _ => pause(started, &mut self.program).await,
            }
        }
    }

    /// Its processor time so far, of all threads, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.program.id());
        let stat = std::fs::read_to_string(path).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
        // User and system time.
        (ticks(11) + ticks(12)) / TICKS
    }

    /// Waits until the encodings and the images of these catalogs are made anew, and
    /// until it does nothing more; returns its processor time.
    pub(crate) async fn until_done(&mut self, names: &[&str]) -> f64 {
        let started = Instant::now();
        for name in names {
            loop {
                let path = format!("/v2/{name}/manifests/latest");
                let image = get(self.http, &path);
                let is_new = image.is_some() && image.as_ref() != self.images.get(*name);
                if is_new && is_encoded(self.admin, name) {
                    self.images
                        .extend(image.map(|image| ((*name).to_owned(), image)));
                    break;
                }
                pause(started, &mut self.program).await;
            }
        }
        let (mut quiet, mut last) = (0, self.processor());
        while quiet < 4 {
            pause(started, &mut self.program).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = self.processor();
            quiet = if now - last < 0.015 { quiet + 1 } else { 0 };
            last = now;
        }
        last
    }

    /// Its anonymous memory, in bytes.
    pub(crate) fn anonymous(&self) -> u64 {
        anonymous(self.program.id())
    }

    /// The most anonymous memory seen, in bytes. Work right after the
    /// publication counts as well.
    pub(crate) fn most_memory(mut self) -> u64 {
        thread::sleep(Duration::from_millis(300));
        self.watching.store(false, Ordering::Relaxed);
        self.watcher.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watching.store(false, Ordering::Relaxed);
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

async fn pause(started: Instant, program: &mut Child) {
    assert!(started.elapsed() < PATIENCE, "the program does not answer");
    assert!(program.try_wait().unwrap().is_none(), "the program ended");
    // Asking more often takes the processor from what is measured.
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn address(log: &str, service: &str) -> Option<SocketAddr> {
    let line = log
        .lines()
        .find(|line| line.contains("listening") && line.contains(&format!("\"{service}\"")))?;
    let (_, address) = line.split_once("address=")?;
    address.split_whitespace().next()?.parse().ok()
}

async fn answers(channel: &tonic::transport::Channel) -> bool {
    let mut client = tonic::client::Grpc::new(channel.clone());
    if client.ready().await.is_err() {
        return false;
    }
    let codec: tonic_prost::ProstCodec<proto::ListPackageRequest, proto::PackageName> =
        tonic_prost::ProstCodec::default();
    let request = tonic::Request::new(proto::ListPackageRequest {});
    let path = http::uri::PathAndQuery::from_static("/api.Registry/ListPackages");
    match client.server_streaming(request, path, codec).await {
        Ok(stream) => matches!(stream.into_inner().message().await, Ok(Some(_))),
        Err(_) => false,
    }
}

/// Whether a catalog as a whole was encoded.
fn is_encoded(admin: SocketAddr, name: &str) -> bool {
    let status = get(admin, "/status").unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    let catalogs = status["catalogs"].as_array().map_or(&[][..], Vec::as_slice);
    let catalog = catalogs.iter().find(|catalog| catalog["name"] == name);
    catalog.is_some_and(|catalog| {
        let bytes = &catalog["revision"]["bytes"];
        ["gzip", "zstd", "segments"]
            .iter()
            .all(|form| bytes[form].is_u64())
    })
}

/// The body of an answer; nothing when there is none.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// The entity tag of a whole catalog, once it is served.
pub(crate) fn tag(address: SocketAddr, catalog: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "HEAD /catalogs/{catalog}/api/v1/all HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    );
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).ok()?;
    stream.read_to_string(&mut answer).ok()?;
    let mut lines = answer.lines();
    lines
        .next()
        .filter(|line| line.starts_with("HTTP/1.1 200"))?;
    let tag = lines.find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("etag: ")
            .map(str::to_owned)
    });
    Some(tag.unwrap_or_default())
}

fn anonymous(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}
