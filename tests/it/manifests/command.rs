//! The choices of `almanac manifests`.

use serde_json::{Value, json};

use super::cluster::text;
use super::rendered::template;
use crate::support::needs::skip_without;
use crate::support::program::Start;
use crate::support::yaml;

const CONFIGURATION: &str = "http = \"0.0.0.0:8443\"\n\
    [[catalog]]\nname = \"one\"\nsource = \"quay.invalid/a:1\"\n\
    [[catalog]]\nname = \"two.three\"\nsource = \"quay.invalid/b:1\"\n";

fn run(configuration: &str, arguments: &[&str]) -> crate::support::program::Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    std::fs::write(&path, configuration).unwrap();
    let start = Start::new(["manifests", "--config"]).argument(path.to_str().unwrap());
    arguments.iter().copied().fold(start, Start::argument).run()
}

/// The objects, each as its kind and name.
fn names(arguments: &[&str]) -> Vec<String> {
    let finished = run(CONFIGURATION, arguments);
    assert!(finished.status.success(), "{}", finished.stderr);
    let objects = yaml::documents(&finished.stdout).into_iter();
    let named = objects.map(|it| {
        let name = text(&it["metadata"]["name"]);
        format!("{} {name}", text(&it["kind"]))
    });
    named.collect()
}

#[test]
fn manifests_are_written_for_the_chosen_catalogs_and_kinds() {
    assert_eq!(
        names(&[]),
        [
            "NetworkPolicy almanac",
            "NetworkPolicy almanac-unpack-bundles",
            "Service one",
            "CatalogSource one",
            "Service two-three",
            "CatalogSource two-three"
        ]
    );
    let one = names(&["--catalog=one", "--kind=service", "--kind=catalog-source"]);
    assert_eq!(one, ["Service one", "CatalogSource one"]);
    let service = names(&["--catalog=two.three", "--kind=service"]);
    assert_eq!(service, ["Service two-three"]);
    assert_eq!(names(&["--kind=network-policy"]).len(), 2);
    // OLM makes them for its pods.
    let by_image = [
        "--by=image",
        "--catalog-host=m.example.com",
        "--catalog=one",
    ];
    assert_eq!(
        names(&by_image),
        ["CatalogSource one", "ClusterCatalog one"]
    );
}

#[test]
fn the_policy_opens_the_ports_of_the_configuration() {
    let ports = |configuration: &str| -> (Value, String) {
        let finished = run(configuration, &["--kind=network-policy"]);
        assert!(finished.status.success(), "{}", finished.stderr);
        let policies = yaml::documents(&finished.stdout);
        let rule = &policies[0]["spec"]["ingress"][0];
        assert!(rule["from"].is_null());
        // The pods of the chart and of the overlay have these labels.
        let owns = configuration.contains("\"own\"");
        let name = if owns { "catalogd" } else { "almanac" };
        let pods = &policies[0]["spec"]["podSelector"]["matchLabels"];
        assert_eq!(pods["app.kubernetes.io/name"], name);
        assert_eq!(pods["app.kubernetes.io/instance"].is_null(), !owns);
        let ports = rule["ports"].as_array().unwrap().iter();
        (
            ports.map(|it| it["port"].clone()).collect(),
            finished.stderr,
        )
    };
    let (open, said) = ports(CONFIGURATION);
    assert_eq!(open, json!([50051, 8443]));
    assert!(said.is_empty(), "{said}");
    // OLM 0.32 to 0.40 would not reach it.
    let (open, said) = ports(&format!("grpc = \"0.0.0.0:5000\"\n{CONFIGURATION}"));
    assert_eq!(open, json!([50051, 8443]));
    assert!(said.contains("the gRPC port is 5000"), "{said}");
    // The cluster may name all catalogs, and the API server asks the webhook.
    let cluster = "http = \"0.0.0.0:8443\"\n[kubernetes]\ncluster_catalogs = \"own\"\n";
    let (open, _) = ports(cluster);
    assert_eq!(open, json!([50051, 8443]));
    let tls = "[http_tls]\ncertificate = \"tls.crt\"\nkey = \"tls.key\"\n";
    let (open, _) = ports(&format!("{cluster}webhook = \"0.0.0.0:9443\"\n{tls}"));
    assert_eq!(open, json!([50051, 8443, 9443]));
}

#[test]
fn a_catalog_source_shows_the_given_names() {
    let arguments = ["--catalog=one", "--kind=catalog-source"];
    let shown = ["--display-name=The one", "--publisher=Example: \"we\""];
    let finished = run(CONFIGURATION, &[arguments, shown].concat());
    let [source] = &yaml::documents(&finished.stdout)[..] else {
        panic!("one object: {}", finished.stdout)
    };
    assert_eq!(source["spec"]["displayName"], "The one");
    assert_eq!(source["spec"]["publisher"], "Example: \"we\"");
    let finished = run(CONFIGURATION, &arguments);
    let [source] = &yaml::documents(&finished.stdout)[..] else {
        panic!("one object: {}", finished.stdout)
    };
    assert_eq!(source["spec"]["displayName"], "one");
    assert!(source["spec"]["publisher"].is_null());
}

