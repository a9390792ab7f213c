//! The pull half of the OCI distribution API: the rows of the specification's
//! conformance checks, who may pull, and what becomes of images when catalogs
//! change. `distribution::clients` has clients that others wrote.

mod api;
mod clients;
mod mirrors;
mod readers;
mod slim;

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;
use crate::support::http::Reply;
use crate::support::image::{Built, Image, Index};
use crate::support::upstream::Upstream;

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const REPOSITORY: &str = "operators/catalog";
/// A catalog `a` that comes from a folder, with its slim image.
struct Slim {
    almanac: Almanac,
    address: SocketAddr,
    manifest: Reply,
    _folder: TempDir,
}

impl Slim {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Catalog::small().write_to(folder.path(), Format::Yaml);
        let source = format!("file:{}", folder.path().display());
        let mut almanac = Almanac::start(&following(&source));
        let manifest = almanac.until_pullable("a");
        let address = almanac.program.address("http");
        Self {
            almanac,
            address,
            manifest,
            _folder: folder,
        }
    }

    fn document(&self) -> Value {
        serde_json::from_slice(&self.manifest.body).unwrap()
    }

    fn layer(&self) -> String {
        self.document()["layers"][0]["digest"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        http::ask(self.address, method, path, headers, b"").unwrap()
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[])
    }
}

/// The code of an OCI error document.
fn code(reply: &Reply) -> String {
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    let error = &document["errors"][0];
    assert!(error["message"].is_string(), "{document}");
    error["code"].as_str().unwrap().to_owned()
}

/// A full mirror, called `a`, of an image in a registry.
fn mirroring(upstream: &Upstream) -> Almanac {
    let source = upstream.reference(REPOSITORY, "v4.20");
    Almanac::start(&(following(&source) + "mirror = \"full\"\n"))
}

/// An image of two platforms.
fn index() -> Built {
    let of_platform = |architecture: &str| {
        Image::of_catalog(&Catalog::one("etcd"))
            .platform("linux", architecture)
            .build()
    };
    Index::new()
        .image(of_platform("amd64"))
        .image(of_platform("arm64"))
        .build()
}

fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{password}"))
    )
}

fn with(address: SocketAddr, path: &str, headers: &[(&str, String)]) -> Reply {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    http::ask(address, "GET", path, &headers, b"").unwrap()
}

fn status(address: SocketAddr, path: &str, authorization: &str) -> u16 {
    let headers = [("Authorization", authorization.to_owned())];
    with(address, path, &headers).status
}
