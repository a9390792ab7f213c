//! The permissions that an operator asks for, where a catalog has its manifests.

use serde::Serialize;

use crate::manifest_objects;
use crate::object::MAX_LIST;
use crate::properties::{BundleObject, each_property};
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{fields, or_default};

/// The rules of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccountRules {
    /// The name of the account.
    pub account: String,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// A rule, as roles of Kubernetes have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Verbs that are allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// The groups of the resources; empty for the core group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names of objects; none for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are no resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

fields!(AccountRules { account = "serviceAccountName", rules = "rules" });
fields!(Rule {
    verbs = "verbs",
    api_groups = "apiGroups",
    resources = "resources",
    resource_names = "resourceNames",
    non_resource_urls = "nonResourceURLs",
});

/// The permissions of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Permissions {
    /// In the namespaces that it watches.
    pub namespaced: Vec<AccountRules>,
    /// In the whole cluster.
    pub cluster: Vec<AccountRules>,
}

impl Permissions {
    /// Reads the canonical line of a bundle. `None` where it has no
    /// `ClusterServiceVersion` as an object: `olm.csv.metadata` tells no permissions.
    pub fn of(line: &[u8]) -> Option<Self> {
        let mut objects = Vec::new();
        each_property(line, |kind, cursor| {
            if kind == "olm.bundle.object" && objects.len() < MAX_LIST {
                let object: BundleObject<'_> = or_default(cursor);
                objects.push(object.data.0);
            }
        });
        let csv = manifest_objects::find_csv(objects)?;
        let mut found = Self::default();
        let install = |cursor: &mut Cursor<'_>, found: &mut Self| {
            cursor.each_member(|key, value| match key {
                "permissions" => found.namespaced = or_default(value),
                "clusterPermissions" => found.cluster = or_default(value),
                _ => {}
            });
        };
        Cursor::new(&csv).each_member(|key, cursor| {
            if key == "spec" {
                cursor.each_member(|key, cursor| {
                    if key == "install" {
                        cursor.each_member(|key, cursor| {
                            if key == "spec" {
                                install(cursor, &mut found);
                            }
                        });
                    }
                });
            }
        });
        Some(found)
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.namespaced.is_empty() && self.cluster.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn rules_stand_where_the_manifests_do() {
        let csv = r#"{"kind":"ClusterServiceVersion","spec":{"install":{"spec":{
            "clusterPermissions":[{"serviceAccountName":"crane","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]},{"nonResourceURLs":["/metrics"],"verbs":["get"]}]}]}}}}"#;
        let line = format!(
            r#"{{"schema":"olm.bundle","properties":[{{"type":"olm.bundle.object","value":{{"data":"{}"}}}}]}}"#,
            STANDARD.encode(csv)
        );
        let found = Permissions::of(line.as_bytes()).unwrap();
        assert!(found.namespaced.is_empty() && !found.is_empty());
        let [account] = &found.cluster[..] else {
            panic!("{found:?}")
        };
        assert_eq!(account.account, "crane");
        assert_eq!(account.rules[0].verbs, ["get", "list"]);
        assert_eq!(account.rules[1].non_resource_urls, ["/metrics"]);
        let metadata = r#"{"properties":[{"type":"olm.csv.metadata","value":{}}]}"#;
        assert_eq!(Permissions::of(metadata.as_bytes()), None);
    }
}
