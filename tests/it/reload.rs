//! A changed configuration counts without a restart, as far as it can, and
//! what cannot be used changes nothing.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use almanac::proto::{ListPackageRequest, PackageName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Status;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::grpc::Client;
use crate::support::http::{ask, get};
use crate::support::program::{PATIENCE, Program};
use crate::support::{file, port};

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// Folders of catalogs, each with one package of its own name.
fn folders(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        Catalog::one(name).write_to(&path, Format::JsonLines);
    }
    folder
}

/// A configuration with catalogs of these folders, by name.
fn config(root: &TempDir, catalogs: &[(&str, &str)]) -> String {
    let mut text = "poll = \"100ms\"\n".to_owned();
    for (name, folder) in catalogs {
        text += &catalog(name, &source(root.path(), folder));
    }
    text
}

fn source(root: &Path, folder: &str) -> String {
    format!("file:{}", root.join(folder).display())
}

fn serving(almanac: &mut Almanac, name: &str) {
    almanac.until(name, "the catalog", |status| status["state"] == "serving");
}

/// Facts of a served revision that stay the same.
fn identity(status: &Value) -> [Value; 3] {
    ["id", "digest", "committed"].map(|key| status["revision"][key].clone())
}

async fn packages(client: &Client) -> Result<Vec<String>, Status> {
    let path = "/api.Registry/ListPackages";
    let names = client.stream::<_, PackageName>(path, ListPackageRequest {});
    Ok(names
        .await?
        .into_iter()
        .map(|package| package.name)
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_come_and_go_and_the_others_are_not_disturbed() {
    let root = folders(&["one", "two", "three"]);
    let mut almanac = Almanac::start(&config(&root, &[("one", "one"), ("two", "two")]));
    serving(&mut almanac, "one");
    serving(&mut almanac, "two");
    almanac.program.wait_until_ready();
    let before = almanac.status("one");
    let grpc = almanac.program.address("grpc");
    let one = Client::called(grpc, "one");
    let two = Client::called(grpc, "two");
    assert_eq!(packages(&one).await.unwrap(), ["one"]);
    assert_eq!(packages(&two).await.unwrap(), ["two"]);

    // Told nothing, it takes it once.
    almanac.configure(&config(&root, &[("one", "one"), ("three", "three")]));
    almanac.until_names(&["one", "three"]);
    serving(&mut almanac, "three");
    let three = Client::called(grpc, "three");
    assert_eq!(packages(&three).await.unwrap(), ["three"]);
    assert_eq!(almanac.all("two").status, 404);
    let gone = packages(&two).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::NotFound, "{gone}");
    assert!(gone.message().contains("one, three"), "{gone}");

    assert_eq!(packages(&one).await.unwrap(), ["one"]);
    let after = almanac.status("one");
    assert_eq!(identity(&after), identity(&before));
    // Only the connection that saw what is gone is asked to come again.
    almanac.until_metrics("almanac_grpc_goaways_total 1\n");
    almanac.until_metrics("almanac_config_reloads_total{outcome=\"taken\"} 1\n");
    assert_eq!(almanac.ready().status, 200);
    almanac.stop();
}

#[test]
fn a_changed_file_is_seen_without_a_signal() {
    let root = folders(&["one", "two"]);
    let mut almanac = Almanac::start(&config(&root, &[("a", "one")]));
    serving(&mut almanac, "a");
    almanac.configure(&config(&root, &[("a", "one"), ("b", "two")]));
    almanac.until_names(&["a", "b"]);
    serving(&mut almanac, "b");
}

#[test]
fn a_mounted_configuration_that_is_swapped_is_read_again() {
    let root = folders(&["one", "two"]);
    let mounted = tempfile::tempdir().unwrap();
    let mount = |version: &str, text: &str| {
        let folder = mounted.path().join(version);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("almanac.toml"), text).unwrap();
        let (next, data) = (mounted.path().join("next"), mounted.path().join("..data"));
        symlink(version, &next).unwrap();
        fs::rename(next, data).unwrap();
    };
    mount("..1", &config(&root, &[("a", "one")]));
    let path = mounted.path().join("almanac.toml");
    symlink("..data/almanac.toml", &path).unwrap();
    let mut almanac = Almanac::start_from(&path);
    serving(&mut almanac, "a");
    mount("..2", &config(&root, &[("b", "two")]));
    almanac.until_names(&["b"]);
    serving(&mut almanac, "b");
}

