//! New content under clients that read a catalog as Operator Lifecycle Manager
//! does: in many calls that belong together, and again when their connection
//! has come back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use almanac::proto;
use almanac::serve::{Limits, Renewal};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::h2;
use crate::support::in_process::InProcess;
use crate::support::needs::skip_without;
use crate::support::program::PATIENCE;
use crate::support::served::{Served, source};

const LIST_BUNDLES: &str = "/api.Registry/ListBundles";

const GET_PACKAGE: &str = "/api.Registry/GetPackage";

/// How often content is swapped, and under how many connections.
const GENERATIONS: u32 = 100;
const CONNECTIONS: u32 = 50;
/// Packages of a generation, but for the one that only it has.
const PACKAGES: u32 = 5;
/// Of each stream, before the client has to read on: less than a bundle.
const WINDOW: u32 = 8 << 10;
/// How soon new content has to reach a client, in one of so many rounds at
/// least: the machine may be busy in others.
const SOON: Duration = Duration::from_secs(1);
const ROUNDS: u32 = 3;

/// A catalog every message of which tells the generation.
fn generation(number: u32) -> Catalog {
    let names = (0..PACKAGES).map(|package| format!("package-{package}"));
    names
        .chain([format!("only-{number}")])
        .fold(Catalog::new(), |catalog, name| {
            let version = |minor: u32| format!("{name}.v{number}.{minor}.0");
            catalog.package(&name, |package| {
                let package = package
                    .channel(
                        "stable",
                        [entry(&version(0)), entry(&version(1)).replaces(&version(0))],
                    )
                    .deprecate(&format!("generation {number}"));
                (0..2).fold(package, |package, minor| {
                    let version = bundle(&version(minor)).property("x", "y".repeat(12_000));
                    package.bundle(version)
                })
            })
        })
}

/// The generation that a name `….vGENERATION.MINOR.0` tells.
fn told(name: &str) -> u32 {
    let (_, version) = name.rsplit_once(".v").unwrap();
    version.split('.').next().unwrap().parse().unwrap()
}

/// A client's channel, as gRPC has it: a connection that takes calls (READY)
/// until GOAWAY comes (IDLE); the next call, or the wish to be connected, makes
/// another.
struct Connecting {
    server: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    driving: JoinHandle<Result<(), hyper::Error>>,
}

impl Connecting {
    async fn ready(server: SocketAddr) -> Self {
        let (sender, driving) = connect(server).await;
        Self {
            server,
            sender,
            driving,
        }
    }

    /// Waits until the server has asked it to go, for that long.
    async fn idle(&mut self, limit: Duration) -> bool {
        let ended = tokio::time::timeout(limit, &mut self.driving).await;
        if let Ok(ended) = ended {
            ended.unwrap().expect("a connection ends well");
            (self.sender, self.driving) = connect(self.server).await;
            return true;
        }
        false
    }

    /// Waits until the server asks it to go; gives how long that took.
    async fn until_idle(&mut self) -> Duration {
        let begin = Instant::now();
        assert!(self.idle(PATIENCE).await, "it is never asked to go");
        begin.elapsed()
    }

