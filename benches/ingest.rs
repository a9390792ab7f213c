//! From a registry to answering: how long the program takes for a large
//! catalog, as a multiple of the floor, and how much memory.
//!
//! The floor is one stream over the same layer that only hashes, gunzips and
//! walks the archive: less than that cannot be done. Both are measured in
//! turns, so that a machine that slows down slows both.
//!
//! ```text
//! cargo bench --bench ingest -- [--runs N] [CATALOG_FOLDER]
//! ```
//!
//! Without a folder the catalog is made up: 300 packages, about 130 MB.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a measuring program, not a library"
)]

#[path = "made_up.rs"]
mod made_up;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almanac::proto;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use images::digest::{Digest, Hasher};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(2);

fn main() {
    let mut runs = 5;
    let mut folder = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo passes to every bench.
            "--bench" => {}
            "--runs" => runs = arguments.next().unwrap().parse().unwrap(),
            path => folder = Some(PathBuf::from(path)),
        }
    }
    let layer = Arc::new(layer(folder.as_deref()));
    println!(
        "layer: {:.1} MB compressed, {:.1} MB unpacked",
        megabytes(layer.compressed.len() as u64),
        megabytes(layer.unpacked)
    );
    let registry = Registry::start(&layer);
    let runtime = tokio::runtime::Runtime::new().unwrap();

    let mut measured = Vec::new();
    for run in 1..=runs {
        let floor = floor(&layer);
        let data = tempfile::tempdir().unwrap();
        let cold = runtime.block_on(start(data.path(), &registry.reference()));
        registry.closed.store(true, Ordering::Relaxed);
        let warm = runtime.block_on(start(data.path(), &registry.reference()));
        registry.closed.store(false, Ordering::Relaxed);
        println!(
            "run {run}: floor {floor:.0?}, answering after {:.0?} ({:.1} x floor), \
             RssAnon at most {:.1} MiB; restart {:.0?}, RssAnon {:.1} MiB",
            cold.elapsed,
            cold.elapsed.as_secs_f64() / floor.as_secs_f64(),
            mebibytes(cold.memory),
            warm.elapsed,
            mebibytes(warm.memory),
        );
        measured.push((floor, cold, warm));
    }
    report(&measured);
}

struct Measured {
    elapsed: Duration,
    /// The most anonymous memory seen, in bytes.
    memory: u64,
}

fn report(measured: &[(Duration, Measured, Measured)]) {
    let floor = median(measured.iter().map(|m| m.0.as_secs_f64()));
    let cold = median(measured.iter().map(|m| m.1.elapsed.as_secs_f64()));
    let warm = median(measured.iter().map(|m| m.2.elapsed.as_secs_f64()));
    let ratio = median(
        measured
            .iter()
            .map(|m| m.1.elapsed.as_secs_f64() / m.0.as_secs_f64()),
    );
    let memory = measured.iter().map(|m| m.1.memory).max().unwrap_or(0);
    println!();
    println!(
        "floor (sha256, gunzip, tar walk)      {:6.0} ms",
        floor * 1e3
    );
    println!(
        "from a registry to both APIs          {:6.0} ms",
        cold * 1e3
    );
    println!("  as a multiple of the floor          {ratio:6.1}     (at most 8)");
    println!(
        "restart to both APIs                  {:6.0} ms  (under 100)",
        warm * 1e3
    );
    println!(
        "anonymous memory, the most            {:6.1} MiB (at most 128)",
        mebibytes(memory)
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// One stream over the layer: hash, gunzip, walk.
fn floor(layer: &Layer) -> Duration {
    struct Hashing<'a> {
        bytes: &'a [u8],
        hasher: Hasher,
    }
    impl Read for Hashing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.bytes.read(buffer)?;
            self.hasher.update(&buffer[..length]);
            Ok(length)
        }
    }
    let started = Instant::now();
    let mut hashing = Hashing {
        bytes: &layer.compressed,
        hasher: Hasher::default(),
    };
    let mut buffer = vec![0; 256 << 10];
    let reader = std::io::BufReader::with_capacity(256 << 10, &mut hashing);
    let mut archive = tar::Archive::new(flate2::bufread::GzDecoder::new(reader));
    let mut total = 0;
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        loop {
            let length = entry.read(&mut buffer).unwrap();
            if length == 0 {
                break;
            }
            total += length as u64;
        }
    }
    assert_eq!(hashing.hasher.finish(), layer.digest);
    assert!(total > 0);
    started.elapsed()
}

struct Layer {
    compressed: Vec<u8>,
    digest: Digest,
    unpacked: u64,
}

