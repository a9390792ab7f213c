//! The objects that install a package on a cluster, for either version of Operator
//! Lifecycle Manager.

use serde_json::{Value, json};

use fbc::presentation::NamespaceTemplate;
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
    /// The author's suggestion for the namespace of this name.
    pub template: Option<&'a NamespaceTemplate>,
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

    /// `Namespace`, `ServiceAccount`, `ClusterRoleBinding` and `ClusterExtension` for OLM v1.
    /// Releases before the middle of 2026 refuse an extension without an account, and
    /// install by its permissions. Later ones ignore it.
    pub fn v1(&self) -> Vec<Value> {
        let account = format!("{}-installer", self.package);
        let mut extension = self.extension();
        extension["spec"]["serviceAccount"] = json!({ "name": account });
        vec![
            self.namespace_object(),
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": { "name": account, "namespace": self.namespace },
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": { "name": account },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
                "subjects": [
                    { "kind": "ServiceAccount", "name": account, "namespace": self.namespace },
                ],
            }),
            extension,
        ]
    }

    /// `Namespace` and `ClusterExtension` for releases of OLM v1 that need no account.
    pub fn v1_without_account(&self) -> Vec<Value> {
        vec![self.namespace_object(), self.extension()]
    }

    fn extension(&self) -> Value {
        let mut catalog = json!({
            "packageName": self.package,
            "channels": [self.channel],
            // Two catalogs with the package and one priority would stop the resolver.
            "selector": { "matchLabels": { "olm.operatorframework.io/metadata.name": self.catalog } },
        });
        if let Some((_, version)) = self.pinned {
            catalog["version"] = version.into();
        }
        json!({
            "apiVersion": "olm.operatorframework.io/v1",
            "kind": "ClusterExtension",
            "metadata": { "name": self.package },
            "spec": {
                "namespace": self.namespace,
                "source": { "sourceType": "Catalog", "catalog": catalog },
            },
        })
    }

    /// The namespace. Labels and annotations of the template belong to its name only.
    fn namespace_object(&self) -> Value {
        let mut metadata = json!({ "name": self.namespace });
        let template = self.template.filter(|one| one.name == self.namespace);
        if let Some(template) = template {
            for (key, values) in [
                ("labels", &template.labels),
                ("annotations", &template.annotations),
            ] {
                if let Some(values) = values.as_ref().filter(|values| !values.is_empty()) {
                    metadata[key] = json!(values);
                }
            }
        }
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
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

    #[test]
    fn the_extension_has_an_account_that_may_install_it() {
        let objects = install().v1();
        let kinds: Vec<&str> = objects
            .iter()
            .filter_map(|one| one["kind"].as_str())
            .collect();
        assert_eq!(
            kinds,
            [
                "Namespace",
                "ServiceAccount",
                "ClusterRoleBinding",
                "ClusterExtension"
            ]
        );
        let account = &objects[3]["spec"]["serviceAccount"]["name"];
        assert_eq!(account, "etcd-installer");
        assert_eq!(&objects[1]["metadata"]["name"], account);
        assert_eq!(&objects[2]["subjects"][0]["name"], account);
        let newer = install().v1_without_account();
        assert_eq!(newer.len(), 2);
        assert!(newer[1]["spec"].get("serviceAccount").is_none());
    }

    #[test]
    fn labels_of_a_template_belong_to_its_namespace_only() {
        let template = NamespaceTemplate {
            name: "etcd".to_owned(),
            labels: Some([("a".to_owned(), "b".to_owned())].into()),
            annotations: Some([].into()),
        };
        let with = |namespace| Install {
            namespace,
            template: Some(&template),
            ..install()
        };
        assert_eq!(
            with("etcd").v0()[0]["metadata"],
            json!({ "name": "etcd", "labels": { "a": "b" } })
        );
        assert_eq!(
            with("other").v1()[0]["metadata"],
            json!({ "name": "other" })
        );
    }
}
