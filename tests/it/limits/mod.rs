//! Clients that take too much, too slowly, or not what is there: each is
//! bounded, and the others are answered.

mod connections;
mod readers;
mod requests;

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use almanac::proto;
use prost::Message as _;
use serde_json::json;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::grpc::Client;
use crate::support::http;

const ALL: &str = "/catalogs/a/api/v1/all";
const GET_PACKAGE: &str = "/api.Registry/GetPackage";
const LIST_BUNDLES: &str = "/api.Registry/ListBundles";

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// How long an answer may take while others misbehave. One that waited for what
/// they do would take minutes.
const SOON: Duration = Duration::from_secs(15);
/// More than the system keeps of what a client does not read.
const LARGE: usize = 16 << 20;

/// A catalog that is too large to be sent before it is read, over either port.
fn large() -> Catalog {
    let name = |number: usize| format!("etcd.v{number}.0.0");
    let entries = (1..=200).map(|number| match number {
        1 => entry(&name(1)),
        _ => entry(&name(number)).replaces(&name(number - 1)),
    });
    let catalog = Catalog::new().package("etcd", |package| {
        let package = package.channel("stable", entries);
        (1..=200).fold(package, |package, number| {
            package.bundle(bundle(&name(number)).property("x", "y".repeat(20_000)))
        })
    });
    let text = "0123456789abcdef".repeat((1 << 20) / 16);
    (0..LARGE >> 20).fold(catalog, |catalog, number| {
        catalog.blob(json!({"schema": "text", "name": number.to_string(), "text": text}))
    })
}

fn serving(folder: &Path, catalog: &Catalog, before: &str, tables: &str) -> Almanac {
    catalog.write_to(folder, Format::JsonLines);
    let source = format!("file:{}", folder.display());
    let config = format!("{before}\n{}{tables}", following(&source));
    let mut almanac = Almanac::start(&config);
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    almanac
}

fn limited(folder: &Path, limits: &str) -> Almanac {
    serving(
        folder,
        &Catalog::small(),
        "",
        &format!("[connections]\n{limits}"),
    )
}

/// Waits until the metrics have a line that begins so and ends with a number
/// that is not 0.
fn until_counted(almanac: &mut Almanac, name: &str) {
    let admin = almanac.program.address("admin");
    let begin = Instant::now();
    loop {
        let metrics = http::get(admin, "/metrics").unwrap().text();
        let mut lines = metrics.lines();
        if lines.any(|line| line.strip_prefix(name).is_some_and(|rest| rest != " 0")) {
            return;
        }
        assert!(begin.elapsed() < SOON, "no {name} in\n{metrics}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the server ends a connection, and gives what came before.
fn until_closed(mut connection: &TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    match connection.read_to_end(&mut read) {
        Ok(_) => {}
        // Not the time limit of the test.
        Err(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ),
            "{error}"
        ),
    }
    read
}

fn get_package() -> Vec<u8> {
    let name = "etcd".to_owned();
    proto::GetPackageRequest { name }.encode_to_vec()
}

/// Both ports answer somebody who comes now.
async fn others_are_answered(almanac: &mut Almanac) {
    let (http, grpc) = (
        almanac.program.address("http"),
        almanac.program.address("grpc"),
    );
    let begin = Instant::now();
    let path = "/catalogs/a/api/v1/metas?schema=olm.package";
    assert_eq!(http::get(http, path).unwrap().status, 200);
    let request = proto::GetPackageRequest {
        name: "etcd".to_owned(),
    };
    let package: proto::Package = Client::new(grpc).unary(GET_PACKAGE, request).await.unwrap();
    assert_eq!(package.name, "etcd");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}
