//! Catalogs that opm refuses as a whole and catalogd takes: they are served,
//! and their problems are shown.

use std::fs;

use serde_json::json;

use almanac::proto;

use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::grpc::Client;
use crate::support::http;
use crate::support::image::{CONFIGS_LABEL, Image, Layer};
use crate::support::program::Start;
use crate::support::served::{Served, source};
use crate::support::upstream::Upstream;

const LIST_BUNDLES: &str = "/api.Registry/ListBundles";
const LIST_PACKAGES: &str = "/api.Registry/ListPackages";

async fn packages(client: &Client) -> Vec<String> {
    let request = proto::ListPackageRequest {};
    let names: Vec<proto::PackageName> = client.stream(LIST_PACKAGES, request).await.unwrap();
    names.into_iter().map(|package| package.name).collect()
}

async fn bundles(client: &Client) -> Vec<proto::Bundle> {
    let request = proto::ListBundlesRequest {};
    client.stream(LIST_BUNDLES, request).await.unwrap()
}

/// The number of problems that the metrics tell of.
fn counted(served: &Served, catalog: &str, severity: &str) -> String {
    let metrics = http::get(served.admin, "/metrics").unwrap().text();
    let start =
        format!("almanac_catalog_problems{{catalog=\"{catalog}\",severity=\"{severity}\"}} ");
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix(&start));
    values.next().unwrap().to_owned()
}

#[tokio::test]
async fn a_document_of_comments_changes_no_answer_and_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text = Catalog::small().text(Format::Yaml);
    let text = text.trim_start_matches("---\n");
    let plain = folder.path().join("plain");
    let commented = folder.path().join("commented");
    for (path, text) in [
        (&plain, text.to_owned()),
        (
            &commented,
            format!("# A catalog\n---\n{text}---\n# The end\n"),
        ),
    ] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("catalog.yaml"), text).unwrap();
    }
    let sources = [source("plain", &plain), source("commented", &commented)];
    let served = Served::start(sources);
    let called = |name: &str| Client::called(served.grpc, name);
    assert_eq!(packages(&called("commented")).await, ["etcd"]);
    assert_eq!(
        bundles(&called("commented")).await,
        bundles(&called("plain")).await
    );
    let all = |name: &str| served.get(&format!("/catalogs/{name}/api/v1/all")).text();
    assert_eq!(all("commented"), all("plain"));

    assert_eq!(served.status("plain")["problems"], json!([]));
    let status = served.status("commented");
    assert_eq!(status["state"], "serving");
    assert_eq!(status["revision"]["counts"]["quarantined"], 0);
    let problems = status["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    for (problem, (document, line)) in problems.iter().zip([(1, 1), (6, text.lines().count() + 4)])
    {
        assert_eq!(problem["code"], "document-empty");
        assert_eq!(problem["severity"], "error");
        assert_eq!(problem["file"], "catalog.yaml");
        assert_eq!(problem["document"], document);
        assert_eq!(problem["line"], line);
    }
    assert_eq!(counted(&served, "plain", "error"), "0");
    assert_eq!(counted(&served, "commented", "error"), "2");
    assert_eq!(counted(&served, "commented", "warning"), "0");
}

