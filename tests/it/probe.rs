//! The program in the place of `grpc_health_probe`, against servers that are
//! well, unwell, silent, or none.

use std::convert::Infallible;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::support::catalog::Catalog;
use crate::support::port::{self, NOBODY};
use crate::support::program::{Finished, Start};
use crate::support::runtime::block_on;
use crate::support::served::{Folders, Served};

/// Asks as `grpc_health_probe` does. With its own limits of a second each it
/// would tell how busy the machine is, so those that a test does not name are
/// longer.
fn probe(arguments: &[&str]) -> Finished {
    let start = Start::new(arguments.iter().copied()).called("/bin/grpc_health_probe");
    let unnamed = ["connect-timeout", "rpc-timeout"]
        .into_iter()
        .filter(|limit| !arguments.iter().any(|given| given.contains(limit)));
    unnamed
        .fold(start, |start, limit| {
            start.argument(format!("-{limit}=20s"))
        })
        .run()
}

/// Result of a probe: the exit code, and a part of the message.
fn found(arguments: &[&str], code: i32, text: &str) {
    let run = probe(arguments);
    assert_eq!(run.status.code(), Some(code), "{arguments:?}: {run:?}");
    assert!(run.stderr.contains(text), "{arguments:?}: {text}: {run:?}");
    assert_eq!(run.stdout, "");
}

fn address_of(listener: &TcpListener) -> (SocketAddr, String) {
    let address = listener.local_addr().unwrap();
    (address, format!("-addr={address}"))
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

#[test]
fn a_server_that_is_well_is_found_so_however_it_is_asked() {
    let served = Served::catalogs(&Folders::of("a", &Catalog::small()));
    let port = served.grpc.port();
    let address = format!("127.0.0.1:{port}");
    for arguments in [
        &[format!("-addr={address}").as_str()][..],
        &["-addr", &address],
        &["--addr", &address, "-tls=false", "-gzip"],
        &[&format!("-addr=:{port}")],
        &[
            &format!("-addr=localhost:{port}"),
            "-rpc-timeout=5s",
            "--connect-timeout=1m30s",
        ],
        &[&format!("-addr=dns:///{address}"), "-service=Registry"],
        &[
            "-addr",
            &address,
            "-service",
            "api.Registry",
            "-user-agent=kubelet",
        ],
        &[
            "-addr",
            &address,
            "-service=a",
            "-rpc-header=x-a: b",
            "-rpc-header",
            "x-a: c",
        ],
    ] {
        let begin = Instant::now();
        found(arguments, 0, "status: SERVING");
        // Not only when one of its limits is over.
        assert!(begin.elapsed() < Duration::from_secs(15));
    }
    found(&["-addr", &address, "-v"], 0, "connection established");
    let limits = ["-connect-timeout=20s", "-rpc-timeout=20s"];
    let run = ["grpc-health-probe", "-addr", &address]
        .into_iter()
        .chain(limits);
    let run = Start::new(run).run();
    assert!(
        run.status.success() && run.stderr == "status: SERVING\n",
        "{run:?}"
    );
}

#[test]
fn a_catalog_that_is_not_loaded_is_not_serving() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = format!("a=file:{}", folder.path().join("nothing").display());
    let served = Served::start([nothing]);
    let address = format!("-addr={}", served.grpc);
    found(
        &[&address, "-service=a"],
        4,
        "service unhealthy (responded with \"NOT_SERVING\")",
    );
    found(&[&address], 0, "status: SERVING");
}

#[test]
fn nobody_there_is_a_failure_to_connect() {
    let begin = Instant::now();
    let said = format!("timeout: failed to connect service \"{NOBODY}\" within 200ms");
    found(&["-addr", NOBODY, "-connect-timeout=200ms"], 2, &said);
    found(
        &["-addr=nowhere.invalid:1", "-connect-timeout=200ms"],
        2,
        "failed to connect",
    );
    assert!(begin.elapsed() >= Duration::from_millis(400));
}

/// A server accepts connections before it can answer on them.
#[test]
fn who_accepts_and_says_nothing_is_not_connected_to() {
    let listener = listener();
    let (_, argument) = address_of(&listener);
    found(&[&argument, "-connect-timeout=2s"], 2, "no answer");
}

#[test]
fn what_speaks_no_http_2_is_not_connected_to() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-nothing\r\n",
        "a",
    ] {
        let listener = listener();
        let (_, argument) = address_of(&listener);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                // Whoever has asked is answered, whatever was asked.
                let _ = connection.read(&mut [0; 1024]);
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        found(
            &[&argument, "-connect-timeout=300ms"],
            2,
            "failed to connect",
        );
    }
}

