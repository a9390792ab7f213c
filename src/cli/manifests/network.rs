//! The Services and `NetworkPolicy`s that `CatalogSource`s with an address need.
//!
//! They select the pods by the label that all installations of `deploy` have.

use serde_json::{Value, json};

use super::shapes::PORT;
use crate::config::Config;
use crate::kubernetes::ClusterCatalogs;
use crate::name::CatalogName;

/// The port of the HTTP APIs without a configuration.
const HTTP_PORT: u16 = 8080;

/// The ports that clients dial.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) grpc: u16,
    http: u16,
    /// The port of the admission webhook, if there is one.
    webhook: Option<u16>,
    /// Whether the pods stand in the place of those of catalogd.
    owns: bool,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            grpc: PORT,
            http: HTTP_PORT,
            webhook: None,
            owns: false,
        }
    }
}

impl Ports {
    /// Those of a configuration.
    pub(super) fn new(config: &Config) -> Self {
        let cluster = config.kubernetes.as_ref();
        let webhook = cluster.and_then(|one| one.webhook);
        let owns = cluster.map(|one| one.settings.cluster_catalogs);
        Self {
            grpc: config.grpc.port(),
            http: config.http.port(),
            webhook: webhook.map(|address| address.port()),
            owns: owns == Some(ClusterCatalogs::Own),
        }
    }
}

/// The labels of the pods, and of the objects for them. Pods in the place of catalogd
/// have its name, so the name of the installation tells them apart.
fn labels(ports: Ports) -> Value {
    if ports.owns {
        return json!({
            "app.kubernetes.io/instance": "almanac",
            "app.kubernetes.io/name": "catalogd",
        });
    }
    json!({ "app.kubernetes.io/name": "almanac" })
}

/// The Service of a catalog. Its name and port are those that clients dial.
pub(super) fn service(name: &CatalogName, namespace: &str, ports: Ports) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "labels": labels(ports), "name": name.service_name(), "namespace": namespace },
        "spec": {
            "ports": [{
                "appProtocol": "kubernetes.io/h2c",
                "name": "grpc",
                "port": PORT,
                "targetPort": PORT,
            }],
            "selector": labels(ports),
        },
    })
}

/// The name of the policy for the pods that unpack bundles.
const UNPACK: &str = "almanac-unpack-bundles";

/// The reason of a policy, for those who read the output; empty for other objects.
pub(super) fn reason(object: &Value) -> &'static str {
    if object["kind"] != "NetworkPolicy" {
        return "";
    }
    if object["metadata"]["name"] == UNPACK {
        return "The pods in which OLM unpacks bundles need the API server and registries. OLM\n\
                0.32 to 0.45 makes such a policy for each catalog with an image, but none for an\n\
                address.";
    }
    "The namespaces of Operator Lifecycle Manager deny all traffic (OLM from 0.32,\n\
     OpenShift from 4.20). Without this policy, clients cannot reach almanac, and\n\
     almanac reaches neither DNS nor a registry."
}

/// The policies for a namespace that denies all traffic, as those of Operator
/// Lifecycle Manager do: one for almanac, for all catalogs together, and one for
/// the pods that unpack bundles.
pub(super) fn policies(namespace: &str, ports: Ports) -> [Value; 2] {
    let open = [PORT, ports.http].into_iter().chain(ports.webhook);
    let open = open.map(|port| json!({ "port": port, "protocol": "TCP" }));
    let open: Vec<Value> = open.collect();
    // No client is named: with hosted control planes OLM connects through a proxy.
    let almanac = json!({
        "egress": [{}],
        "ingress": [{ "ports": open }],
        "podSelector": { "matchLabels": labels(ports) },
        "policyTypes": ["Ingress", "Egress"],
    });
    // OLM 0.32 to 0.45 has such a policy only for catalogs with an image.
    let unpack = json!({
        "egress": [{}],
        "podSelector": {
            "matchExpressions": [{
                "key": "operatorframework.io/bundle-unpack-ref",
                "operator": "Exists",
            }],
            "matchLabels": { "olm.managed": "true" },
        },
        "policyTypes": ["Egress"],
    });
    [("almanac", almanac), (UNPACK, unpack)].map(|(name, spec)| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": { "labels": labels(ports), "name": name, "namespace": namespace },
            "spec": spec,
        })
    })
}
