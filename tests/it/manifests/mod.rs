//! The manifests of deploy, of the pages and of `almanac manifests`: they agree
//! with each other, with the API of Kubernetes and with the program, Operator
//! Lifecycle Manager (OLM) can act on them, and clients reach almanac.

mod agreement;
mod chart;
mod clients;
mod cluster;
mod command;
mod fleet;
mod network;
mod permissions;
mod rendered;
mod sources;

use serde_json::Value;

use crate::docs::{blocks, configuration, pages, read};
use crate::support::file::root;
use crate::support::{kustomize, yaml};
use cluster::{Cluster, selects, text};

/// The manifests for OLM v0 that are applied together.
pub(crate) fn deployed() -> Vec<Value> {
    kustomize::objects(&root().join("deploy/kustomize/olm-v0"))
}

/// The manifests in the pages, each with its page.
pub(super) fn in_pages() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (page, text) in pages() {
        for block in blocks(&text, "yaml") {
            let documents = yaml::documents(&block).into_iter();
            found.extend(documents.map(|document| (page.clone(), document)));
        }
    }
    found
}

#[test]
fn the_manifests_agree_with_each_other_and_with_the_program() {
    let cluster = Cluster::of(&deployed());
    let [set] = cluster.of_kind("StatefulSet")[..] else {
        panic!("one StatefulSet")
    };
    let pod = &set["spec"]["template"];
    let container = &pod["spec"]["containers"][0];

    let [map] = cluster.of_kind("ConfigMap")[..] else {
        panic!("one ConfigMap")
    };
    assert_eq!(
        pod["spec"]["volumes"][0]["configMap"]["name"],
        map["metadata"]["name"]
    );
    let config = configuration(text(&map["data"]["almanac.toml"])).unwrap();
    let mounted = |path: &str| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        mounts.iter().any(|mount| mount["mountPath"] == path)
    };
    assert!(mounted(config.data_dir.to_str().unwrap()));
    assert!(mounted("/etc/almanac"));
    let health = &container["readinessProbe"]["exec"]["command"];
    let health = &health.as_array().unwrap()[1..];
    let serve = container["args"].as_array().unwrap().as_slice();
    for words in [serve, health] {
        assert_eq!(words.last().unwrap(), "/etc/almanac/almanac.toml");
        let words = ["almanac"].into_iter().chain(words.iter().map(text));
        almanac_takes(words);
    }

    let ports = container["ports"].as_array().unwrap();
    let port = |name: &str| {
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        port["containerPort"].as_u64().unwrap()
    };
    assert_eq!(port("grpc"), u64::from(config.grpc.port()));
    assert_eq!(port("http"), u64::from(config.http.port()));
    assert_eq!(
        container["livenessProbe"]["grpc"]["port"].as_u64(),
        Some(port("grpc"))
    );
    let labels = &pod["metadata"]["labels"];
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    let services = cluster.of_kind("Service");
    let names: Vec<&str> = services
        .iter()
        .map(|it| text(&it["metadata"]["name"]))
        .collect();
    assert!(names.contains(&text(&set["spec"]["serviceName"])));
    for service in services {
        assert_eq!(&service["spec"]["selector"], labels);
        assert_eq!(
            service["metadata"]["namespace"],
            set["metadata"]["namespace"]
        );
        for offered in service["spec"]["ports"].as_array().unwrap() {
            // Clients that forward a port need a number.
            let name = text(&offered["name"]);
            assert_eq!(offered["targetPort"].as_u64(), Some(port(name)));
        }
    }
    // OLM deletes objects that it takes for its own.
    for manifest in deployed() {
        for labels in [
            &manifest["metadata"]["labels"],
            &manifest["spec"]["template"]["metadata"]["labels"],
        ] {
            for label in ["olm.managed", "olm.catalogSource"] {
                assert!(labels[label].is_null(), "{manifest:#}");
            }
        }
    }
}

