//! The chart, the overlays and `almanac manifests` write the same objects, which
//! the API of Kubernetes takes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::cluster::{selects, text};
use super::rendered::{EXAMPLES, OVERLAYS, chart, overlay};
use super::{deployed, in_pages};
use crate::docs::read;
use crate::support::file::root;
use crate::support::needs::skip_without;
use crate::support::program::Start;
use crate::support::yaml;

/// The oldest release with all that the manifests use, and the newest.
const RELEASES: [&str; 2] = ["1.30", "1.37"];

/// Labels and annotations of a release of Helm.
const OF_HELM: [&str; 8] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
    "helm.sh/hook",
    "helm.sh/hook-weight",
    "helm.sh/hook-delete-policy",
    "almanac/restart",
];

#[test]
fn the_overlays_are_what_the_chart_renders() {
    if skip_without("helm") || skip_without("kubectl") {
        return;
    }
    for (example, _) in &EXAMPLES[..6] {
        let charted = by_name(yaml::documents(chart(example)));
        let mut overlaid = by_name(overlay(&format!("deploy/kustomize/{example}")));
        // Helm has a flag for it.
        overlaid.remove("Namespace almanac");
        assert_eq!(
            charted.keys().collect::<Vec<_>>(),
            overlaid.keys().collect::<Vec<_>>(),
            "{example}"
        );
        for (name, object) in charted {
            assert_eq!(object, overlaid[&name], "{example}: {name}");
        }
    }
}

/// An overlay as an admin writes it, with the component for metrics.
#[test]
fn the_component_for_metrics_is_what_the_chart_renders() {
    if skip_without("helm") || skip_without("kubectl") {
        return;
    }
    let mut charted = by_name(yaml::documents(chart("monitored")));
    let overlaid = by_name(overlay("tests/fixtures/kustomize/monitored"));
    for name in [
        "Service almanac-admin",
        "PodMonitor almanac",
        "PrometheusRule almanac",
    ] {
        let object = charted.get_mut(name).unwrap();
        // By the values of the example, for the operator of Prometheus.
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove("release");
        assert_eq!(*object, overlaid[name], "{name}");
    }
    let rule =
        |all: &BTreeMap<String, Value>| all["NetworkPolicy almanac"]["spec"]["ingress"].clone();
    assert_eq!(rule(&charted), rule(&overlaid));
    let ports = |all: &BTreeMap<String, Value>| {
        let pod = &all["StatefulSet almanac"]["spec"]["template"]["spec"];
        pod["containers"][0]["ports"].clone()
    };
    assert_eq!(ports(&charted), ports(&overlaid));
    let pod = &overlaid["StatefulSet almanac"]["spec"]["template"]["spec"];
    let admin = json!([{"name": "ALMANAC_ADMIN", "value": "0.0.0.0:9090"}]);
    assert_eq!(pod["containers"][0]["env"], admin);
}

/// Without the comment in its kustomization, each overlay has metrics of its own pods.
#[test]
fn each_overlay_takes_the_component_for_metrics_where_it_names_it() {
    if skip_without("kubectl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, namespace) in &EXAMPLES[..5] {
        let copy = folder.path().join(name);
        let kustomize = root().join("deploy/kustomize");
        let mut copying = Command::new("cp");
        let copied = copying.arg("-r").arg(kustomize).arg(&copy).status();
        assert!(copied.unwrap().success());
        let own = copy.join(name);
        let inner = own.join("namespaced/kustomization.yaml");
        let file = if inner.exists() {
            inner
        } else {
            own.join("kustomization.yaml")
        };
        let text_of = std::fs::read_to_string(&file).unwrap();
        let with = text_of.replace("#components:", "components:");
        let with = with.replace("#  - ../", "  - ../");
        assert_ne!(text_of, with, "{name}");
        std::fs::write(&file, with).unwrap();
        let all = by_name(overlay(own.to_str().unwrap()));
        for object in [
            "Service almanac-admin",
            "PodMonitor almanac",
            "PrometheusRule almanac",
        ] {
            let metadata = &all[object]["metadata"];
            assert_eq!(metadata["namespace"], *namespace, "{name}: {object}");
        }
        let pods = &all["StatefulSet almanac"]["spec"]["template"]["metadata"]["labels"];
        let service = &all["Service almanac-admin"]["spec"]["selector"];
        let service = json!({ "matchLabels": service });
        for selector in [&service, &all["PodMonitor almanac"]["spec"]["selector"]] {
            assert!(selects(selector, pods), "{name}: {selector} {pods}");
        }
    }
}