#[test]
fn an_image_set_that_changes_is_read_again() {
    let root = folders(&["one"]);
    let harbor = root.path().join("harbor");
    fs::create_dir(&harbor).unwrap();
    let both = Catalog::one("crane").text(Format::JsonLines)
        + &Catalog::one("pier").text(Format::JsonLines);
    fs::write(harbor.join("catalog.json"), both).unwrap();
    let set = root.path().join("imageset.yaml");
    let select = |package: &str| {
        let text = format!(
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
             operators:\n  - catalog: {}\n    packages:\n    - name: {package}\n",
            source(root.path(), "harbor")
        );
        file::replace(&set, text);
    };
    select("pier");
    let harbor = config(&root, &[("harbor", "harbor")]);
    let text = format!("{harbor}[[catalog]]\nname = \"ours\"\nimage_set = {set:?}\n");
    let mut almanac = Almanac::start(&text);
    serving(&mut almanac, "ours");
    assert_eq!(almanac.packages("ours").unwrap(), ["pier"]);
    let before = identity(&almanac.status("ours"));
    select("crane");
    almanac.until("ours", "the other selection", |status| {
        identity(status) != before
    });
    assert_eq!(almanac.packages("ours").unwrap(), ["crane"]);
    file::replace(&set, "kind: nothing\n");
    almanac.until_configuration("a refusal", |status| {
        status["error"]
            .as_str()
            .is_some_and(|error| error.contains("imageset.yaml"))
    });
    assert_eq!(almanac.packages("ours").unwrap(), ["crane"]);
}

#[test]
fn what_all_catalogs_have_in_common_changes_too() {
    let root = folders(&["one"]);
    let file = root.path().join("one/empty.json");
    fs::write(file, "").unwrap();
    let config = config(&root, &[("a", "one")]);
    let mut almanac = Almanac::start(&format!("{config}[limits]\nfiles = 1\n"));
    let status = almanac.until_failed("a");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("the number of files"), "{error}");
    almanac.reconfigure(&format!("{config}[limits]\nfiles = 2\n"));
    serving(&mut almanac, "a");
    assert_eq!(almanac.configuration()["needs_restart"], json!([]));
}

#[test]
fn a_signal_without_a_file_changes_nothing() {
    let root = folders(&["one"]);
    let source = format!("a={}", source(root.path(), "one"));
    let arguments = ["serve", &source, "--data-dir={data}"];
    let ports = ["grpc", "http", "admin"].map(|port| format!("--{port}=127.0.0.1:0"));
    let arguments = arguments
        .into_iter()
        .chain(ports.iter().map(String::as_str));
    let mut program = Program::start(arguments);
    program.wait_until_ready();
    program.signal("HUP");
    program.wait_for_log("a warning", |log| log.contains("no configuration file"));
    let http = program.address("http");
    assert_eq!(get(http, "/catalogs/a/api/v1/all").unwrap().status, 200);
    program.terminate();
}

