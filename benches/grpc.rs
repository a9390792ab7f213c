//! Answering over gRPC: how many requests a second, as a part of what a bare
//! HTTP/2 server answers with the same bytes from memory, and how much memory.
//!
//! The bare server is hyper's, without routing, limits or metrics, in this
//! process. h2load (Debian: nghttp2-client) asks both in turns over eight
//! connections, so that a machine that slows down slows both. Beside each median stand
//! the quartiles, and before and after all rounds what else ran.
//!
//! ```text
//! cargo bench --bench grpc -- [--rounds N] [--seconds N] [CATALOG_FOLDER]
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
#[path = "rounds.rs"]
mod rounds;

use std::convert::Infallible;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use almanac::proto;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::runtime::Runtime;

use rounds::{Machine, Rounds, quartiles};

/// How many connections ask at once.
const CONNECTIONS: u32 = 8;
/// The size of the bundle that is asked for, about, with gRPC's framing.
const BUNDLE: usize = 25 << 10;
/// How many bundles are looked at to find that one.
const SAMPLE: usize = 500;
const LATEST: &str = "/api.Registry/GetLatestChannelEntriesThatProvide";
/// How long the program may take to answer for the first time.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long it is let alone before its memory counts as that of an idle one.
const IDLE: Duration = Duration::from_secs(3);
/// How many times one call is made to learn how long it takes.
const CALLS: usize = 500;

fn main() {
    let (mut rounds, mut seconds) = (9, 2);
    let mut folder = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo passes to every bench.
            "--bench" => {}
            "--rounds" => rounds = arguments.next().unwrap().parse().unwrap(),
            "--seconds" => seconds = arguments.next().unwrap().parse().unwrap(),
            path => folder = Some(PathBuf::from(path)),
        }
    }
    let data = tempfile::tempdir().unwrap();
    let folder = folder.unwrap_or_else(|| make_up(data.path()));
    let runtime = Runtime::new().unwrap();

    let mut program = Program::start(data.path(), &folder);
    let first = runtime.block_on(program.ready());
    thread::sleep(IDLE);
    let read = program.anonymous();
    drop(program);
    let mut program = Program::start(data.path(), &folder);
    let again = runtime.block_on(program.ready());
    thread::sleep(IDLE);
    let loaded = program.anonymous();
    println!(
        "answers after {first:.0?}, and after {again:.0?} from what is stored; \
         idle RssAnon {:.1} and {:.1} MiB",
        mebibytes(read),
        mebibytes(loaded)
    );

    let grpc = program.grpc;
    let catalog = runtime.block_on(Catalog::look(grpc));
    let machine = Machine::note();
    let mut results = Vec::new();
    for (method, request, streams) in [
        ("GetBundle", catalog.bundle.encode_to_vec(), 10),
        ("ListBundles", Vec::new(), 1),
    ] {
        let asked = Asked {
            path: format!("/api.Registry/{method}"),
            request: framed(&request),
            streams,
            seconds,
        };
        let answer = runtime.block_on(ask(grpc, &asked.path, asked.request.clone()));
        let bare = runtime.block_on(serve_bare(answer.clone()));
        println!(
            "{method}: {} bytes in {} messages, {CONNECTIONS} connections of {streams} streams",
            answer.len(),
            messages(&answer).count()
        );
        let ours = || asked.rate(grpc);
        results.push((method, Rounds::of(rounds, ours, || asked.rate(bare))));
    }
    machine.report();
    let latency = runtime.block_on(latency(grpc, &catalog.api));
    thread::sleep(IDLE);
    println!();
    for (method, rounds) in results {
        println!(
            "{method:12} bare {:9.1}/s  almanac {:9.1}/s  {} (at least 70 %)",
            rounds.other(),
            rounds.ours(),
            rounds.part(),
        );
    }
    println!(
        "GetLatestChannelEntriesThatProvide  {:.3} ms, at worst {:.3} (under 1)",
        latency.0, latency.1
    );
    println!(
        "anonymous memory  {:.1} MiB after reading, {:.1} after a restart (under 40), {:.1} after all of this",
        mebibytes(read),
        mebibytes(loaded),
        mebibytes(program.anonymous())
    );
}