#[test]
fn a_server_that_comes_in_time_is_waited_for() {
    let listener = port::listener();
    let (address, argument) = address_of(&listener);
    drop(listener);
    let serving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        serve(TcpListener::bind(address).unwrap(), Some("1"), None);
    });
    found(
        &[&argument, "-connect-timeout=20s"],
        3,
        "error: health rpc failed: code = Cancelled",
    );
    serving.join().unwrap();
}

#[test]
fn a_call_that_fails_is_told_from_a_connection_that_does() {
    for (status, said) in [
        (
            "12",
            "error: this server does not implement the grpc health protocol",
        ),
        ("4", "timeout: health rpc did not complete within 20s"),
        ("5", "error: health rpc failed: code = NotFound"),
    ] {
        let listener = listener();
        let (_, argument) = address_of(&listener);
        serve(listener, Some(status), None);
        found(&[&argument], 3, said);
    }
    let silent = listener();
    let (_, argument) = address_of(&silent);
    serve(silent, None, None);
    // A second when it is not told.
    let run = Start::new([&*argument, "-connect-timeout=20s"]);
    let run = run.called("/bin/grpc_health_probe").run();
    assert_eq!(run.status.code(), Some(3), "{run:?}");
    let said = "timeout: health rpc did not complete within 1s";
    assert!(run.stderr.contains(said), "{run:?}");
    let said = "timeout: health rpc did not complete within 200ms";
    found(&[&argument, "-rpc-timeout=200ms"], 3, said);
}

#[test]
fn arguments_that_cannot_be_used_are_named() {
    for (arguments, said) in [
        (&[][..], "error: -addr not specified"),
        (&["-addr="], "is not HOST:PORT"),
        (&["-addr=unix:///a"], "is not HOST:PORT"),
        (&["-addr=:1", "-nope"], "--nope"),
        (&["-addr=:1", "more"], "more"),
        (&["-addr=:1", "-rpc-timeout=1"], "500ms"),
        (
            &["-addr=:1", "-rpc-timeout=0s"],
            "-rpc-timeout must be greater than zero",
        ),
        (
            &["-addr=:1", "-connect-timeout=0"],
            "-connect-timeout must be greater than zero",
        ),
        (
            &["-addr=:1", "-tls-no-verify"],
            "specified -tls-no-verify without specifying -tls",
        ),
        (
            &["-addr=:1", "-tls-ca-cert=a"],
            "specified -tls-ca-cert without specifying -tls",
        ),
        (
            &["-addr=:1", "-tls", "-tls-client-cert=a"],
            "without specifying -tls-client-key",
        ),
        (
            &["-addr=:1", "-tls", "-tls-client-key=a"],
            "without specifying -tls-client-cert",
        ),
        (
            &["-addr=:1", "-tls", "-tls-no-verify", "-tls-ca-cert=a"],
            "cannot specify",
        ),
        (
            &["-addr=:1", "-tls", "-tls-no-verify", "-tls-server-name=a"],
            "cannot specify",
        ),
        (
            &["-addr=:1", "-tls", "-tls-ca-cert=/nowhere/ca.pem"],
            "/nowhere/ca.pem",
        ),
        (&["-addr=:1", "-spiffe"], "not supported"),
        (&["-addr=:1", "-alts"], "not supported"),
    ] {
        found(arguments, 1, said);
    }
    for arguments in [["-h"], ["-help"], ["--help"], ["-version"]] {
        let run = probe(&arguments);
        assert!(
            run.status.success() && run.stdout.contains("grpc_health_probe"),
            "{run:?}"
        );
    }
}

#[test]
fn tls_is_spoken_with_whom_it_is_asked_to_trust() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    keys.write(folder.path());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (authority, other) = (file("authority.pem"), file("other.pem"));
    let (client, client_key) = (file("client.pem"), file("client.key"));

    let listener = listener();
    let (_, argument) = address_of(&listener);
    serve(listener, Some("5"), Some(keys.server(false)));
    let ask = |more: &[&str], code, said: &str| {
        // It tries again until then where it cannot be connected to.
        let limit = if code == 2 { "5s" } else { "20s" };
        let limit = format!("-connect-timeout={limit}");
        let all = [&[&argument[..], "-tls", &limit], more].concat();
        found(&all, code, said);
    };
    // The server answers this to every call.
    let answered = "code = NotFound";
    ask(
        &["-tls-ca-cert", &authority, "-tls-server-name=catalogs.test"],
        3,
        answered,
    );
    ask(&["-tls-no-verify"], 3, answered);
    ask(&["-tls-ca-cert", &authority], 2, "not valid for name");
    ask(
        &["-tls-ca-cert", &other, "-tls-server-name=catalogs.test"],
        2,
        "invalid peer certificate",
    );
    ask(&["-tls-server-name=catalogs.test"], 2, "failed to connect");
    ask(
        &["-tls-ca-cert", &client_key],
        1,
        "failed to initialize tls credentials",
    );
    found(
        &[&argument, "-connect-timeout=300ms"],
        2,
        "failed to connect",
    );

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (_, argument) = address_of(&listener);
    serve(listener, Some("5"), Some(keys.server(true)));
    let shown = ["-tls-client-cert", &client, "-tls-client-key", &client_key];
    let trusting = [&argument[..], "-tls", "-tls-no-verify"];
    found(&[&trusting[..], &shown].concat(), 3, answered);
    let run = probe(&[&trusting[..], &["-connect-timeout=2s"]].concat());
    assert!(matches!(run.status.code(), Some(2 | 3)), "{run:?}");
    assert!(!run.stderr.contains(answered), "{run:?}");
}

