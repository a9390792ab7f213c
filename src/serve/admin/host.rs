//! The hosts under which the admin port answers.
//!
//! A page that an administrator opens may give its own name the address of this port (DNS
//! rebinding), and would then read the answers as its own. So the port answers to addresses
//! and to names that nobody can register.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::HOST;
use http::request::Parts;
use http::{StatusCode, Uri};

/// The last labels of names that no registry of the internet gives away.
const RESERVED: [&str; 4] = ["internal", "local", "localhost", "svc"];
/// The route whose answer is the same for everybody.
const LIVENESS: &str = "/livez";
const MISDIRECTED: &str = "the admin port does not answer to this Host: ask it by its IP address, \
    by localhost, by a name without dots, or by a name that ends with .svc, .local or .internal; \
    `url` in [pages] adds its host\n";

/// Passes requests to an own host on.
pub(super) async fn check(
    State(named): State<Option<Arc<str>>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    if parts.uri.path() == LIVENESS || is_own(&parts, named.as_deref()) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, MISDIRECTED).into_response()
}

/// The host of a URL, as requests name it.
pub(super) fn host_of(url: &str) -> Option<Arc<str>> {
    let url: Uri = url.parse().ok()?;
    Some(url.host()?.to_ascii_lowercase().into())
}

/// Whether all hosts of a request are own ones. Browsers always send one.
fn is_own(request: &Parts, named: Option<&str>) -> bool {
    let authority = request.uri.authority().map(|it| Some(it.as_str()));
    let headers = request.headers.get_all(HOST).iter();
    let headers = headers.map(|host| host.to_str().ok());
    let mut hosts = authority.into_iter().chain(headers);
    hosts.all(|host| host.is_some_and(|host| is_own_host(host, named)))
}

/// Whether this is an own host, with or without a port.
fn is_own_host(host: &str, named: Option<&str>) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']').unwrap_or_default();
        let is_end = port.is_empty() || port.starts_with(':');
        return is_end && address.parse::<Ipv6Addr>().is_ok();
    }
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let last = match host.rsplit_once('.') {
        None => return !host.is_empty(),
        Some((_, last)) => last,
    };
    RESERVED.contains(&last) || host.parse::<IpAddr>().is_ok() || named == Some(&*host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_anybody_can_register_are_no_own_hosts() {
        for (host, own) in [
            ("127.0.0.1:9090", true),
            ("10.1.2.3", true),
            ("[::1]:9090", true),
            ("[2001:db8::1]", true),
            ("localhost:9090", true),
            ("LOCALHOST", true),
            ("almanac:9090", true),
            ("almanac.olm.svc:9090", true),
            ("almanac.olm.svc.cluster.local.", true),
            ("node.example.internal", true),
            ("status.example.com", true),
            ("STATUS.example.com:9090", true),
            ("evil.example.com:9090", false),
            ("127.0.0.1.example.com", false),
            ("localhost.example.com", false),
            ("svc.example.com", false),
            ("[::1].example.com", false),
            ("[evil]", false),
            ("", false),
            (":9090", false),
        ] {
            let found = is_own_host(host, Some("status.example.com"));
            assert_eq!(found, own, "{host}");
        }
    }

    #[test]
    fn each_host_of_a_request_counts() {
        let own = |uri: &str, hosts: &[&str]| {
            let mut request = http::Request::get(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            is_own(&request.body(()).unwrap().into_parts().0, None)
        };
        assert!(own("/status", &[]));
        assert!(own("/status", &["localhost"]));
        assert!(own("http://10.0.0.1:9090/status", &["10.0.0.1:9090"]));
        assert!(!own("/status", &["localhost", "evil.example.com"]));
        assert!(!own("http://evil.example.com/status", &["localhost"]));
    }

    #[test]
    fn the_host_of_the_pages_is_named() {
        let host = host_of("https://Almanac.example.com:8443");
        assert_eq!(host.as_deref(), Some("almanac.example.com"));
        assert_eq!(host_of("/"), None);
    }
}