/// A catalog of nobody, as files.
fn make_up(data: &Path) -> PathBuf {
    let folder = data.join("catalog");
    std::fs::create_dir(&folder).unwrap();
    for package in 0..300 {
        let file = folder.join(format!("{package}.json"));
        std::fs::write(file, made_up::package(package)).unwrap();
    }
    folder
}

/// Calls that are repeated.
struct Asked {
    path: String,
    request: Bytes,
    streams: u32,
    seconds: u32,
}

impl Asked {
    /// Requests a second that a server answers.
    fn rate(&self, server: SocketAddr) -> f64 {
        let request = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(request.path(), &self.request).unwrap();
        let output = Command::new("h2load")
            .args(["-c", &CONNECTIONS.to_string()])
            .args(["-m", &self.streams.to_string()])
            .args(["-D", &self.seconds.to_string(), "--warm-up-time=1"])
            .args(["-H", "content-type: application/grpc", "-H", "te: trailers"])
            .arg("-d")
            .arg(request.path())
            .arg(format!("http://{server}{}", self.path))
            .output()
            .expect("h2load of nghttp2-client is needed");
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && report.contains(" 0 failed, 0 errored"),
            "{report}"
        );
        let rate = report
            .lines()
            .find_map(|line| line.strip_prefix("finished in ")?.split(", ").nth(1))
            .and_then(|rate| rate.strip_suffix(" req/s")?.parse().ok());
        rate.unwrap_or_else(|| panic!("{report}"))
    }
}

/// Answers every request with the same bytes.
async fn serve_bare(answer: Bytes) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tcp.set_nodelay(true).unwrap();
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    // One that breaks off is the end of a measurement.
                    let _ = request.into_body().collect().await;
                    let trailers = async {
                        let status = HeaderValue::from_static("0");
                        Some(Ok(HeaderMap::from_iter([(
                            "grpc-status".parse().unwrap(),
                            status,
                        )])))
                    };
                    let body = Full::new(answer).with_trailers(trailers);
                    let response = Response::builder()
                        .header("content-type", "application/grpc")
                        .body(Box::pin(body));
                    Ok::<_, Infallible>(response.unwrap())
                }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // A client that goes is no failure.
            tokio::spawn(builder.serve_connection(TokioIo::new(tcp), service));
        }
    });
    address
}

