//! Ports that have to be known before somebody listens on them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use super::program::{PATIENCE, pause};

/// Where nobody listens: the superuser alone could, and does not.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

/// How many ports are chosen from. The system gives none of them to those who
/// ask for any.
const COUNT: u16 = 12_000;
/// The first of them where the system does not say which ones it gives.
const FIRST: u16 = 20_000;
/// Those below are often somebody's.
const LEAST: u16 = 1_024;
/// How far from the first port of one process that of the next lies.
const STRIDE: u32 = 211;
/// How many ports a program is given one after the other.
const ATTEMPTS: u32 = 5;

/// A port of this machine that is free. No other test is given the same, and
/// the system gives it to nobody who does not ask for this very one.
pub(crate) fn free_port() -> SocketAddr {
    listener().local_addr().unwrap()
}

/// The same, while somebody listens on it already.
pub(crate) fn listener() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = first();
    // Another process that runs tests begins elsewhere.
    let offset = std::process::id() * STRIDE % u32::from(COUNT);
    for _ in 0..COUNT {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = first + ((offset + next) % u32::from(COUNT)) as u16;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
    panic!("no port from {first} on is free");
}

/// Starts a program that listens where it is told, and waits until it does.
/// Where somebody was quicker, which ends the program, it is started with
/// another port.
pub(crate) fn listening(
    name: &str,
    mut start: impl FnMut(SocketAddr) -> Child,
) -> (Child, SocketAddr) {
    for _ in 0..ATTEMPTS {
        let address = free_port();
        let mut child = start(address);
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if TcpStream::connect(address).is_ok() {
                return (child, address);
            }
            if begin.elapsed() >= PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{name} does not listen on {address}");
            }
            pause(begin);
        };
        eprintln!("{name} at {address} ended: {status}");
    }
    panic!("{name} does not start");
}

/// The first port that is chosen from.
fn first() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let given = range.ok().and_then(|range| {
        let least = range.split_whitespace().next()?;
        least.parse::<u16>().ok()
    });
    let first = given.and_then(|given| given.checked_sub(COUNT));
    first.filter(|first| *first >= LEAST).unwrap_or(FIRST)
}

mod checks {
    use std::process::Command;

    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports = [(); 20].map(|()| free_port());
        let different: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(different.len(), ports.len(), "{ports:?}");
    }

    #[test]
    fn a_program_whose_port_is_taken_gets_another() {
        let (mut given, mut place) = (Vec::new(), None);
        let (mut child, address) = listening("a stand-in", |address| {
            given.push(address);
            // The second one listens, through the test.
            let script = if given.len() == 1 {
                "exit 1"
            } else {
                place = Some(TcpListener::bind(address).unwrap());
                "exec sleep 60"
            };
            Command::new("sh").args(["-c", script]).spawn().unwrap()
        });
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(given.len(), 2);
        assert_eq!(given[1], address);
        assert_ne!(given[0], address);
        drop(place);
    }
}
