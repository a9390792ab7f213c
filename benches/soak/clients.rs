//! Clients that query continuously and compare the answers.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use almanac::proto::{
    Bundle, GetPackageRequest, ListBundlesRequest, ListPackageRequest, Package, PackageName,
};
use bytes::{Buf as _, BufMut as _, Bytes};
use flate2::read::{GzDecoder, MultiGzDecoder};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use images::Digest;
use prost::Message;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::known::{Api, Known, Variant};
use crate::support::http::{Reply, ask};
use crate::world::{Up, World};

/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(15);
/// The longest time for all calls of a snapshot.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of snapshots in a row that new content may interrupt.
const INTERRUPTED: u32 = 20;

/// A client, which runs until the world is over.
type Client = Box<dyn FnOnce() + Send>;

/// All clients.
pub(crate) fn all(catalogs: &[Arc<Known>], world: &Arc<World>) -> Vec<Client> {
    let mut clients: Vec<Client> = Vec::new();
    for catalog in catalogs {
        for kind in [whole, compressed, selected, listed, pulled] {
            let (catalog, world) = (Arc::clone(catalog), Arc::clone(world));
            clients.push(Box::new(move || {
                while !world.is_over() {
                    if let Some(up) = world.now()
                        && let Err(problem) = kind(&catalog, &world, up)
                    {
                        world.wrong(up, problem);
                    }
                    thread::sleep(PAUSE);
                }
            }));
        }
        let (catalog, world) = (Arc::clone(catalog), Arc::clone(world));
        clients.push(Box::new(move || snapshots(&catalog, &world)));
    }
    clients
}

