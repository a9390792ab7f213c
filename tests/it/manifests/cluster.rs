//! A cluster as far as Operator Lifecycle Manager (OLM) looks at it: what it does
//! with a `CatalogSource`, step by step, and the step that fails.

use std::collections::{BTreeMap, BTreeSet};

use almanac::config::Config;
use serde_json::Value;

use crate::docs::configuration;
use crate::olm_v0::typed;

/// The port that the OpenShift console dials, and that OLM's own network
/// policies allow.
const GRPC: u64 = 50051;

/// The applied objects, and the images that can be pulled.
pub(super) struct Cluster {
    manifests: Vec<Value>,
    pub(super) images: BTreeMap<String, Image>,
}

/// The parts of an image that matter to OLM.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// Absolute paths of files and folders.
    pub(super) files: BTreeSet<String>,
    /// `ENTRYPOINT` and `CMD`; empty without a program.
    pub(super) command: Vec<String>,
    /// `USER`.
    pub(super) user: String,
}

impl Cluster {
    pub(super) fn of(manifests: &[Value]) -> Self {
        Self {
            manifests: manifests.to_vec(),
            images: BTreeMap::new(),
        }
    }

    pub(super) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        let found = self.manifests.iter();
        found.filter(|manifest| manifest["kind"] == kind).collect()
    }

    /// Acts on a `CatalogSource` as OLM does.
    ///
    /// # Errors
    /// The reason for which the source never becomes ready, or for which OLM does
    /// other than its author wants.
    pub(super) fn act_on(&self, source: &Value) -> Result<(), String> {
        let spec = &source["spec"];
        let name = text(&source["metadata"]["name"]);
        // It names a Service and is the value of labels.
        if name.contains('.') || name.len() > 63 {
            return Err(format!("{name} cannot name a Service"));
        }
        if spec["sourceType"] != "grpc" {
            return Err(format!("unknown sourcetype: {}", spec["sourceType"]));
        }
        if let Some(strategy) = spec["updateStrategy"].as_object() {
            let interval = &strategy["registryPoll"]["interval"];
            let interval = interval.as_str().unwrap_or_default();
            if humantime::parse_duration(interval).is_err() {
                return Err(format!("InvalidIntervalError: {interval:?}"));
            }
        }
        match (spec["image"].as_str(), spec["address"].as_str()) {
            (None, None) => Err("image and address unset".into()),
            (Some(_), Some(_)) => Err("a pod runs the image, and the address is dialled".into()),
            (None, Some(address)) => self.dial(source, address),
            (Some(image), None) => self.run(source, image),
        }
    }

    /// Dials an address, as catalog-operator, packageserver and the console do.
    fn dial(&self, source: &Value, address: &str) -> Result<(), String> {
        let spec = &source["spec"];
        for unused in ["grpcPodConfig", "updateStrategy"] {
            if !spec[unused].is_null() {
                return Err(format!("{unused} has no effect with an address"));
            }
        }
        let (host, port) = address
            .rsplit_once(':')
            .ok_or(format!("{address}: missing port"))?;
        if host.contains(['/', ':', '[']) {
            return Err(format!("{address} is no HOST:PORT"));
        }
        let name = text(&source["metadata"]["name"]);
        let namespace = text(&source["metadata"]["namespace"]);
        // The console builds the address from the names.
        if host != format!("{name}.{namespace}.svc") || port != GRPC.to_string() {
            return Err(format!("the console dials {name}.{namespace}.svc:{GRPC}"));
        }
        let service = (self.of_kind("Service").into_iter())
            .find(|it| it["metadata"]["name"] == name && it["metadata"]["namespace"] == namespace)
            .ok_or(format!("there is no Service {name} in {namespace}"))?;
        let ports = service["spec"]["ports"].as_array().unwrap();
        let target = (ports.iter().find(|it| it["port"] == GRPC))
            .ok_or(format!("the Service has no port {GRPC}"))?;
        let target = target["targetPort"].as_u64().unwrap_or(GRPC);
        let set = self.of_kind("StatefulSet")[0];
        let pod = &set["spec"]["template"];
        let labels = &pod["metadata"]["labels"];
        let selector = serde_json::json!({ "matchLabels": service["spec"]["selector"] });
        if set["metadata"]["namespace"] != namespace || !selects(&selector, labels) {
            return Err("the Service selects no pod".into());
        }
        let open = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
        if !open.iter().any(|port| port["containerPort"] == target) {
            return Err(format!("no container listens on {target}"));
        }
        // The namespace denies by default: some policy must allow the port.
        let allows = |policy: &&Value| {
            let rules = policy["spec"]["ingress"].as_array();
            let mut ports = rules
                .into_iter()
                .flatten()
                .flat_map(|rule| rule["ports"].as_array().into_iter().flatten());
            policy["metadata"]["namespace"] == namespace
                && selects(&policy["spec"]["podSelector"], labels)
                && ports.any(|port| port["port"] == target)
        };
        if !self.of_kind("NetworkPolicy").iter().any(allows) {
            return Err(format!("no NetworkPolicy opens {target}"));
        }
        // almanac finds the catalog by the authority.
        let config = self.config();
        let named = (config.catalogs.iter()).any(|catalog| {
            catalog.name.as_str() == name || catalog.authorities.iter().any(|it| it == host)
        });
        if !named {
            return Err(format!("almanac has no catalog {name}"));
        }
        Ok(())
    }

    /// The configuration of almanac in the cluster.
    fn config(&self) -> Config {
        let map = self.of_kind("ConfigMap")[0];
        configuration(text(&map["data"]["almanac.toml"])).unwrap()
    }

    /// Runs a pod from an image: init containers, the server, its probes.
    fn run(&self, source: &Value, image: &str) -> Result<(), String> {
        let config = &source["spec"]["grpcPodConfig"];
        let restricted = match config["securityContextConfig"].as_str() {
            Some("restricted") => true,
            Some("legacy") | None => false,
            Some(other) => return Err(format!("securityContextConfig: {other}")),
        };
        let image = self
            .images
            .get(image)
            .ok_or(format!("{image} cannot be pulled"))?;
        let extract = &config["extractContent"];
        let server = if extract.is_null() {
            image.clone()
        } else {
            let catalog = extract["catalogDir"].as_str().unwrap_or_default();
            let cache = extract["cacheDir"].as_str();
            // The init container copies both out of the image.
            for folder in [Some(catalog), cache].into_iter().flatten() {
                if !folder.starts_with('/') || !image.files.contains(folder) {
                    return Err(format!("lstat {folder}: no such file or directory"));
                }
            }
            let mut command = vec!["/bin/opm".into(), "serve".into()];
            command.push("/extracted-catalog/catalog".into());
            command.extend(cache.map(|_| "--cache-dir=/extracted-catalog/cache".into()));
            let mut server = self.images["opm"].clone();
            server.command = command;
            server
        };
        let Some((program, arguments)) = server.command.split_first() else {
            return Err("the image has no program".into());
        };
        if !server.files.contains(program) {
            return Err(format!("exec {program}: no such file or directory"));
        }
        // The default port is the one of the Service and of the probes.
        if arguments
            .iter()
            .any(|word| word.starts_with("--port") || word == "-p")
        {
            return Err("the Service of OLM leads to 50051".into());
        }
        typed(arguments);
        if !server.files.contains("/bin/grpc_health_probe") {
            return Err("the probes find no grpc_health_probe".into());
        }
        let user = server.user.split(':').next().unwrap_or_default();
        if restricted && user.parse::<u32>().unwrap_or(0) == 0 {
            return Err("runAsNonRoot: the image has no numeric user".into());
        }
        Ok(())
    }
}

/// Whether a selector of labels takes these labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let keys = selector.as_object().unwrap().keys();
    for key in keys {
        assert!(
            ["matchLabels", "matchExpressions"].contains(&&**key),
            "{key}"
        );
    }
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    equal.into_iter().all(|(key, value)| labels[key] == *value)
        && expressions.into_iter().all(|expression| {
            let there = !labels[text(&expression["key"])].is_null();
            match text(&expression["operator"]) {
                "Exists" => there,
                "DoesNotExist" => !there,
                "In" => expression["values"]
                    .as_array()
                    .unwrap()
                    .contains(&labels[text(&expression["key"])]),
                other => panic!("no manifest needs {other}"),
            }
        })
}

pub(super) fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}