/// The other tests read the overlay without kubectl.
#[test]
fn the_overlay_for_version_0_is_read_alike_by_kubectl_and_by_the_tests() {
    if skip_without("kubectl") {
        return;
    }
    let with = by_name(overlay("deploy/kustomize/olm-v0"));
    let without = by_name(deployed());
    assert_eq!(with, without);
}

#[test]
fn the_command_writes_what_the_overlay_has_for_a_catalog() {
    let finished = Start::new([
        "manifests",
        "community=quay.io/operatorhubio/catalog:latest",
        "--publisher=OperatorHub.io",
    ])
    .argument("--display-name=Community operators")
    .run();
    assert!(finished.status.success(), "{}", finished.stderr);
    let written = by_name(yaml::documents(&finished.stdout));
    let mut deployed = by_name(deployed());
    // The Service of the HTTP API belongs to the pods.
    for name in [
        "ConfigMap almanac",
        "PodDisruptionBudget almanac",
        "Service almanac",
        "StatefulSet almanac",
    ] {
        deployed.remove(name).unwrap();
    }
    assert_eq!(written, deployed);
}

#[test]
fn every_object_fits_the_api_of_kubernetes() {
    for need in ["helm", "kubectl", "python:kubernetes_validate"] {
        if skip_without(need) {
            return;
        }
    }
    let mut all: Vec<(String, Value)> = Vec::new();
    let mut add = |origin: &str, objects: Vec<Value>| {
        all.extend(objects.into_iter().map(|it| (origin.to_owned(), it)));
    };
    for (example, _) in EXAMPLES {
        add(example, yaml::documents(chart(example)));
    }
    for path in OVERLAYS {
        add(path, overlay(path));
    }
    let file = "deploy/catalogsource-image.yaml";
    add(file, yaml::documents(&read(file)));
    for by in ["address", "image"] {
        let finished = Start::new([
            "manifests",
            "a.b=quay.invalid/a:1",
            "--catalog-host=almanac.example.com",
        ])
        .argument(format!("--by={by}"))
        .run();
        assert!(finished.status.success(), "{}", finished.stderr);
        add("almanac manifests", yaml::documents(&finished.stdout));
    }
    let pages = in_pages().into_iter();
    all.extend(
        pages.filter(|(_, it)| !it["kind"].is_null() && it["kind"] != "ImageSetConfiguration"),
    );
    assert!(all.len() > 80, "{}", all.len());
    let found = check(&all);
    assert!(found.is_empty(), "{found}");

    // The check finds what does not fit.
    for (pointer, value) in [
        ("/spec/ports/0/targetport", json!(1)),
        ("/spec/ports/0/port", json!("1")),
        ("/apiVersion", json!("v9")),
    ] {
        let mut service = all
            .iter()
            .find(|(_, it)| it["kind"] == "Service")
            .unwrap()
            .1
            .clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        service.pointer_mut(parent).unwrap()[key] = value;
        assert!(!check(&[(String::new(), service)]).is_empty(), "{pointer}");
    }
    for (kind, key) in [("CatalogSource", "image"), ("ClusterCatalog", "ref")] {
        let mut object = all
            .iter()
            .find(|(_, it)| it["kind"] == kind)
            .unwrap()
            .1
            .clone();
        object["spec"][key] = json!("registry.example.com/x");
        assert!(!check(&[(String::new(), object)]).is_empty(), "{kind}");
    }
}

/// The findings of the script, one per line.
fn check(all: &[(String, Value)]) -> String {
    let mut child = Command::new("python3")
        .arg("tests/it/manifests/check_manifests.py")
        .arg("tests/fixtures/kubernetes")
        .args(RELEASES)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = serde_json::to_vec(all).unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The objects by kind and name, without what Helm adds, and with the settings as
/// a table.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|mut object| {
        strip(&mut object);
        if let Some(settings) = object["data"]["almanac.toml"].as_str() {
            let settings: toml::Table = settings.parse().unwrap();
            object["data"]["almanac.toml"] = serde_json::to_value(settings).unwrap();
        }
        let name = text(&object["metadata"]["name"]);
        (format!("{} {name}", text(&object["kind"])), object)
    });
    named.collect()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !OF_HELM.contains(&key.as_str()));
            for member in members.values_mut() {
                strip(member);
            }
            let may_be_empty = |key: &str| !["annotations", "labels"].contains(&key);
            members.retain(|key, member| may_be_empty(key) || *member != json!({}));
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
