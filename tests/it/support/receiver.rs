//! A receiver of webhooks that keeps what it gets, and answers as it is told.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use super::port;
use super::program::{PATIENCE, STEP, pause};

/// The longest request, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// How a request is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// With a status line and further header lines.
    Head(String),
    /// Never.
    Silence,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The request line and the header lines.
    pub head: String,
    pub body: Vec<u8>,
}

/// A receiver. It ends when it is dropped.
pub(crate) struct Receiver {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    received: Mutex<Vec<Received>>,
    answers: Mutex<VecDeque<Answer>>,
    ended: AtomicBool,
}

impl Answer {
    pub(crate) fn status(status: &str) -> Self {
        Self::Head(format!("HTTP/1.1 {status}\r\n"))
    }
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        pairs.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }

    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The last part of the type of the event.
    pub(crate) fn kind(&self) -> String {
        let event = self.event();
        let kind = event["type"].as_str().unwrap();
        kind.rsplit('.').next().unwrap().to_owned()
    }
}

impl Receiver {
    /// Answers the first requests with these, and all others with 204.
    pub(crate) fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start_with(answers, None)
    }

    pub(crate) fn start_with(
        answers: impl IntoIterator<Item = Answer>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = port::listener();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            answers: Mutex::new(answers.into_iter().collect()),
            ..State::default()
        });
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming() {
                if serving.ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let (state, tls) = (Arc::clone(&serving), tls.clone());
                // A client may leave at any time.
                thread::spawn(move || {
                    connection.set_read_timeout(Some(PATIENCE)).ok()?;
                    match tls {
                        None => state.serve(connection),
                        Some(tls) => {
                            let session = ServerConnection::new(tls).ok()?;
                            state.serve(StreamOwned::new(session, connection))
                        }
                    }
                });
            }
        });
        Self { address, state }
    }

    /// The events received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// Waits for so many requests, and gives them.
    pub(crate) fn until(&self, count: usize) -> Vec<Received> {
        let begin = Instant::now();
        loop {
            let received = self.received();
            if received.len() >= count {
                return received;
            }
            assert!(begin.elapsed() < PATIENCE, "only {received:?}");
            pause(begin);
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        // The loop waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn serve(&self, mut connection: impl Read + Write) -> Option<()> {
        let mut bytes = Vec::new();
        let received = loop {
            let mut part = [0; 4096];
            let length = connection.read(&mut part).ok()?;
            if length == 0 || bytes.len() > MAX_REQUEST {
                return None;
            }
            bytes.extend_from_slice(&part[..length]);
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let received = Received {
                head: String::from_utf8_lossy(&bytes[..end]).into_owned(),
                body: bytes[end + 4..].to_vec(),
            };
            let expected: usize = received.header("content-length")?.parse().ok()?;
            if received.body.len() >= expected {
                break received;
            }
        };
        let answer = self.answers.lock().unwrap().pop_front();
        self.received.lock().unwrap().push(received);
        match answer.unwrap_or_else(|| Answer::status("204 No Content")) {
            Answer::Head(head) => {
                let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
                connection
                    .write_all(format!("{head}{end}").as_bytes())
                    .ok()?;
                connection.flush().ok()
            }
            Answer::Silence => {
                while !self.ended.load(Ordering::Relaxed) {
                    thread::sleep(STEP);
                }
                None
            }
        }
    }
}
