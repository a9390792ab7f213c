//! URLs with the wrong scheme, the wrong port, or a host that does not exist.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use super::{run, server};
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::port::NOBODY;
use crate::support::program::Start;
use crate::support::tls::Authority;

/// A server that reads a little, answers this to every connection, and closes it.
fn answering(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // Some clients leave at once.
            let _ = connection.read(&mut [0; 1]);
            let _ = connection.write_all(answer);
            let _ = connection.shutdown(std::net::Shutdown::Write);
            let _ = connection.read_to_end(&mut Vec::new());
        }
    });
    address
}

/// Checks the message of both ways to ask a server: for a list, and for a catalog.
fn assert_told(base: &str, said: &str) {
    for line in [
        format!("list catalogs --server {base}"),
        format!("list packages {base}/catalogs/community"),
    ] {
        let finished = run(&line);
        assert_eq!(finished.status.code(), Some(3), "{line}: {finished:#?}");
        assert!(finished.stderr.contains(said), "{line}: {finished:#?}");
        for library in ["hyper", "error sending request", "client error"] {
            assert!(!finished.stderr.contains(library), "{line}: {finished:#?}");
        }
    }
}

#[test]
fn https_to_a_port_without_tls_is_told_with_the_right_scheme() {
    let mut plain = server();
    let http = plain.address("http");
    assert_told(
        &format!("https://{http}"),
        "if this port does not speak TLS, write http://",
    );
    // Another server answers the handshake with HTTP.
    let other = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_told(
        &format!("https://{other}"),
        "this port does not speak TLS; write http:// in place of https://",
    );
    let silent = answering(b"");
    assert_told(
        &format!("https://{silent}"),
        "if this port does not speak TLS, write http://",
    );
}

#[test]
fn http_to_a_port_with_tls_is_told_with_the_right_scheme() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::one("a").write_to(folder.path(), Format::JsonLines);
    Authority::new().sign().write(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let config = following(&format!("file:{}", folder.path().display()))
        + &format!(
            "[http_tls]\ncertificate = {:?}\nkey = {:?}\n",
            path("tls.crt"),
            path("tls.key")
        );
    let mut almanac = Almanac::start(&config);
    let https = "this port expects TLS; write https:// in place of http://";
    let http = almanac.program.address("http");
    assert_told(&format!("http://{http}"), https);
    let other = answering(
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 59\r\n\r\n\
        <html>The plain HTTP request was sent to HTTPS port</html>\n",
    );
    assert_told(&format!("http://{other}"), https);
    // An alert of TLS, and no answer at all.
    for answer in [&b"\x15\x03\x01\x00\x02\x02\x46"[..], b""] {
        let other = answering(answer);
        assert_told(
            &format!("http://{other}"),
            "if this port expects TLS, write https://",
        );
    }
}

#[test]
fn a_host_that_does_not_exist_is_told_as_such() {
    // Labels of names have at most 63 characters, so no server is asked for this one.
    let host = "a".repeat(64);
    assert_told(&format!("http://{host}:8080"), "the host name is not known");
}

#[test]
fn the_admin_port_is_not_taken_for_that_of_catalogs() {
    let mut plain = server();
    let admin = plain.address("admin");
    assert_told(&format!("http://{admin}"), "HTTP port, by default 8080");
}

#[test]
fn the_admin_port_is_named_by_localhost_too() {
    let mut plain = server();
    let port = plain.address("admin").port();
    for line in ["status", "health"] {
        let finished = run(&format!("{line} --admin localhost:{port}"));
        assert_eq!(finished.status.code(), Some(0), "{finished:#?}");
    }
}

#[test]
fn a_proxy_that_fails_is_named() {
    let strict = answering(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").to_string();
    for (variable, proxy, url, said) in [
        ("HTTP_PROXY", NOBODY, "http", "refused"),
        ("HTTPS_PROXY", NOBODY, "https", "refused"),
        (
            "HTTPS_PROXY",
            &strict,
            "https",
            "the proxy wants a user and password (407)",
        ),
    ] {
        let url = format!("{url}://almanac.invalid/catalogs/a");
        let finished = Start::new(["list", "packages", &url])
            .variable(variable, &format!("http://{proxy}"))
            .run();
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        for part in [said, &format!("no connection through the proxy {proxy}")] {
            assert!(finished.stderr.contains(part), "{part:?}: {finished:?}");
        }
    }
    for (user, said) in [
        (
            "",
            "(407): write its variable as http://USER:PASSWORD@HOST:PORT",
        ),
        (
            "me:s3cret@",
            "refuses the user and password of its variable (407)",
        ),
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://almanac.invalid/catalogs/a");
            let variable = format!("{}_PROXY", scheme.to_uppercase());
            let finished = Start::new(["list", "packages", &url])
                .variable(&variable, &format!("http://{user}{strict}"))
                .run();
            assert!(finished.stderr.contains(said), "{finished:?}");
            assert!(!finished.stderr.contains("s3cret"), "{finished:?}");
        }
    }
}