    /// A call. One that the server has not seen is made again over the next
    /// connection, as clients of gRPC do unasked.
    async fn call(&mut self, path: &str, message: &impl Message) -> Messages {
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(message.encoded_len() as u32);
        body.put_slice(&message.encode_to_vec());
        let request = Request::post(format!("http://catalog{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(body.freeze()))
            .unwrap();
        loop {
            if self.sender.ready().await.is_ok() {
                match self.sender.send_request(request.clone()).await {
                    Ok(response) => return Messages::of(response),
                    Err(error) => assert!(is_unseen(&error), "{path}: {error:?}"),
                }
            }
            // Streams that are open go on over the old one.
            (self.sender, self.driving) = connect(self.server).await;
        }
    }

    /// A call with one answer.
    async fn unary<T: Message + Default>(&mut self, path: &str, message: &impl Message) -> T {
        let mut messages = self.call(path, message).await;
        let answer = messages.next().await.expect(path);
        assert!(messages.next::<T>().await.is_none(), "{path}");
        answer
    }

    /// What the resolver does: the bundles, and with the first of each package
    /// the package, while the stream is open. Gives the generation, which is
    /// the same in all.
    async fn snapshot(&mut self) -> u32 {
        let mut stream = self.call(LIST_BUNDLES, &proto::ListBundlesRequest {}).await;
        let mut packages = std::collections::BTreeSet::new();
        let mut generations = std::collections::BTreeSet::new();
        while let Some(bundle) = stream.next::<proto::Bundle>().await {
            generations.insert(told(&bundle.csv_name));
            let name = bundle.package_name;
            if !packages.insert(name.clone()) {
                continue;
            }
            pause(0, 20).await;
            let package: proto::Package = self
                .unary(GET_PACKAGE, &proto::GetPackageRequest { name })
                .await;
            generations.extend(
                package
                    .channels
                    .iter()
                    .map(|channel| told(&channel.csv_name)),
            );
            let message = package.deprecation.unwrap().message;
            generations.insert(message.rsplit_once(' ').unwrap().1.parse().unwrap());
        }
        assert_eq!(generations.len(), 1, "a mixed snapshot: {generations:?}");
        let generation = *generations.first().unwrap();
        assert_eq!(packages.len(), PACKAGES as usize + 1);
        assert!(packages.contains(&format!("only-{generation}")));
        generation
    }
}

/// Whether a call failed before the server took any notice of it.
fn is_unseen(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<::h2::Error>());
    let refused = Some(::h2::Reason::REFUSED_STREAM);
    error.is_canceled()
        || cause.is_some_and(|cause| cause.is_go_away() || cause.reason() == refused)
}

async fn connect(
    server: SocketAddr,
) -> (
    SendRequest<Full<Bytes>>,
    JoinHandle<Result<(), hyper::Error>>,
) {
    let tcp = TcpStream::connect(server).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .handshake(TokioIo::new(tcp))
        .await
        .unwrap();
    (sender, tokio::spawn(connection))
}

/// The messages of an answer that is read as they are wanted.
struct Messages {
    body: Incoming,
    read: BytesMut,
    status: Option<http::HeaderValue>,
}

impl Messages {
    fn of(response: http::Response<Incoming>) -> Self {
        assert_eq!(response.status(), 200);
        let refused = response.headers().get("grpc-message");
        assert_eq!(refused, None, "{:?}", response.headers());
        Self {
            status: response.headers().get("grpc-status").cloned(),
            body: response.into_body(),
            read: BytesMut::new(),
        }
    }

    /// The next; none at the end, which has to be a good one.
    async fn next<T: Message + Default>(&mut self) -> Option<T> {
        loop {
            if self.read.len() >= 5 {
                let length = (&self.read[1..5]).get_u32() as usize;
                if self.read.len() >= 5 + length {
                    self.read.advance(5);
                    return Some(T::decode(self.read.split_to(length)).unwrap());
                }
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await;
            let Some(frame) = frame.expect("a frame in time") else {
                assert!(self.read.is_empty());
                assert_eq!(self.status.as_ref().expect("a status"), "0");
                return None;
            };
            match frame.unwrap().into_data() {
                Ok(data) => self.read.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap();
                    self.status = trailers.get("grpc-status").cloned();
                }
            }
        }
    }
}

async fn pause(least: u64, most: u64) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(least..most))).await;
}

/// A catalog in one file: a folder could be read while it is swapped.
struct Place(tempfile::TempDir);

