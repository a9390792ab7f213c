//! Texts of real packages: examples, installation, problems, descriptions, icons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::real;
use super::real::{Real, code, links, packages, plain, words};
use crate::support::{schema, yaml};
use crate::web_pages::site::{BROWSER, TABS, attributes};

/// The `olm.csv.metadata` of the head of each package's default channel, found without
/// almanac: the entry that no other one of the channel names.
fn heads(real: &Real) -> BTreeMap<String, Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut channels = BTreeMap::new();
    for channel in real.documents("olm.channel") {
        let entries = channel["entries"].as_array().unwrap();
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for entry in entries {
            named.extend(entry["replaces"].as_str());
            named.extend(
                entry["skips"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str),
            );
        }
        let head = entries
            .iter()
            .find(|entry| !named.contains(entry["name"].as_str().unwrap()));
        channels.insert(
            (text(&channel["package"]), text(&channel["name"])),
            text(&head.unwrap()["name"]),
        );
    }
    let packages = real.documents("olm.package").into_iter().map(|package| {
        let name = text(&package["name"]);
        let head = channels[&(name.clone(), text(&package["defaultChannel"]))].clone();
        (head, name)
    });
    let packages: BTreeMap<String, String> = packages.collect();
    let mut heads = BTreeMap::new();
    for bundle in real.documents("olm.bundle") {
        let Some(package) = packages.get(bundle["name"].as_str().unwrap()) else {
            continue;
        };
        if bundle["package"] != **package {
            continue;
        }
        let properties = bundle["properties"].as_array().unwrap();
        let metadata = properties
            .iter()
            .find(|one| one["type"] == "olm.csv.metadata");
        heads.insert(package.clone(), metadata.unwrap()["value"].clone());
    }
    assert_eq!(heads.len(), 325);
    heads
}

#[test]
fn every_example_is_yaml_that_reads_back_as_the_same_json() {
    let Some(real) = real() else { return };
    let mut count = 0;
    for (package, metadata) in heads(real) {
        let Some(examples) = metadata["annotations"]["alm-examples"].as_str() else {
            continue;
        };
        let mut wanted: Vec<Value> = serde_json::from_str(examples).unwrap();
        let text = real.text(&format!("/catalogs/large/packages/{package}/apis"));
        let shown = code(&text, "Example");
        let mut shown: Vec<Value> = shown
            .iter()
            .flat_map(|text| yaml::documents(text))
            .collect();
        let key = |value: &Value| value.to_string();
        wanted.sort_by_key(key);
        shown.sort_by_key(key);
        assert_eq!(shown, wanted, "{package}");
        count += wanted.len();
    }
    assert_eq!(count, 1_039);
}

/// The installation page of each package.
fn installations(real: &Real) -> &'static BTreeMap<String, String> {
    static PAGES: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let pages = packages(real).into_iter().map(|name| {
            let path = format!("/catalogs/large/packages/{name}/install");
            (name, real.text(&path))
        });
        pages.collect()
    })
}

#[test]
fn thirteen_packages_warn_of_dependencies_and_fifty_of_their_modes_under_olm_v1() {
    let Some(real) = real() else { return };
    let pages = installations(real);
    assert_eq!(pages.len(), 325);
    let with = |text: &str| pages.values().filter(|page| page.contains(text)).count();
    assert_eq!(with("OLM v1 refuses bundles with dependencies"), 13);
    assert_eq!(with("OLM v1 needs the mode AllNamespaces"), 50);
}

