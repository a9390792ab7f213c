//! Each client on its way to almanac, and almanac on its own, through the
//! policies that are rendered and those that clusters have.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::cluster::text;
use super::network::{End, Network};
use super::rendered::{EXAMPLES, OVERLAYS, chart, overlay};
use crate::docs::read;
use crate::support::needs::skip_without;
use crate::support::program::Start;
use crate::support::yaml;

/// The namespaces that deny all traffic where they have policies.
const OF_OLM: [&str; 5] = [
    "olm",
    "olmv1-system",
    "openshift-marketplace",
    "openshift-catalogd",
    "openshift-operator-controller",
];

/// A release of OLM v0, as its policies differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Release {
    /// Without policies: before 0.32.
    Open,
    /// 0.32 to 0.40: OLM connects to few ports.
    Narrow,
    /// 0.41 to 0.45: OLM connects to all ports.
    Wide,
    /// From 0.46: pods that unpack bundles have a policy of OLM.
    Unpacking,
}

/// The purpose of a connection, and whether it is possible.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Denied(&'static str, String);

/// The policies that a cluster has without almanac.
fn of_cluster(release: Release) -> Vec<Value> {
    if release == Release::Open {
        return Vec::new();
    }
    let mut policies: Vec<Value> = OF_OLM.map(deny_all).into();
    let tcp = |port: u64| json!({"protocol": "TCP", "port": port});
    let egress = if release == Release::Narrow {
        let dns = json!({"ports": [tcp(53), {"protocol": "UDP", "port": 53}]});
        json!([{"ports": [tcp(6443)]}, dns, {"ports": [tcp(50051)]}])
    } else {
        json!([{}])
    };
    for (app, port) in [("catalog-operator", 8443), ("packageserver", 5443)] {
        let mut policy = deny_all("olm");
        policy["spec"]["podSelector"] = json!({"matchLabels": {"app": app}});
        policy["spec"]["ingress"] = json!([{"ports": [tcp(port)]}]);
        policy["spec"]["egress"] = egress.clone();
        policies.push(policy);
    }
    for (namespace, controller) in [
        ("olmv1-system", "catalogd"),
        ("olmv1-system", "operator-controller"),
        ("openshift-catalogd", "catalogd"),
        ("openshift-operator-controller", "operator-controller"),
    ] {
        let mut policy = deny_all(namespace);
        policy["spec"]["podSelector"] = json!({"matchLabels": control_plane(controller)});
        policy["spec"]["egress"] = json!([{}]);
        policies.push(policy);
    }
    if release == Release::Unpacking {
        for namespace in ["olm", "openshift-marketplace"] {
            let mut policy = deny_all(namespace);
            policy["spec"] = json!({
                "podSelector": {"matchExpressions": [
                    {"key": "operatorframework.io/bundle-unpack-ref", "operator": "Exists"}
                ]},
                "policyTypes": ["Egress"],
                "egress": [{}],
            });
            policies.push(policy);
        }
    }
    policies
}

/// The policy that denies all traffic of a namespace.
fn deny_all(namespace: &str) -> Value {
    json!({
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    })
}

fn control_plane(name: &str) -> Value {
    json!({"control-plane": format!("{name}-controller-manager")})
}

/// The objects of an installation.
struct Installation<'a>(&'a [Value]);

