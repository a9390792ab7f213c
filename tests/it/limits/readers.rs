//! Clients that do not read, or read slowly.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use almanac::proto;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{
    ALL, GET_PACKAGE, LARGE, LIST_BUNDLES, WATCH, get_package, large, limited, serving,
    until_closed, until_counted,
};
use crate::support::grpc::{Client, next, rest};
use crate::support::h2::Connection;
use crate::support::{h2, http};

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