/// One request on a connection of its own, and the body of its answer, which is
/// empty when it is refused.
async fn ask(server: SocketAddr, path: &str, request: Bytes) -> Bytes {
    let tcp = tokio::net::TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp))
            .await
            .unwrap();
    let driving = tokio::spawn(connection);
    let request = Request::post(format!("http://{server}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(request))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    driving.abort();
    answer
}

/// Names of a catalog to ask for.
struct Catalog {
    bundle: proto::GetBundleRequest,
    api: proto::GetLatestProvidersRequest,
}

impl Catalog {
    /// Finds a bundle of the size that is wanted, and an API that many heads of
    /// channels provide.
    async fn look(server: SocketAddr) -> Self {
        let listed = ask(server, "/api.Registry/ListBundles", framed(&[])).await;
        let listed: Vec<_> = messages(&listed)
            .map(|message| proto::Bundle::decode(message).unwrap())
            .collect();
        // All of them would take a while.
        let step = listed.len() / SAMPLE + 1;
        let mut bundle = (usize::MAX, proto::GetBundleRequest::default());
        let mut api = (0, proto::GetLatestProvidersRequest::default());
        for found in listed.into_iter().step_by(step) {
            let request = proto::GetBundleRequest {
                pkg_name: found.package_name,
                channel_name: found.channel_name,
                csv_name: found.csv_name,
            };
            let asked = framed(&request.encode_to_vec());
            let answer = ask(server, "/api.Registry/GetBundle", asked).await;
            let distance = answer.len().abs_diff(BUNDLE);
            if distance < bundle.0 {
                bundle = (distance, request);
            }
            for provided in found.provided_apis.into_iter().take(1) {
                let request = proto::GetLatestProvidersRequest {
                    group: provided.group,
                    version: provided.version,
                    kind: provided.kind,
                    plural: String::new(),
                };
                let asked = framed(&request.encode_to_vec());
                let answer = ask(server, LATEST, asked).await;
                if answer.len() > api.0 {
                    api = (answer.len(), request);
                }
            }
        }
        let (bundle, api) = (bundle.1, api.1);
        Self { bundle, api }
    }
}

/// How long a call of `GetLatestChannelEntriesThatProvide` takes over a
/// connection that is there, in milliseconds: the median and the most.
async fn latency(server: SocketAddr, api: &proto::GetLatestProvidersRequest) -> (f64, f64) {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{server}"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        grpc.ready().await.unwrap();
        let codec: tonic_prost::ProstCodec<_, proto::ChannelEntry> =
            tonic_prost::ProstCodec::default();
        let path = http::uri::PathAndQuery::from_static(LATEST);
        let started = Instant::now();
        let answer = grpc
            .server_streaming(tonic::Request::new(api.clone()), path, codec)
            .await;
        let mut entries = answer.unwrap().into_inner();
        let mut count = 0;
        while entries.message().await.unwrap().is_some() {
            count += 1;
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
        assert!(count > 0);
    }
    let most = times.iter().copied().fold(0.0, f64::max);
    (median(times.into_iter()), most)
}

/// The program while it serves.
struct Program {
    child: Child,
    grpc: SocketAddr,
    started: Instant,
}

impl Program {
    fn start(data: &Path, folder: &Path) -> Self {
        let log = data.join("log");
        let started = Instant::now();
        let child = Command::new(env!("CARGO_BIN_EXE_almanac"))
            .args(["serve", "--log-format=text"])
            .arg("--data-dir")
            .arg(data.join("data"))
            .args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0"])
            .arg(format!("catalog=file:{}", folder.display()))
            .stderr(File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut program = Self {
            child,
            grpc: SocketAddr::from(([127, 0, 0, 1], 0)),
            started,
        };
        program.grpc = loop {
            let text = std::fs::read_to_string(&log).unwrap();
            if let Some(address) = address(&text) {
                break address;
            }
            program.pause();
        };
        program
    }

    /// Waits until the catalog is served; tells how long that took.
    async fn ready(&mut self) -> Duration {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", self.grpc));
        let channel = endpoint.unwrap().connect_lazy();
        loop {
            let mut grpc = tonic::client::Grpc::new(channel.clone());
            grpc.ready().await.unwrap();
            let codec: tonic_prost::ProstCodec<proto::ListPackageRequest, proto::PackageName> =
                tonic_prost::ProstCodec::default();
            let request = tonic::Request::new(proto::ListPackageRequest {});
            let path = http::uri::PathAndQuery::from_static("/api.Registry/ListPackages");
            if grpc.server_streaming(request, path, codec).await.is_ok() {
                return self.started.elapsed();
            }
            self.pause();
        }
    }

    fn pause(&mut self) {
        assert!(
            self.started.elapsed() < PATIENCE,
            "the program does not answer"
        );
        assert!(self.child.try_wait().unwrap().is_none(), "it ended");
        thread::sleep(Duration::from_millis(10));
    }

    /// Its anonymous memory, in bytes.
    fn anonymous(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap() << 10
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(log: &str) -> Option<SocketAddr> {
    let line = log
        .lines()
        .find(|line| line.contains("listening") && line.contains("\"grpc\""))?;
    let (_, address) = line.split_once("address=")?;
    let address = address.split_whitespace().next()?.parse().ok()?;
    TcpStream::connect(address).is_ok().then_some(address)
}

/// A message with gRPC's framing.
fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The messages in the body of an answer.
fn messages(answer: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut rest = answer.clone();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        assert_eq!(rest.get_u8(), 0, "not compressed");
        let length = rest.get_u32() as usize;
        Some(rest.split_to(length))
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quartiles(values)[1]
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