#[test]
fn a_catalog_that_is_gone_cannot_be_had_and_comes_back_from_the_store() {
    let root = folders(&["one", "two"]);
    let both = config(&root, &[("one", "one"), ("two", "two")]);
    let mut almanac = Almanac::start(&both);
    serving(&mut almanac, "one");
    serving(&mut almanac, "two");
    almanac.until_pullable("two");
    let before = identity(&almanac.status("two"));
    almanac.reconfigure(&config(&root, &[("one", "one")]));
    almanac.until_names(&["one"]);
    assert_eq!(almanac.all("two").status, 404);
    assert_eq!(almanac.http("/v2/two/manifests/latest").status, 404);
    almanac.until_metrics("almanac_catalog_objects{catalog=\"two\",kind=\"packages\"} 0\n");
    almanac.until_metrics("almanac_last_pass_timestamp_seconds{catalog=\"two\"} NaN\n");

    // Not even its source is there any more.
    fs::remove_dir_all(root.path().join("two")).unwrap();
    almanac.reconfigure(&both);
    almanac.until_names(&["one", "two"]);
    let after = almanac.until_failed("two");
    assert_eq!(after["state"], "serving");
    assert_eq!(identity(&after), before);
    assert_eq!(almanac.packages("two").unwrap(), ["two"]);
    almanac.until_pullable("two");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_catalog_that_is_gone_never_get_another() {
    let root = folders(&["one", "two"]);
    let both = config(&root, &[("one", "one"), ("two", "two")]);
    let mut almanac = Almanac::start(&both);
    serving(&mut almanac, "one");
    serving(&mut almanac, "two");
    let healthy = async |client: &Client, service: &str| {
        let service = service.to_owned();
        let answer: HealthCheckResponse = client
            .unary(CHECK, HealthCheckRequest { service })
            .await
            .unwrap();
        answer.status() == ServingStatus::Serving
    };
    let client = Client::called(almanac.program.address("grpc"), "two.olm.svc:50051");
    assert_eq!(packages(&client).await.unwrap(), ["two"]);
    assert!(healthy(&client, "two").await);

    let told = async |grpc: SocketAddr| {
        let client = Client::called(grpc, "two.olm.svc:50051");
        let gone = packages(&client).await.unwrap_err();
        assert_eq!(gone.code(), tonic::Code::NotFound, "{gone}");
        assert!(!healthy(&client, "two").await);
        assert!(healthy(&client, "one").await && healthy(&client, "").await);
        // Who names nothing that ever was gets what there is.
        let stranger = Client::called(grpc, "localhost:50051");
        assert_eq!(packages(&stranger).await.unwrap(), ["one"]);
    };
    let one = config(&root, &[("one", "one")]);
    almanac.reconfigure(&one);
    almanac.until_names(&["one"]);
    told(almanac.program.address("grpc")).await;
    // Nor after a start, nor with a default.
    almanac.stop();
    almanac.restart_with(&format!("default_catalog = \"one\"\n{one}"));
    serving(&mut almanac, "one");
    told(almanac.program.address("grpc")).await;
    almanac.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_clients_find_a_catalog_changes_at_once() {
    let root = folders(&["one", "two"]);
    let both = config(&root, &[("one", "one"), ("two", "two")]);
    let mut almanac = Almanac::start(&both);
    serving(&mut almanac, "one");
    serving(&mut almanac, "two");
    let grpc = almanac.program.address("grpc");
    let answer = async |authority: &'static str| {
        let packages = packages(&Client::called(grpc, authority)).await;
        packages.map_err(|status| status.code())
    };
    assert_eq!(answer("else").await, Err(tonic::Code::NotFound));
    let taken = almanac.configuration()["taken"].take();
    // Times are of seconds.
    std::thread::sleep(Duration::from_millis(1100));
    almanac.reconfigure(&format!(
        "default_catalog = \"one\"\n{both}authorities = [\"own.example.com\"]\n"
    ));
    almanac.until_configuration("the new one", |status| status["taken"] != taken);
    assert_eq!(answer("else").await.unwrap(), ["one"]);
    assert_eq!(answer("own.example.com").await.unwrap(), ["two"]);
    almanac.reconfigure(&format!("{both}available = false\n"));
    almanac.until("two", "to be withheld", |status| {
        status["state"] == "unavailable"
    });
    assert_eq!(answer("own.example.com").await, Err(tonic::Code::NotFound));
    assert_eq!(almanac.all("two").status, 404);
    almanac.stop();
}

#[test]
fn another_source_of_a_catalog_is_served_in_its_place() {
    let root = folders(&["one", "two"]);
    let mut almanac = Almanac::start(&config(&root, &[("a", "one")]));
    serving(&mut almanac, "a");
    assert_eq!(almanac.packages("a").unwrap(), ["one"]);
    almanac.reconfigure(&config(&root, &[("a", "two")]));
    let two = source(root.path(), "two");
    almanac.until("a", "the other source", |status| {
        status["source"] == two.as_str() && status["state"] == "serving"
    });
    assert_eq!(almanac.packages("a").unwrap(), ["two"]);
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let root = folders(&["one"]);
    let good = config(&root, &[("a", "one")]);
    let mut almanac = Almanac::start(&good);
    serving(&mut almanac, "a");
    let taken_port = TcpListener::bind("127.0.0.1:0").unwrap();
    let own_port = format!("{good}grpc = \"{}\"\n", taken_port.local_addr().unwrap());
    let no_tokens = format!("{good}token_files = [\"/missing\"]\n");
    for (bad, said) in [
        ("no = TOML =", "almanac.toml"),
        ("pol = \"1s\"\n", "unknown key"),
        ("", "no catalog"),
        (own_port.as_str(), "port of the catalog a"),
        (no_tokens.as_str(), "/missing"),
    ] {
        almanac.reconfigure(bad);
        let status = almanac.until_configuration("a refusal", |status| {
            status["error"]
                .as_str()
                .is_some_and(|error| error.contains(said))
        });
        assert!(!status["refused"].is_null(), "{status}");
        assert_eq!(almanac.packages("a").unwrap(), ["one"], "{bad}");
        assert_eq!(almanac.all("a").status, 200, "{bad}");
    }
    almanac.until_metrics("almanac_config_reloads_total{outcome=\"refused\"}");
    almanac.until_metrics("almanac_config_last_reload_successful 0\n");
    almanac.program.wait_for_log("the refusal", |log| {
        log.contains("the new configuration is refused; the active one stays")
    });
    almanac.reconfigure(&good);
    almanac.until_configuration("a good one", |status| status["error"].is_null());
}

#[test]
fn a_refused_file_counts_once_what_it_lacked_is_there() {
    let root = folders(&["one"]);
    let good = config(&root, &[("a", "one")]);
    // One that nobody else gets when it is given up.
    let port = port::listener();
    let own_port = format!("{good}grpc = \"{}\"\n", port.local_addr().unwrap());
    let tokens = root.path().join("tokens");
    let with_tokens = format!("{good}token_files = [{tokens:?}]\n");
    let set = root.path().join("imageset.yaml");
    let curated = format!("{good}[[catalog]]\nname = \"b\"\nimage_set = {set:?}\n");
    let one = source(root.path(), "one");
    let text = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
         operators:\n  - catalog: {one}\n"
    );
    let port = std::cell::Cell::new(Some(port));
    let cases: [(&str, &str, &dyn Fn()); 3] = [
        (&own_port, "in use", &|| drop(port.take())),
        (&with_tokens, "No such file", &|| {
            file::replace(&tokens, "s3cret\n");
        }),
        (&curated, "No such file", &|| {
            file::replace(&set, &text);
        }),
    ];
    let mut almanac = Almanac::start(&good);
    serving(&mut almanac, "a");
    for (number, (text, cause, mend)) in cases.into_iter().enumerate() {
        // A signal beside the change that it sees would be another refusal.
        almanac.configure(text);
        let status = almanac.until_configuration("a refusal", |status| {
            let error = status["error"].as_str().unwrap_or_default();
            error.contains(cause)
        });
        // Once is enough.
        let error = status["error"].as_str().unwrap();
        assert_eq!(error.matches(cause).count(), 1, "{error}");
        if number == 0 {
            std::thread::sleep(Duration::from_secs(5));
        }
        mend();
        almanac.until_configuration("it to be taken", |status| status["error"].is_null());
        let log = almanac.program.log();
        assert_eq!(log.matches("is refused").count(), number + 1, "{log}");
    }
    almanac.until_names(&["a", "b"]);
}

