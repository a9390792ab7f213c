//! Output of helm and kubectl for deploy.

use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::file::root;
use crate::support::yaml;

/// The example values of the chart, each with the namespace it is for.
pub(super) const EXAMPLES: [(&str, &str); 10] = [
    ("olm-v0", "olm"),
    ("olm-v1-images", "almanac"),
    ("openshift", "openshift-marketplace"),
    ("olm-v1-replace", "olmv1-system"),
    ("olm-v1-follow", "olmv1-system"),
    ("fleet", "olm"),
    ("many-catalogs", "olm"),
    ("monitored", "olm"),
    ("small", "olm"),
    ("signed", "olm"),
];

/// The overlays that an admin applies.
pub(super) const OVERLAYS: [&str; 7] = [
    "deploy/kustomize/olm-v0",
    "deploy/kustomize/olm-v1-images",
    "deploy/kustomize/openshift",
    "deploy/kustomize/olm-v1-replace",
    "deploy/kustomize/olm-v1-follow",
    "deploy/kustomize/fleet",
    "tests/fixtures/kustomize/monitored",
];

/// Runs helm from the root of the project.
pub(super) fn helm(arguments: &[&str]) -> Output {
    let mut command = Command::new("helm");
    command
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

/// The values file of an example.
pub(super) fn values(example: &str) -> String {
    format!("deploy/helm/examples/{example}.yaml")
}

/// Renders the chart with a file of values.
pub(super) fn template(values: &str, more: &[&str]) -> Output {
    let words = [
        "template",
        "almanac",
        "deploy/helm/almanac",
        "--values",
        values,
    ];
    helm(&[&words[..], more].concat())
}

/// The text that the chart renders for an example, once for all tests.
pub(super) fn chart(example: &str) -> &'static str {
    static TEXTS: [OnceLock<String>; EXAMPLES.len()] = [const { OnceLock::new() }; EXAMPLES.len()];
    let mut names = EXAMPLES.iter().map(|(name, _)| *name);
    let index = names.position(|name| name == example).unwrap();
    TEXTS[index].get_or_init(|| {
        let (values, namespace) = (values(example), EXAMPLES[index].1);
        let output = template(&values, &["--namespace", namespace]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{example}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    })
}

/// The objects of an overlay.
pub(super) fn overlay(path: &str) -> Vec<Value> {
    let output = Command::new("kubectl")
        .args(["kustomize", path])
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path}: {errors}");
    // Deprecated fields are warned of.
    assert!(errors.is_empty(), "{path}: {errors}");
    yaml::documents(&String::from_utf8(output.stdout).unwrap())
}