/// The fields of the objects that OLM's custom resource definitions know, as far as the
/// pages write them.
fn definitions() -> Value {
    let string = json!({"type": "string"});
    let strings = json!({"type": "array", "items": string});
    let metadata = json!({"type": "object", "required": ["name"],
        "properties": {"name": string, "namespace": string,
            "labels": {"type": "object"}, "annotations": {"type": "object"}}});
    let object = |version: &str, kind: &str, spec: Value| {
        json!({"type": "object", "required": ["apiVersion", "kind", "metadata"], "properties": {
            "apiVersion": {"type": "string", "enum": [version]},
            "kind": {"type": "string", "enum": [kind]},
            "metadata": metadata,
            "spec": spec,
        }})
    };
    let none = json!({"type": "object", "properties": {}});
    let group = json!({"type": "object", "properties": {"targetNamespaces": strings}});
    let subscription = json!({"type": "object", "required": ["name", "source", "sourceNamespace"],
    "properties": {
        "channel": string, "name": string, "source": string, "sourceNamespace": string,
        "startingCSV": string,
        "installPlanApproval": {"type": "string", "enum": ["Automatic", "Manual"]},
    }});
    let labels =
        json!({"type": "object", "properties": {"olm.operatorframework.io/metadata.name": string}});
    let selector = json!({"type": "object", "properties": {"matchLabels": labels}});
    let catalog = json!({"type": "object", "required": ["packageName"], "properties": {
        "packageName": string, "channels": strings, "version": string, "selector": selector}});
    let source = json!({"type": "object", "required": ["sourceType"], "properties": {
        "sourceType": {"type": "string", "enum": ["Catalog"]}, "catalog": catalog}});
    let extension = json!({"type": "object", "required": ["namespace", "source"],
        "properties": {"namespace": string, "source": source, "serviceAccount": {
            "type": "object", "required": ["name"], "properties": {"name": string}}}});
    let named = json!({"type": "object", "required": ["kind", "name"], "properties": {
        "apiGroup": string, "kind": string, "name": string, "namespace": string}});
    let mut binding = object(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        none.clone(),
    );
    binding["properties"]["roleRef"] = named.clone();
    binding["properties"]["subjects"] = json!({"type": "array", "items": named});
    json!({
        "Namespace": object("v1", "Namespace", none.clone()),
        "OperatorGroup": object("operators.coreos.com/v1", "OperatorGroup", group),
        "Subscription": object("operators.coreos.com/v1alpha1", "Subscription", subscription),
        "ServiceAccount": object("v1", "ServiceAccount", none),
        "ClusterRoleBinding": binding,
        "ClusterExtension": object("olm.operatorframework.io/v1", "ClusterExtension", extension),
    })
}

#[test]
fn suggested_namespaces_are_proposed_in_objects_that_the_definitions_of_olm_know() {
    let Some(real) = real() else { return };
    let heads = heads(real);
    let definitions = definitions();
    let mut suggested = 0;
    for (package, page) in installations(real) {
        let annotations = &heads[package]["annotations"];
        let wanted = &annotations["operatorframework.io/suggested-namespace"];
        let template = annotations["operatorframework.io/suggested-namespace-template"].as_str();
        let template: Value = template
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let of_template = template["metadata"]["name"].as_str();
        let namespace = of_template.or(wanted.as_str()).unwrap_or(package);
        suggested += usize::from(wanted.is_string());
        for (label, kinds) in [
            (
                "Objects for OLM v0",
                &["Namespace", "OperatorGroup", "Subscription"][..],
            ),
            (
                "Objects for OLM v1",
                &[
                    "Namespace",
                    "ServiceAccount",
                    "ClusterRoleBinding",
                    "ClusterExtension",
                ],
            ),
            (
                "Objects for newer OLM v1",
                &["Namespace", "ClusterExtension"],
            ),
        ] {
            let text = code(page, label).concat();
            let objects = yaml::documents(&text);
            let found: Vec<&str> = objects
                .iter()
                .filter_map(|one| one["kind"].as_str())
                .collect();
            assert_eq!(found, kinds, "{package}");
            for object in &objects {
                let definition = &definitions[object["kind"].as_str().unwrap()];
                let wrong = schema::check(&definitions, definition, object, true);
                assert!(wrong.is_empty(), "{package}: {wrong:?}");
            }
            assert_eq!(objects[0]["metadata"]["name"], namespace, "{package}");
        }
    }
    assert_eq!(suggested, 148);
}

#[test]
fn a_problem_has_its_code_position_and_advice() {
    let Some(real) = real() else { return };
    for path in [
        "/catalogs/large/packages/infinispan/problems",
        "/catalogs/large/problems",
        "/problems",
    ] {
        let text = words(&real.text(path));
        for part in [
            "replaces-absent",
            "infinispan › 2.3.x",
            "infinispan/catalog.json:6 (document 6)",
            "add what they replace or remove their \"replaces\"",
        ] {
            assert!(text.contains(part), "{path}: {part}: {text}");
        }
    }
}

/// Elements of HTML that Markdown may have; in angle brackets everything else is a
/// placeholder.
const ELEMENTS: [&str; 4] = ["a", "br", "img", "pre"];

/// Words in angle brackets, such as `<namespace>`.
fn placeholders(text: &str) -> BTreeSet<&str> {
    let parts = text.split('<').skip(1);
    let parts = parts.filter_map(|part| Some(part.split_once('>')?.0));
    let is_name = |part: &&str| {
        let name = part.trim_matches('/').split(' ').next().unwrap_or_default();
        part.starts_with(|sign: char| sign.is_alphabetic() || sign == '_')
            && !ELEMENTS.contains(&name)
            && !part.contains('\n')
    };
    parts.filter(is_name).collect()
}