#[test]
fn keys_that_count_only_after_a_restart_are_named() {
    let root = folders(&["one"]);
    let good = config(&root, &[("a", "one")]);
    let mut almanac = Almanac::start(&good);
    serving(&mut almanac, "a");
    assert_eq!(almanac.configuration()["needs_restart"], json!([]));
    almanac.reconfigure(&format!(
        "max_connections = 7\n{good}[log]\nfilter = \"warn\"\n"
    ));
    let status = almanac.until_configuration("the keys", |status| {
        status["needs_restart"] == json!(["max_connections", "log"])
    });
    assert!(status["error"].is_null(), "{status}");
    almanac
        .program
        .wait_for_log("a warning", |log| log.contains("max_connections, log"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_catalogs_come_and_go_and_move() {
    let root = folders(&["one", "two"]);
    let port = port::free_port();
    let own_port = format!("grpc = \"{port}\"\n");
    let with = |own: &str| {
        let mut text = "poll = \"100ms\"\n".to_owned();
        for name in ["one", "two"] {
            text += &catalog(name, &source(root.path(), name));
            if name == own {
                text.push_str(&own_port);
            }
        }
        text
    };
    let mut almanac = Almanac::start(&with(""));
    serving(&mut almanac, "one");
    serving(&mut almanac, "two");
    for name in ["one", "two", "one"] {
        almanac.reconfigure(&with(name));
        let mut seen = Vec::new();
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let client = Client::called(port, "anything");
            if let Ok(packages) = packages(&client).await {
                seen = packages;
                if seen == [name] {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(seen, [name]);
    }
    almanac.reconfigure(&with(""));
    let begin = Instant::now();
    while TcpListener::bind(port).is_err() {
        assert!(begin.elapsed() < PATIENCE, "the port is still taken");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    almanac.stop();
}

#[test]
fn who_may_read_a_catalog_changes_at_once() {
    let root = folders(&["one"]);
    let good = config(&root, &[("a", "one")]);
    let tokens = root.path().join("tokens");
    fs::write(&tokens, "s3cret\n").unwrap();
    let mut almanac = Almanac::start(&good);
    serving(&mut almanac, "a");
    assert_eq!(almanac.all("a").status, 200);
    almanac.reconfigure(&format!("{good}token_files = [{tokens:?}]\n"));
    let begin = Instant::now();
    while almanac.all("a").status != 401 {
        assert!(
            begin.elapsed().as_secs() < 30,
            "everybody may still read it"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let http = almanac.program.address("http");
    let path = "/catalogs/a/api/v1/all";
    let headers = [("Authorization", "Bearer s3cret")];
    assert_eq!(ask(http, "GET", path, &headers, b"").unwrap().status, 200);
    assert!(!almanac.program.log().contains("s3cret"));
}