#[test]
fn a_server_that_is_its_own_authority_is_trusted_by_its_certificate() {
    let own = |name: &str, years: [i32; 2]| {
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        [parameters.not_before, parameters.not_after] =
            years.map(|year| rcgen::date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let folder = tempfile::tempdir().unwrap();
    let good = [2000, 4000];
    // The same in all but its key.
    let other = folder.path().join("other.pem");
    fs::write(&other, own("catalogs.test", good).0).unwrap();
    for (years, code, said) in [
        (good, 3, "code = NotFound"),
        ([2000, 2001], 2, "certificate expired"),
        ([3000, 4000], 2, "certificate not valid yet"),
    ] {
        let (certificate, key) = own("catalogs.test", years);
        let trusted = folder.path().join("own.pem");
        fs::write(&trusted, &certificate).unwrap();
        let listener = listener();
        let (_, argument) = address_of(&listener);
        serve(listener, Some("5"), Some(acceptor(&certificate, &key)));
        let ask = |trusted: &Path, name: &str, code, said: &str| {
            let trusted = format!("-tls-ca-cert={}", trusted.display());
            let name = format!("-tls-server-name={name}");
            let flags = [&argument, "-tls", "-connect-timeout=2s", &trusted, &name];
            found(&flags, code, said);
        };
        ask(&trusted, "catalogs.test", code, said);
        ask(&trusted, "other.test", 2, "not valid for name");
        ask(&other, "catalogs.test", 2, "invalid peer certificate");
    }
}

/// A server's side of TLS that asks for no certificate.
fn acceptor(certificate: &str, key: &str) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into_owned()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config).into()
}

/// Serves gRPC that answers each call with a status, or never. It ends with the
/// tests.
fn serve(listener: TcpListener, status: Option<&'static str>, tls: Option<TlsAcceptor>) {
    std::thread::spawn(move || {
        block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => answer(stream, status).await,
                            Err(error) => eprintln!("no TLS: {error}"),
                        },
                        None => answer(stream, status).await,
                    }
                });
            }
        });
    });
}

async fn answer<S>(stream: S, status: Option<&'static str>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |_: Request<Incoming>| async move {
        let Some(status) = status else {
            return std::future::pending().await;
        };
        let answer = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", status)
            .body(Empty::<Bytes>::new());
        Ok::<_, Infallible>(answer.unwrap())
    });
    // The probe ends connections as it likes.
    let _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Certificates of an authority, and one of another.
struct Keys {
    authority: String,
    other: String,
    server: (String, String),
    client: (String, String),
}

impl Keys {
    fn new() -> Self {
        let authority = || {
            let mut parameters = CertificateParams::new(Vec::new()).unwrap();
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
        };
        let (ours, other) = (authority(), authority());
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let parameters = CertificateParams::new([name.to_owned()]).unwrap();
            let certificate = parameters.signed_by(&key, &ours).unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        Self {
            server: signed("catalogs.test"),
            client: signed("probe.test"),
            authority: ours.pem(),
            other: other.pem(),
        }
    }

    fn write(&self, folder: &Path) {
        for (name, text) in [
            ("authority.pem", &self.authority),
            ("other.pem", &self.other),
            ("client.pem", &self.client.0),
            ("client.key", &self.client.1),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    /// A server's side, which may want a client's certificate.
    fn server(&self, wants_client: bool) -> TlsAcceptor {
        let certificate = |pem: &str| {
            CertificateDer::from_pem_slice(pem.as_bytes())
                .unwrap()
                .into_owned()
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&self.authority)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_slice(self.server.1.as_bytes()).unwrap();
        let mut config = builder
            .with_single_cert(vec![certificate(&self.server.0)], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config).into()
    }
}