#[tokio::test]
async fn a_property_without_a_value_takes_its_package_from_grpc_alone() {
    let mut fig = bundle("fig.v1.0.0").property("x", json!(null));
    let catalog = |fig| {
        Catalog::small().package("fig", |package| {
            package.channel("stable", [entry("fig.v1.0.0")]).bundle(fig)
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    catalog(fig.clone()).write_to(&good, Format::JsonLines);
    fig = fig.field(
        "properties",
        json!([{"type": "olm.package", "value": {
        "packageName": "fig", "version": "1.0.0"}}, {"type": "x"}]),
    );
    catalog(fig).write_to(&bad, Format::JsonLines);
    let served = Served::start([source("good", &good), source("bad", &bad)]);
    let called = |name: &str| Client::called(served.grpc, name);
    // A value of `null` is a value.
    assert_eq!(packages(&called("good")).await, ["etcd", "fig"]);
    assert_eq!(packages(&called("bad")).await, ["etcd"]);
    let blobs = served.get("/catalogs/bad/api/v1/metas?schema=olm.bundle&package=fig");
    assert!(blobs.text().contains(r#"{"type":"x"}"#), "{blobs:?}");
    let problem = &served.status("bad")["problems"][0];
    assert_eq!(problem["code"], "property-invalid");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["package"], "fig");
    assert_eq!(problem["bundle"], "fig.v1.0.0");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("\"x\" without a value"), "{message}");
}

/// opm and catalogd take an empty folder for a catalog with nothing in it.
/// Served like that, every operator would vanish from its clients.
#[tokio::test]
async fn an_empty_folder_never_replaces_a_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    let emptied = folder.path().join("emptied");
    fs::create_dir(&empty).unwrap();
    Catalog::small().write_to(&emptied, Format::Yaml);
    let sources = [source("empty", &empty), source("emptied", &emptied)];
    let poll = ["--poll", "100ms"].map(str::to_owned);
    let mut served = Served::start(sources.into_iter().chain(poll));
    let refused = |status: &serde_json::Value, path: &std::path::Path| {
        assert_eq!(status["last_result"]["reason"], "empty", "{status:#}");
        let error = status["last_error"].as_str().unwrap();
        for part in ["no file", path.to_str().unwrap(), "check the path"] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    };
    refused(&served.status("empty"), &empty);
    assert_eq!(served.get("/catalogs/empty/api/v1/all").status, 503);

    fs::remove_dir_all(&emptied).unwrap();
    fs::create_dir(&emptied).unwrap();
    served.wait_for_status("emptied", |status| {
        status["last_result"]["reason"] == "empty"
    });
    refused(&served.status("emptied"), &emptied);
    let client = Client::called(served.grpc, "emptied");
    assert_eq!(packages(&client).await, ["etcd"]);
}

/// A template of opm, other schemas and ignored files leave a catalog without packages.
#[test]
fn a_catalog_without_packages_never_replaces_one() {
    let template = "schema: olm.template.basic\nentries:\n- schema: olm.package\n  name: foo\n";
    let semver = "Schema: olm.semver\nGenerateMajorChannels: true\n";
    let foreign = "schema: example.com/thing\nname: a\n";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let upstream = Upstream::start();
    upstream.push("a/b", "v1", &Image::of_catalog(&Catalog::small()).build());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("local");
    Catalog::small().write_to(&path, Format::Yaml);
    let image = format!("pulled={}", upstream.reference("a/b", "v1"));
    let arguments = [source("local", &path), image, "--poll=100ms".to_owned()];
    let mut served = Served::start(arguments);
    for (content, said) in [
        (template, "only the template \"olm.template.basic\" of opm"),
        (semver, "only the template \"olm.semver\" of opm"),
        (foreign, "an empty catalog would take every operator"),
        ("# nothing\n", "an empty catalog would take every operator"),
    ] {
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("t.yaml"), content).unwrap();
        let layer = Layer::new().file("configs/t.yaml", content);
        let image = Image::new().label(CONFIGS_LABEL, "/configs").layer(layer);
        upstream.push("a/b", "v1", &image.build());
        for name in ["local", "pulled"] {
            served.wait_for_status(name, |status| {
                let error = status["last_error"].as_str().unwrap_or_default();
                error.contains(said)
            });
            let status = served.status(name);
            assert_eq!(status["last_result"]["reason"], "refused", "{status:#}");
            let error = status["last_error"].as_str().unwrap();
            assert!(error.contains("catalog-empty"), "{error}");
            let served = async { packages(&Client::called(served.grpc, name)).await };
            assert_eq!(runtime.block_on(served), ["etcd"], "{content}");
        }
        let local = format!("file:{}", path.display());
        let checked = Start::new(["check", &local]).run();
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        assert!(checked.stdout.contains(said), "{checked:?}");
        let of_opm = Start::new(["serve", path.to_str().unwrap(), "-p=0", "-t="]);
        let of_opm = of_opm.called("/bin/opm").run();
        assert_eq!(of_opm.status.code(), Some(1), "{of_opm:?}");
        assert!(of_opm.stderr.contains(said), "{of_opm:?}");
    }
    // Beside packages, a template is what it is.
    Catalog::small().write_to(&path, Format::Yaml);
    fs::write(path.join("t.yaml"), template).unwrap();
    served.wait_for_status("local", |status| status["failures"] == 0);
    let problem = &served.status("local")["problems"][0];
    assert_eq!(problem["code"], "schema-unknown", "{problem}");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("opm alpha render-template"), "{message}");
}

#[test]
fn a_folder_whose_files_are_all_ignored_says_so() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::Yaml);
    fs::write(folder.path().join(".indexignore"), "**/*\n").unwrap();
    let source = format!("file:{}", folder.path().display());
    let checked = Start::new(["check", &source]).run();
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    let said = ".indexignore hides all";
    assert!(checked.stderr.contains(said), "{checked:?}");
}