/// The answer to a GET with status 200. None if the failure is excused.
fn get(
    world: &World,
    up: Up,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Option<Reply>, String> {
    match ask(up.http, "GET", path, headers, b"") {
        Ok(reply) if reply.status == 200 => Ok(Some(reply)),
        _ if world.excuses(up) => {
            world.count("requests turned away");
            Ok(None)
        }
        Ok(reply) => Err(format!("{path}: {}: {}", reply.status, reply.text())),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn api(catalog: &Known, rest: &str) -> String {
    format!("/catalogs/{}/api/v1/{rest}", catalog.name)
}

/// The whole catalog.
fn whole(catalog: &Known, world: &World, up: Up) -> Result<(), String> {
    let floor = catalog.floor(Api::Catalog);
    let Some(reply) = get(world, up, &api(catalog, "all"), &[])? else {
        return Ok(());
    };
    let text = reply.text();
    catalog.take(Api::Catalog, floor, |variant| variant.text == text)?;
    world.count("answers over HTTP");
    Ok(())
}

/// The whole catalog as gzip.
fn compressed(catalog: &Known, world: &World, up: Up) -> Result<(), String> {
    let floor = catalog.floor(Api::Catalog);
    let headers = [("Accept-Encoding", "gzip")];
    let Some(reply) = get(world, up, &api(catalog, "all"), &headers)? else {
        return Ok(());
    };
    let text = if reply.header("content-encoding") == Some("gzip") {
        let text = std::io::read_to_string(MultiGzDecoder::new(&reply.body[..]));
        text.map_err(|error| format!("{}: gzip: {error}", catalog.name))?
    } else {
        // It is compressed after its publication.
        reply.text()
    };
    catalog.take(Api::Catalog, floor, |variant| variant.text == text)?;
    world.count("answers over HTTP");
    Ok(())
}

/// The blobs of one package.
fn selected(catalog: &Known, world: &World, up: Up) -> Result<(), String> {
    let floor = catalog.floor(Api::Catalog);
    let path = api(catalog, "metas?package=shared");
    let Some(reply) = get(world, up, &path, &[])? else {
        return Ok(());
    };
    let text = reply.text();
    catalog.take(Api::Catalog, floor, |variant| variant.shared == text)?;
    world.count("answers over HTTP");
    Ok(())
}

/// The list of packages.
fn listed(catalog: &Known, world: &World, up: Up) -> Result<(), String> {
    let floor = catalog.floor(Api::Catalog);
    let path = api(catalog, "packages?fields=name&limit=500");
    let Some(reply) = get(world, up, &path, &[])? else {
        return Ok(());
    };
    let list: Value = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    let items = list["items"].as_array().into_iter().flatten();
    let names: BTreeSet<String> = items
        .filter_map(|item| item["name"].as_str().map(str::to_owned))
        .collect();
    catalog.take(Api::Catalog, floor, |variant| variant.packages == names)?;
    world.count("answers to queries");
    Ok(())
}

/// The image of the catalog, pulled by tag.
fn pulled(catalog: &Known, world: &World, up: Up) -> Result<(), String> {
    let floor = catalog.floor(Api::Image);
    let path = format!("/v2/{}/manifests/latest", catalog.name);
    let manifest = match ask(up.http, "GET", &path, &[], b"") {
        // The image follows its catalog.
        Ok(reply) if reply.status == 503 => {
            world.count("pulls before an image");
            return Ok(());
        }
        Ok(reply) if reply.status == 200 => reply,
        _ if world.excuses(up) => return Ok(()),
        Ok(reply) => return Err(format!("{path}: {}: {}", reply.status, reply.text())),
        Err(error) => return Err(format!("{path}: {error}")),
    };
    let digest = Digest::of(&manifest.body).to_string();
    if manifest.header("docker-content-digest") != Some(&digest) {
        return Err(format!("{path}: the manifest has the digest {digest}"));
    }
    let document: Value = serde_json::from_slice(&manifest.body).map_err(|e| e.to_string())?;
    let layer = document["layers"][0]["digest"].as_str().unwrap_or_default();
    let blob_path = format!("/v2/{}/blobs/{layer}", catalog.name);
    let blob = match ask(up.http, "GET", &blob_path, &[], b"") {
        Ok(reply) if reply.status == 200 => reply.body,
        other => {
            // Two newer images have taken its place meanwhile.
            let again = ask(up.http, "GET", &path, &[], b"");
            let moved = again.is_ok_and(|again| again.body != manifest.body);
            if moved || world.excuses(up) {
                world.count("pulls overtaken");
                return Ok(());
            }
            let what = other.map(|reply| reply.status);
            return Err(format!("{blob_path}: {what:?}"));
        }
    };
    if Digest::of(&blob).to_string() != layer {
        return Err(format!("{blob_path}: the layer is damaged"));
    }
    let text = files(&blob).map_err(|error| format!("{blob_path}: {error}"))?;
    catalog.take(Api::Image, floor, |variant| variant.text == text)?;
    world.count("images pulled");
    Ok(())
}

/// The contents of the files of a layer, one behind the other.
fn files(layer: &[u8]) -> std::io::Result<String> {
    let mut archive = Vec::new();
    GzDecoder::new(layer).read_to_end(&mut archive)?;
    let mut text = String::new();
    for entry in tar::Archive::new(&archive[..]).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            entry.read_to_string(&mut text)?;
        }
    }
    Ok(text)
}

/// Reads snapshots over gRPC, as Operator Lifecycle Manager does, each over a
/// connection of its own.
fn snapshots(catalog: &Known, world: &World) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut interrupted = 0;
    while !world.is_over() {
        if let Some(up) = world.now() {
            match snapshot(&runtime, catalog, up) {
                Ok(()) => {
                    interrupted = 0;
                    world.count("snapshots over gRPC");
                }
                Err(Failed::Wrong(problem)) => world.wrong(up, problem),
                Err(_) if world.excuses(up) => world.count("snapshots turned away"),
                Err(Failed::Broken(_)) if interrupted < INTERRUPTED => {
                    interrupted += 1;
                    world.count("snapshots begun anew");
                }
                Err(Failed::Broken(problem) | Failed::Refused(problem)) => {
                    world.violation(problem);
                }
            }
        }
        thread::sleep(PAUSE);
    }
}

