//! The objects that install a package on a cluster, for either version of Operator
//! Lifecycle Manager.

use serde_json::{Value, json};

use fbc::text::yaml;

/// The installed version, and the ways to install it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install<'a> {
    /// The catalog.
    pub catalog: &'a str,
    /// The namespace of its `CatalogSource`.
    pub source_namespace: &'a str,
    /// The package.
    pub package: &'a str,
    /// The channel.
    pub channel: &'a str,
    /// The bundle to begin with, and its version, if they are pinned.
    pub pinned: Option<(&'a str, &'a str)>,
    /// The namespace of the operator.
    pub namespace: &'a str,
    /// The install mode.
    pub mode: &'a str,
    /// The watched namespace of the mode `SingleNamespace`.
    pub watched: &'a str,
}

impl Install<'_> {
    /// `Namespace`, `OperatorGroup` and `Subscription` for OLM v0.
    pub fn v0(&self) -> Vec<Value> {
        let targets = match self.mode {
            "OwnNamespace" => Some(self.namespace),
            "SingleNamespace" | "MultiNamespace" => Some(self.watched),
            _ => None,
        };
        let group = match targets {
            Some(target) => json!({ "targetNamespaces": [target] }),
            None => json!({}),
        };
        let mut subscription = json!({
            "channel": self.channel,
            "name": self.package,
            "source": self.catalog,
            "sourceNamespace": self.source_namespace,
            "installPlanApproval": "Automatic",
        });
        if let Some((bundle, _)) = self.pinned {
            subscription["startingCSV"] = bundle.into();
            // Otherwise updates would leave the pinned version at once.
            subscription["installPlanApproval"] = "Manual".into();
        }
        vec![
            self.namespace_object(),
            json!({
                "apiVersion": "operators.coreos.com/v1",
                "kind": "OperatorGroup",
                "metadata": { "name": self.namespace, "namespace": self.namespace },
                "spec": group,
            }),
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "Subscription",
                "metadata": { "name": self.package, "namespace": self.namespace },
                "spec": subscription,
            }),
        ]
    }

    /// `Namespace` and `ClusterExtension` for OLM v1.
    pub fn v1(&self) -> Vec<Value> {
        let mut catalog = json!({
            "packageName": self.package,
            "channels": [self.channel],
            // Two catalogs with the package and one priority would stop the resolver.
            "selector": { "matchLabels": { "olm.operatorframework.io/metadata.name": self.catalog } },
        });
        if let Some((_, version)) = self.pinned {
            catalog["version"] = version.into();
        }
        vec![
            self.namespace_object(),
            json!({
                "apiVersion": "olm.operatorframework.io/v1",
                "kind": "ClusterExtension",
                "metadata": { "name": self.package },
                "spec": {
                    "namespace": self.namespace,
                    "source": { "sourceType": "Catalog", "catalog": catalog },
                },
            }),
        ]
    }

    /// The same for releases of OLM v1 that install with a service account.
    pub fn older_v1(&self) -> Vec<Value> {
        let account = format!("{}-installer", self.package);
        let mut objects = self.v1();
        if let Some(extension) = objects.last_mut() {
            extension["spec"]["serviceAccount"] = json!({ "name": account });
        }
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": account, "namespace": self.namespace },
        });
        objects.insert(1, account);
        objects
    }

    fn namespace_object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": self.namespace },
        })
    }
}

/// The namespace for a package: the suggested one, else one of its name.
pub fn namespace<'a>(suggested: &'a str, package: &'a str) -> &'a str {
    if is_label(suggested) {
        suggested
    } else {
        package
    }
}

/// Whether a name is a DNS label, as those of namespaces are.
pub fn is_label(name: &str) -> bool {
    let mut bytes = name.bytes();
    (1..=63).contains(&name.len())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Objects as YAML documents.
pub fn documents(objects: &[Value]) -> String {
    let mut out = Vec::new();
    for object in objects {
        if !out.is_empty() {
            out.extend_from_slice(b"---\n");
        }
        yaml::from_json(object.to_string().as_bytes(), &mut out);
        if out.last() != Some(&b'\n') {
            out.push(b'\n');
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install() -> Install<'static> {
        Install {
            catalog: "community",
            source_namespace: "olm",
            package: "etcd",
            channel: "stable: \"1\"",
            namespace: "etcd",
            mode: "AllNamespaces",
            watched: "apps",
            ..Install::default()
        }
    }

    #[test]
    fn the_group_follows_the_install_mode() {
        assert!(!documents(&install().v0()).contains("targetNamespaces"));
        for (mode, target) in [("OwnNamespace", "- etcd"), ("SingleNamespace", "- apps")] {
            let text = documents(&Install { mode, ..install() }.v0());
            assert!(text.contains("targetNamespaces:"), "{text}");
            assert!(text.contains(target), "{text}");
        }
    }

    #[test]
    fn a_pinned_version_waits_for_approval() {
        let pinned = Install {
            pinned: Some(("etcd.v1.0.0", "1.0.0")),
            ..install()
        };
        let text = documents(&pinned.v0());
        assert!(text.contains("startingCSV: etcd.v1.0.0"), "{text}");
        assert!(text.contains("installPlanApproval: Manual"), "{text}");
        assert!(
            documents(&pinned.v1()).contains("version: "),
            "{}",
            documents(&pinned.v1())
        );
        assert!(!documents(&install().v1()).contains("version: "));
    }

    #[test]
    fn names_of_a_catalog_stay_values() {
        let text = documents(&install().v0());
        assert!(text.contains(r#"channel: "stable: \"1\"""#), "{text}");
        assert_eq!(
            text.matches("\nkind: ").count() + usize::from(text.starts_with("kind: ")),
            3,
            "{text}"
        );
    }

    #[test]
    fn a_suggested_namespace_has_to_be_a_name() {
        assert_eq!(namespace("good-1", "p"), "good-1");
        for bad in ["", "Bad", "a_b", "-a", "a-", &"a".repeat(64)] {
            assert_eq!(namespace(bad, "p"), "p", "{bad}");
        }
    }
}