#[test]
fn choices_that_cannot_be_followed_are_refused() {
    for (arguments, said) in [
        (
            &["--catalog=four"][..],
            "no catalog four, only one, two.three",
        ),
        (&["--display-name=x"], "--catalog"),
        (
            &[
                "--kind=service",
                "--by=image",
                "--catalog-host=m.example.com",
            ],
            "--by address",
        ),
        (&["--catalog=A B"], "A B"),
        (&["--namespace=a.b"], "not a namespace"),
    ] {
        let finished = run(CONFIGURATION, arguments);
        assert_eq!(finished.status.code(), Some(2), "{arguments:?}");
        assert!(finished.stderr.contains(said), "{}", finished.stderr);
    }
}

#[test]
fn words_beside_a_configuration_are_names_of_its_catalogs() {
    let finished = run(CONFIGURATION, &["one", "--kind=service"]);
    assert!(finished.status.success(), "{finished:?}");
    assert!(finished.stdout.contains("name: one"), "{finished:?}");
    assert!(!finished.stdout.contains("two-three"), "{finished:?}");
    let finished = run(CONFIGURATION, &["quay.invalid/a:1"]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(
        finished.stderr.contains("with --config, name catalogs"),
        "{finished:?}"
    );
    let finished = Start::new(["manifests"]).run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    for said in [
        "no catalog to write manifests for",
        "`almanac manifests community=",
    ] {
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
    assert!(!finished.stderr.contains("almanac serve"), "{finished:?}");
}

#[test]
fn a_restricted_catalog_comes_with_a_note_about_grpc() {
    let guarded = format!("{CONFIGURATION}token_files = [\"tokens\"]\n");
    let finished = run(&guarded, &[]);
    assert!(finished.status.success(), "{finished:?}");
    let note = "the catalog two.three is restricted over HTTP only";
    assert!(finished.stderr.contains(note), "{finished:?}");
    assert!(!finished.stderr.contains("the catalog one"), "{finished:?}");
    assert!(!run(CONFIGURATION, &[]).stderr.contains("restricted"));
}

#[test]
fn services_have_names_that_kubernetes_takes_and_the_chart_has_the_same() {
    let long = "x".repeat(64);
    let catalogs = ["3scale", "two.three", &long];
    let tables = catalogs
        .map(|name| format!("[[catalog]]\nname = {name:?}\nsource = \"quay.invalid/a:1\"\n"));
    let configuration = tables.concat();
    let finished = run(&configuration, &["--catalog-host=m.example.com"]);
    assert!(finished.status.success(), "{}", finished.stderr);
    let of = |objects: &[Value], kind: &str| -> Vec<String> {
        let of_kind = objects.iter().filter(|object| object["kind"] == kind);
        let names = of_kind.map(|object| text(&object["metadata"]["name"]).to_owned());
        names.collect()
    };
    let objects = yaml::documents(&finished.stdout);
    let services = of(&objects, "Service");
    let shortened = format!("{}-", "x".repeat(54));
    assert_eq!(services[..2], ["catalog-3scale", "two-three"]);
    assert!(services[2].starts_with(&shortened) && services[2].len() == 63);
    assert_eq!(of(&objects, "CatalogSource"), services);
    let clusters = of(&objects, "ClusterCatalog");
    assert_eq!(clusters, ["3scale", "two.three", &services[2]]);
    if skip_without("helm") {
        return;
    }
    let values = catalogs.map(|name| format!("  - name: {name:?}\n    source: quay.invalid/a:1\n"));
    let values = format!(
        "olm: {{v0: {{enabled: true}}, v1: {{enabled: true, host: m.example.com}}}}\ncatalogs:\n{}",
        values.concat()
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let values = file.path().to_str().unwrap();
    let output = template(values, &[]);
    assert!(output.status.success(), "{output:?}");
    let rendered = yaml::documents(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(of(&rendered, "CatalogSource"), services);
    assert_eq!(of(&rendered, "ClusterCatalog"), clusters);
}

#[test]
fn catalogs_that_would_share_a_service_are_told_by_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    let ports = "grpc = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n";
    let check = |names: &[&str]| {
        let tables = names
            .iter()
            .map(|name| format!("[[catalog]]\nname = {name:?}\nsource = \"quay.invalid/a:1\"\n"));
        let tables: String = tables.collect();
        std::fs::write(&path, format!("{ports}{tables}")).unwrap();
        let start = Start::new(["serve", "--check", "--data-dir={data}", "--config"]);
        let finished = start.argument(path.to_str().unwrap()).run();
        assert!(finished.status.success(), "{finished:?}");
        finished.stderr
    };
    let said = "both catalogs would have this Service";
    assert!(check(&["two.three", "two-three"]).contains(said));
    assert!(!check(&["3scale", "two.three"]).contains(said));
}
