//! Clients that take too much, too slowly, or not what is there: each is
//! bounded, and the others are answered.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use almanac::proto;
use almanac::serve::Limits;
use prost::Message as _;
use serde_json::json;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::grpc::{Client, next, rest};
use crate::support::h2::{self, Connection};
use crate::support::http;
use crate::support::in_process::InProcess;

const ALL: &str = "/catalogs/a/api/v1/all";
const GET_PACKAGE: &str = "/api.Registry/GetPackage";
const LIST_BUNDLES: &str = "/api.Registry/ListBundles";
const LIST_PACKAGES: &str = "/api.Registry/ListPackages";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// How long an answer may take while others misbehave. One that waited for what
/// they do would take minutes.
const SOON: Duration = Duration::from_secs(15);
/// More than the system keeps of what a client does not read.
const LARGE: usize = 16 << 20;
/// The allowed memory of a hundred answers that nobody reads, in bytes.
const UNREAD: u64 = 64 << 20;

/// A catalog that is too large to be sent before it is read, over either port.
fn large() -> Catalog {
    let name = |number: usize| format!("etcd.v{number}.0.0");
    let entries = (1..=200).map(|number| match number {
        1 => entry(&name(1)),
        _ => entry(&name(number)).replaces(&name(number - 1)),
    });
    let catalog = Catalog::new().package("etcd", |package| {
        let package = package.channel("stable", entries);
        (1..=200).fold(package, |package, number| {
            package.bundle(bundle(&name(number)).property("x", "y".repeat(20_000)))
        })
    });
    let text = "0123456789abcdef".repeat((1 << 20) / 16);
    (0..LARGE >> 20).fold(catalog, |catalog, number| {
        catalog.blob(json!({"schema": "text", "name": number.to_string(), "text": text}))
    })
}

fn serving(folder: &Path, catalog: &Catalog, before: &str, tables: &str) -> Almanac {
    catalog.write_to(folder, Format::JsonLines);
    let source = format!("file:{}", folder.display());
    let config = format!("{before}\n{}{tables}", following(&source));
    let mut almanac = Almanac::start(&config);
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    almanac
}

fn limited(folder: &Path, limits: &str) -> Almanac {
    serving(
        folder,
        &Catalog::small(),
        "",
        &format!("[connections]\n{limits}"),
    )
}

