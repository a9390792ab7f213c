//! A program that is told to end lets its clients finish, for a time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;

/// How long an end may take that nobody holds up: less than what open streams
/// are given to finish.
const SOON: Duration = Duration::from_secs(15);
/// More than the system keeps of what a client does not read.
const LARGE: usize = 16 << 20;

/// A catalog that is too large to be sent before it is read.
fn large() -> Catalog {
    let text = "0123456789abcdef".repeat((1 << 20) / 16);
    (0..LARGE >> 20).fold(Catalog::one("etcd"), |catalog, number| {
        catalog.blob(json!({"schema": "text", "name": number.to_string(), "text": text}))
    })
}

/// An almanac that serves a catalog, which is written into the folder.
fn serving(folder: &Path, catalog: &Catalog, settings: &str) -> Almanac {
    catalog.write_to(folder, Format::JsonLines);
    let source = format!("file:{}", folder.display());
    let mut almanac = Almanac::start(&(settings.to_owned() + &following(&source)));
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    almanac.program.wait_until_ready();
    almanac
}

/// A client that has asked for the whole catalog and read the beginning of the
/// answer: where its body begins.
struct Reader {
    connection: TcpStream,
    head: String,
    body: Vec<u8>,
}

impl Reader {
    fn start(address: SocketAddr) -> Self {
        let mut connection = http::narrow(address);
        write!(
            connection,
            "GET /catalogs/a/api/v1/all HTTP/1.1\r\nHost: a\r\n\r\n"
        )
        .unwrap();
        let mut answer = vec![0; 4096];
        let length = connection.read(&mut answer).unwrap();
        let end = answer[..length]
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .unwrap();
        Self {
            head: String::from_utf8_lossy(&answer[..end]).into_owned(),
            body: answer[end + 4..length].to_vec(),
            connection,
        }
    }

    /// Reads on, not too fast, until the server ends the connection.
    fn finish(mut self) -> Vec<u8> {
        let mut piece = vec![0; 256 << 10];
        loop {
            sleep(Duration::from_millis(1));
            match self.connection.read(&mut piece) {
                Ok(0) | Err(_) => return self.body,
                Ok(length) => self.body.extend_from_slice(&piece[..length]),
            }
        }
    }
}

#[test]
fn a_download_that_is_under_way_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &large(), "");
    let address = almanac.program.address("http");
    let reader = Reader::start(address);
    assert!(reader.head.starts_with("HTTP/1.1 200"), "{}", reader.head);

    almanac.program.terminate();
    almanac
        .program
        .wait_for_log("the end", |log| log.contains("stopping"));
    // Nobody new is let in, and probes are answered to the end.
    let begin = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(begin.elapsed() < SOON);
        sleep(Duration::from_millis(10));
    }
    assert_eq!(almanac.ready().status, 200);
    assert_eq!(almanac.status("a")["state"], "serving");
    sleep(Duration::from_millis(300));
    assert_eq!(almanac.program.ended(), None);

    assert!(reader.finish() == large().text(Format::JsonLines).as_bytes());
    assert_eq!(almanac.program.wait(SOON).code(), Some(0));
    let log = almanac.program.log();
    assert!(
        log.contains("stopped") && !log.contains("were cut"),
        "{log}"
    );
}

#[test]
fn a_client_that_reads_too_slowly_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &large(), "drain = \"500ms\"\n");
    let address = almanac.program.address("http");
    let reader = Reader::start(address);
    let begin = Instant::now();
    almanac.program.terminate();
    assert_eq!(almanac.program.wait(SOON).code(), Some(0));
    assert!(begin.elapsed() >= Duration::from_millis(500));
    let log = almanac.program.log();
    assert!(log.contains("connections were cut off"), "{log}");
    assert!(reader.finish().len() < LARGE);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().unwrap();
        let mut almanac = serving(folder.path(), &large(), "drain = \"10m\"\n");
        let reader = Reader::start(almanac.program.address("http"));
        almanac.program.signal(signal);
        // Two at once would be one.
        let program = &mut almanac.program;
        program.wait_for_log("the first", |log| log.contains("stopping"));
        sleep(Duration::from_millis(300));
        assert_eq!(almanac.program.ended(), None);
        almanac.program.signal(signal);
        assert_eq!(almanac.program.wait(SOON).code(), Some(1));
        let log = almanac.program.log();
        assert!(log.contains("second signal"), "{log}");
        assert!(reader.finish().len() < LARGE);

        // What was committed is there all the same.
        almanac.program.restart();
        almanac.program.wait_until_ready();
        assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
    }
}

#[test]
fn connections_that_are_at_nothing_hold_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &Catalog::small(), "drain = \"10m\"\n");
    let mut open = Vec::new();
    for service in ["grpc", "http", "admin"] {
        let address = almanac.program.address(service);
        // One that has said nothing, one that has only begun to, and one that
        // has had its answer.
        open.push(http::narrow(address));
        let mut begun = http::narrow(address);
        write!(begun, "PRI * HT").unwrap();
        open.push(begun);
        if service != "grpc" {
            let mut answered = http::narrow(address);
            write!(answered, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut answer = [0; 4096];
            assert!(answered.read(&mut answer).unwrap() > 0);
            open.push(answered);
        }
    }
    // All have been accepted.
    sleep(Duration::from_millis(200));
    almanac.program.terminate();
    assert_eq!(almanac.program.wait(SOON).code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn whoever_watches_the_health_is_told_and_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path(), &Catalog::small(), "drain = \"10m\"\n");
    let address = almanac.program.address("grpc");
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let request = HealthCheckRequest::default();
    let mut watch = HealthClient::new(channel)
        .watch(request)
        .await
        .unwrap()
        .into_inner();
    let serving = watch.message().await.unwrap().unwrap();
    assert_eq!(serving.status(), ServingStatus::Serving);

    almanac.program.terminate();
    let told = tokio::time::timeout(SOON, watch.message()).await.unwrap();
    assert_eq!(told.unwrap().unwrap().status(), ServingStatus::NotServing);
    let ended = tokio::time::timeout(SOON, watch.message()).await.unwrap();
    assert!(ended.unwrap().is_none());
    assert_eq!(almanac.program.wait(SOON).code(), Some(0));
}
