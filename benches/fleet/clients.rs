//! Clients that ask replicas through a proxy, in turns, and compare the answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use almanac::proto::{ListPackageRequest, PackageName};
use http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use crate::fleet::Places;
use crate::known::Known;
use crate::proxy::Proxy;
use crate::support::http::{Reply, ask, get};

/// The clients that stay with a replica.
pub(crate) const AFFINE: usize = 50;
/// All clients.
const CLIENTS: usize = AFFINE + 10;
/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients, until they are stopped.
pub(crate) struct Clients {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts them before the replicas in rotation.
    pub(crate) fn start(known: &Arc<Known>, places: &Arc<Places>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let proxy = Arc::new(Proxy::start(places));
        let client = |number: usize| {
            let (known, places) = (Arc::clone(known), Arc::clone(places));
            let (over, proxy) = (Arc::clone(&over), Arc::clone(&proxy));
            thread::spawn(move || {
                thread::sleep(PAUSE.mul_f64(number as f64 / CLIENTS as f64));
                while !over.load(Ordering::Relaxed) {
                    if let Err(problem) = request(number, &known, &proxy) {
                        // Only a connection to a replica that was killed may fail.
                        let place = proxy.carried(number);
                        let is_excused = place.is_some_and(|place| !places.has(place));
                        known.failed(is_excused, &problem);
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

/// One request, or two where a tag leads to a digest.
fn request(number: usize, known: &Known, proxy: &Proxy) -> Result<(), String> {
    let http = proxy.http(number);
    match number % 4 {
        0 => {
            let text = good(get(http, "/catalogs/a/api/v1/all"))?.text();
            known.take(number, proxy.carried(number), |variant| {
                variant.text == text
            });
        }
        1 => {
            let headers = [("Accept-Encoding", "gzip")];
            let reply = good(ask(http, "GET", "/catalogs/a/api/v1/all", &headers, b""))?;
            let unpacked = flate2::read::MultiGzDecoder::new(&reply.body[..]);
            let text = if reply.header("content-encoding") == Some("gzip") {
                std::io::read_to_string(unpacked).map_err(|error| error.to_string())?
            } else {
                reply.text()
            };
            known.take(number, proxy.carried(number), |variant| {
                variant.text == text
            });
        }
        2 => {
            let names = packages(proxy.grpc(number))?;
            known.take(number, proxy.carried(number), |variant| {
                variant.packages == names
            });
        }
        _ => {
            let tag = good(get(http, "/v2/a/manifests/latest"))?;
            let digest = tag.header("docker-content-digest").unwrap_or_default();
            // Another replica has the next turn.
            let told_by = proxy.carried(number);
            let pulled = good(get(http, &format!("/v2/a/manifests/{digest}")));
            let ports =
                [told_by, proxy.carried(number)].map(|place| place.map(|it| it.http.port()));
            let pulled =
                pulled.map_err(|error| format!("{error}, tag and digest from {ports:?}"))?;
            if pulled.body != tag.body {
                known.wrong(&format!("{digest} has other bytes elsewhere"));
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