/// Waits until the metrics have a line that begins so and ends with a number
/// that is not 0.
fn until_counted(almanac: &mut Almanac, name: &str) {
    let admin = almanac.program.address("admin");
    let begin = Instant::now();
    loop {
        let metrics = http::get(admin, "/metrics").unwrap().text();
        let mut lines = metrics.lines();
        if lines.any(|line| line.strip_prefix(name).is_some_and(|rest| rest != " 0")) {
            return;
        }
        assert!(begin.elapsed() < SOON, "no {name} in\n{metrics}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the server ends a connection, and gives what came before.
fn until_closed(mut connection: &TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    match connection.read_to_end(&mut read) {
        Ok(_) => {}
        // Not the time limit of the test.
        Err(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ),
            "{error}"
        ),
    }
    read
}

fn get_package() -> Vec<u8> {
    let name = "etcd".to_owned();
    proto::GetPackageRequest { name }.encode_to_vec()
}

/// Both ports answer somebody who comes now.
async fn others_are_answered(almanac: &mut Almanac) {
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    let begin = Instant::now();
    let path = "/catalogs/a/api/v1/metas?schema=olm.package";
    assert_eq!(http::get(http, path).unwrap().status, 200);
    let request = proto::GetPackageRequest {
        name: "etcd".to_owned(),
    };
    let package: proto::Package = Client::new(grpc).unary(GET_PACKAGE, request).await.unwrap();
    assert_eq!(package.name, "etcd");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

#[test]
fn http_connections_at_nothing_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "idle_timeout = \"1500ms\"");
    let address = almanac.program.address("http");
    let begin = Instant::now();
    // One that says nothing, one that only begins, and one that has had its
    // answer.
    let silent = http::connect(address).unwrap();
    let mut partial = http::connect(address).unwrap();
    write!(partial, "GET {ALL} HTTP/1.1\r\nHost: a\r\n").unwrap();
    let mut answered = http::connect(address).unwrap();
    write!(answered, "HEAD {ALL} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(until_closed(&silent).is_empty());
    until_closed(&partial);
    let answer = String::from_utf8(until_closed(&answered)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // And one of HTTP/2, which is told so first.
    let mut two = Connection::open(address, &[]).unwrap();
    assert_eq!(two.next().unwrap().kind, h2::GOAWAY);
    assert!(begin.elapsed() < SOON);
    // What is not at nothing goes on.
    let mut busy = http::connect(address).unwrap();
    for _ in 0..5 {
        write!(busy, "HEAD {ALL} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(busy.read(&mut [0; 4096]).unwrap() > 0);
        std::thread::sleep(Duration::from_millis(400));
    }
    for reason in ["idle", "silent"] {
        let name =
            format!(r#"almanac_connections_ended_total{{service="http",reason="{reason}"}}"#);
        until_counted(&mut almanac, &name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn grpc_connections_may_be_at_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "idle_timeout = \"500ms\"");
    let mut connection = Connection::open(almanac.program.address("grpc"), &[]).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    connection
        .call(1, "a", GET_PACKAGE, Some(&get_package()))
        .unwrap();
    assert_eq!(connection.next().unwrap().kind, h2::HEADERS);
    others_are_answered(&mut almanac).await;
}

#[test]
fn a_client_that_speaks_something_else_to_grpc_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "");
    let address = almanac.program.address("grpc");
    let long = vec![b'x'; 100_000];
    for (method, body) in [("GET", &b""[..]), ("POST", &long)] {
        let reply = http::ask(address, method, ALL, &[], body).unwrap();
        assert_eq!(reply.status, 505);
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(reply.text().contains("this port speaks gRPC"), "{reply:?}");
    }
    for beginning in [&b"\x16\x03\x01\x02\x00\x01"[..], b"\0\0\0\0", b"{}\n"] {
        for service in ["grpc", "http"] {
            let mut connection = http::connect(almanac.program.address(service)).unwrap();
            connection.write_all(beginning).unwrap();
            assert!(until_closed(&connection).is_empty(), "{beginning:?}");
        }
    }
    // HTTP/2 that is no gRPC.
    let mut connection = Connection::open(address, &[]).unwrap();
    connection.call(1, "a", ALL, None).unwrap();
    let headers = connection.next().unwrap();
    assert_eq!((headers.kind, headers.stream), (h2::HEADERS, 1));
    let name = r#"almanac_connections_ended_total{service="grpc",reason="protocol"}"#;
    until_counted(&mut almanac, name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_no_call_is_refused_as_http() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "");
    let address = almanac.program.address("grpc");
    // It is in place already, or is now.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .no_proxy()
        .build()
        .unwrap();
    for path in [GET_PACKAGE, "/", "/api.Nope/Nope"] {
        let url = format!("http://{address}{path}");
        let reply = client.get(&url).send().await.unwrap();
        assert_eq!(reply.status(), 405, "{path}");
        for kind in [
            "application/json",
            "application/grpc-web",
            "application/grpc+json",
        ] {
            let request = client.post(&url).header("content-type", kind);
            let reply = request.body("{}").send().await.unwrap();
            assert_eq!(reply.status(), 415, "{path} {kind}");
        }
    }
}

#[test]
fn large_requests_are_read_a_few_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "");
    let mut connection = Connection::open(almanac.program.address("grpc"), &[]).unwrap();
    let prefix = [&[0][..], &(1_u32 << 20).to_be_bytes()].concat();
    for number in 0..20 {
        let stream = 2 * number + 1;
        connection.call(stream, "a", GET_PACKAGE, None).unwrap();
        connection.send(h2::DATA, 0, stream, &prefix).unwrap();
    }
    // Those that are read wait for the rest of their messages.
    let mut refused = std::collections::BTreeSet::new();
    while refused.len() < 4 {
        let frame = connection.next().unwrap();
        if frame.kind == h2::HEADERS {
            refused.insert(frame.stream);
        }
    }
    let name = r#"almanac_grpc_requests_total{service="api.Registry",method="GetPackage",catalog="a",code="ResourceExhausted"}"#;
    until_counted(&mut almanac, name);
}

#[test]
fn a_request_of_http_2_too_many_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &Catalog::small(), "max_connections = 2", "");
    let mut connection = Connection::open(almanac.program.address("http"), &[]).unwrap();
    let path = "/catalogs/a/api/v1/graphql";
    for stream in [1, 3, 5] {
        // It waits for its body.
        connection
            .call_as("application/json", stream, "a", path, None)
            .unwrap();
    }
    let refused = loop {
        let frame = connection.next().unwrap();
        if frame.kind == h2::DATA {
            break frame;
        }
    };
    assert_eq!(refused.stream, 5);
    let text = String::from_utf8_lossy(&refused.payload);
    assert!(text.starts_with("2 requests are open"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn streams_that_stay_open_take_no_place_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "calls = 2");
    let address = almanac.program.address("grpc");
    let mut watching = Connection::open(address, &[]).unwrap();
    for number in 0..1001 {
        let stream = 2 * number + 1;
        watching.call(stream, "a", WATCH, Some(b"")).unwrap();
    }
    // One is refused: its answer ends with its headers.
    loop {
        let frame = watching.next().unwrap();
        if frame.kind == h2::HEADERS && frame.flags & 1 != 0 {
            break;
        }
    }
    others_are_answered(&mut almanac).await;
    until_counted(
        &mut almanac,
        r#"almanac_grpc_calls_refused_total{limit="streams"}"#,
    );
}

/// An entry is told once for each bundle that it skips, with its name each time.
#[test]
fn long_names_that_are_repeated_often_do_not_fill_the_disk() {
    let name = "x".repeat(1 << 20);
    let skips: Vec<String> = (0..2000).map(|number| format!("s{number}")).collect();
    let skips = skips.iter().map(String::as_str);
    let catalog = Catalog::new().package("etcd", |package| {
        package
            .channel("stable", [entry(&name).skips(skips)])
            .bundle(bundle(&name).version("1.0.0"))
    });
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &catalog, "", "");
    assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
    let files = almanac.files("revisions");
    let stored: u64 = files.values().map(|(length, _)| length).sum();
    assert!(stored < 64 << 20, "{stored} bytes are stored");
    let log = almanac.program.log();
    assert!(
        log.contains("channel entries with very long names"),
        "{log}"
    );
}

