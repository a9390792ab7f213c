//! Connections to registries: which certificates are accepted, which proxies are used,
//! and how a connection that fails is reported.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use images::{Client, Error, Settings};
use tempfile::TempDir;

use crate::support::catalog::Catalog;
use crate::support::image::Image;
use crate::support::port::NOBODY;
use crate::support::program::{Finished, Start};
use crate::support::proxy::Proxy;
use crate::support::runtime::block_on;
use crate::support::tls::{Authority, Pair};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const ELSEWHERE: &str = "registry.invalid/catalogs/a:latest";

/// A registry on this machine with an image of one package, and its port.
fn upstream(pair: Option<&Pair>) -> (Upstream, u16) {
    let upstream = Upstream::start_at("127.0.0.1:0", pair.map(|pair| pair.server(None)));
    let image = Image::of_catalog(&Catalog::one("first")).build();
    upstream.push(REPOSITORY, "latest", &image);
    let address: SocketAddr = upstream.host().parse().unwrap();
    (upstream, address.port())
}

/// Settings with a folder of certificates.
fn trusting(folder: &TempDir) -> Settings {
    Settings {
        certificate_folders: vec![folder.path().to_owned()],
        attempts: 1.try_into().unwrap(),
        ..Settings::default()
    }
}

fn put(folder: &Path, host: &str, content: &str) {
    fs::create_dir_all(folder.join(host)).unwrap();
    fs::write(folder.join(host).join("ca.crt"), content).unwrap();
}

fn resolve(settings: &Settings, host: &str) -> Result<(), Error> {
    let reference = format!("{host}/{REPOSITORY}:latest").parse().unwrap();
    block_on(async {
        let client = Client::new(settings).unwrap();
        client.resolve(&reference).await.map(drop)
    })
}

#[test]
fn a_certificate_that_is_trusted_itself_is_accepted() {
    // One that is its own authority, and one of an authority that is not known.
    for pair in [Pair::of_itself(), Authority::new().sign()] {
        let (_upstream, port) = upstream(Some(&pair));
        let host = format!("localhost:{port}");
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &host, &pair.certificate);
        resolve(&trusting(&folder), &host).unwrap();

        // The same by a file for all hosts.
        let bundles = tempfile::tempdir().unwrap();
        let bundle = bundles.path().join("bundle.pem");
        fs::write(&bundle, &pair.certificate).unwrap();
        fs::create_dir(bundles.path().join(&host)).unwrap();
        let settings = Settings {
            ca_files: vec![bundle],
            ..trusting(&bundles)
        };
        resolve(&settings, &host).unwrap();
    }
}

#[test]
fn a_certificate_that_is_not_accepted_is_reported_in_a_sentence() {
    let own = Pair::of_itself();
    let stranger = Authority::new();
    let (_first, own_port) = upstream(Some(&own));
    let (_second, other_port) = upstream(Some(&stranger.sign()));
    let folder = tempfile::tempdir().unwrap();
    let put = |host: &str, content: &str| put(folder.path(), host, content);
    put(&format!("localhost:{own_port}"), &Authority::new().pem());
    put(&format!("localhost:{other_port}"), &Authority::new().pem());
    put(&format!("127.0.0.1:{own_port}"), &own.certificate);
    for (host, said, has_remedy) in [
        (
            format!("localhost:{own_port}"),
            "the certificate of the server is that of an authority, and not trusted itself",
            true,
        ),
        (
            format!("localhost:{other_port}"),
            "no trusted authority has signed the certificate of the server",
            true,
        ),
        (
            format!("127.0.0.1:{own_port}"),
            "the certificate of the server is for localhost and not for 127.0.0.1",
            false,
        ),
    ] {
        let error = resolve(&trusting(&folder), &host).unwrap_err();
        assert_eq!(error.reason(), "tls");
        let text = error.to_string();
        assert!(text.contains(said), "{text}");
        assert_eq!(
            text.contains("certs.d/HOST[:PORT]/ca.crt"),
            has_remedy,
            "{text}"
        );
        for word in ["CaUsedAsEndEntity", "UnknownIssuer", "NotValidForName"] {
            assert!(!text.contains(word), "{text}");
        }
    }
}

