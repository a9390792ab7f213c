//! Connections through the test, which can stall: what lies between two machines forgets
//! them, and neither end is told.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A relay that runs until the tests end.
pub(crate) struct Relay {
    address: SocketAddr,
    /// Connections with a lower number are stalled.
    stalled: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

impl Relay {
    /// Starts a relay to `target`.
    pub(crate) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Self {
            address,
            stalled: Arc::default(),
            opened: Arc::default(),
        };
        let (stalled, opened) = (Arc::clone(&relay.stalled), Arc::clone(&relay.opened));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let number = opened.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(target) else {
                    continue;
                };
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                for (from, to) in [(client, server), back] {
                    let stalled = Arc::clone(&stalled);
                    thread::spawn(move || carry(from, to, number, &stalled));
                }
            }
        });
        relay
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Carries nothing more, on no connection.
    pub(crate) fn cut(&self) {
        self.stalled.store(usize::MAX, Ordering::SeqCst);
    }

    /// Carries nothing more on the connections that are open now.
    pub(crate) fn stall(&self) {
        let opened = self.opened.load(Ordering::SeqCst);
        self.stalled.store(opened, Ordering::SeqCst);
    }
}

/// Carries bytes until an end closes the connection, and drops them once it is stalled.
fn carry(mut from: TcpStream, mut to: TcpStream, number: usize, stalled: &AtomicUsize) {
    let mut bytes = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let is_stalled = number < stalled.load(Ordering::SeqCst);
        if !is_stalled && to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
    // The other end is told of the end, unless it is stalled.
    if number >= stalled.load(Ordering::SeqCst) {
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}