/// Blobs of other schemas, 16 MB here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_that_nobody_takes_are_given_to_all_and_hold_little() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &large(), "", "");
    let client = Client::new(almanac.program.address("grpc"));
    let client = client.header("x-acknowledge-experimental", "true");
    others_are_answered(&mut almanac).await;
    let before = almanac.program.anonymous_memory();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let client = client.clone();
        asking.spawn(async move {
            let request = proto::ExperimentalListPackageCustomSchemasRequest {
                schema: "text".to_owned(),
                ..Default::default()
            };
            let path = "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
            client.open::<_, prost_types::Struct>(path, request).await
        });
    }
    for _ in 0..3 {
        others_are_answered(&mut almanac).await;
    }
    // They are slices of what is stored, as long as nobody reads them.
    let mut answers = asking.join_all().await;
    others_are_answered(&mut almanac).await;
    let held = almanac.program.anonymous_memory();
    assert!(held < before + UNREAD, "from {before} to {held} bytes");
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert_eq!(refused.count(), 0);
    // All of it is there once the others leave room on the connection.
    let last = answers.pop().unwrap();
    drop(answers);
    assert_eq!(rest(&mut last.unwrap()).await.unwrap().len(), LARGE >> 20);
}

#[test]
fn long_questions_are_read_a_few_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "");
    let http = almanac.program.address("http");
    let path = "/catalogs/a/api/v1/graphql";
    let mut open = Vec::new();
    // Each waits for the rest of what was asked.
    for _ in 0..80 {
        let mut asking = http::connect(http).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        asking.write_all(head.as_bytes()).unwrap();
        asking.write_all(&vec![b' '; 90_000]).unwrap();
        open.push(asking);
    }
    let name = r#"almanac_http_requests_total{method="POST",route="/catalogs/{name}/api/v1/graphql",code="503",catalog="a",encoding="identity"}"#;
    until_counted(&mut almanac, name);
    // Short ones are none of them.
    let body = br#"{"query": "{ summary { totalSchemas } }"}"#;
    let reply = http::ask(http, "POST", path, &[], body).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    drop(open);
}

