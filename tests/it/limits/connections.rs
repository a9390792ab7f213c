//! Connections: at nothing, too many, or of another protocol.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use almanac::proto;
use almanac::serve::Limits;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{
    ALL, CHECK, GET_PACKAGE, LIST_BUNDLES, SOON, WATCH, get_package, large, limited,
    others_are_answered, serving, until_closed, until_counted,
};
use crate::support::catalog::Catalog;
use crate::support::grpc::{Client, next, rest};
use crate::support::h2::Connection;
use crate::support::in_process::InProcess;
use crate::support::{h2, http};

const LIST_PACKAGES: &str = "/api.Registry/ListPackages";

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
