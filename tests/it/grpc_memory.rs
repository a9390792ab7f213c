//! What no client should send to a gRPC port, again and again: each gets a
//! clear answer, and the program does not grow by it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tonic::Code;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::grpc::Client;
use crate::support::h2::{self, Connection};
use crate::support::http;
use crate::support::program::PATIENCE;
use crate::support::runtime::block_on;

const GET_PACKAGE: &str = "/api.Registry/GetPackage";
const LIST_BUNDLES: &str = "/api.Registry/ListBundles";

/// How often each is done, and how often again. What is kept for reuse differs
/// from one time to the next; what leaks adds up.
const ROUNDS: u32 = 6;
/// How often memory may have grown from some rounds to the next.
const CHANCES: u32 = 4;
/// The allowed difference in memory, in bytes, whatever was sent.
const NOISE: u64 = 4 << 20;
/// The allowed memory of an idle small catalog, in bytes.
const GIVEN_BACK: u64 = 40 << 20;
/// The allowed memory of so many answers that no client takes, in bytes. They are of
/// 8 MB each.
const UNREAD: usize = 400;
const HELD: u64 = 64 << 20;

/// A catalog whose list of bundles is 8 MB.
fn large() -> Catalog {
    let name = |number: usize| format!("etcd.v{number}.0.0");
    let entries = (1..=200).map(|number| match number {
        1 => entry(&name(1)),
        _ => entry(&name(number)).replaces(&name(number - 1)),
    });
    Catalog::new().package("etcd", |package| {
        let package = package.channel("stable", entries);
        (1..=200).fold(package, |package, number| {
            package.bundle(bundle(&name(number)).property("x", "y".repeat(40_000)))
        })
    })
}

fn serving(folder: &std::path::Path) -> Almanac {
    large().write_to(folder, Format::JsonLines);
    let mut almanac = Almanac::start(&following(&format!("file:{}", folder.display())));
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    almanac
}

/// Waits until no client is connected any more; gives the memory then.
fn memory(almanac: &mut Almanac) -> u64 {
    let admin = almanac.program.address("admin");
    let begin = Instant::now();
    loop {
        // It may have its hands full for a while.
        if let Ok(reply) = http::get(admin, "/metrics") {
            let metrics = reply.text();
            let name = r#"almanac_connections{service="grpc"} "#;
            let open = metrics.lines().find_map(|line| line.strip_prefix(name));
            if open.is_none_or(|open| open == "0") {
                return almanac.program.anonymous_memory();
            }
        }
        assert!(begin.elapsed() < PATIENCE, "connections stay");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Does something again and again, and holds the memory of some rounds and the
/// next together, until it is as much as before. What is kept for reuse grows
/// for a while, by fits and starts; what leaks does not stop.
fn does_not_grow(almanac: &mut Almanac, what: &str, misbehave: impl Fn(SocketAddr)) {
    let address = almanac.program.address("grpc");
    let mut rounds = || -> Vec<u64> {
        let round = |_| {
            misbehave(address);
            memory(almanac)
        };
        (0..ROUNDS).map(round).collect()
    };
    let mut seen = vec![rounds()];
    for _ in 0..CHANCES {
        let most = seen.iter().flatten().max().copied();
        let next = rounds();
        let stays = next.iter().min() < most.map(|most| most + NOISE).as_ref();
        seen.push(next);
        if stays {
            return;
        }
    }
    panic!("{what}: bytes after each round: {seen:?}");
}

/// Makes calls with these messages, one after the other, all refused alike.
fn refused(
    address: SocketAddr,
    calls: impl IntoIterator<Item = (String, Vec<u8>)>,
    code: Code,
    text: &str,
) {
    block_on(async {
        let client = Client::new(address);
        for (path, message) in calls {
            let refusal = client.raw(&path, &message).await.unwrap_err();
            assert_eq!(refusal.code(), code, "{refusal}");
            assert!(refusal.message().contains(text), "{refusal}");
        }
    });
}

#[test]
fn calls_that_are_none_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path());
    let call = |message: Vec<u8>| (GET_PACKAGE.to_owned(), message);

    does_not_grow(&mut almanac, "malformed messages", |address| {
        let malformed = (0..200).map(|number| call(vec![0xff; number * 64 + 1]));
        let large = (0..8).map(|_| call(vec![0xff; 4 << 20]));
        let text = "cannot parse invalid wire-format data";
        refused(address, malformed.chain(large), Code::Internal, text);
    });
    does_not_grow(&mut almanac, "oversized messages", |address| {
        let calls = (0..8).map(|_| call(vec![0; 6 << 20]));
        let text = "received message larger than max (6291456 vs. 4194304)";
        refused(address, calls, Code::ResourceExhausted, text);
    });
    does_not_grow(&mut almanac, "methods that are made up", |address| {
        let names = (0..200).map(|_| format!("M{}", fastrand::u64(..)));
        let calls = names.map(|name| (format!("/api.Registry/{name}"), Vec::new()));
        refused(address, calls, Code::Unimplemented, "unknown method M");
        let names = (0..200).map(|_| format!("/s{}/M", fastrand::u64(..)));
        let calls = names.map(|path| (path, Vec::new()));
        refused(address, calls, Code::Unimplemented, "unknown service s");
    });
    does_not_grow(&mut almanac, "catalogs that are made up", |address| {
        for _ in 0..20 {
            let mut connection = Connection::open(address, &[]).unwrap();
            for stream in 0..10 {
                // The only catalog answers to all of them.
                let authority = format!("c{}", fastrand::u64(..));
                connection
                    .call(2 * stream + 1, &authority, GET_PACKAGE, Some(b""))
                    .unwrap();
                assert_eq!(connection.next().unwrap().kind, h2::HEADERS);
            }
        }
    });
    does_not_grow(&mut almanac, "other protocols", |address| {
        for number in 0..40 {
            if number % 2 == 0 {
                let reply = http::ask(address, "POST", "/", &[], &[b'x'; 10_000]).unwrap();
                assert_eq!(reply.status, 505);
            } else {
                // HTTP/2, and no call: there is no such content type.
                let mut connection = Connection::open(address, &[]).unwrap();
                connection
                    .call_as("text/plain", 1, "a", GET_PACKAGE, Some(b""))
                    .unwrap();
                assert_eq!(connection.next().unwrap().kind, h2::HEADERS);
            }
        }
    });
    // Nor do the metrics, which have no label that a client makes up.
    let metrics = http::get(almanac.program.address("admin"), "/metrics").unwrap();
    let metrics = metrics.text();
    assert!(!metrics.contains("\"M1"), "{metrics}");
    assert!(metrics.lines().count() < 500, "{metrics}");
    almanac.stop();
    assert!(!almanac.program.log().contains("panicked"));
}