impl Installation<'_> {
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |it| it["kind"] == kind)
    }

    fn workload(&self) -> &Value {
        let mut found = self
            .of_kind("StatefulSet")
            .chain(self.of_kind("Deployment"));
        found.next().unwrap()
    }

    fn namespace(&self) -> &str {
        text(&self.workload()["metadata"]["namespace"])
    }

    fn pod(&self) -> End {
        let labels = &self.workload()["spec"]["template"]["metadata"]["labels"];
        End::pod(self.namespace(), labels.clone())
    }

    /// The port of the pods behind a port of a Service.
    fn target(&self, service: &str, port: u64) -> u64 {
        let mut services = self.of_kind("Service");
        let service = services.find(|it| it["metadata"]["name"] == service);
        let ports = service.unwrap()["spec"]["ports"].as_array().unwrap();
        let port = ports.iter().find(|it| it["port"] == port).unwrap();
        port["targetPort"].as_u64().unwrap()
    }

    /// All that has to connect and cannot, in a cluster with these policies.
    fn walk(&self, policies: Vec<Value>) -> Vec<Denied> {
        let mut network = Network { policies };
        network
            .policies
            .extend(self.of_kind("NetworkPolicy").cloned());
        let mut denied = Vec::new();
        let mut walk = |what: &'static str, from: &End, to: &End, port: u64, protocol: &str| {
            if let Err(side) = network.connects(from, to, port, protocol) {
                denied.push(Denied(what, side));
            }
        };
        let almanac = self.pod();
        let namespace = self.namespace();
        let openshift = namespace.starts_with("openshift-");

        // The catalogs of OLM v0: the address of each CatalogSource.
        for source in self.of_kind("CatalogSource") {
            let address = text(&source["spec"]["address"]);
            let (host, port) = address.rsplit_once(':').unwrap();
            let service = host.split('.').next().unwrap();
            let port = self.target(service, port.parse().unwrap());
            let operators = if openshift {
                "openshift-operator-lifecycle-manager"
            } else {
                "olm"
            };
            for app in ["catalog-operator", "packageserver"] {
                walk(
                    app,
                    &End::pod(operators, json!({"app": app})),
                    &almanac,
                    port,
                    "TCP",
                );
            }
            let console = End::pod("openshift-console", json!({"app": "console"}));
            walk("console", &console, &almanac, port, "TCP");
            // With hosted control planes.
            walk(
                "proxy",
                &End::Outside(Ipv4Addr::new(10, 0, 0, 9)),
                &almanac,
                port,
                "TCP",
            );

            let unpack = End::pod(
                namespace,
                json!({"olm.managed": "true", "operatorframework.io/bundle-unpack-ref": "0123"}),
            );
            for (to, port, protocol) in outgoing() {
                walk("unpack pod", &unpack, &to, port, protocol);
            }
            walk("unpack pod", &unpack, &api_server(), 6443, "TCP");
        }
        // The images and the HTTP API.
        let http = self.target(text(&self.workload()["metadata"]["name"]), self.http());
        let (of_catalogd, of_controller) = if openshift {
            ("openshift-catalogd", "openshift-operator-controller")
        } else {
            ("olmv1-system", "olmv1-system")
        };
        let catalogd = End::pod(of_catalogd, control_plane("catalogd"));
        walk("catalogd", &catalogd, &almanac, http, "TCP");
        let controller = End::pod(of_controller, control_plane("operator-controller"));
        walk("operator-controller", &controller, &almanac, http, "TCP");
        let console = End::pod("openshift-console", json!({"app": "console"}));
        walk("console", &console, &almanac, http, "TCP");
        if self.monitored() {
            let prometheus = End::pod("monitoring", json!({"app": "prometheus"}));
            walk("Prometheus", &prometheus, &almanac, 9090, "TCP");
        }
        for (to, port, protocol) in outgoing() {
            walk("almanac", &almanac, &to, port, protocol);
        }
        let spec = &self.workload()["spec"]["template"]["spec"];
        if spec["automountServiceAccountToken"] == true {
            walk("almanac", &almanac, &api_server(), 6443, "TCP");
        }
        let ports = spec["containers"][0]["ports"].as_array().unwrap();
        for port in ports.iter().filter(|port| port["name"] == "webhook") {
            let port = port["containerPort"].as_u64().unwrap();
            walk("API server", &api_server(), &almanac, port, "TCP");
        }
        denied.sort();
        denied.dedup();
        denied
    }

    fn http(&self) -> u64 {
        let name = &self.workload()["metadata"]["name"];
        let mut services = self.of_kind("Service");
        let service = services.find(|it| it["metadata"]["name"] == *name).unwrap();
        service["spec"]["ports"][0]["port"].as_u64().unwrap()
    }

    fn monitored(&self) -> bool {
        self.of_kind("PodMonitor").next().is_some()
    }
}

/// The API server, on a node of the control plane.
fn api_server() -> End {
    End::Outside(Ipv4Addr::new(10, 0, 0, 1))
}