impl Place {
    fn of(catalog: &Catalog) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.put(catalog);
        place
    }

    /// Puts a catalog in the place of the one before, at once.
    fn put(&self, catalog: &Catalog) {
        let (new, place) = (
            self.0.path().join("new"),
            self.0.path().join("catalog.json"),
        );
        std::fs::write(&new, catalog.text(Format::JsonLines)).unwrap();
        std::fs::rename(new, place).unwrap();
    }

    fn serve(&self) -> Served {
        let source = source("catalog", &self.0.path().join("catalog.json"));
        Served::start([source, "--poll=100ms".to_owned()])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_snapshot_mixes_two_generations_however_often_content_changes() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let over = Arc::new(AtomicBool::new(false));
    let snapshots = Arc::new(AtomicU32::new(0));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let (over, snapshots) = (Arc::clone(&over), Arc::clone(&snapshots));
            let address = served.grpc;
            tokio::spawn(async move {
                let mut channel = Connecting::ready(address).await;
                let mut latest = 0;
                while !over.load(Ordering::Relaxed) {
                    let generation = channel.snapshot().await;
                    assert!(generation >= latest, "{generation} after {latest}");
                    latest = generation;
                    snapshots.fetch_add(1, Ordering::Relaxed);
                    // Most wait for GOAWAY; some ask again unasked, as when a
                    // Subscription is made.
                    let most = if number % 3 == 0 { 2_000 } else { 10_000 };
                    let patience = Duration::from_millis(fastrand::u64(0..most));
                    channel.idle(patience).await;
                }
                channel
            })
        })
        .collect();
    for number in 2..=GENERATIONS + 1 {
        place.put(&generation(number));
        let begin = Instant::now();
        while served.status("catalog")["revision"]["id"] != number {
            assert!(begin.elapsed() < PATIENCE, "generation {number}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if clients.iter().any(JoinHandle::is_finished) {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        let mut channel = client.await.expect("no snapshot fails");
        // The last generation comes to all, and then nothing more does.
        while channel.snapshot().await != GENERATIONS + 1 {
            assert!(channel.idle(PATIENCE).await, "an old generation stays");
        }
    }
    let snapshots = snapshots.load(Ordering::Relaxed);
    assert!(snapshots > CONNECTIONS * 10, "{snapshots} snapshots");
    let log = served.program.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    let metrics = crate::support::http::get(served.admin, "/metrics")
        .unwrap()
        .text();
    let refused = r#"code="Ok""#;
    for line in metrics.lines() {
        if line.starts_with("almanac_grpc_requests_total") {
            assert!(line.contains(refused), "{line}");
        }
    }
    served.program.terminate();
    assert!(served.program.wait(PATIENCE).success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_pauses_between_its_calls_sees_one_generation() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let get = |name: &str| proto::GetPackageRequest { name: name.into() };
    for number in 1..=ROUNDS {
        let mut channel = Connecting::ready(served.grpc).await;
        let mut stream = channel
            .call(LIST_BUNDLES, &proto::ListBundlesRequest {})
            .await;
        let mut names = std::collections::BTreeSet::new();
        while let Some(bundle) = stream.next::<proto::Bundle>().await {
            names.insert(bundle.package_name);
        }
        let mut names = names.into_iter();
        let first = names.next().unwrap();
        let _: proto::Package = channel.unary(GET_PACKAGE, &get(&first)).await;
        place.put(&generation(number + 1));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number + 1);
        for name in names {
            assert!(!channel.idle(SOON).await, "asked to go before {name}");
            let package: proto::Package = channel.unary(GET_PACKAGE, &get(&name)).await;
            assert_eq!(told(&package.channels[0].csv_name), number);
        }
        // It has all that it was listed.
        let elapsed = channel.until_idle().await;
        assert_eq!(channel.snapshot().await, number + 1);
        if elapsed < SOON {
            return;
        }
    }
    panic!("it is asked to go late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_lists_twice_and_asks_once_hears_of_new_content_soon() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut soonest = Duration::MAX;
    for number in 1..=ROUNDS {
        let mut channel = Connecting::ready(served.grpc).await;
        // As packageserver does.
        for list in [LIST_BUNDLES, "/api.Registry/ListPackages"] {
            let mut stream = channel.call(list, &proto::ListBundlesRequest {}).await;
            while stream.next::<proto::PackageName>().await.is_some() {}
        }
        let mut names: Vec<String> = (0..PACKAGES).map(|n| format!("package-{n}")).collect();
        names.push(format!("only-{number}"));
        for name in names {
            let request = proto::GetPackageRequest { name };
            let _: proto::Package = channel.unary(GET_PACKAGE, &request).await;
        }
        place.put(&generation(number + 1));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number + 1);
        soonest = soonest.min(channel.until_idle().await);
    }
    assert!(soonest < SOON, "{soonest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_pauses_has_to_come_again_in_the_end() {
    let limits = Limits {
        renewal: Renewal {
            latest: Duration::from_secs(1),
            ..Renewal::default()
        },
        ..Limits::default()
    };
    let inside = InProcess::serve(&generation(1), limits).await;
    let mut channel = Connecting::ready(inside.grpc).await;
    // A list that is not read on, and calls all the while.
    let mut stream = channel
        .call(LIST_BUNDLES, &proto::ListBundlesRequest {})
        .await;
    let first: proto::Bundle = stream.next().await.unwrap();
    assert_eq!(told(&first.csv_name), 1);
    inside.publish(&generation(2)).await;
    let begin = Instant::now();
    loop {
        let name = "package-0".to_owned();
        let request = proto::GetPackageRequest { name };
        let package: proto::Package = channel.unary(GET_PACKAGE, &request).await;
        match told(&package.channels[0].csv_name) {
            1 => assert!(begin.elapsed() < PATIENCE, "it is never asked to go"),
            number => {
                assert_eq!(number, 2);
                break;
            }
        }
        pause(10, 20).await;
    }
    // What is open ends as it began.
    let mut rest = 0;
    while let Some(bundle) = stream.next::<proto::Bundle>().await {
        assert_eq!(told(&bundle.csv_name), 1);
        rest += 1;
    }
    assert_eq!(rest, 2 * (PACKAGES + 1) - 1);
    drop(channel);
    inside.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_keeps_no_connection_that_is_asked_to_go() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut channel = Connecting::ready(served.grpc).await;
    let request = tonic_health::pb::HealthCheckRequest::default();
    let mut watch = channel.call("/grpc.health.v1.Health/Watch", &request).await;
    let told: Option<tonic_health::pb::HealthCheckResponse> = watch.next().await;
    assert!(told.is_some());
    let name = "package-0".to_owned();
    let _: proto::Package = channel
        .unary(GET_PACKAGE, &proto::GetPackageRequest { name })
        .await;
    place.put(&generation(2));
    let ended = tokio::time::timeout(PATIENCE, async {
        while watch
            .next::<tonic_health::pb::HealthCheckResponse>()
            .await
            .is_some()
        {}
    });
    assert!(ended.await.is_ok(), "the watch goes on");
    assert!(channel.idle(PATIENCE).await);
    served.program.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_that_see_old_content_are_counted() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut channel = Connecting::ready(served.grpc).await;
    let mut stream = channel
        .call(LIST_BUNDLES, &proto::ListBundlesRequest {})
        .await;
    let _: proto::Bundle = stream.next().await.unwrap();
    let counted = |current: u32, old: u32| {
        let line = |generation: &str, number: u32| {
            format!(
                "almanac_grpc_pinned_connections{{catalog=\"catalog\",generation=\"{generation}\"}} {number}\n"
            )
        };
        let begin = Instant::now();
        loop {
            let reply = crate::support::http::get(served.admin, "/metrics");
            let metrics = reply.unwrap().text();
            // What never was is not there.
            let is = |generation, number| {
                metrics.contains(&line(generation, number))
                    || number == 0 && !metrics.contains(&format!("generation=\"{generation}\""))
            };
            if is("current", current) && is("old", old) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{metrics}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    counted(1, 0);
    place.put(&generation(2));
    counted(0, 1);
    while stream.next::<proto::Bundle>().await.is_some() {}
    assert!(channel.idle(PATIENCE).await);
    counted(0, 0);
    let _: proto::Package = channel
        .unary(
            GET_PACKAGE,
            &proto::GetPackageRequest {
                name: "package-0".into(),
            },
        )
        .await;
    counted(1, 0);
    served.program.terminate();
}

/// Asks for a package, frame by frame, and returns the generation of the answer.
fn asked(connection: &mut h2::Connection, stream: u32) -> u32 {
    let package = Some(&b"\x0a\x09package-0"[..]);
    connection
        .call(stream, "catalog", GET_PACKAGE, package)
        .unwrap();
    let mut answer = Vec::new();
    loop {
        let frame = connection.any().unwrap();
        assert_ne!(frame.kind, h2::RST_STREAM);
        if frame.stream == stream {
            answer.extend_from_slice(&frame.payload);
            if frame.flags & h2::END_STREAM != 0 {
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let (_, version) = text.split_once("package-0.v").expect(&text);
    version.split('.').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_crosses_with_goaway_is_answered_with_the_new_content() {
    let limits = Limits {
        renewal: Renewal {
            half_asked: Duration::from_secs(2),
            ..Renewal::default()
        },
        ..Limits::default()
    };
    let inside = InProcess::serve(&generation(1), limits).await;
    let mut connection = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut connection, 1), 1);
    inside.publish(&generation(2)).await;
    let third = inside.made(&generation(3)).await;
    // The ping that comes with it is not answered, as if both were under way.
    while connection.any().unwrap().kind != h2::GOAWAY {}
    assert_eq!(asked(&mut connection, 3), 2);
    // Calls that belong to it see the same over the next connection.
    inside.publisher.publish(third);
    let mut next = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut next, 1), 2);
    assert_eq!(asked(&mut connection, 5), 2);
    // Then that connection makes room for the newest.
    while next.next().unwrap().kind != h2::GOAWAY {}
    let mut last = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut last, 1), 3);
    drop((connection, next, last));
    inside.end().await;
}

/// The client may come to another replica, which shows the new content a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_fleet_a_client_is_asked_to_reconnect_when_all_replicas_show_the_new_content() {
    let of_fleet = Renewal::default().of_fleet();
    assert!(of_fleet.earliest > Renewal::default().earliest);
    let earliest = Duration::from_millis(1500);
    let limits = Limits {
        renewal: Renewal {
            earliest,
            ..of_fleet
        },
        ..Limits::default()
    };
    let inside = InProcess::serve(&generation(1), limits).await;
    let mut connection = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut connection, 1), 1);
    // It is at nothing for long, so nothing else holds GOAWAY back.
    tokio::time::sleep(Renewal::default().quiet * 2).await;
    let second = inside.made(&generation(2)).await;
    let begin = Instant::now();
    inside.publisher.publish(second);
    while connection.any().unwrap().kind != h2::GOAWAY {}
    assert!(begin.elapsed() >= earliest, "{:?}", begin.elapsed());
    drop(connection);
    inside.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_content_reaches_a_client_within_a_second() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut channel = Connecting::ready(served.grpc).await;
    // Read just now, or at nothing for long.
    let mut soonest = [Duration::MAX; 2];
    for number in 2..2 + 2 * ROUNDS {
        assert_eq!(channel.snapshot().await, number - 1);
        let long = number % 2;
        tokio::time::sleep(Duration::from_millis(u64::from(long) * 500)).await;
        place.put(&generation(number));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number);
        let elapsed = channel.until_idle().await;
        assert_eq!(channel.snapshot().await, number);
        let soonest = &mut soonest[long as usize];
        *soonest = elapsed.min(*soonest);
    }
    assert!(soonest.iter().all(|time| *time < SOON), "{soonest:?}");
}

