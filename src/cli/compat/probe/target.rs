//! The address of the server that is probed.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::{fmt, io};

/// gRPC's default port.
const DEFAULT_PORT: u16 = 443;

/// The address of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    host: String,
    port: u16,
}

impl Target {
    /// Parses `HOST:PORT`, also with a scheme of gRPC (`dns:///HOST:PORT`).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not HOST:PORT");
        let short = ["dns:///", "passthrough:///"];
        let bare = short.iter().find_map(|start| text.strip_prefix(start));
        let bare = bare.unwrap_or(text);
        let (host, port) = match bare.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| refused())?)
            }
            _ => (bare, DEFAULT_PORT),
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if bare.is_empty() || host.contains(['/', '@', ' ', '[', ']']) {
            return Err(refused());
        }
        Ok(Self {
            host: if host.is_empty() { "localhost" } else { host }.to_owned(),
            port,
        })
    }

    /// The host without the port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The addresses, in the order in which they are tried. `localhost` needs no
    /// name resolution.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if self.host == "localhost" {
            return Ok(vec![
                (Ipv4Addr::LOCALHOST, self.port).into(),
                (Ipv6Addr::LOCALHOST, self.port).into(),
            ]);
        }
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        Ok(found.collect())
    }
}

/// The authority of calls to the server.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_grpc_reads_it() {
        for (text, shown) in [
            (":50051", "localhost:50051"),
            ("localhost:1", "localhost:1"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("[::1]:1", "[::1]:1"),
            ("[::1]", "[::1]:443"),
            ("::1", "[::1]:443"),
            ("a.example", "a.example:443"),
            ("dns:///a.example:1", "a.example:1"),
            ("passthrough:///a:1", "a:1"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "a:",
            "a:b",
            "a:70000",
            "unix:///a",
            "http://a:1",
            "a b:1",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
