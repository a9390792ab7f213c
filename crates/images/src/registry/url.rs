//! Comparing and showing the URLs of registries.

use std::net::IpAddr;

use reqwest::Url;

/// The longest URL that an error repeats, in characters.
const MAX_URL: usize = 500;

/// The scheme, host, port and path of a URL, for messages. The query can hold
/// a signature.
pub(crate) fn redacted(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
        .chars()
        .take(MAX_URL)
        .collect()
}

/// Whether both URLs have the same scheme, host and port.
pub(crate) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// `HOST` or `HOST:PORT`.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether the host of a URL is this machine, by its name or address.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_secrets() {
        let url = Url::parse("https://me:secret@h.example:8443/v2/a?X-Signature=secret#secret");
        assert_eq!(redacted(&url.unwrap()), "https://h.example:8443/v2/a");
    }

    #[test]
    fn another_port_or_scheme_is_another_origin() {
        let one = Url::parse("https://quay.io/a").unwrap();
        assert!(same_origin(
            &one,
            &Url::parse("https://quay.io:443/b?c").unwrap()
        ));
        for other in [
            "http://quay.io/a",
            "https://quay.io:8443/a",
            "https://cdn.quay.io/a",
        ] {
            assert!(!same_origin(&one, &Url::parse(other).unwrap()), "{other}");
        }
    }
}
