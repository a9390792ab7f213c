//! A fleet in a cluster: the Job that prepares its database, Services, and pods without volumes.

use serde_json::{Value, json};

use super::almanac_takes;
use super::chart::pod_of;
use super::cluster::{Cluster, selects, text};
use super::rendered::{chart, overlay};
use crate::support::needs::skip_without;
use crate::support::yaml;

fn objects() -> Vec<Value> {
    yaml::documents(chart("fleet"))
}

#[test]
fn the_database_is_prepared_before_the_pods_by_a_restricted_job_without_clients() {
    if skip_without("helm") {
        return;
    }
    let cluster = Cluster::of(&objects());
    let [job] = cluster.of_kind("Job")[..] else {
        panic!("one Job")
    };
    let name = &job["metadata"]["name"];
    // What it needs comes before it, and all of it before the pods.
    let weight = |object: &Value| {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "pre-install,pre-upgrade");
        let weight = text(&annotations["helm.sh/hook-weight"]);
        weight.parse::<i64>().unwrap()
    };
    let of_job = |kind: &str| {
        let mut found = cluster.of_kind(kind).into_iter();
        found.find(|it| it["metadata"]["name"] == *name).unwrap()
    };
    let (settings, policy) = (of_job("ConfigMap"), of_job("NetworkPolicy"));
    assert!(weight(settings) < weight(job) && weight(policy) < weight(job));
    let pods = cluster.of_kind("Deployment")[0];
    assert!(pods["metadata"]["annotations"].is_null());
    let of_pods = cluster.of_kind("ConfigMap").into_iter();
    let mut of_pods = of_pods.filter(|it| it["metadata"]["name"] != *name);
    assert_eq!(settings["data"], of_pods.next().unwrap()["data"]);

    let template = &job["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert!(selects(&policy["spec"]["podSelector"], labels));
    for service in cluster.of_kind("Service") {
        let selector = json!({ "matchLabels": service["spec"]["selector"] });
        assert!(!selects(&selector, labels), "{service}");
    }
    let pod = &template["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    let rights = &container["securityContext"];
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    assert_eq!(rights["capabilities"]["drop"][0], "ALL");
    let words = container["args"].as_array().unwrap().iter().map(text);
    almanac_takes(["almanac"].into_iter().chain(words));
    // The image of the pods.
    let of_pods = &pods["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], of_pods["image"]);
}

/// Replicas differ while one of them fetches a new revision.
#[test]
fn a_client_of_a_fleet_stays_with_one_replica() {
    if skip_without("helm") || skip_without("kubectl") {
        return;
    }
    for objects in [objects(), overlay("deploy/kustomize/fleet")] {
        let cluster = Cluster::of(&objects);
        let services = cluster.of_kind("Service");
        assert_eq!(services.len(), 2);
        for service in services {
            assert_eq!(service["spec"]["sessionAffinity"], "ClientIP", "{service}");
        }
    }
}

#[test]
fn the_pods_of_a_fleet_need_no_volume_and_lie_apart() {
    if skip_without("helm") {
        return;
    }
    let objects = objects();
    let cluster = Cluster::of(&objects);
    let set = &cluster.of_kind("Deployment")[0]["spec"];
    assert_eq!(set["replicas"], 3);
    let update = json!({"maxSurge": 1, "maxUnavailable": 0});
    assert_eq!(set["strategy"]["rollingUpdate"], update);
    let pod = pod_of(&objects);
    let volumes = pod["volumes"].as_array().unwrap();
    let data = volumes.iter().find(|it| it["name"] == "data").unwrap();
    assert!(data["emptyDir"]["sizeLimit"].is_string(), "{data}");
    let spread = pod["topologySpreadConstraints"].as_array().unwrap();
    let keys: Vec<&str> = spread.iter().map(|it| text(&it["topologyKey"])).collect();
    assert_eq!(
        keys,
        ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    );
    assert_eq!(cluster.of_kind("PodDisruptionBudget").len(), 1);
    let policies = cluster.of_kind("NetworkPolicy");
    let policies = policies
        .iter()
        .filter(|it| it["metadata"]["name"] != "almanac-unpack-bundles");
    for policy in policies {
        let rules = policy["spec"]["egress"].as_array().unwrap();
        let ports = rules
            .iter()
            .flat_map(|rule| rule["ports"].as_array().unwrap());
        let ports: Vec<u64> = ports.map(|it| it["port"].as_u64().unwrap()).collect();
        // PostgreSQL, and the bucket.
        assert!(ports.contains(&5432) && ports.contains(&443), "{policy}");
    }
}