/// What a channel of gRPC's own library goes through, and what it reads then.
const WATCHING: &str = r#"
import sys
import grpc

channel = grpc.insecure_channel(sys.argv[1])
list_packages = channel.unary_stream("/api.Registry/ListPackages")

def changed(state):
    print(state.name, flush=True)
    if state is grpc.ChannelConnectivity.IDLE:
        channel.subscribe(lambda state: None, try_to_connect=True)

channel.subscribe(changed, try_to_connect=True)
for _ in sys.stdin:
    packages = b" ".join(list_packages(b"", timeout=20)).decode("latin-1")
    only = next(word for word in packages.replace("\n", " ").split() if "only-" in word)
    print("read", only[only.index("only-"):], flush=True)
"#;

#[test]
fn a_channel_of_another_library_goes_idle_and_comes_back_with_new_content() {
    if skip_without("python:grpc") {
        return;
    }
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut watching = Watching::start(served.grpc);
    watching.until("READY");
    assert_eq!(watching.read(), "only-1");
    let mut soonest = Duration::MAX;
    for number in 2..2 + ROUNDS {
        let before = watching.states().len();
        place.put(&generation(number));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number);
        let published = Instant::now();
        let states = watching.after(before, "READY");
        assert_eq!(watching.read(), format!("only-{number}"));
        soonest = soonest.min(published.elapsed());
        // Nobody sees the catalog gone: that is what TRANSIENT_FAILURE means.
        assert_eq!(states.first().unwrap(), "IDLE", "{states:?}");
        assert!(!states.contains(&"TRANSIENT_FAILURE".into()), "{states:?}");
    }
    assert!(soonest < SOON, "{soonest:?}");
}