/// The catalog as a layer, under `configs/`.
fn layer(folder: Option<&Path>) -> Layer {
    let encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    let mut archive = tar::Builder::new(encoder);
    match folder {
        Some(folder) => archive.append_dir_all("configs", folder).unwrap(),
        None => {
            for package in 0..300 {
                let content = made_up::package(package);
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                let path = format!("configs/made-up-{package:03}/catalog.json");
                archive
                    .append_data(&mut header, path, content.as_bytes())
                    .unwrap();
            }
        }
    }
    let compressed = archive.into_inner().unwrap().finish().unwrap();
    let unpacked = std::io::copy(&mut GzDecoder::new(&compressed[..]), &mut std::io::sink());
    Layer {
        digest: Digest::of(&compressed),
        unpacked: unpacked.unwrap(),
        compressed,
    }
}

/// The smallest registry that a pull works against.
struct Registry {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Registry {
    fn start(layer: &Arc<Layer>) -> Self {
        let config = "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Labels\":{\
             \"operators.operatorframework.io.index.configs.v1\":\"/configs\"}},\
             \"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}";
        let manifest = format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\
             \"config\":{{\"mediaType\":\"{CONFIG}\",\"digest\":\"{}\",\"size\":{}}},\
             \"layers\":[{{\"mediaType\":\"{LAYER}\",\"digest\":\"{}\",\"size\":{}}}]}}",
            Digest::of(config.as_bytes()),
            config.len(),
            layer.digest,
            layer.compressed.len()
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = Self {
            address: listener.local_addr().unwrap(),
            closed: Arc::default(),
        };
        let closed = Arc::clone(&registry.closed);
        let layer = Arc::clone(layer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (layer, config, manifest) = (layer.clone(), config, manifest.clone());
                if closed.load(Ordering::Relaxed) {
                    continue;
                }
                thread::spawn(move || {
                    serve(
                        &stream.unwrap(),
                        &layer,
                        config.as_bytes(),
                        manifest.as_bytes(),
                    )
                });
            }
        });
        registry
    }

    fn reference(&self) -> String {
        format!("catalog={}/catalog:v1", self.address)
    }
}

fn serve(stream: &TcpStream, layer: &Layer, config: &[u8], manifest: &[u8]) -> Option<()> {
    use std::io::BufRead as _;
    let mut reader = std::io::BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader
            .read_line(&mut first)
            .ok()
            .filter(|length| *length > 0)?;
        let mut line = String::new();
        while reader.read_line(&mut line).ok()? > 2 {
            line.clear();
        }
        let (method, path) = first.split_once(' ')?;
        let (body, kind) = if path.contains("/manifests/") {
            (manifest, MANIFEST)
        } else if path.contains(&layer.digest.hex()) {
            (&layer.compressed[..], LAYER)
        } else {
            (config, CONFIG)
        };
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Docker-Content-Digest: {}\r\n\r\n",
            body.len(),
            if body == manifest {
                Digest::of(manifest)
            } else {
                layer.digest
            },
        )
        .ok()?;
        if method == "GET" {
            stream.write_all(body).ok()?;
        }
    }
}

/// Starts the program and waits until both APIs answer.
async fn start(data: &Path, source: &str) -> Measured {
    let log = data.join("log");
    let started = Instant::now();
    let mut program = Program(
        Command::new(env!("CARGO_BIN_EXE_almanac"))
            .args(["serve", "--log-format=text"])
            .arg("--data-dir")
            .arg(data)
            .args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", source])
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let watching = Arc::new(AtomicBool::new(true));
    let memory = thread::spawn({
        let (watching, id) = (Arc::clone(&watching), program.0.id());
        move || {
            let mut most = 0;
            while watching.load(Ordering::Relaxed) {
                most = most.max(anonymous(id));
                thread::sleep(Duration::from_millis(5));
            }
            most
        }
    });
    let (grpc, http) = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        match (address(&text, "grpc"), address(&text, "http")) {
            (Some(grpc), Some(http)) => break (grpc, http),
            _ => pause(started, &mut program).await,
        }
    };
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{grpc}"))
        .unwrap()
        .connect_lazy();
    while !answers(&channel).await {
        pause(started, &mut program).await;
    }
    while !http_answers(http) {
        pause(started, &mut program).await;
    }
    let elapsed = started.elapsed();
    // What is done after publication counts as well.
    thread::sleep(Duration::from_millis(300));
    watching.store(false, Ordering::Relaxed);
    Measured {
        elapsed,
        memory: memory.join().unwrap(),
    }
}

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn pause(started: Instant, program: &mut Program) {
    assert!(started.elapsed() < PATIENCE, "the program does not answer");
    assert!(program.0.try_wait().unwrap().is_none(), "the program ended");
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

fn http_answers(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        "HEAD /catalogs/catalog/api/v1/all HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
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
