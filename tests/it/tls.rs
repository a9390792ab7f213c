//! TLS on the ports: who gets in, what they see, and what happens when the
//! files change.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use almanac::proto;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::program::{Finished, PATIENCE, Start};
use crate::support::tls::{Authority, Client, Pair};
use crate::support::{grpc, http};

const ALL: &str = "/catalogs/a/api/v1/all";

/// A folder with a catalog, a certificate with its key, and its authority.
struct Site {
    folder: TempDir,
    authority: Authority,
    server: Pair,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = folder.path().join("catalog");
        fs::create_dir(&catalog).unwrap();
        Catalog::small().write_to(&catalog, Format::JsonLines);
        let authority = Authority::new();
        fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
        let server = authority.sign();
        server.write(folder.path());
        Self {
            folder,
            authority,
            server,
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A configuration with the catalog, and TLS on both ports.
    fn config(&self, more: &str) -> String {
        let catalog = following(&format!("file:{}", self.path("catalog")));
        let pair = (self.path("tls.crt"), self.path("tls.key"));
        let table = |name: &str| {
            let (certificate, key) = &pair;
            format!("[{name}]\ncertificate = {certificate:?}\nkey = {key:?}\n{more}\n")
        };
        catalog + &table("grpc_tls") + &table("http_tls")
    }

    fn start(&self, more: &str) -> Almanac {
        let mut almanac = Almanac::start(&self.config(more));
        almanac.until("a", "a revision", |status| status["state"] == "serving");
        almanac
    }

    fn client(&self, protocols: &[&str]) -> Client {
        self.authority.client(None, protocols)
    }
}

async fn packages(client: &Client, server: SocketAddr) -> Result<usize, String> {
    let channel = client.channel(server, "a").await;
    let channel = channel.map_err(|error| format!("{error:?}"))?;
    let packages: Result<Vec<proto::PackageName>, _> = grpc::Client::over(channel)
        .stream("/api.Registry/ListPackages", proto::ListPackageRequest {})
        .await;
    Ok(packages.map_err(|status| status.to_string())?.len())
}

fn der(pair: &Pair) -> Vec<u8> {
    CertificateDer::from_pem_slice(pair.certificate.as_bytes())
        .unwrap()
        .to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_ports_speak_tls_and_nothing_else() {
    let site = Site::new();
    let mut almanac = site.start("");
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    let client = site.client(&["http/1.1"]);
    let reply = client.get(http, ALL).unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.text(), Catalog::small().text(Format::JsonLines));
    // A client that says nothing of protocols is one of HTTP/1.1.
    assert_eq!(site.client(&[]).get(http, ALL).unwrap().status, 200);

    for (port, offered, chosen) in [
        (http, &["http/1.1"][..], Some("http/1.1")),
        (http, &["h2", "http/1.1"], Some("h2")),
        (grpc, &["h2", "http/1.1"], Some("h2")),
        (grpc, &[], None),
    ] {
        let (shown, protocol) = site.client(offered).look(port).unwrap();
        assert_eq!(protocol.as_deref(), chosen);
        assert!(shown == der(&site.server));
    }
    assert!(site.client(&["http/1.1"]).look(grpc).is_err());
    assert_eq!(packages(&site.client(&["h2"]), grpc).await, Ok(1));

    // Who speaks without TLS is told so.
    for port in [http, grpc] {
        let reply = http::get(port, ALL).unwrap();
        assert_eq!(reply.status, 400);
        assert_eq!(reply.text(), "this port speaks TLS only");
    }
    let metrics = http::get(almanac.program.address("admin"), "/metrics").unwrap();
    let metrics = metrics.text();
    for name in [
        r#"almanac_certificate_expiry_timestamp_seconds{service="grpc"} "#,
        r#"almanac_certificate_expiry_timestamp_seconds{service="http"} "#,
        r#"almanac_connections_ended_total{service="http",reason="protocol"} 1"#,
        r#"almanac_connections_ended_total{service="grpc",reason="handshake"} 1"#,
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    almanac.stop();
}

/// Swaps a folder as Kubernetes swaps that of a Secret: files are links into
/// `..data`, which is a link itself.
fn swap(folder: &Path, version: &str, pair: &Pair) {
    pair.write(&folder.join(version));
    let next = folder.join("..next");
    symlink(version, &next).unwrap();
    fs::rename(next, folder.join("..data")).unwrap();
}

#[test]
fn a_new_certificate_is_taken_without_a_restart_and_a_bad_one_is_not() {
    let site = Site::new();
    let folder = site.folder.path();
    for name in ["tls.crt", "tls.key"] {
        fs::remove_file(folder.join(name)).unwrap();
        symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
    }
    swap(folder, "one", &site.server);
    let mut almanac = site.start("");
    let http = almanac.program.address("http");
    let client = site.client(&["http/1.1"]);
    let shown = || client.look(http).unwrap().0;
    assert!(shown() == der(&site.server));
    // 0 from the start, for rules about the growth.
    let metrics = http::get(almanac.program.address("admin"), "/metrics").unwrap();
    let name =
        r#"almanac_credential_reloads_total{kind="certificate",of="http",outcome="refused"} 0"#;
    assert!(metrics.text().contains(name), "{}", metrics.text());
    // What is open stays as it is.
    let open = client.connect(http).unwrap();

    let second = site.authority.sign();
    swap(folder, "two", &second);
    let begin = Instant::now();
    while shown() != der(&second) {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    }
    let reply = http::exchange(open, "localhost", "GET", ALL, &[], b"").unwrap();
    assert_eq!(reply.status, 200);

    let mixed = Pair {
        certificate: site.authority.sign().certificate,
        key: second.key.clone(),
    };
    swap(folder, "three", &mixed);
    almanac
        .program
        .wait_for_log("a refusal", |log| log.contains("cannot reload credentials"));
    assert!(shown() == der(&second));
    assert_eq!(client.get(http, ALL).unwrap().status, 200);

    let log = almanac.program.log();
    assert!(log.contains("cannot be used together"), "{log}");
    assert!(!log.contains("PRIVATE"), "{log}");
    let metrics = http::get(almanac.program.address("admin"), "/metrics").unwrap();
    let metrics = metrics.text();
    for outcome in ["taken", "refused"] {
        let name = format!(
            r#"almanac_credential_reloads_total{{kind="certificate",of="http",outcome="{outcome}"}} 1"#
        );
        assert!(metrics.contains(&name), "{name} is not in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_has_to_show_a_certificate_where_that_is_asked() {
    let site = Site::new();
    let mut almanac = site.start(&format!("client_ca = {:?}", site.path("ca.crt")));
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    let good = site.authority.sign();
    let stranger = Authority::new().sign();
    for (own, let_in) in [(None, false), (Some(&stranger), false), (Some(&good), true)] {
        let client = site.authority.client(own, &["http/1.1"]);
        let status = client.get(http, ALL).map(|reply| reply.status);
        assert_eq!(status.ok(), let_in.then_some(200));
        let client = site.authority.client(own, &["h2"]);
        assert_eq!(packages(&client, grpc).await.is_ok(), let_in);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_files_count_on_the_grpc_port_without_a_restart() {
    let site = Site::new();
    let mut almanac = site.start(&format!("client_ca = {:?}", site.path("ca.crt")));
    let grpc = almanac.program.address("grpc");
    let (first, other) = (site.authority.sign(), Authority::new());
    let second = other.sign();
    let client = |own| site.authority.client(Some(own), &["h2"]);
    let (first, second) = (client(&first), client(&second));
    let shown = || first.look(grpc).map(|(certificate, _)| certificate);
    assert_eq!(shown().unwrap(), der(&site.server));
    assert!(packages(&second, grpc).await.is_err());
    // What is open stays as it is.
    let open = grpc::Client::over(first.channel(grpc, "a").await.unwrap());

    let renewed = site.authority.sign();
    renewed.write(site.folder.path());
    until("the new certificate", async || {
        shown().is_ok_and(|shown| shown == der(&renewed))
    })
    .await;

    // Authorities that are none change nothing.
    let authorities = site.folder.path().join("ca.crt");
    fs::write(&authorities, "nothing").unwrap();
    almanac
        .program
        .wait_for_log("a refusal", |log| log.contains("cannot reload credentials"));
    assert_eq!(packages(&first, grpc).await, Ok(1));
    assert!(packages(&second, grpc).await.is_err());

    fs::write(&authorities, other.pem()).unwrap();
    until("the other authority", async || {
        packages(&second, grpc).await == Ok(1)
    })
    .await;
    assert!(packages(&first, grpc).await.is_err());
    let list = open.stream::<_, proto::PackageName>(
        "/api.Registry/ListPackages",
        proto::ListPackageRequest {},
    );
    assert_eq!(list.await.unwrap().len(), 1);
    let metrics = almanac.metrics();
    for outcome in ["taken", "refused"] {
        let name = format!(
            r#"almanac_credential_reloads_total{{kind="certificate",of="grpc",outcome="{outcome}"}} 0"#
        );
        assert!(!metrics.contains(&name), "{name} is in\n{metrics}");
    }
}

/// Waits until it is so.
async fn until(what: &str, good: impl AsyncFn() -> bool) {
    let begin = Instant::now();
    while !good().await {
        assert!(begin.elapsed() < PATIENCE, "waiting for {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn older_versions_are_refused_where_that_is_asked() {
    let site = Site::new();
    let only = |version| site.authority.client_of(None, &[], &[version]);
    let (old, new) = (only(&rustls::version::TLS12), only(&rustls::version::TLS13));
    for (more, old_is_good) in [("", true), ("min_version = \"1.3\"", false)] {
        let mut almanac = site.start(more);
        let http = almanac.program.address("http");
        assert_eq!(new.get(http, ALL).unwrap().status, 200);
        assert_eq!(old.get(http, ALL).is_ok(), old_is_good);
    }
}

#[test]
fn a_handshake_that_takes_too_long_is_cut_off() {
    let site = Site::new();
    let config = site.config("") + "[connections]\nhandshake_timeout = \"200ms\"\n";
    let mut almanac = Almanac::start(&config);
    for service in ["http", "grpc"] {
        let address = almanac.program.address(service);
        for beginning in [&b""[..], &[0x16, 3, 1, 2, 0, 1]] {
            let mut connection = http::connect(address).unwrap();
            std::io::Write::write_all(&mut connection, beginning).unwrap();
            // An end or a reset, and not the time limit of the test.
            match connection.read(&mut [0; 1]) {
                Ok(length) => assert_eq!(length, 0),
                Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
}

#[test]
fn files_that_cannot_be_used_end_the_start() {
    let site = Site::new();
    let run = |change: &dyn Fn()| -> Finished {
        site.server.write(site.folder.path());
        change();
        let config = site.folder.path().join("almanac.toml");
        fs::write(&config, site.config("")).unwrap();
        Start::new(["serve", "--data-dir={data}", "--config"])
            .argument(config.to_str().unwrap())
            .run()
    };
    let write = |name: &str, text: &str| fs::write(site.folder.path().join(name), text).unwrap();
    let other = site.authority.sign();
    for (change, parts) in [
        (
            &(|| fs::remove_file(site.path("tls.crt")).unwrap()) as &dyn Fn(),
            ["tls.crt", "cannot be read"],
        ),
        (
            &|| write("tls.crt", "nothing"),
            ["tls.crt", "holds no certificate in PEM"],
        ),
        (
            &|| write("tls.key", &site.server.certificate),
            ["tls.key", "holds no private key in PEM"],
        ),
        (
            &|| write("tls.key", &other.key),
            ["tls.key", "the key is that of another certificate"],
        ),
    ] {
        let finished = run(change);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let message = finished.stderr.lines().last().unwrap();
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        assert!(message.contains("TLS of grpc"), "{message}");
    }
}

#[test]
fn a_command_reads_a_url_whose_certificate_is_given_as_trusted() {
    let site = Site::new();
    let mut own = Site::new();
    own.server = Pair::of_itself();
    own.server.write(own.folder.path());
    for (site, trusted, problem) in [
        (
            &site,
            "ca.crt",
            "no trusted authority has signed the certificate",
        ),
        // curl takes it, too.
        (
            &own,
            "tls.crt",
            "the certificate of the server is that of an authority",
        ),
    ] {
        let mut almanac = site.start("");
        let host = format!("localhost:{}", almanac.program.address("http").port());
        let url = format!("https://{host}/catalogs/a");
        let list = |flags: &[&str]| {
            let arguments = ["list", "packages", url.as_str()];
            Start::new(arguments.into_iter().chain(flags.iter().copied())).run()
        };
        let finished = list(&[]);
        assert_eq!(finished.status.code(), Some(3), "{finished:#?}");
        assert!(finished.stderr.contains(problem), "{finished:#?}");
        assert!(finished.stderr.contains("by --ca-file"), "{finished:#?}");
        assert_eq!(finished.stderr.matches(&url).count(), 1, "{finished:#?}");
        for word in ["UnknownIssuer", "CaUsedAsEndEntity", "OtherError"] {
            assert!(!finished.stderr.contains(word), "{finished:#?}");
        }
        let trusted = site.path(trusted);
        for flags in [["--ca-file", trusted.as_str()], ["--insecure", &host]] {
            let finished = list(&flags);
            assert!(finished.status.success(), "{flags:?}: {finished:#?}");
            assert!(finished.stdout.contains("NAME"), "{finished:#?}");
        }
        // Another port is another host.
        let finished = list(&["--insecure", "localhost"]);
        assert_eq!(finished.status.code(), Some(3), "{finished:#?}");
        almanac.stop();
    }
}

#[test]
fn tls_that_is_not_whole_is_refused() {
    for (written, message) in [
        (
            "[http_tls]\ncertificate = \"a\"",
            "[http_tls] has no key: write",
        ),
        (
            "[grpc_tls]\nkey = \"a\"",
            "[grpc_tls] has no certificate: write",
        ),
        (
            "[grpc_tls]\nclient_ca = \"a\"",
            "[grpc_tls] has no certificate: write",
        ),
        (
            "[http_tls]\ncertificate = \"a\"\nkey = \"b\"\nclient_certificates = \"optional\"",
            "[http_tls] has no client_ca: write",
        ),
        (
            "[http_tls]\nmin_version = \"1.1\"",
            "write \"1.2\", \"1.3\" or \"cluster\"",
        ),
        (
            "[[catalog]]\nsource = \"file:b\"\nclient_certificate = true",
            "the catalog b asks for client certificates",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("almanac.toml");
        fs::write(&config, following("file:a") + written).unwrap();
        let finished = Start::new(["serve", "--data-dir={data}", "--config"])
            .argument(config.to_str().unwrap())
            .run();
        assert_eq!(finished.status.code(), Some(2), "{finished:?}");
        assert!(finished.stderr.contains(message), "{finished:?}");
    }
}