#[test]
fn a_client_that_never_reads_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let tables = "[connections]\nstall_timeout = \"2s\"";
    let mut almanac = serving(folder.path(), &large(), "", tables);
    let address = almanac.program.address("http");
    let mut stuck = http::narrow(address);
    write!(stuck, "GET {ALL} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // A slow one that goes on reading is not.
    let mut slow = http::narrow(address);
    write!(
        slow,
        "GET {ALL} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut read = 0;
    let mut piece = vec![0; 1 << 20];
    loop {
        std::thread::sleep(Duration::from_millis(2));
        match slow.read(&mut piece).unwrap() {
            0 => break,
            length => read += length,
        }
    }
    assert!(read > LARGE);
    // Reading before that would be a sign of life.
    let name = r#"almanac_connections_ended_total{service="http",reason="stalled"}"#;
    until_counted(&mut almanac, name);
    assert!(until_closed(&stuck).len() < LARGE);
}

/// A channel with room on the connection and little on each stream.
fn channel(address: SocketAddr, window: u32) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .timeout(Duration::from_secs(20))
        .initial_stream_window_size(window)
        .initial_connection_window_size(16 << 20)
        .connect_lazy()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_that_is_never_read_is_reset_and_its_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let tables = "[connections]\nstall_timeout = \"1s\"";
    let mut almanac = serving(folder.path(), &large(), "", tables);
    let client = Client::over(channel(almanac.program.address("grpc"), 1 << 16));
    let mut stuck = client
        .open::<_, proto::Bundle>(LIST_BUNDLES, proto::ListBundlesRequest {})
        .await
        .unwrap();
    next(&mut stuck).await.unwrap().unwrap();
    // A health watch has nothing to send, and that is not the client's fault.
    let mut watched = client
        .open::<_, HealthCheckResponse>(WATCH, HealthCheckRequest::default())
        .await
        .unwrap();
    next(&mut watched).await.unwrap().unwrap();
    let name = r#"almanac_stalled_answers_total{service="grpc"}"#;
    until_counted(&mut almanac, name);
    assert!(rest(&mut stuck).await.is_err());
    let package: proto::Package = client
        .unary(
            GET_PACKAGE,
            proto::GetPackageRequest {
                name: "etcd".into(),
            },
        )
        .await
        .unwrap();
    assert_eq!(package.name, "etcd");
    almanac.program.terminate();
    assert_eq!(rest(&mut watched).await.unwrap().len(), 1);
    let metrics = almanac.program.log();
    assert!(!metrics.contains("panicked"), "{metrics}");
}

/// Reads a stream to its end; gives the bytes of its messages.
fn until_ended(connection: &mut Connection) -> usize {
    let mut read = 0;
    loop {
        let frame = connection.next().unwrap();
        match frame.kind {
            h2::DATA => read += frame.payload.len(),
            h2::HEADERS if frame.flags & 1 != 0 => return read,
            kind => assert_ne!(kind, h2::RST_STREAM),
        }
    }
}

