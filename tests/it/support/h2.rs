//! HTTP/2 frame by frame, for clients that do what no library lets them.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::http;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The setting for the window of a stream.
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// A connection.
pub(crate) struct Connection {
    pub tcp: TcpStream,
}

/// Frames of the server.
#[derive(Debug)]
pub(crate) struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Connection {
    /// A connection with these settings.
    pub(crate) fn open(server: SocketAddr, settings: &[(u16, u32)]) -> io::Result<Self> {
        let mut connection = Self {
            tcp: http::connect(server)?,
        };
        connection
            .tcp
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        let mut payload = Vec::new();
        for (key, value) in settings {
            payload.extend(key.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        connection.send(SETTINGS, 0, 0, &payload)?;
        Ok(connection)
    }

    /// Sends any frame.
    pub(crate) fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.tcp.write_all(&frame(kind, flags, stream, payload))
    }

    /// Begins a call, with its message when there is one.
    pub(crate) fn call(
        &mut self,
        stream: u32,
        authority: &str,
        path: &str,
        message: Option<&[u8]>,
    ) -> io::Result<()> {
        self.tcp.write_all(&call(stream, authority, path, message))
    }

    /// The same with another content type than that of gRPC.
    pub(crate) fn call_as(
        &mut self,
        content_type: &str,
        stream: u32,
        authority: &str,
        path: &str,
        message: Option<&[u8]>,
    ) -> io::Result<()> {
        self.tcp
            .write_all(&typed(content_type, stream, authority, path, message))
    }

    /// The next frame that is no setting, ping or window; answers those that
    /// have to be.
    pub(crate) fn next(&mut self) -> io::Result<Frame> {
        loop {
            let frame = self.any()?;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[])?,
                PING if frame.flags & ACK == 0 => self.send(PING, ACK, 0, &frame.payload)?,
                SETTINGS | PING | WINDOW_UPDATE => {}
                _ => return Ok(frame),
            }
        }
    }

    /// The next frame, whatever it is; nothing is answered.
    pub(crate) fn any(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.tcp.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.tcp.read_exact(&mut payload)?;
        Ok(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }
}

/// The bytes of a call.
pub(crate) fn call(stream: u32, authority: &str, path: &str, message: Option<&[u8]>) -> Vec<u8> {
    typed("application/grpc", stream, authority, path, message)
}

fn typed(
    content_type: &str,
    stream: u32,
    authority: &str,
    path: &str,
    message: Option<&[u8]>,
) -> Vec<u8> {
    let mut fields = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", authority),
        ("content-type", content_type),
        ("te", "trailers"),
    ] {
        // A literal that is not indexed (RFC 7541, section 6.2.2).
        fields.push(0);
        for text in [name, value] {
            assert!(text.len() < 0x7f);
            fields.push(text.len() as u8);
            fields.extend(text.as_bytes());
        }
    }
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &fields);
    if let Some(message) = message {
        let mut framed = vec![0];
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
        bytes.extend(frame(DATA, END_STREAM, stream, &framed));
    }
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}