#[test]
fn plain_http_to_a_port_with_tls_is_reported_with_the_folder_that_is_missing() {
    let authority = Authority::new();
    let (_secure, port) = upstream(Some(&authority.sign()));
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle.pem");
    fs::write(&bundle, authority.pem()).unwrap();
    let settings = Settings {
        ca_files: vec![bundle],
        ..trusting(&folder)
    };
    let host = format!("localhost:{port}");
    let error = resolve(&settings, &host).unwrap_err().to_string();
    assert!(error.contains("HOST[:PORT] in certs.d"), "{error}");
    fs::create_dir(folder.path().join(&host)).unwrap();
    resolve(&settings, &host).unwrap();

    // Other servers answer in words.
    let (plain, port) = upstream(None);
    plain.misbehave(|behaviour| {
        behaviour.status = Some(400);
        behaviour.text = Some("Client sent an HTTP request to an HTTPS server.\n");
    });
    let error = resolve(&settings, &format!("localhost:{port}")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("it expects TLS"), "{error}");
    assert!(error.contains("HOST[:PORT] in certs.d"), "{error}");
}

fn render(variables: &[(&str, &str)], arguments: &[&str]) -> Finished {
    let start = Start::new(
        ["render", ELSEWHERE]
            .into_iter()
            .chain(arguments.iter().copied()),
    );
    let start = variables
        .iter()
        .fold(start, |start, (name, value)| start.variable(name, value));
    start.run()
}

#[test]
fn a_proxy_that_fails_is_named() {
    // One that wants a login, which it says in its answer to each request.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let strict = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nConnection: close\r\n\
                  Content-Length: 0\r\n\r\n",
            );
        }
    });
    let plain = ["--insecure=registry.invalid"];
    for (variable, address, arguments, said) in [
        ("HTTPS_PROXY", NOBODY, &[][..], "cannot be reached"),
        (
            "HTTPS_PROXY",
            strict.as_str(),
            &[],
            "the proxy wants a user and password",
        ),
        ("HTTP_PROXY", NOBODY, &plain, "cannot be reached"),
        (
            "HTTP_PROXY",
            strict.as_str(),
            &plain,
            "the proxy wants a user and password",
        ),
    ] {
        let proxy = format!("http://{address}");
        let finished = render(&[(variable, &proxy)], arguments);
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        for part in [said, &format!("through the proxy {address}")] {
            assert!(finished.stderr.contains(part), "{part:?}: {finished:?}");
        }
    }
    // A login that is refused is not called a missing one.
    for (variable, arguments) in [("HTTPS_PROXY", &[][..]), ("HTTP_PROXY", &plain)] {
        let proxy = format!("http://me:s3cret@{strict}");
        let finished = render(&[(variable, &proxy)], arguments);
        let said = "the proxy refuses the user and password of its variable (407)";
        assert!(finished.stderr.contains(said), "{finished:?}");
        assert!(!finished.stderr.contains("s3cret"), "{finished:?}");
    }
    // A proxy without TLS is not taken for a registry without TLS.
    let proxy = format!("https://{strict}");
    let finished = render(&[("HTTPS_PROXY", &proxy)], &[]);
    let said = "write http:// in the variable of a proxy without TLS";
    assert!(finished.stderr.contains(said), "{finished:?}");
}

#[test]
fn exceptions_from_proxies_count_as_in_other_tools() {
    let (upstream, _) = upstream(None);
    let proxy = Proxy::start(upstream.host().parse().unwrap());
    let url = proxy.url("");
    let plain = ["--insecure=registry.invalid"];
    for direct in [
        "*.invalid",
        "registry.invalid:80",
        "a.example, *.invalid:80",
        "*",
    ] {
        let finished = render(&[("HTTP_PROXY", &url), ("NO_PROXY", direct)], &plain);
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        assert!(
            !finished.stderr.contains("through the proxy"),
            "{finished:?}"
        );
        assert_eq!(proxy.asked().len(), 0, "{direct}");
    }
    for other in [
        "registry.invalid:443",
        "*.registry.invalid",
        "invalid.example",
    ] {
        let before = proxy.asked().len();
        let finished = render(&[("HTTP_PROXY", &url), ("NO_PROXY", other)], &plain);
        assert!(finished.status.success(), "{finished:?}");
        assert!(proxy.asked().len() > before, "{other}");
    }
}