#[test]
fn clients_may_have_many_streams_and_take_a_list_in_one_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &large(), "", "");
    let window = 16_u32 << 20;
    let settings = [(h2::INITIAL_WINDOW_SIZE, window)];
    let mut connection = Connection::open(almanac.program.address("grpc"), &settings).unwrap();
    let update = window.to_be_bytes();
    connection.send(h2::WINDOW_UPDATE, 0, 0, &update).unwrap();
    let settings = loop {
        let frame = connection.any().unwrap();
        if frame.kind == h2::SETTINGS && frame.flags & 1 == 0 {
            break frame.payload;
        }
    };
    connection.send(h2::SETTINGS, 1, 0, &[]).unwrap();
    // SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, section 6.5.2).
    let streams = settings
        .chunks_exact(6)
        .find(|one| one.starts_with(&[0, 3]))
        .map(|one| u32::from_be_bytes([one[2], one[3], one[4], one[5]]));
    assert!(
        streams.is_some_and(|streams| streams >= 1000),
        "{streams:?}"
    );
    // Nothing more is granted meanwhile.
    connection.call(1, "a", LIST_BUNDLES, Some(b"")).unwrap();
    assert!(until_ended(&mut connection) > 1 << 20);
    almanac.program.terminate();
}

#[test]
fn a_list_that_is_being_read_is_finished_when_almanac_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &large(), "", "");
    let settings = [(h2::INITIAL_WINDOW_SIZE, 1000)];
    let mut connection = Connection::open(almanac.program.address("grpc"), &settings).unwrap();
    connection.call(1, "a", LIST_BUNDLES, Some(b"")).unwrap();
    while connection.next().unwrap().kind != h2::DATA {}
    almanac.program.terminate();
    // It is asked to go, and reads on.
    while connection.next().unwrap().kind != h2::GOAWAY {}
    let more = (16_u32 << 20).to_be_bytes();
    for stream in [0, 1] {
        connection
            .send(h2::WINDOW_UPDATE, 0, stream, &more)
            .unwrap();
    }
    assert!(until_ended(&mut connection) > 1 << 20);
    drop(connection);
    assert!(almanac.program.wait(Duration::from_secs(30)).success());
}

#[test]
fn a_client_that_takes_a_byte_at_a_time_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let tables = "[connections]\nstall_timeout = \"1s\"";
    let mut almanac = serving(folder.path(), &large(), "", tables);
    let address = almanac.program.address("grpc");
    let settings = [(h2::INITIAL_WINDOW_SIZE, 100)];
    let mut connection = Connection::open(address, &settings).unwrap();
    connection.call(1, "a", LIST_BUNDLES, Some(b"")).unwrap();
    let begin = Instant::now();
    let mut taking = Connection {
        tcp: connection.tcp.try_clone().unwrap(),
    };
    let over = Arc::new(AtomicBool::new(false));
    let taker = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            while !over.load(Ordering::Relaxed) {
                let _ = taking.send(h2::WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    });
    while connection.next().unwrap().kind != h2::RST_STREAM {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it is never given up"
        );
    }
    over.store(true, Ordering::Relaxed);
    taker.join().unwrap();
    almanac.program.terminate();
}

#[test]
fn a_client_of_http_1_that_takes_a_few_bytes_at_a_time_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let tables = "[connections]\nstall_timeout = \"2s\"";
    let mut almanac = serving(folder.path(), &large(), "", tables);
    let mut taking = http::narrow_to(almanac.program.address("http"), 1 << 10);
    write!(taking, "GET {ALL} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut bytes = [0; 32];
    let begin = Instant::now();
    // What the system holds for it is there to take also when it is given up.
    let name = r#"almanac_connections_ended_total{service="http",reason="stalled"}"#;
    let admin = almanac.program.address("admin");
    while !http::get(admin, "/metrics").unwrap().text().contains(name) {
        let _ = taking.read(&mut bytes);
        std::thread::sleep(Duration::from_millis(40));
        assert!(
            begin.elapsed() < Duration::from_mins(1),
            "it is never given up"
        );
    }
}

