//! What the HTTP port can do, beside programs that do as little as can be done.
//!
//! Selections (`metas`) are asked of almanac and of a bare hyper server that
//! holds the same bytes in memory, the whole (`all`) of almanac and of nginx
//! that serves it as a static file; all of them by wrk with eight connections,
//! in turns, so that a machine that slows down slows all. Beside each median stand
//! the quartiles, and before and after all rounds what else ran. Then how long the
//! first page of packages and a GraphQL query take, and how long the GraphQL
//! schema takes to be made beside the pass that made the catalog.
//!
//! ```text
//! cargo bench --bench http -- [--rounds N] [--seconds N] [CATALOG_FOLDER]
//! ```
//!
//! Without a folder the catalog is made up: 300 packages, about 130 MB. wrk and
//! nginx have to be there.
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
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use almanac::snapshot::Snapshot;
use almanac::store::Store;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use rounds::{Machine, Rounds, quartiles};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often what takes milliseconds is asked.
const ASKED: usize = 50;

/// What is compared: a name, a path below `/catalogs/catalog/api/v1/`, whether
/// gzip is asked for, and the share of the other's requests that is wanted.
const QUESTIONS: [(&str, &str, bool, f64); 6] = [
    ("one package", "metas?schema=olm.package&name=", false, 0.8),
    ("a package's blobs", "metas?package=", false, 0.8),
    ("a package's blobs, gzip", "metas?package=", true, 0.8),
    ("all channels, gzip", "metas?schema=olm.channel", true, 0.8),
    ("all", "all", false, 1.0 / 1.3),
    ("all, gzip", "all", true, 1.0 / 1.3),
];

