//! Which catalog answers, by authority, and what the port says of itself: health and reflection.

use std::time::Duration;

use prost::Message as _;
use serde_json::json;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1 as reflection;

use super::{CHECK, LIFECYCLE, WATCH, fruit, names, refusal};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::grpc::{Client, next, rest};
use crate::support::served::{Folders, Served};

#[tokio::test]
async fn a_catalog_without_packages_is_not_served() {
    let catalog = Catalog::new().blob(json!({"schema": LIFECYCLE}));
    let served = Served::catalogs(&Folders::of("nothing", &catalog));
    let client = Client::new(served.grpc);
    let refused = names(&client).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn the_authority_chooses_the_catalog() {
    let of = |name: &str| {
        let version = format!("{name}.v1.0.0");
        Catalog::new().package(name, |package| package.channel("stable", [entry(&version)]))
    };
    let folders = ["one", "two", "three"]
        .iter()
        .fold(Folders::new(), |folders, name| {
            folders.catalog(name, &of(name))
        });
    let config = tempfile::NamedTempFile::new().unwrap();
    let written = |default: &str| {
        let catalog = |name: &str, more: &str| {
            let path = folders.path(name);
            format!(
                "[[catalog]]\nname = {name:?}\nsource = \"file:{}\"\n{more}\n",
                path.display()
            )
        };
        let text = [
            default,
            &catalog("one", ""),
            &catalog("two", "authorities = [\"operators.example.com\"]"),
            // The name of another catalog, as an authority of one's own.
            &catalog("three", "authorities = [\"one.elsewhere\"]"),
        ];
        std::fs::write(config.path(), text.join("\n")).unwrap();
        [
            "--config".to_owned(),
            config.path().to_str().unwrap().to_owned(),
        ]
    };
    let served = Served::start(written(""));
    let asked = async |server, authority: &str| names(&Client::called(server, authority)).await;
    for (authority, wanted) in [
        ("one", "one"),
        ("one.olm.svc:50051", "one"),
        ("ONE.olm.svc.cluster.local", "one"),
        ("two.olm", "two"),
        ("operators.example.com:443", "two"),
        ("Operators.Example.com", "two"),
        ("one.elsewhere:50051", "three"),
    ] {
        let found = asked(served.grpc, authority).await.unwrap();
        assert_eq!(found, [wanted], "{authority}");
    }
    for authority in ["localhost:50051", "example.com", "[::1]:50051"] {
        let (code, message) = refusal(asked(served.grpc, authority).await);
        assert_eq!(code, Code::NotFound);
        assert_eq!(
            message,
            format!("no catalog answers to {authority:?}; there are: one, three, two")
        );
        // Probes and tools ask under names of their own.
        let client = Client::called(served.grpc, authority);
        assert_eq!(health(&client, "").await, ServingStatus::Serving);
        assert!(!services(&client).await.is_empty());
    }
    drop(served);

    let served = Served::start(written("default_catalog = \"two\""));
    assert_eq!(asked(served.grpc, "localhost").await.unwrap(), ["two"]);
    assert_eq!(asked(served.grpc, "one").await.unwrap(), ["one"]);
}

#[tokio::test]
async fn a_name_that_is_an_authority_of_another_catalog_is_warned_of() {
    let folders = Folders::of("one", &Catalog::one("one")).catalog("two", &Catalog::one("two"));
    let config = tempfile::NamedTempFile::new().unwrap();
    let catalog = |name: &str, more: &str| {
        let source = folders.path(name);
        let source = source.display();
        format!("[[catalog]]\nname = {name:?}\nsource = \"file:{source}\"\n{more}\n")
    };
    let text = catalog("one", "authorities = [\"Two\"]") + &catalog("two", "");
    std::fs::write(config.path(), text).unwrap();
    let served = Served::start(["--config", config.path().to_str().unwrap()]);
    for (authority, wanted) in [("two:50051", "one"), ("two.olm.svc", "two")] {
        let found = names(&Client::called(served.grpc, authority))
            .await
            .unwrap();
        assert_eq!(found, [wanted], "{authority}");
    }
    let log = served.program.log();
    let mut lines = log.lines().filter(|line| line.contains("WARN"));
    let warned = |line: &str| line.contains("catalog=one") && line.contains("other=two");
    assert!(lines.any(warned), "{log}");
}

async fn health(client: &Client, service: &str) -> ServingStatus {
    let service = service.to_owned();
    let answer: HealthCheckResponse = client
        .unary(CHECK, HealthCheckRequest { service })
        .await
        .unwrap();
    answer.status()
}

// The client has to go on while the test waits for the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn health_is_told_for_every_name_and_watched() {
    let folders = Folders::of("fruit", &fruit());
    let missing = folders.path("later");
    let later = format!("later=file:{}", missing.display());
    let sources = folders.sources().into_iter().chain([later]);
    let mut served = Served::start(sources.chain(["--poll".into(), "100ms".into()]));
    let client = Client::new(served.grpc);
    for service in [
        "",
        "Registry",
        "api.Registry",
        "api.ExperimentalRegistry",
        "fruit",
        "anything",
    ] {
        let status = health(&client, service).await;
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    assert_eq!(health(&client, "later").await, ServingStatus::NotServing);

    let service = "later".to_owned();
    let mut watched = client
        .open::<_, HealthCheckResponse>(WATCH, HealthCheckRequest { service })
        .await
        .unwrap();
    let first = next(&mut watched).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::NotServing);
    Catalog::small().write_to(&missing, Format::JsonLines);
    let second = next(&mut watched).await.unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::Serving);
    // A client that only watches hears of the end, and does not hold it up.
    served.program.terminate();
    let last = rest(&mut watched).await.unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].status(), ServingStatus::NotServing);
    // Well before open streams would be cut.
    assert!(served.program.wait(Duration::from_secs(15)).success());
}

