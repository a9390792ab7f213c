//! Turns for work that occupies a core: a few at once, and one for each peer, so that a
//! peer with many requests delays the others by one turn and not by all of its own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bits of an IPv6 address that name a network. One machine may have all addresses of
/// its network.
const NETWORK: u128 = !0 << 64;

/// The turns of all peers. Clones share them.
#[derive(Clone)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// A turn of each peer with requests now.
    peers: Arc<Mutex<HashMap<IpAddr, Arc<Semaphore>>>>,
}

/// The turn of a request, until it is dropped.
pub(super) struct Turn {
    // In this order: the place is left after the permits are given back.
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _place: Place,
}

/// A request in the queue of its peer.
struct Place {
    turns: Turns,
    peer: IpAddr,
    queue: Arc<Semaphore>,
}

impl Turns {
    /// So many turns at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            peers: Arc::default(),
        }
    }

    /// Waits for a turn. Each peer has one at a time. `None` is a peer as well.
    pub(super) async fn take(&self, peer: Option<IpAddr>) -> Option<Turn> {
        let place = self.queue(network(peer));
        // The semaphores are never closed.
        let own = Arc::clone(&place.queue).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Turn {
            _all: all,
            _own: own,
            _place: place,
        })
    }

    fn queue(&self, peer: IpAddr) -> Place {
        let mut peers = self.peers.lock();
        let queue = peers
            .entry(peer)
            .or_insert_with(|| Arc::new(Semaphore::new(1)));
        Place {
            turns: self.clone(),
            peer,
            queue: Arc::clone(queue),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.turns.peers.lock();
        // This place and the table: nobody else of this peer waits.
        if Arc::strong_count(&self.queue) <= 2 {
            peers.remove(&self.peer);
        }
    }
}

/// The addresses that count as one peer, named by their first.
fn network(peer: Option<IpAddr>) -> IpAddr {
    match peer.map(|peer| peer.to_canonical()) {
        None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        Some(IpAddr::V6(peer)) => IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() & NETWORK)),
        Some(peer) => peer,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_with_many_requests_leaves_a_turn_to_others() {
        let turns = Turns::new(2);
        let take = |peer: &str| turns.take(Some(address(peer)));
        let first = take("192.0.2.1").now_or_never().flatten();
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(take("192.0.2.1"))).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none(), "one turn at a time");
        }
        let other = take("192.0.2.2").now_or_never().flatten();
        assert!(first.is_some() && other.is_some());
        // All turns are taken.
        let mut third = Box::pin(take("192.0.2.3"));
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        assert!(
            third.now_or_never().flatten().is_some(),
            "next in the queue"
        );
    }

    #[test]
    fn a_peer_without_requests_is_forgotten() {
        let turns = Turns::new(2);
        let turn = turns
            .take(Some(address("192.0.2.1")))
            .now_or_never()
            .flatten();
        let mut waiting = Box::pin(turns.take(Some(address("192.0.2.1"))));
        assert!((&mut waiting).now_or_never().is_none());
        drop(waiting);
        assert_eq!(turns.peers.lock().len(), 1);
        drop(turn);
        assert_eq!(turns.peers.lock().len(), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        for (one, other, same) in [
            ("2001:db8::1", "2001:db8::2:3:4:5", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let [one, other] = [one, other].map(|text| network(Some(address(text))));
            assert_eq!(one == other, same, "{one} {other}");
        }
    }
}
