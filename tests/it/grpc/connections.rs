//! Requests that are none, and connections when content changes.

use std::time::Duration;

use almanac::proto;
use prost::Message as _;
use tonic::Code;

use super::{CHECK, GET_PACKAGE, LIST_BUNDLES, WATCH, fruit, names, refusal};
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::grpc::{Client, next, rest};
use crate::support::http;
use crate::support::program::PATIENCE;
use crate::support::served::{Folders, Served};

#[tokio::test]
async fn a_request_that_is_none_is_refused_as_the_peers_do() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);

    // The name of a package and that of a service have the same number.
    let name = "x".repeat((6 << 20) + 1 - 5);
    let large = proto::GetPackageRequest { name }.encode_to_vec();
    for (path, limit) in [(GET_PACKAGE, 4_194_304), (CHECK, 16_384), (WATCH, 16_384)] {
        assert_eq!(
            refusal(client.raw(path, &large).await),
            (
                Code::ResourceExhausted,
                format!("grpc: received message larger than max (6291457 vs. {limit})")
            )
        );
        for malformed in [&b"\xff\xff\xff"[..], b"\x0a\x05x", b"\x0b"] {
            assert_eq!(
                refusal(client.raw(path, malformed).await),
                (
                    Code::Internal,
                    "grpc: error unmarshalling request: proto:\u{a0}cannot parse invalid wire-format data"
                        .to_owned()
                )
            );
        }
    }
    for (path, message) in [
        (
            "/api.Registry/Nope",
            "unknown method Nope for service api.Registry",
        ),
        (
            "/api.ExperimentalRegistry/Nope",
            "unknown method Nope for service api.ExperimentalRegistry",
        ),
        ("/api.Nope/ListPackages", "unknown service api.Nope"),
        ("/api.Registry/", "unknown method  for service api.Registry"),
        (
            "/api.Registry/ListPackages/",
            "unknown service api.Registry/ListPackages",
        ),
        (
            "/grpc.health.v1.Health/Nope",
            "unknown method Nope for service grpc.health.v1.Health",
        ),
        (
            "/grpc.reflection.v1.ServerReflection/Nope",
            "unknown method Nope for service grpc.reflection.v1.ServerReflection",
        ),
        ("/nope", "malformed method name: \"/nope\""),
    ] {
        let wanted = (Code::Unimplemented, message.to_owned());
        assert_eq!(refusal(client.raw(path, b"").await), wanted);
    }
    // Also where the answer has begun.
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let (code, message) = refusal(client.raw(&path, &large).await);
        assert_eq!(code, Code::ResourceExhausted);
        assert!(message.ends_with("(6291457 vs. 16384)"), "{message}");
        let (code, message) = refusal(client.raw(&path, b"\xff\xff\xff").await);
        assert_eq!(code, Code::Internal);
        assert!(message.ends_with("invalid wire-format data"), "{message}");
    }
    // The connection is as good as before.
    assert_eq!(names(&client).await.unwrap(), ["apple", "pear"]);
}

#[tokio::test]
async fn a_catalog_that_is_not_loaded_is_unavailable_and_holds_nobody_back() {
    let folders = Folders::of("fruit", &fruit());
    let later = format!("later=file:{}", folders.path("later").display());
    let served = Served::start(folders.sources().into_iter().chain([later]));
    let later = Client::called(served.grpc, "later");
    assert_eq!(
        refusal(names(&later).await),
        (
            Code::Unavailable,
            "catalog \"later\" is not loaded yet".to_owned()
        )
    );
    let fruit = Client::called(served.grpc, "fruit");
    assert_eq!(names(&fruit).await.unwrap().len(), 2);
}

/// One package of many bundles, all with a long property.
fn long(package: &str) -> Catalog {
    let name = |number: usize| format!("{package}.v{number}.0.0");
    let entries: Vec<_> = (1..=200)
        .map(|number| match number {
            1 => entry(&name(1)),
            _ => entry(&name(number)).replaces(&name(number - 1)),
        })
        .collect();
    Catalog::new().package(package, |filled| {
        let filled = filled.channel("stable", entries);
        (1..=200).fold(filled, |filled, number| {
            filled.bundle(bundle(&name(number)).property("x", "y".repeat(4000)))
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_content_comes_with_a_new_connection_and_the_old_one_ends_well() {
    let folders = Folders::of("fruit", &long("old"));
    let mut served = Served::start(
        folders
            .sources()
            .into_iter()
            .chain(["--poll".into(), "100ms".into()]),
    );
    let window = Some(1 << 16);
    let client = Client::with_window(served.grpc, "fruit", window);
    assert_eq!(names(&client).await.unwrap(), ["old"]);
    // A stream that is begun, and that the client does not read on.
    let mut stream = client
        .open::<_, proto::Bundle>(LIST_BUNDLES, proto::ListBundlesRequest {})
        .await
        .unwrap();
    let first = next(&mut stream).await.unwrap().unwrap();
    assert_eq!(first.package_name, "old");

    folders.replace("fruit", &long("new"));
    served.wait_for_status("fruit", |status| status["revision"]["id"] == 2);
    // Whoever comes now gets the new content ...
    let other = Client::new(served.grpc);
    assert_eq!(names(&other).await.unwrap(), ["new"]);
    // ... the old client not while it reads a list: what it asks meanwhile
    // belongs together with that ...
    assert_eq!(names(&client).await.unwrap(), ["old"]);
    let others = rest(&mut stream).await.unwrap();
    assert_eq!(others.len(), 199);
    assert!(others.iter().all(|bundle| bundle.package_name == "old"));
    // ... and is then asked to connect again.
    let begin = std::time::Instant::now();
    loop {
        match names(&client).await {
            Ok(found) if found == ["new"] => break,
            Ok(found) => assert_eq!(found, ["old"]),
            // The call was on its way when the connection was about to end.
            Err(error) => assert_ne!(error.code(), Code::Ok),
        }
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let metrics = http::get(served.admin, "/metrics").unwrap().text();
    assert!(
        metrics.contains("almanac_grpc_goaways_total 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn content_of_another_catalog_leaves_a_connection_alone() {
    let folders = Folders::of("fruit", &fruit()).catalog("other", &Catalog::small());
    let mut served = Served::start(
        folders
            .sources()
            .into_iter()
            .chain(["--poll".into(), "100ms".into()]),
    );
    let client = Client::called(served.grpc, "fruit");
    assert_eq!(names(&client).await.unwrap().len(), 2);
    folders.replace("other", &long("new"));
    served.wait_for_status("other", |status| {
        status["revision"]["counts"]["bundles"] == 200
    });
    assert_eq!(names(&client).await.unwrap().len(), 2);
    let metrics = http::get(served.admin, "/metrics").unwrap().text();
    assert!(!metrics.contains("almanac_grpc_goaways_total"), "{metrics}");
}