/// The place of catalogd is in another namespace, with a port of its own.
#[test]
fn the_service_in_the_place_of_catalogd_leads_to_almanac() {
    let cluster = Cluster::of(&deployed());
    let pages = in_pages();
    let found: Vec<&Value> = pages
        .iter()
        .filter(|(_, it)| it["kind"] == "Service" && it["metadata"]["name"] == "catalogd-service")
        .map(|(_, service)| service)
        .collect();
    let [service] = found[..] else {
        panic!("one page has it")
    };
    let set = cluster.of_kind("StatefulSet")[0];
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(service["spec"]["ports"][0]["port"], 443);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8443);
}

#[test]
fn the_network_policies_let_clients_in_and_almanac_out() {
    let cluster = Cluster::of(&deployed());
    let set = cluster.of_kind("StatefulSet")[0];
    let pod = &set["spec"]["template"]["metadata"]["labels"];
    let unpacking = serde_json::json!({
        "olm.managed": "true",
        "operatorframework.io/bundle-unpack-ref": "0123",
    });
    let policies = cluster.of_kind("NetworkPolicy");
    let of = |labels: &Value| -> &Value {
        let mut found = policies
            .iter()
            .filter(|policy| selects(&policy["spec"]["podSelector"], labels));
        let policy = found
            .next()
            .unwrap_or_else(|| panic!("no policy for {labels}"));
        assert!(found.next().is_none(), "two policies for {labels}");
        policy
    };
    assert_eq!(policies.len(), 2);
    for policy in &policies {
        assert_eq!(policy["apiVersion"], "networking.k8s.io/v1");
        assert_eq!(
            policy["metadata"]["namespace"],
            set["metadata"]["namespace"]
        );
        assert_eq!(policy["spec"]["egress"], serde_json::json!([{}]));
    }

    let almanac = &of(pod)["spec"];
    assert_eq!(
        almanac["policyTypes"],
        serde_json::json!(["Ingress", "Egress"])
    );
    let [rule] = &almanac["ingress"].as_array().unwrap()[..] else {
        panic!("one rule")
    };
    assert!(rule["from"].is_null(), "clients come from anywhere");
    let mut open: Vec<u64> = Vec::new();
    for port in rule["ports"].as_array().unwrap() {
        assert_eq!(port["protocol"], "TCP");
        // A name would do in Kubernetes. A number can be read in the page.
        open.push(port["port"].as_u64().unwrap());
    }
    let mut offered: Vec<u64> = (cluster.of_kind("Service").iter())
        .flat_map(|service| service["spec"]["ports"].as_array().unwrap())
        .map(|port| port["targetPort"].as_u64().unwrap())
        .collect();
    for ports in [&mut open, &mut offered] {
        ports.sort_unstable();
        ports.dedup();
    }
    assert_eq!(open, offered);

    let unpack = of(&unpacking);
    assert_eq!(unpack["spec"]["policyTypes"], serde_json::json!(["Egress"]));
    for other in [
        serde_json::json!({"olm.managed": "true"}),
        serde_json::json!({"operatorframework.io/bundle-unpack-ref": "0123"}),
    ] {
        assert!(!selects(&unpack["spec"]["podSelector"], &other));
    }
}

#[test]
fn a_replica_that_is_not_ready_holds_up_no_drain() {
    let cluster = Cluster::of(&deployed());
    let budget = &cluster.of_kind("PodDisruptionBudget")[0]["spec"];
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");
    let set = cluster.of_kind("StatefulSet")[0];
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert!(selects(&budget["selector"], labels));
}

#[test]
fn the_image_runs_what_the_manifests_expect() {
    let dockerfile = read("Dockerfile");
    for line in [
        "EXPOSE 50051 8080",
        "USER 65532:65532",
        "ENTRYPOINT [\"/usr/bin/almanac\"]",
        "CMD [\"serve\", \"--config\", \"/etc/almanac/almanac.toml\"]",
    ] {
        assert!(dockerfile.lines().any(|other| other == line), "{line}");
    }
}

/// The program takes these arguments.
fn almanac_takes<'a>(words: impl Iterator<Item = &'a str>) {
    use clap::Parser as _;
    if let Err(error) = almanac::cli::Arguments::try_parse_from(words) {
        panic!("{error}");
    }
}