fn main() {
    let (mut rounds, mut seconds, mut folder) = (9, 1, None);
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
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder.unwrap_or_else(|| {
        let folder = temporary.path().join("catalog");
        for package in 0..300 {
            let folder = folder.join(format!("made-up-{package:03}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("catalog.json"), made_up::package(package)).unwrap();
        }
        folder
    });
    let data = temporary.path().join("data");
    let almanac = Almanac::start(&folder, &data);
    let package = almanac.largest_package();
    let pass = almanac.pass_seconds();

    let questions: Vec<Question> = QUESTIONS
        .into_iter()
        .map(|(name, path, gzip, wanted)| {
            let path = if path.ends_with('=') {
                format!("{path}{package}")
            } else {
                path.to_owned()
            };
            let path = format!("/catalogs/catalog/api/v1/{path}");
            let (head, body) = ask(almanac.http, "GET", &path, gzip, b"");
            assert_eq!(head.contains("content-encoding: gzip"), gzip, "{name}");
            Question {
                name,
                path,
                gzip,
                wanted,
                body: body.into(),
            }
        })
        .collect();
    let bare = bare(questions.clone());
    let nginx = Nginx::start(&temporary.path().join("nginx"), &questions);

    let machine = Machine::note();
    println!("requests/s, wrk with 8 connections, {rounds} rounds of {seconds} s, medians:");
    for question in &questions {
        let whole = question.path.ends_with("/all");
        let other = if whole { nginx.address } else { bare };
        let rounds = Rounds::of(
            rounds,
            || wrk(almanac.http, question, seconds),
            || wrk(other, question, seconds),
        );
        println!(
            "{:26} {:9.1} kB  almanac {:9.1}  {:5} {:9.1}  {} (at least {:.0} %)",
            question.name,
            question.body.len() as f64 / 1e3,
            rounds.ours(),
            if whole { "nginx" } else { "bare" },
            rounds.other(),
            rounds.part(),
            question.wanted * 100.0,
        );
    }
    machine.report();

    let page = time(|| {
        let path = "/catalogs/catalog/api/v1/packages";
        assert!(
            ask(almanac.http, "GET", path, false, b"")
                .0
                .contains(" 200 ")
        );
    });
    println!("first page of packages     {page:9.2?} (under 5 ms)");
    let query = br#"{"query":"{ olmbundles(limit: 100) { name package image } }"}"#;
    let graphql = time(|| {
        let path = "/catalogs/catalog/api/v1/graphql";
        let (_, body) = ask(almanac.http, "POST", path, false, query);
        assert!(body.starts_with(b"{\"data\":{\"olmbundles\":[{"));
    });
    println!("olmbundles(limit: 100)     {graphql:9.2?} (under 20 ms)");

    drop(almanac);
    let schema = schema(&data);
    println!(
        "GraphQL schema             {schema:9.2?}, {:.2} % of the pass of {:.0} ms (under 5 %)",
        schema.as_secs_f64() / pass * 100.0,
        pass * 1e3,
    );
}

#[derive(Clone)]
struct Question {
    name: &'static str,
    path: String,
    gzip: bool,
    wanted: f64,
    body: Bytes,
}

/// The program, serving the catalog.
struct Almanac {
    _program: Running,
    http: SocketAddr,
    admin: SocketAddr,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Almanac {
    /// Starts it, and waits until all is there, encodings included.
    fn start(folder: &Path, data: &Path) -> Self {
        let started = Instant::now();
        let log = tempfile::NamedTempFile::new().unwrap();
        let program = Command::new(env!("CARGO_BIN_EXE_almanac"))
            .args(["serve", "--log-format=text", "--grpc", "127.0.0.1:0"])
            .args(["--http", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--poll", "never", "--data-dir"])
            .arg(data)
            .arg(format!("catalog=file:{}", folder.display()))
            .stderr(log.reopen().unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let program = Running(program);
        let (http, admin) = loop {
            let text = std::fs::read_to_string(log.path()).unwrap();
            if let (Some(http), Some(admin)) = (address(&text, "http"), address(&text, "admin")) {
                break (http, admin);
            }
            pause(started);
        };
        let almanac = Self {
            _program: program,
            http,
            admin,
        };
        loop {
            let status = almanac.status();
            let bytes = &status["catalogs"][0]["revision"]["bytes"];
            if ["gzip", "zstd", "segments"]
                .iter()
                .all(|form| bytes[form].is_u64())
            {
                println!("whole catalog, bytes: {bytes}");
                return almanac;
            }
            pause(started);
        }
    }

    fn status(&self) -> serde_json::Value {
        let (_, body) = ask(self.admin, "GET", "/status", false, b"");
        serde_json::from_slice(&body).unwrap()
    }

    /// The package with most blobs.
    fn largest_package(&self) -> String {
        let path = "/catalogs/catalog/api/v1/metas?schema=olm.bundle";
        let (_, body) = ask(self.http, "GET", path, false, b"");
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for line in body.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()) {
            let blob: serde_json::Value = serde_json::from_slice(line).unwrap();
            *counts
                .entry(blob["package"].as_str().unwrap().into())
                .or_default() += 1;
        }
        let largest = counts.into_iter().max_by_key(|(_, count)| *count);
        largest.unwrap().0
    }

    /// How long the pass took, all its stages together.
    fn pass_seconds(&self) -> f64 {
        let (_, body) = ask(self.admin, "GET", "/metrics", false, b"");
        String::from_utf8(body)
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("almanac_stage_seconds_sum"))
            .filter(|line| !line.contains("\"encode\""))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }
}

/// How long the GraphQL schema takes to be made.
fn schema(data: &Path) -> Duration {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(data).await.unwrap();
        let revision = store.current(&"catalog".parse().unwrap()).await.unwrap();
        let revision = revision.unwrap();
        let snapshots = (0..5).map(|_| Snapshot::open(&store, revision.clone()).unwrap());
        let times = snapshots.map(|snapshot| {
            let started = Instant::now();
            snapshot.prepare_graphql();
            started.elapsed().as_secs_f64()
        });
        Duration::from_secs_f64(median(times))
    })
}

/// A hyper server that answers from memory and does nothing else.
fn bare(questions: Vec<Question>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let answers: Arc<Vec<(String, bool, Bytes)>> = Arc::new(
        questions
            .into_iter()
            .map(|question| (question.path, question.gzip, question.body))
            .collect(),
    );
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let answers = Arc::clone(&answers);
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let answers = Arc::clone(&answers);
                        async move { Ok::<_, Infallible>(respond(&answers, &request)) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
    });
    address
}

fn respond(
    answers: &[(String, bool, Bytes)],
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path_and_query().unwrap().as_str();
    let gzip = request
        .headers()
        .get("accept-encoding")
        .is_some_and(|value| value == "gzip");
    let found = answers.iter().find(|(p, g, _)| p == path && *g == gzip);
    let mut response = Response::new(Full::new(found.unwrap().2.clone()));
    let headers = response.headers_mut();
    headers.insert("content-type", "application/jsonl".parse().unwrap());
    if gzip {
        headers.insert("content-encoding", "gzip".parse().unwrap());
    }
    response
}

/// nginx with the whole catalog as a file, and as one that is compressed.
struct Nginx {
    address: SocketAddr,
    _program: Running,
}

impl Nginx {
    fn start(folder: &Path, questions: &[Question]) -> Self {
        let files = folder.join("catalogs/catalog/api/v1");
        std::fs::create_dir_all(&files).unwrap();
        for question in questions.iter().filter(|q| q.path.ends_with("/all")) {
            let name = if question.gzip { "all.gz" } else { "all" };
            std::fs::write(files.join(name), &question.body).unwrap();
        }
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = probe.local_addr().unwrap();
        drop(probe);
        let at = folder.display();
        let config = format!(
            "daemon off; worker_processes auto; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; gzip_static on;\n\
             default_type application/jsonl; client_body_temp_path {at}/a;\n\
             proxy_temp_path {at}/b; fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d;\n\
             scgi_temp_path {at}/e; server {{ listen {address}; root {at}; }} }}\n"
        );
        let path = folder.join("nginx.conf");
        std::fs::write(&path, config).unwrap();
        // Its workers run as another user when it is started by root.
        open_up(folder);
        let program = Command::new("nginx").arg("-c").arg(&path).spawn().unwrap();
        let nginx = Self {
            address,
            _program: Running(program),
        };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            pause(started);
        }
        for question in questions.iter().filter(|q| q.path.ends_with("/all")) {
            let (_, body) = ask(address, "GET", &question.path, question.gzip, b"");
            assert!(body == question.body, "nginx answers the same");
        }
        nginx
    }
}

fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    // The temporary folder itself, which is above it.
    let above = folder.parent().unwrap();
    std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Requests a second.
fn wrk(address: SocketAddr, question: &Question, seconds: u64) -> f64 {
    let mut command = Command::new("wrk");
    command.args(["-t", "2", "-c", "8", "--timeout", "60s", "-d"]);
    command.arg(format!("{seconds}s"));
    let encoding = if question.gzip { "gzip" } else { "identity" };
    command.args(["-H", &format!("Accept-Encoding: {encoding}")]);
    let output = command
        .arg(format!("http://{address}{}", question.path))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("Non-2xx"), "{text}");
    let rate = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    rate.unwrap_or_else(|| panic!("{text}"))
        .trim()
        .parse()
        .unwrap()
}

/// One request over a connection of its own: the head in lower case, and the
/// body.
fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    gzip: bool,
    body: &[u8],
) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let encoding = if gzip { "gzip" } else { "identity" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\
         Accept-Encoding: {encoding}\r\n\r\n",
        body.len()
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    let mut body = Vec::new();
    reader.read_to_end(&mut body).unwrap();
    (head, body)
}

fn time(mut work: impl FnMut()) -> Duration {
    let times = (0..ASKED).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    });
    Duration::from_secs_f64(median(times))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quartiles(values)[1]
}

fn pause(started: Instant) {
    assert!(started.elapsed() < PATIENCE, "it does not answer");
    std::thread::sleep(Duration::from_millis(20));
}

fn address(log: &str, service: &str) -> Option<SocketAddr> {
    let line = log
        .lines()
        .find(|line| line.contains("listening") && line.contains(&format!("\"{service}\"")))?;
    let (_, address) = line.split_once("address=")?;
    address.split_whitespace().next()?.parse().ok()
}
