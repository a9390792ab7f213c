//! One HTTP/1.1 question over a connection of its own: enough to ask the
//! program how it is, and to see an answer as it came.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::net::TcpSocket;

use super::program::PATIENCE;

use super::runtime::block_on;

/// The longest answer that is read, in bytes.
const LIMIT: u64 = 256 << 20;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// Without the framing of chunks, and otherwise as it was sent.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first value of a header; `name` is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Gets a path.
pub(crate) fn get(peer: SocketAddr, path: &str) -> io::Result<Reply> {
    ask(peer, "GET", path, &[], b"")
}

/// Asks anything. The headers come after `Host`, `Connection` and
/// `Content-Length`.
pub(crate) fn ask(
    peer: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Reply> {
    exchange(
        connect(peer)?,
        &peer.to_string(),
        method,
        path,
        headers,
        body,
    )
}

/// A connection that is never waited for for long.
pub(crate) fn connect(peer: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&peer, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Asks over a connection of any kind, for a host.
pub(crate) fn exchange(
    mut connection: impl io::Read + io::Write,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Reply> {
    let mut question = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        question.extend([name, ": ", value, "\r\n"]);
    }
    question += "\r\n";
    connection.write_all(question.as_bytes())?;
    connection.write_all(body)?;

    let mut answer = Vec::new();
    connection.take(LIMIT).read_to_end(&mut answer)?;
    read(&answer).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(1000)]).into_owned();
        io::Error::new(io::ErrorKind::InvalidData, shown)
    })
}

/// Reads an answer that has come to its end.
pub(crate) fn read(answer: &[u8]) -> Option<Reply> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut reply = Reply {
        status: status.parse().ok()?,
        headers,
        body: answer[end + 4..].to_vec(),
    };
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.body = without_chunks(&reply.body)?;
    } else if let Some(length) = reply.header("content-length") {
        // A body that was cut is no answer; one to HEAD is empty.
        let length: usize = length.parse().ok()?;
        if reply.body.len() != length && !reply.body.is_empty() {
            return None;
        }
    }
    Some(reply)
}

/// Joins the chunks of a body.
fn without_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let line = str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let chunk = rest.get(end + 2..)?;
        body.extend_from_slice(chunk.get(..size)?);
        rest = chunk.get(size + 2..)?;
    }
}

mod checks {
    use std::net::TcpListener;

    use super::*;

    /// Answers one question with `answer`.
    fn peer(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let size = connection.read(&mut question).unwrap();
            assert!(question[..size].starts_with(b"GET /readyz HTTP/1.1\r\nHost: 127."));
            connection.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let whole =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nwait";
        let reply = get(peer(whole), "/readyz").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (503, "wait"));
        assert_eq!(reply.header("retry-after"), Some("3"));

        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        assert_eq!(get(peer(chunks), "/readyz").unwrap().text(), "abcde");
    }

    #[test]
    fn an_answer_that_was_cut_is_an_error() {
        for cut in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ] {
            assert!(get(peer(cut), "/readyz").is_err(), "{cut:?}");
        }
    }
}

/// A connection that takes little before it is read from.
pub(crate) fn narrow(address: SocketAddr) -> TcpStream {
    narrow_to(address, 16 << 10)
}

/// A connection that takes about so many bytes before it is read from.
pub(crate) fn narrow_to(address: SocketAddr, bytes: u32) -> TcpStream {
    let connection = block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    connection.set_nonblocking(false).unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    connection
}
