//! Pulling a large blob over loopback, beside nginx sending the same bytes from
//! a file.
//!
//! ```text
//! cargo bench --bench blob
//! ```
//!
//! Starts the program with a mirrored image that has a layer of 256 MiB, and
//! nginx with sendfile where it is installed. Each is asked over 1 and over 4
//! connections, in turns, and the best of several rounds counts.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measuring program, not a library"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use images::digest::Digest;
use serde_json::json;

/// Bytes of the blob.
const SIZE: usize = 256 << 20;
const ROUNDS: usize = 7;
const PATIENCE: Duration = Duration::from_mins(2);

/// A server that is killed at the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Asked to end, nginx ends its workers too.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let layout = folder.join("layout");
    let digest = write_layout(&layout);
    let addresses = [free(), free(), free(), free()];
    let _almanac = almanac(folder, &layout, &addresses);
    let path = format!("/v2/bench/blobs/{digest}");
    until(|| status(addresses[0], &path) == Some(200));

    let blob = format!("/{}", digest.hex());
    let nginx = nginx(folder, &layout.join("blobs/sha256"), addresses[3]);
    let mut servers = vec![("almanac", addresses[0], path.as_str())];
    if nginx.is_some() {
        until(|| status(addresses[3], &blob) == Some(200));
        servers.push(("nginx", addresses[3], blob.as_str()));
    } else {
        println!("nginx is not installed: nothing to compare with");
    }
    for connections in [1, 4] {
        let mut best = vec![Duration::MAX; servers.len()];
        for _ in 0..ROUNDS {
            for ((_, address, path), best) in servers.iter().zip(&mut best) {
                *best = (*best).min(pull(*address, path, connections));
            }
        }
        let rates: Vec<f64> = best
            .iter()
            .map(|time| (SIZE * connections) as f64 / 1e6 / time.as_secs_f64())
            .collect();
        for ((name, ..), rate) in servers.iter().zip(&rates) {
            println!("{connections} connection(s): {name:8} {rate:6.0} MB/s");
        }
        if let [ours, theirs] = rates[..] {
            let percent = ours / theirs * 100.0;
            println!("{connections} connection(s): {percent:.0} % of nginx");
        }
    }
}

/// Time until the blob has come over each of so many connections at once.
fn pull(address: SocketAddr, path: &str, connections: usize) -> Duration {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut reader = ask(address, path).unwrap();
                let mut buffer = vec![0; 1 << 20];
                let mut left = SIZE;
                while left > 0 {
                    let read = reader.read(&mut buffer).unwrap();
                    assert!(read > 0, "the answer was cut");
                    left -= read;
                }
            });
        }
    });
    begin.elapsed()
}

/// The body of an answer of 200 that has begun.
fn ask(address: SocketAddr, path: &str) -> Option<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let good = line.starts_with("HTTP/1.1 200");
    while !matches!(line.as_str(), "" | "\r\n") {
        line.clear();
        reader.read_line(&mut line).ok()?;
    }
    good.then_some(reader)
}

fn status(address: SocketAddr, path: &str) -> Option<u16> {
    ask(address, path).map(|_| 200)
}

fn until(mut good: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !good() {
        assert!(begin.elapsed() < PATIENCE, "a server does not answer");
        sleep(Duration::from_millis(50));
    }
}

/// Free a moment ago, and nobody else asks for this very one.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn almanac(folder: &Path, layout: &Path, addresses: &[SocketAddr]) -> Server {
    let config = format!(
        "data_dir = \"data\"\nhttp = \"{}\"\ngrpc = \"{}\"\nadmin = \"{}\"\n\
         [[catalog]]\nname = \"bench\"\nsource = \"oci:{}\"\nmirror = \"full\"\n",
        addresses[0],
        addresses[1],
        addresses[2],
        layout.display()
    );
    let path = folder.join("almanac.toml");
    fs::write(&path, config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_almanac"))
        .args(["serve", "--log=warn", "--log-format=text", "--config"])
        .arg(path)
        .spawn();
    Server(child.unwrap())
}

fn nginx(folder: &Path, root: &Path, address: SocketAddr) -> Option<Server> {
    let config = format!(
        "daemon off; worker_processes auto; pid {pid};\n\
         events {{}}\n\
         http {{ access_log off; sendfile on; tcp_nopush on;\n\
         client_body_temp_path {temporary}; proxy_temp_path {temporary};\n\
         fastcgi_temp_path {temporary}; uwsgi_temp_path {temporary}; scgi_temp_path {temporary};\n\
         server {{ listen {address}; root {root}; }} }}\n",
        pid = folder.join("nginx.pid").display(),
        temporary = folder.join("temporary").display(),
        root = root.display(),
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, config).unwrap();
    // Its workers may be another user, who has to come to the files.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let child = Command::new("nginx")
        .arg("-e")
        .arg(folder.join("errors"))
        .arg("-c")
        .arg(path)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.ok().map(Server)
}

/// An image of a small catalog and a large layer; returns the layer's digest.
fn write_layout(folder: &Path) -> Digest {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        fs::write(blobs.join(digest.hex()), bytes).unwrap();
        json!({"digest": digest, "size": bytes.len()})
    };
    let archive = |name: &str, content: &[u8]| {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content).unwrap();
        archive.into_inner().unwrap()
    };
    let mut large = vec![0; SIZE - 3 * 512];
    // What compresses well would be no less to send.
    for (number, piece) in large.chunks_exact_mut(8).enumerate() {
        piece.copy_from_slice(
            &(number as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes(),
        );
    }
    let mut large = archive("large", &large);
    large.resize(SIZE, 0);
    let layer = put(&large);
    let digest = layer["digest"].as_str().unwrap().parse().unwrap();
    let catalog = r#"{"schema":"olm.package","name":"a","defaultChannel":"b"}
{"schema":"olm.channel","package":"a","name":"b","entries":[{"name":"a.v1.0.0"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1.0.0","image":"example.com/a:1",
 "properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}]}"#;
    let catalog = put(&archive("configs/catalog.json", catalog.as_bytes()));
    let label = "operators.operatorframework.io.index.configs.v1";
    let config = put(json!({"config": {"Labels": {label: "/configs"}}})
        .to_string()
        .as_bytes());
    let kind = |mut descriptor: serde_json::Value, kind: &str| {
        descriptor["mediaType"] = format!("application/vnd.oci.image.{kind}").into();
        descriptor
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": kind(config, "config.v1+json"),
        "layers": [kind(layer, "layer.v1.tar"), kind(catalog, "layer.v1.tar")],
    });
    let manifest = kind(put(manifest.to_string().as_bytes()), "manifest.v1+json");
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    digest
}
