//! A proxy on the loopback interface that leads every host to one address, so
//! that tests can use names nobody has.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy that runs until the tests end.
pub(crate) struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Starts a proxy to `target`.
    pub(crate) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&asked);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let recorded = Arc::clone(&recorded);
                // A peer that goes away ends its connection and nothing else.
                thread::spawn(move || drop(serve(connection, target, &recorded)));
            }
        });
        Self { address, asked }
    }

    /// `http://127.0.0.1:PORT`, with a user and password if there are some.
    pub(crate) fn url(&self, credentials: &str) -> String {
        format!("http://{credentials}{}", self.address)
    }

    /// Requests to it, such as `CONNECT host:443`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(client: TcpStream, target: SocketAddr, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.by_ref().take(16 << 10).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            break;
        }
        head.push(line);
    }
    let words: Vec<&str> = head[0].split_whitespace().collect();
    asked.lock().unwrap().push(words[..2].join(" "));
    let mut server = TcpStream::connect(target)?;
    server.set_read_timeout(Some(PATIENCE))?;
    let mut client = client;
    if words[0] == "CONNECT" {
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    } else {
        // http://HOST/PATH becomes /PATH; one request a connection.
        let path = words[1].splitn(4, '/').nth(3).unwrap_or_default();
        let line = format!("{} /{path} HTTP/1.1\r\nConnection: close\r\n", words[0]);
        server.write_all(line.as_bytes())?;
        for line in &head[1..] {
            if !line.to_lowercase().starts_with("proxy-") {
                server.write_all(line.as_bytes())?;
            }
        }
        server.write_all(b"\r\n")?;
    }
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    let answers = thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let _ = io::copy(&mut reader, &mut server);
    let _ = server.shutdown(std::net::Shutdown::Write);
    let _ = answers.join();
    Ok(())
}