/// The failure of a snapshot.
enum Failed {
    /// The connection ended, as it does when there is new content.
    Broken(String),
    /// There is no connection, or a call has another status than 0.
    Refused(String),
    /// The answers are of no variant, or of an old one.
    Wrong(String),
}

fn snapshot(runtime: &Runtime, catalog: &Known, up: Up) -> Result<(), Failed> {
    let floor = catalog.floor(Api::Catalog);
    let read = async {
        let mut connection = Connection::open(up.grpc, catalog.name).await?;
        let bundles: Vec<Bundle> = connection
            .call("ListBundles", ListBundlesRequest {})
            .await?;
        let shared = GetPackageRequest {
            name: "shared".into(),
        };
        let shared: Vec<Package> = connection.call("GetPackage", shared).await?;
        let names: Vec<PackageName> = connection
            .call("ListPackages", ListPackageRequest {})
            .await?;
        Ok((bundles, shared, names))
    };
    let (bundles, shared, names) = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, read).await })
        .map_err(|_| Failed::Refused(format!("{}: no snapshot in time", catalog.name)))??;
    let bundles: BTreeSet<String> = bundles.into_iter().map(|it| it.csv_name).collect();
    let names: BTreeSet<String> = names.into_iter().map(|it| it.name).collect();
    let channel = shared.first().map(|it| it.default_channel_name.clone());
    let channel = channel.unwrap_or_default();
    let is_of = |variant: &Variant| {
        variant.bundles == bundles
            && variant.packages == names
            && variant.shared.contains(&format!("\"{channel}\""))
    };
    catalog
        .take(Api::Catalog, floor, is_of)
        .map_err(Failed::Wrong)
}

/// One HTTP/2 connection, which is never renewed: a snapshot has one generation.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

impl Connection {
    async fn open(server: SocketAddr, catalog: &str) -> Result<Self, Failed> {
        let refused = |error: String| Failed::Refused(format!("{catalog}: {error}"));
        let tcp = tokio::net::TcpStream::connect(server).await;
        let tcp = tcp.map_err(|error| refused(error.to_string()))?;
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp));
        let (sender, connection) = shaken.await.map_err(|error| refused(error.to_string()))?;
        // Its end is seen by the calls.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            authority: format!("{catalog}.olm.svc:50051"),
        })
    }

    /// Calls a method and reads its answer to the end.
    async fn call<Q: Message, A: Message + Default>(
        &mut self,
        method: &str,
        request: Q,
    ) -> Result<Vec<A>, Failed> {
        let broken = |error: hyper::Error| Failed::Broken(format!("{method}: {error}"));
        let mut body = vec![0];
        let message = request.encode_to_vec();
        body.put_u32(message.len() as u32);
        body.extend(message);
        let request = Request::post(format!("http://{}/api.Registry/{method}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.sender.ready().await.map_err(broken)?;
        let response = self.sender.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(broken)?;
        let trailers = body.trailers().unwrap_or(&head.headers);
        let status = trailers.get("grpc-status").map(|it| it.as_bytes().to_vec());
        if status.as_deref() != Some(b"0") {
            let text = trailers.get("grpc-message");
            return Err(Failed::Refused(format!(
                "{method} of {}: status {status:?}, {text:?}",
                self.authority
            )));
        }
        let mut rest = body.to_bytes();
        let mut messages = Vec::new();
        while rest.len() >= 5 {
            let length = (&rest[1..5]).get_u32() as usize;
            rest.advance(5);
            let message = rest.split_to(length.min(rest.len()));
            let message = A::decode(message).map_err(|error| Failed::Wrong(error.to_string()))?;
            messages.push(message);
        }
        Ok(messages)
    }
}
