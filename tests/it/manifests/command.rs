//! The choices of `almanac manifests`.

use serde_json::{Value, json};

use super::cluster::text;
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