#[test]
fn answers_that_are_never_taken_do_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "stall_timeout = \"500ms\"");
    // No window at all, and one that is too small for the last piece.
    for window in [0, 1] {
        let mut connection = Connection::open(
            almanac.program.address("grpc"),
            &[(h2::INITIAL_WINDOW_SIZE, window)],
        )
        .unwrap();
        connection
            .call(1, "a", GET_PACKAGE, Some(&get_package()))
            .unwrap();
        assert_eq!(connection.next().unwrap().kind, h2::HEADERS);
        let ended = loop {
            match connection.next() {
                Ok(frame) if frame.kind == h2::DATA => assert!(frame.payload.len() <= 1),
                Ok(frame) => break frame.kind == h2::RST_STREAM,
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        };
        assert!(ended);
    }
    let name = r#"almanac_stalled_answers_total{service="grpc"}"#;
    until_counted(&mut almanac, name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn too_many_calls_are_told_so_and_health_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "[connections]\ncalls = 3\ncalls_per_connection = 2";
    let mut almanac = serving(folder.path(), &large(), "", limits);
    let address = almanac.program.address("grpc");
    // A call that is open as long as nobody reads its answer.
    let list = async |client: &Client| {
        let request = proto::ListBundlesRequest {};
        client.open::<_, proto::Bundle>(LIST_BUNDLES, request).await
    };
    let healthy = async |client: &Client| {
        let answer = client
            .unary::<_, HealthCheckResponse>(CHECK, HealthCheckRequest::default())
            .await;
        assert!(answer.is_ok(), "{answer:?}");
    };
    let client = || Client::with_window(address, "a", Some(1_000));
    let (first, second) = (client(), client());
    let open = (list(&first).await.unwrap(), list(&first).await.unwrap());
    let refused = list(&first).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        refused.message(),
        "more than 2 calls are open on this connection"
    );
    healthy(&first).await;

    let third = list(&second).await.unwrap();
    let refused = list(&second).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        refused.message(),
        "too many calls are open, try again later"
    );
    healthy(&second).await;
    for limit in ["connection", "all"] {
        let name = format!(r#"almanac_grpc_calls_refused_total{{limit="{limit}"}}"#);
        until_counted(&mut almanac, &name);
    }
    // Places are given back.
    drop((open, third));
    let begin = Instant::now();
    while list(&second).await.is_err() {
        assert!(begin.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn ten_thousand_streams_of_one_client_leave_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "");
    let address = almanac.program.address("grpc");
    // Some are never finished, the others never read.
    for message in [None, Some(get_package())] {
        let mut connection = Connection::open(address, &[(h2::INITIAL_WINDOW_SIZE, 0)]).unwrap();
        let calls = (0..10_000)
            .flat_map(|number| h2::call(2 * number + 1, "a", GET_PACKAGE, message.as_deref()));
        let calls: Vec<u8> = calls.collect();
        let mut writer = connection.tcp.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            // The server may end it before that.
            let _ = writer.write_all(&calls);
        });
        others_are_answered(&mut almanac).await;
        // It is not out of its mind, and says no in one way or another.
        let refused = loop {
            match connection.next() {
                Ok(frame) if matches!(frame.kind, h2::RST_STREAM | h2::GOAWAY) => break true,
                // A server that is faster than this client answers every call,
                // those beyond the limit with a status alone.
                Ok(frame) if frame.kind == h2::HEADERS && frame.flags & h2::END_STREAM != 0 => {
                    break true;
                }
                Ok(_) => {}
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        };
        assert!(refused, "every call is answered");
        others_are_answered(&mut almanac).await;
        drop(connection);
        writing.join().unwrap();
    }
    assert!(!almanac.program.log().contains("panicked"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_cannot_fill_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = limited(folder.path(), "");
    let address = almanac.program.address("grpc");
    for _ in 0..100 {
        let mut connection = Connection::open(address, &[]).unwrap();
        // Calls that are reset before the server takes notice.
        let mut bytes = Vec::new();
        for number in 0..40_u32 {
            let stream = 2 * number + 1;
            bytes.extend(h2::call(stream, "a", GET_PACKAGE, None));
            bytes.extend([0, 0, 4, h2::RST_STREAM, 0]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend(8_u32.to_be_bytes());
        }
        connection.tcp.write_all(&bytes).unwrap();
        while connection
            .next()
            .is_ok_and(|frame| frame.kind != h2::GOAWAY)
        {}
    }
    others_are_answered(&mut almanac).await;
    let log = almanac.program.log();
    let lines = log.lines().filter(|line| line.contains(" h2::"));
    assert_eq!(lines.count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn many_idle_connections_make_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &Catalog::small(), "max_connections = 20", "");
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    let mut idle = Vec::new();
    // Some that say nothing, some that have made a call.
    for number in 0..60 {
        idle.push(http::connect(http).unwrap());
        let mut connection = Connection::open(grpc, &[]).unwrap();
        if number % 2 == 0 {
            connection
                .call(1, "a", GET_PACKAGE, Some(&get_package()))
                .unwrap();
        }
        idle.push(connection.tcp);
    }
    others_are_answered(&mut almanac).await;
    for service in ["http", "grpc"] {
        let name =
            format!(r#"almanac_connections_ended_total{{service="{service}",reason="room"}}"#);
        until_counted(&mut almanac, &name);
    }
    // One that is at something stays.
    let client = Client::new(grpc);
    let mut watched = client
        .open::<_, HealthCheckResponse>(WATCH, HealthCheckRequest::default())
        .await
        .unwrap();
    next(&mut watched).await.unwrap().unwrap();
    for _ in 0..40 {
        idle.push(Connection::open(grpc, &[]).unwrap().tcp);
    }
    others_are_answered(&mut almanac).await;
    let request = HealthCheckRequest::default();
    client
        .unary::<_, HealthCheckResponse>(CHECK, request)
        .await
        .unwrap();
    almanac.program.terminate();
    assert_eq!(rest(&mut watched).await.unwrap().len(), 1);
}

/// Waits until a call is answered so.
async fn until_answered(client: &Client, code: Code) -> tonic::Status {
    let begin = Instant::now();
    loop {
        let request = proto::ListPackageRequest {};
        let answer = client.stream::<_, proto::PackageName>(LIST_PACKAGES, request);
        let status = answer.await.err().unwrap_or_else(|| tonic::Status::ok(""));
        if status.code() == code {
            return status;
        }
        // It may have to go when the call comes, or have no place yet.
        assert!(begin.elapsed() < 2 * SOON, "{status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connection_too_many_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &large(), "max_connections = 2", "");
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    // All places are taken by clients that are at something.
    let mut watched = Vec::new();
    let mut stuck = Vec::new();
    for _ in 0..2 {
        let request = HealthCheckRequest::default();
        let mut watch = Client::new(grpc)
            .open::<_, HealthCheckResponse>(WATCH, request)
            .await
            .unwrap();
        next(&mut watch).await.unwrap().unwrap();
        watched.push(watch);
        // More than the system keeps of it, and nobody reads on.
        let mut reader = http::connect(http).unwrap();
        write!(reader, "GET {ALL} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(reader.read(&mut [0; 100]).unwrap() > 0);
        stuck.push(reader);
    }
    let client = Client::new(grpc);
    let request = HealthCheckRequest::default();
    let health = client.unary::<_, HealthCheckResponse>(CHECK, request);
    assert!(health.await.is_ok());
    let refused = until_answered(&client, Code::ResourceExhausted).await;
    assert_eq!(
        refused.message(),
        "2 connections are open on this port, as many as it lets in; try again later"
    );
    // It is asked to go, and its connection ends.
    let mut connection = Connection::open(grpc, &[]).unwrap();
    let list = Some(&b""[..]);
    connection.call(1, "a", LIST_PACKAGES, list).unwrap();
    let refused = connection.next().unwrap();
    assert_eq!((refused.kind, refused.stream), (h2::HEADERS, 1));
    assert_eq!(connection.next().unwrap().kind, h2::GOAWAY);
    let end = loop {
        if let Err(error) = connection.next() {
            break error;
        }
    };
    // Not the time limit of the test.
    assert_ne!(end.kind(), ErrorKind::WouldBlock);

    let reply = http::get(http, ALL).unwrap();
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("retry-after"), Some("5"));
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(reply.text().contains("2 connections"), "{reply:?}");

    for name in [
        r#"almanac_connections_ended_total{service="grpc",reason="limit"}"#,
        r#"almanac_connections_ended_total{service="http",reason="limit"}"#,
        r#"almanac_grpc_calls_refused_total{limit="connections"}"#,
    ] {
        until_counted(&mut almanac, name);
    }
    let log = almanac.program.log();
    let warnings = log.lines().filter(|line| line.contains("max_connections"));
    assert_eq!(
        warnings.count(),
        2,
        "one for each port, not for each client"
    );

    // Those that were in go on, and their places are for others afterwards.
    client_is_answered(&mut watched, grpc).await;
    drop(stuck);
    let begin = Instant::now();
    while http::get(http, ALL).unwrap().status != 200 {
        assert!(begin.elapsed() < SOON);
    }
}

/// After one of those that watch has gone.
async fn client_is_answered(
    watched: &mut Vec<tonic::Streaming<HealthCheckResponse>>,
    grpc: SocketAddr,
) {
    watched.pop();
    until_answered(&Client::new(grpc), Code::Ok).await;
    let stays = next(&mut watched[0]);
    let heard = tokio::time::timeout(Duration::from_millis(100), stays).await;
    assert!(heard.is_err(), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_answers_no_ping_is_ended() {
    let limits = Limits {
        keep_alive: Duration::from_millis(200),
        // Long enough for one that does, also on a busy machine.
        keep_alive_timeout: Duration::from_secs(3),
        ..Limits::default()
    };
    let inside = InProcess::serve(&Catalog::small(), limits).await;
    let mut watched = Client::new(inside.grpc)
        .open::<_, HealthCheckResponse>(WATCH, HealthCheckRequest::default())
        .await
        .unwrap();
    next(&mut watched).await.unwrap().unwrap();
    let mut connection = Connection::open(inside.grpc, &[]).unwrap();
    let mut pings = 0;
    loop {
        match connection.any() {
            Ok(frame) if frame.kind == h2::PING => pings += 1,
            Ok(_) => {}
            // An end, and not the time limit of the test.
            Err(error) => break assert_ne!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert_eq!(pings, 1);
    // The other was asked as often.
    let heard = tokio::time::timeout(Duration::from_millis(100), next(&mut watched)).await;
    assert!(heard.is_err(), "{heard:?}");
    drop(watched);
    inside.end().await;
}

/// So many connections, or as many as this process may have beside what other
/// tests need.
fn as_many_as_can_be(connections: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const OTHERS: u64 = 1000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let may = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let open = may.map_or(connections, |may| {
        connections.min(may.saturating_sub(OTHERS))
    });
    if open < connections {
        eprintln!("{open} connections instead of {connections}: no more files may be open");
    }
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn idle_connections_and_slow_readers_leave_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tables = "[connections]\nidle_timeout = \"10m\"";
    let mut almanac = serving(folder.path(), &large(), "", tables);
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    let idle = as_many_as_can_be(10_000);
    let mut open = Vec::new();
    for number in 0..idle {
        let address = if number % 2 == 0 { http } else { grpc };
        open.push(Connection::open(address, &[]).unwrap().tcp);
    }
    for _ in 0..50 {
        let mut stuck = http::connect(http).unwrap();
        write!(stuck, "GET {ALL} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        open.push(stuck);
        let mut stuck = Connection::open(grpc, &[]).unwrap();
        for stream in 0..10 {
            stuck
                .call(2 * stream + 1, "a", LIST_BUNDLES, Some(b""))
                .unwrap();
        }
        open.push(stuck.tcp);
    }
    for _ in 0..5 {
        others_are_answered(&mut almanac).await;
    }
    let metrics = http::get(almanac.program.address("admin"), "/metrics").unwrap();
    let metrics = metrics.text();
    let connections = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("almanac_connections{"))
        .filter_map(|line| line.split(' ').nth(1)?.parse::<f64>().ok())
        .sum::<f64>();
    assert!(connections >= idle as f64, "{metrics}");
}
