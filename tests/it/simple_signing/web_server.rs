//! A web server with signatures, which behaves well or badly.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Answers of a web server.
pub(super) enum Answer {
    /// The first signature, and no other.
    First(Vec<u8>),
    Status(u16),
    /// A body without an end.
    Endless,
    /// The same for all.
    Always(Vec<u8>),
    /// Half of a body.
    Cut,
}

/// A web server that answers one connection after the other.
pub(super) struct WebServer {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Starts a server, which speaks TLS if it is told how.
    pub(super) fn start(answer: Answer, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                // A client that goes away is none of the server's business.
                let stream = stream.unwrap();
                let _ = match &tls {
                    None => serve(stream, &answer, &seen),
                    Some(tls) => ServerConnection::new(Arc::clone(tls))
                        .map_err(io::Error::other)
                        .and_then(|tls| serve(StreamOwned::new(tls, stream), &answer, &seen)),
                };
            }
        });
        Self {
            address,
            requests,
            stop,
            thread: Some(thread),
        }
    }

    /// The heads of the requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

fn serve(
    mut stream: impl Read + Write,
    answer: &Answer,
    seen: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let is_first = request.contains("/signature-1 ");
    seen.lock().unwrap().push(request);
    let mut reply = |status: u16, length: Option<usize>, body: &[u8]| {
        let length = length.map_or_else(String::new, |length| {
            format!("Content-Length: {length}\r\n")
        });
        let head = format!("HTTP/1.1 {status} X\r\n{length}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    };
    match answer {
        Answer::First(body) if is_first => reply(200, Some(body.len()), body),
        Answer::First(_) => reply(404, Some(0), b""),
        Answer::Status(status) => reply(*status, Some(0), b""),
        Answer::Always(body) => reply(200, Some(body.len()), body),
        Answer::Cut => reply(200, Some(100), b"half"),
        Answer::Endless => {
            reply(200, None, b"")?;
            // Until the client has enough.
            loop {
                stream.write_all(&buffer)?;
            }
        }
    }
}