/// A program that runs [`WATCHING`].
struct Watching {
    child: std::process::Child,
    lines: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Watching {
    fn start(server: SocketAddr) -> Self {
        use std::io::BufRead as _;
        use std::process::{Command, Stdio};
        let mut child = Command::new("python3")
            .args(["-c", WATCHING, &server.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (told, output) = (Arc::clone(&lines), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in std::io::BufReader::new(output)
                .lines()
                .map_while(Result::ok)
            {
                told.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    /// The states of the channel so far.
    fn states(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let states = lines.iter().filter(|line| !line.starts_with("read "));
        states.cloned().collect()
    }

    /// Waits for a state that is not among the first ones; gives those from
    /// there on.
    fn after(&self, first: usize, wanted: &str) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let states = self.states().split_off(first);
            if states.iter().any(|state| state == wanted) {
                return states;
            }
            assert!(begin.elapsed() < PATIENCE, "{:?}", self.states());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until(&self, wanted: &str) {
        self.after(0, wanted);
    }

    /// Has it read; gives what.
    fn read(&mut self) -> String {
        use std::io::Write as _;
        let reads = || {
            let lines = self.lines.lock().unwrap();
            let reads = lines.iter().filter_map(|line| line.strip_prefix("read "));
            reads.map(str::to_owned).collect::<Vec<_>>()
        };
        let before = reads().len();
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        let begin = Instant::now();
        loop {
            if let Some(read) = reads().into_iter().nth(before) {
                return read;
            }
            assert!(begin.elapsed() < PATIENCE, "nothing was read");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