/// The services that reflection lists.
async fn services(client: &Client) -> Vec<String> {
    use reflection::server_reflection_response::MessageResponse;
    match reflect(client, reflection_request("")).await {
        Some(MessageResponse::ListServicesResponse(list)) => {
            let mut names: Vec<_> = list.service.into_iter().map(|s| s.name).collect();
            names.sort();
            names
        }
        other => panic!("{other:?}"),
    }
}

/// Asks for a symbol's file, or for all services.
fn reflection_request(symbol: &str) -> reflection::ServerReflectionRequest {
    use reflection::server_reflection_request::MessageRequest;
    reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(if symbol.is_empty() {
            MessageRequest::ListServices(String::new())
        } else {
            MessageRequest::FileContainingSymbol(symbol.into())
        }),
    }
}

async fn reflect(
    client: &Client,
    request: reflection::ServerReflectionRequest,
) -> Option<reflection::server_reflection_response::MessageResponse> {
    let answer =
        reflection::server_reflection_client::ServerReflectionClient::new(client.channel())
            .server_reflection_info(futures_util::stream::iter([request]))
            .await
            .unwrap();
    let mut answers = rest(&mut answer.into_inner()).await.unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0).message_response
}

#[tokio::test]
async fn reflection_lists_the_services_and_gives_their_files() {
    use reflection::server_reflection_response::MessageResponse;

    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);
    assert_eq!(
        services(&client).await,
        [
            "api.ExperimentalRegistry",
            "api.Registry",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
    );
    let file = reflect(&client, reflection_request("api.Registry")).await;
    let Some(MessageResponse::FileDescriptorResponse(files)) = file else {
        panic!("{file:?}");
    };
    let files: Vec<_> = files
        .file_descriptor_proto
        .iter()
        .map(|file| prost_types::FileDescriptorProto::decode(&file[..]).unwrap())
        .collect();
    let registry = files.iter().find(|file| file.name() == "registry.proto");
    assert_eq!(registry.unwrap().package(), "api");
}
