//! A balancer before the replicas: carries each connection of a client with affinity to the
//! replica of its last one, as long as that is in rotation and accepts it, and others to the
//! next one in turn.
//!
//! A client has an address of its own, `127.0.1.N`, at which it asks the proxy. So it is
//! known to which replica the last connection of a client was carried.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::clients::AFFINE;
use crate::fleet::{Place, Places};

/// A proxy that runs until it is dropped.
pub(crate) struct Proxy {
    http: u16,
    grpc: u16,
    state: Arc<State>,
    _runtime: Runtime,
}

struct State {
    places: Arc<Places>,
    turn: AtomicUsize,
    /// Where the last connection of each client went.
    carried: Mutex<BTreeMap<IpAddr, Place>>,
}

impl Proxy {
    /// Starts a proxy to the replicas in rotation.
    pub(crate) fn start(places: &Arc<Places>) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let state = Arc::new(State {
            places: Arc::clone(places),
            turn: AtomicUsize::new(0),
            carried: Mutex::default(),
        });
        let listen = |port: fn(&Place) -> SocketAddr| {
            let listener = runtime.block_on(TcpListener::bind("0.0.0.0:0")).unwrap();
            let number = listener.local_addr().unwrap().port();
            runtime.spawn(serve(listener, Arc::clone(&state), port));
            number
        };
        Self {
            http: listen(|place| place.http),
            grpc: listen(|place| place.grpc),
            state,
            _runtime: runtime,
        }
    }

    /// Where a client asks for HTTP.
    pub(crate) fn http(&self, client: usize) -> SocketAddr {
        (address(client), self.http).into()
    }

    /// Where a client asks for gRPC.
    pub(crate) fn grpc(&self, client: usize) -> SocketAddr {
        (address(client), self.grpc).into()
    }

    /// Where the last connection of a client went; nowhere when no replica accepted it.
    pub(crate) fn carried(&self, client: usize) -> Option<Place> {
        let carried = self.state.carried.lock().unwrap();
        carried.get(&address(client)).copied()
    }
}

/// Whether a client stays with a replica.
fn has_affinity(asked: IpAddr) -> bool {
    (0..AFFINE).any(|client| address(client) == asked)
}

fn address(client: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, client as u8 + 1).into()
}

async fn serve(listener: TcpListener, state: Arc<State>, port: fn(&Place) -> SocketAddr) {
    while let Ok((client, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            if let Ok(asked) = client.local_addr() {
                carry(client, asked.ip(), &state, port).await;
            }
        });
    }
}

/// Carries a connection until one end closes it. One that breaks is broken for the client.
async fn carry(
    mut client: TcpStream,
    asked: IpAddr,
    state: &State,
    port: fn(&Place) -> SocketAddr,
) {
    let before = state.carried.lock().unwrap().remove(&asked);
    let mut places = state.places.rotation();
    let turn = state.turn.fetch_add(1, Ordering::Relaxed);
    let count = places.len().max(1);
    places.rotate_left(turn % count);
    if has_affinity(asked) {
        places.sort_by_key(|place| Some(*place) != before);
    }
    for place in places {
        let Ok(mut replica) = TcpStream::connect(port(&place)).await else {
            continue;
        };
        state.carried.lock().unwrap().insert(asked, place);
        // Answers are cut by a proxy as they are without one.
        if copy_bidirectional(&mut client, &mut replica).await.is_err() {
            let _ = client.set_zero_linger();
        }
        return;
    }
    let _ = client.set_zero_linger();
}
