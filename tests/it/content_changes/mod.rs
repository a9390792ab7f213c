//! New content under clients that read a catalog as Operator Lifecycle Manager
//! does: in many calls that belong together, and again when their connection
//! has come back.

mod channels;
mod connections;
mod generations;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use almanac::proto;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::program::PATIENCE;
use crate::support::served::{Served, source};

const LIST_BUNDLES: &str = "/api.Registry/ListBundles";

const GET_PACKAGE: &str = "/api.Registry/GetPackage";

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