/// A registry, and DNS of Kubernetes and of OpenShift.
fn outgoing() -> Vec<(End, u64, &'static str)> {
    let registry = End::Outside(Ipv4Addr::new(203, 0, 113, 5));
    let dns = End::pod("kube-system", json!({"k8s-app": "kube-dns"}));
    let other = End::pod(
        "openshift-dns",
        json!({"dns.operator.openshift.io/daemonset-dns": "default"}),
    );
    vec![
        (registry, 443, "TCP"),
        (dns.clone(), 53, "UDP"),
        (dns, 53, "TCP"),
        (other.clone(), 5353, "UDP"),
        (other, 5353, "TCP"),
    ]
}

const RELEASES: [Release; 4] = [
    Release::Open,
    Release::Narrow,
    Release::Wide,
    Release::Unpacking,
];

/// Everything that is rendered, by its origin.
fn rendered() -> Vec<(String, Vec<Value>)> {
    let charts = EXAMPLES.iter().map(|(example, _)| {
        let objects = yaml::documents(chart(example));
        ((*example).to_owned(), objects)
    });
    let overlays = OVERLAYS
        .iter()
        .map(|path| ((*path).to_owned(), overlay(path)));
    charts.chain(overlays).collect()
}

#[test]
fn every_client_reaches_almanac_and_almanac_its_sources_with_and_without_default_deny() {
    if skip_without("helm") || skip_without("kubectl") {
        return;
    }
    for (origin, objects) in rendered() {
        let installation = Installation(&objects);
        for release in RELEASES {
            let denied = installation.walk(of_cluster(release));
            if origin == "small" && release != Release::Open {
                // It has no policies.
                assert!(!denied.is_empty(), "{origin}");
                continue;
            }
            assert!(denied.is_empty(), "{origin} with {release:?}: {denied:?}");
        }
        // A namespace of its own that denies all, as some admins have it.
        let deny = deny_all(installation.namespace());
        let denied = installation.walk(vec![deny]);
        let mut of_olm = vec!["catalog-operator", "packageserver"];
        if installation.namespace() == "olmv1-system" {
            of_olm.extend(["catalogd", "operator-controller"]);
        }
        let operators = |it: &Denied| of_olm.contains(&it.0);
        if origin != "small" {
            // OLM's own pods in that namespace need policies of OLM.
            assert!(denied.iter().all(operators), "{origin}: {denied:?}");
        }
    }
}

#[test]
fn without_the_policies_of_almanac_nothing_connects_where_all_is_denied() {
    if skip_without("kubectl") {
        return;
    }
    let mut objects = overlay("deploy/kustomize/olm-v0");
    objects.retain(|it| it["kind"] != "NetworkPolicy");
    let installation = Installation(&objects);
    for release in [Release::Narrow, Release::Wide] {
        let denied = installation.walk(of_cluster(release));
        let mut found: Vec<&str> = denied.iter().map(|it| it.0).collect();
        found.dedup();
        assert_eq!(
            found,
            [
                "almanac",
                "catalog-operator",
                "catalogd",
                "console",
                "operator-controller",
                "packageserver",
                "proxy",
                "unpack pod"
            ]
        );
    }
    // From 0.46 on, OLM has a policy for the pods that unpack.
    let denied = installation.walk(of_cluster(Release::Unpacking));
    assert!(denied.iter().all(|it| it.0 != "unpack pod"), "{denied:?}");
    assert!(installation.walk(of_cluster(Release::Open)).is_empty());
}

#[test]
fn a_service_on_another_port_is_out_of_reach_for_the_narrow_policies_of_olm() {
    if skip_without("kubectl") {
        return;
    }
    let mut objects = overlay("deploy/kustomize/olm-v0");
    for object in &mut objects {
        if object["kind"] == "Service" && object["metadata"]["name"] == "community" {
            object["spec"]["ports"][0]["targetPort"] = json!(50052);
        } else if object["kind"] == "NetworkPolicy" && object["metadata"]["name"] == "almanac" {
            object["spec"]["ingress"][0]["ports"][0]["port"] = json!(50052);
        }
    }
    let installation = Installation(&objects);
    let denied = installation.walk(of_cluster(Release::Narrow));
    let side = |it: &Denied| it.1 == "Egress of olm";
    assert!(!denied.is_empty() && denied.iter().all(side), "{denied:?}");
    assert!(installation.walk(of_cluster(Release::Wide)).is_empty());
}

