//! Requests that are large, long or many.

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use almanac::proto;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{
    CHECK, GET_PACKAGE, LARGE, LIST_BUNDLES, SOON, WATCH, get_package, large, limited,
    others_are_answered, serving, until_counted,
};
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::grpc::{Client, rest};
use crate::support::h2::Connection;
use crate::support::{h2, http};

/// The allowed memory of a hundred answers that nobody reads, in bytes.
const UNREAD: u64 = 64 << 20;

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
