//! Clients that ask replicas in turns, as behind a balancer, and compare the answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use almanac::proto::{ListPackageRequest, PackageName};
use http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use crate::fleet::{Place, Places};
use crate::known::Known;
use crate::support::http::{Reply, ask, get};

const CLIENTS: usize = 50;
/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients, until they are stopped.
pub(crate) struct Clients {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts them. They ask so many replicas in turns.
    pub(crate) fn start(known: &Arc<Known>, places: &Arc<Places>, replicas: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let turn = Arc::new(AtomicUsize::new(0));
        let client = |number: usize| {
            let (known, places) = (Arc::clone(known), Arc::clone(places));
            let (over, turn) = (Arc::clone(&over), Arc::clone(&turn));
            thread::spawn(move || {
                thread::sleep(PAUSE.mul_f64(number as f64 / CLIENTS as f64));
                while !over.load(Ordering::Relaxed) {
                    let place = places.get(turn.fetch_add(1, Ordering::Relaxed) % replicas);
                    if let Some(place) = place {
                        let other = places.get(turn.load(Ordering::Relaxed) % replicas);
                        let asked = request(number, &known, place, other.unwrap_or(place));
                        if let Err(failure) = asked {
                            let (place, problem) = *failure;
                            known.failed(!places.has(place), problem);
                        }
                    }
                    thread::sleep(PAUSE);
                }
            })
        };
        Self {
            threads: (0..CLIENTS).map(client).collect(),
            over,
        }
    }

    pub(crate) fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// One request, or two where a tag leads to a digest. An error names the replica.
fn request(
    number: usize,
    known: &Known,
    place: Place,
    other: Place,
) -> Result<(), Box<(Place, String)>> {
    let asked = Instant::now();
    match number % 4 {
        0 => {
            let reply = good(get(place.http, "/catalogs/a/api/v1/all"));
            let text = reply.map_err(|error| Box::new((place, error)))?.text();
            known.take(asked, |variant| variant.text == text);
        }
        1 => {
            let headers = [("Accept-Encoding", "gzip")];
            let reply = ask(place.http, "GET", "/catalogs/a/api/v1/all", &headers, b"");
            let reply = good(reply).map_err(|error| Box::new((place, error)))?;
            let unpacked = flate2::read::MultiGzDecoder::new(&reply.body[..]);
            let text = if reply.header("content-encoding") == Some("gzip") {
                std::io::read_to_string(unpacked)
                    .map_err(|error| Box::new((place, error.to_string())))?
            } else {
                reply.text()
            };
            known.take(asked, |variant| variant.text == text);
        }
        2 => {
            let names = packages(place.grpc).map_err(|error| Box::new((place, error)))?;
            known.take(asked, |variant| variant.packages == names);
        }
        _ => {
            let tag = good(get(place.http, "/v2/a/manifests/latest"));
            let tag = tag.map_err(|error| Box::new((place, error)))?;
            let digest = tag.header("docker-content-digest").unwrap_or_default();
            let path = format!("/v2/a/manifests/{digest}");
            let pulled = good(get(other.http, &path)).map_err(|error| Box::new((other, error)))?;
            if pulled.body != tag.body {
                known.wrong(format!("{digest} has other bytes elsewhere"));
            }
        }
    }
    Ok(())
}

fn good(reply: std::io::Result<Reply>) -> Result<Reply, String> {
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.status == 200 {
        Ok(reply)
    } else {
        Err(format!("{}: {}", reply.status, reply.text()))
    }
}

/// The packages, in order, as OLM asks for them.
fn packages(address: SocketAddr) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let listed = async {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = channel.timeout(PATIENCE).connect().await;
        let channel = channel.map_err(|error| error.to_string())?;
        let mut client = tonic::client::Grpc::new(channel);
        let ready = client.ready().await;
        ready.map_err(|error| error.to_string())?;
        let path = PathAndQuery::from_static("/api.Registry/ListPackages");
        let codec = tonic_prost::ProstCodec::<ListPackageRequest, PackageName>::default();
        let request = tonic::Request::new(ListPackageRequest {});
        let stream = client.server_streaming(request, path, codec).await;
        let mut stream = stream.map_err(|error| error.to_string())?;
        let mut names = Vec::new();
        while let Some(package) = (stream.get_mut().message().await).map_err(|e| e.to_string())? {
            names.push(package.name);
        }
        names.sort();
        Ok(names)
    };
    runtime.block_on(listed)
}