/// Restricted outgoing connections must allow the API server where almanac reads the
/// cluster, and the webhook must be open for it.
#[test]
fn the_walk_finds_policies_that_cut_almanac_off_from_the_api_server() {
    if skip_without("helm") || skip_without("kubectl") {
        return;
    }
    let monitored = yaml::documents(chart("monitored"));
    let restricted = Installation(&monitored)
        .of_kind("NetworkPolicy")
        .find(|it| it["metadata"]["name"] == "almanac")
        .map(|it| it["spec"]["egress"].clone());
    let mut objects = overlay("deploy/kustomize/olm-v1-replace");
    let policy = |objects: &mut Vec<Value>| {
        let found = objects.iter().position(|it| it["kind"] == "NetworkPolicy");
        found.unwrap()
    };
    let at = policy(&mut objects);
    let open = objects[at].clone();
    objects[at]["spec"]["egress"] = restricted.unwrap();
    let denied = Installation(&objects).walk(of_cluster(Release::Wide));
    let wanted = Denied("almanac", "Egress of olmv1-system".to_owned());
    assert_eq!(denied, [wanted]);
    objects[at] = open;
    let ports = objects[at]["spec"]["ingress"][0]["ports"].as_array_mut();
    ports.unwrap().retain(|port| port["port"] != 9443);
    let denied = Installation(&objects).walk(of_cluster(Release::Wide));
    let wanted = Denied("API server", "Ingress of olmv1-system".to_owned());
    assert_eq!(denied, [wanted]);
}

#[test]
fn only_the_namespace_of_prometheus_reaches_the_admin_port() {
    if skip_without("helm") {
        return;
    }
    let objects = yaml::documents(chart("monitored"));
    let installation = Installation(&objects);
    assert!(installation.monitored());
    let network = Network {
        policies: installation.of_kind("NetworkPolicy").cloned().collect(),
    };
    let (almanac, registry) = (
        installation.pod(),
        End::Outside(Ipv4Addr::new(203, 0, 113, 5)),
    );
    let from = |namespace: &str| {
        let pod = End::pod(namespace, json!({"app": "prometheus"}));
        network.connects(&pod, &almanac, 9090, "TCP").is_ok()
    };
    assert!(from("monitoring"));
    for other in ["default", "olm"] {
        assert!(!from(other), "{other}");
    }
    // Its egress is restricted to registries and DNS.
    assert!(network.connects(&almanac, &registry, 443, "TCP").is_ok());
    assert!(network.connects(&almanac, &registry, 22, "TCP").is_err());
}

#[test]
fn every_network_policy_says_why_it_is_there() {
    if skip_without("helm") {
        return;
    }
    let mut texts: Vec<(String, String)> = EXAMPLES
        .iter()
        .map(|(example, _)| ((*example).to_owned(), chart(example).to_owned()))
        .collect();
    for path in ["base", "unpack-bundles"] {
        let path = format!("deploy/kustomize/{path}/networkpolicy.yaml");
        let text = read(&path);
        texts.push((path, text));
    }
    let words = ["manifests", "a=quay.invalid/a:1", "--kind=network-policy"];
    let finished = Start::new(words).run();
    assert!(finished.status.success(), "{finished:?}");
    texts.push(("almanac manifests".to_owned(), finished.stdout));
    let mut count = 0;
    for (origin, text) in texts {
        for document in text.split("---\n") {
            let kind = document.lines().any(|line| line == "kind: NetworkPolicy");
            if !kind {
                continue;
            }
            let comments = document
                .lines()
                .take_while(|line| !line.starts_with("apiVersion"));
            let words = comments
                .filter(|line| !line.starts_with("# Source:"))
                .flat_map(str::split_whitespace);
            let words: Vec<&str> = words.collect();
            assert!(words.len() > 10, "{origin}: {document}");
            // What fails without it.
            let words = words.join(" ");
            let is_reason = ["Without this policy", "none for an"];
            let is_reason = is_reason.iter().any(|reason| words.contains(reason));
            assert!(is_reason, "{origin}: {words}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}
