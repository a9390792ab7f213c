//! The smallest registry that a pull works against.

use std::io::{BufRead as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use images::digest::Digest;

use crate::layer::Layer;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const CONFIGURATION: &str = "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Labels\":{\
     \"operators.operatorframework.io.index.configs.v1\":\"/configs\"}},\
     \"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}";

/// A registry with one image, which can be replaced.
pub(crate) struct Registry {
    address: SocketAddr,
    pub(crate) closed: Arc<AtomicBool>,
    image: Arc<Mutex<Image>>,
}

#[derive(Clone)]
struct Image {
    layer: Arc<Layer>,
    manifest: String,
    /// When its manifest was first asked for.
    asked: Option<Instant>,
}

impl Image {
    fn new(layer: Arc<Layer>) -> Self {
        let manifest = format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\
             \"config\":{{\"mediaType\":\"{CONFIG}\",\"digest\":\"{}\",\"size\":{}}},\
             \"layers\":[{{\"mediaType\":\"{LAYER}\",\"digest\":\"{}\",\"size\":{}}}]}}",
            Digest::of(CONFIGURATION.as_bytes()),
            CONFIGURATION.len(),
            layer.digest,
            layer.compressed.len()
        );
        Self {
            layer,
            manifest,
            asked: None,
        }
    }
}

impl Registry {
    pub(crate) fn start(layer: Arc<Layer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = Self {
            address: listener.local_addr().unwrap(),
            closed: Arc::default(),
            image: Arc::new(Mutex::new(Image::new(layer))),
        };
        let (closed, image) = (Arc::clone(&registry.closed), Arc::clone(&registry.image));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let image = Arc::clone(&image);
                if closed.load(Ordering::Relaxed) {
                    continue;
                }
                thread::spawn(move || serve(&stream.unwrap(), &image));
            }
        });
        registry
    }

    /// Puts another layer in the place of the one before.
    pub(crate) fn replace(&self, layer: Arc<Layer>) {
        *self.image.lock().unwrap() = Image::new(layer);
    }

    /// When the present image was first asked for.
    pub(crate) fn asked(&self) -> Option<Instant> {
        self.image.lock().unwrap().asked
    }

    /// The image under the name of a catalog.
    pub(crate) fn source(&self, name: &str) -> String {
        format!("{name}={}/catalog:v1", self.address)
    }
}

fn serve(stream: &TcpStream, image: &Mutex<Image>) -> Option<()> {
    let mut reader = std::io::BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader
            .read_line(&mut first)
            .ok()
            .filter(|length| *length > 0)?;
        let mut line = String::new();
        while reader.read_line(&mut line).ok()? > 2 {
            line.clear();
        }
        let (method, path) = first.split_once(' ')?;
        let is_manifest = path.contains("/manifests/");
        let image = {
            let mut image = image.lock().unwrap();
            if is_manifest {
                image.asked.get_or_insert_with(Instant::now);
            }
            image.clone()
        };
        let (body, kind, digest) = if is_manifest {
            let digest = Digest::of(image.manifest.as_bytes());
            (image.manifest.as_bytes(), MANIFEST, digest)
        } else if path.contains(&image.layer.digest.hex()) {
            (&image.layer.compressed[..], LAYER, image.layer.digest)
        } else {
            let digest = Digest::of(CONFIGURATION.as_bytes());
            (CONFIGURATION.as_bytes(), CONFIG, digest)
        };
        // At once, and without a wait for the client's acknowledgement: that would be
        // 40 ms for each answer.
        stream.set_nodelay(true).ok()?;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Docker-Content-Digest: {digest}\r\n\r\n",
            body.len(),
        );
        let mut stream = stream;
        stream.write_all(head.as_bytes()).ok()?;
        if method == "GET" {
            stream.write_all(body).ok()?;
        }
    }
}