#[test]
fn answers_that_are_not_taken_hold_little() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path());
    let unread = |address| {
        let mut open = Vec::new();
        for _ in 0..UNREAD / 20 {
            // The window is open, and nobody reads.
            let settings = [(h2::INITIAL_WINDOW_SIZE, 16 << 20)];
            let mut connection = Connection::open(address, &settings).unwrap();
            for stream in 0..20 {
                connection
                    .call(2 * stream + 1, "a", LIST_BUNDLES, Some(b""))
                    .unwrap();
            }
            open.push(connection);
        }
        open
    };
    let address = almanac.program.address("grpc");
    let before = almanac.program.anonymous_memory();
    let open = unread(address);
    // It sends what it can; what it takes only for a moment is not held.
    let held = || {
        std::thread::sleep(Duration::from_secs(1));
        almanac.program.anonymous_memory()
    };
    let held = std::iter::repeat_with(held).take(3).min().unwrap();
    assert!(held < before + HELD, "from {before} to {held} bytes");
    drop(open);
    does_not_grow(&mut almanac, "unread answers", |address| {
        drop(unread(address));
    });
    almanac.stop();
}

#[test]
fn ten_thousand_streams_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path());
    does_not_grow(&mut almanac, "streams", |address| {
        let settings = [(h2::INITIAL_WINDOW_SIZE, 0)];
        let connection = Connection::open(address, &settings).unwrap();
        let calls = (0..10_000_u32).flat_map(|number| {
            let stream = 2 * number + 1;
            h2::call(stream, "a", LIST_BUNDLES, (number % 2 == 0).then_some(b""))
        });
        let calls: Vec<u8> = calls.collect();
        let mut writer = connection.tcp.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            // The server may end it before that.
            let _ = std::io::Write::write_all(&mut writer, &calls);
        });
        let mut reader = connection.tcp.try_clone().unwrap();
        let limit = Duration::from_millis(500);
        reader.set_read_timeout(Some(limit)).unwrap();
        // Whatever it says, until it says nothing more.
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
        let _ = connection.tcp.shutdown(std::net::Shutdown::Both);
        writing.join().unwrap();
    });
    // Others are answered.
    let names = almanac.packages("a").unwrap();
    assert_eq!(names, ["etcd"]);
    // Nor is kept what could be used again.
    let begin = Instant::now();
    while almanac.program.anonymous_memory() > GIVEN_BACK {
        assert!(begin.elapsed() < Duration::from_mins(2), "memory is kept");
        std::thread::sleep(Duration::from_millis(500));
    }
    almanac.stop();
}

#[test]
fn health_and_reflection_are_asked_in_few_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = serving(folder.path());
    let address = almanac.program.address("grpc");
    let begun = |path: &str| {
        let mut connection = Connection::open(address, &[]).unwrap();
        // 4 MB are announced, and some of them come.
        let announced = [&[0, 0, 0x40, 0, 0][..], &[0x0a; 10_000]].concat();
        connection.call(1, "a", path, None).unwrap();
        let _ = connection.send(h2::DATA, 0, 1, &announced);
        connection
    };
    for path in [
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        let mut connection = begun(path);
        loop {
            let frame = connection.next().unwrap();
            // An end of the stream, or a reset.
            if frame.kind == h2::RST_STREAM || frame.flags & 1 != 0 {
                break;
            }
        }
    }
    does_not_grow(&mut almanac, "requests of health that never end", |_| {
        let open: Vec<_> = (0..50)
            .map(|_| begun("/grpc.health.v1.Health/Check"))
            .collect();
        drop(open);
    });
    almanac.stop();
}