#[test]
fn descriptions_show_their_placeholders_and_lose_no_word() {
    let Some(real) = real() else { return };
    let mut with = 0;
    for (package, metadata) in heads(real) {
        let Some(description) = metadata["description"].as_str() else {
            continue;
        };
        let page = real.text(&format!("/catalogs/large/packages/{package}"));
        let shown = words(&page);
        let found = placeholders(description);
        with += usize::from(!found.is_empty());
        for one in found {
            // An address in angle brackets is a link, as Markdown has it.
            let text = if one.contains("://") || one.contains('@') {
                one.to_owned()
            } else {
                format!("<{one}>")
            };
            assert!(shown.contains(&text), "{package}: {text}");
        }
        let whole: BTreeSet<String> = split(&plain(&page)).map(str::to_owned).collect();
        for word in split(&prose(description)) {
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            assert!(is_number || whole.contains(word), "{package}: {word}");
        }
    }
    assert_eq!(with, PLACEHOLDERS);
}

/// How many descriptions have a placeholder: 20, and one an address in angle brackets.
/// Four more have elements of HTML only.
const PLACEHOLDERS: usize = 21;

/// What a description says: without the languages of blocks of code, the targets of
/// links, and characters by their numbers.
fn prose(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        if !(line.starts_with("```") || line.starts_with('[') && line.contains("]: ")) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    for (open, close) in [("](", ')'), ("][", ']'), ("&", ';')] {
        let mut parts = kept.split(open);
        let mut without = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            without.push(' ');
            without.push_str(part.split_once(close).map_or(part, |(_, rest)| rest));
        }
        kept = without;
    }
    kept
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|sign: char| !sign.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

#[test]
fn icons_have_the_types_of_their_bytes_whatever_their_catalog_says() {
    let Some(real) = real() else { return };
    let mut wrong = Vec::new();
    let mut scripts = Vec::new();
    for package in real.documents("olm.package") {
        let name = package["name"].as_str().unwrap();
        let Some(declared) = package["icon"]["mediatype"].as_str() else {
            continue;
        };
        let page = real.text(&format!("/catalogs/large/packages/{name}"));
        let sources = attributes(&page, "src");
        let link = sources.iter().find(|link| link.contains("/icons/"));
        let icon = real.served.get(link.unwrap());
        assert_eq!(icon.status, 200, "{name}");
        let found = icon.header("content-type").unwrap();
        assert!(found.starts_with("image/"), "{name}: {found}");
        if found != declared {
            wrong.push(name.to_owned());
        }
        if found == "image/svg+xml" && String::from_utf8_lossy(&icon.body).contains("<script") {
            let policy = icon.header("content-security-policy").unwrap();
            assert!(
                policy.contains("default-src 'none'") && policy.ends_with("sandbox"),
                "{policy}"
            );
            scripts.push(name.to_owned());
        }
        assert_eq!(icon.header("x-content-type-options"), Some("nosniff"));
    }
    wrong.sort();
    assert_eq!(
        wrong,
        [
            "clusterpulse",
            "customized-user-remediation",
            "edp-keycloak-operator",
            "global-load-balancer-operator",
            "nexus-operator",
            "proactive-node-scaling-operator",
            "sonar-operator",
        ]
    );
    assert_eq!(scripts, ["syndesis"]);
}

#[test]
fn no_page_of_a_package_is_larger_than_it_should_be() {
    let Some(real) = real() else { return };
    let size = |path: &str| {
        let headers = [BROWSER[0], ("Accept-Encoding", "gzip")];
        let reply = real.served.ask("GET", path, &headers);
        assert_eq!(reply.status, 200, "{path}");
        reply.body.len()
    };
    let assets = {
        let home = real.text("/");
        let mut assets = links(&home, "/assets/");
        assets.extend(attributes(&home, "src"));
        let sizes: Vec<usize> = assets.iter().map(|asset| size(asset)).collect();
        sizes.iter().sum::<usize>()
    };
    assert!(assets < 32_000, "{assets}");
    for path in [
        "/",
        "/search",
        "/catalogs/large",
        "/compare",
        "/mirror?pick=large/strimzi-kafka-operator&to=mirror.example.com/ops",
        "/mirror?pick=large/hive-operator/alpha@0.0.0..",
        // The version with the longest text.
        "/catalogs/large/packages/koku-metrics-operator/bundles/koku-metrics-operator.v4.4.1",
    ] {
        let own = size(path);
        assert!(own <= 25_000, "{path}: {own}");
    }
    // Those with the most bundles, channels, examples and images, and some others.
    let large = [
        "hive-operator",
        "strimzi-kafka-operator",
        "assisted-service-operator",
        "azure-service-operator",
    ];
    let some = packages(real).into_iter().step_by(40);
    for name in large.map(str::to_owned).into_iter().chain(some) {
        for tab in TABS {
            let path = format!("/catalogs/large/packages/{name}{tab}");
            let most = if tab == "/versions" { 40_000 } else { 68_000 };
            let own = size(&path);
            assert!(
                own <= most && own + assets <= 100_000,
                "{path}: {own} + {assets}"
            );
        }
    }
}
