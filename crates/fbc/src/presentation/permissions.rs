//! The permissions that an operator asks for, where a catalog has its manifests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::manifest_objects;
use crate::object::MAX_LIST;
use crate::properties::{BundleObject, each_property};
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{fields, or_default};

/// How many roles of the manifests are told, and how many rules of each.
const MOST_ROLES: usize = 100;
const MOST_RULES: usize = 1_000;
/// How many accounts of a role are told.
const MOST_ACCOUNTS: usize = 100;
/// The kinds of manifests that tell permissions beside the `ClusterServiceVersion`.
const KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// The rules of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AccountRules {
    /// The service account, or several with the same role; absent for a role that no
    /// binding of the bundle gives to an account.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// The role among the manifests that has the rules; absent for those of the
    /// `ClusterServiceVersion`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Its rules; none for a role that the bundle lacks.
    pub rules: Vec<Rule>,
}

/// A rule, as roles of Kubernetes have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = AccountRule))]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Permissions {
    /// In the namespaces that it watches.
    pub namespaced: Vec<AccountRules>,
    /// In the whole cluster.
    pub cluster: Vec<AccountRules>,
    /// Roles that no binding of the bundle gives to an account, such as those for users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbound: Vec<AccountRules>,
}

/// A role, or a binding of one, among the manifests.
#[derive(Default)]
struct RoleObject {
    metadata: ObjectName,
    rules: Vec<Rule>,
    subjects: Vec<ObjectName>,
    role: ObjectName,
}

#[derive(Default)]
struct ObjectName {
    kind: String,
    name: String,
}

fields!(RoleObject { metadata = "metadata", rules = "rules", subjects = "subjects", role = "roleRef" });
fields!(ObjectName { kind = "kind", name = "name" });

impl Permissions {
    /// Reads the canonical line of a bundle. `None` where it has no
    /// `ClusterServiceVersion` as an object: `olm.csv.metadata` tells no permissions.
    pub fn from_bundle(line: &[u8]) -> Option<Self> {
        let mut objects = Vec::new();
        each_property(line, |kind, cursor| {
            if kind == "olm.bundle.object" && objects.len() < MAX_LIST {
                let object: BundleObject<'_> = or_default(cursor);
                objects.push(object.data.0);
            }
        });
        let csv = manifest_objects::find_csv(objects.iter().cloned())?;
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
        found.add_roles(objects);
        Some(found)
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.namespaced.is_empty() && self.cluster.is_empty() && self.unbound.is_empty()
    }

    /// Adds the roles of the manifests, with the accounts that bindings give them to. An
    /// installer applies these manifests as they are.
    fn add_roles(&mut self, objects: Vec<Cow<'_, str>>) {
        let mut roles: BTreeMap<(&str, String), (Vec<Rule>, bool)> = BTreeMap::new();
        let mut bindings = Vec::new();
        let found = manifest_objects::of_kinds(objects, &KINDS);
        for (kind, manifest) in found.take(MOST_ROLES) {
            let mut object: RoleObject = or_default(&mut Cursor::new(&manifest));
            if kind.ends_with("Binding") {
                bindings.push((kind, object));
            } else if !object.metadata.name.is_empty() {
                object.rules.truncate(MOST_RULES);
                roles.insert((kind, object.metadata.name), (object.rules, false));
            }
        }
        // A role counts once for each scope: with its rules for each binding, a bundle
        // could multiply them.
        let mut bound: Vec<(&str, &str, String, Vec<String>)> = Vec::new();
        for (kind, binding) in bindings {
            let accounts = binding.subjects.into_iter();
            let accounts = accounts.filter(|one| one.kind == "ServiceAccount");
            let accounts: Vec<String> = accounts.map(|one| one.name).collect();
            let wanted = KINDS.iter().find(|kind| **kind == binding.role.kind);
            let Some(wanted) = wanted.filter(|_| !accounts.is_empty()) else {
                continue;
            };
            let role = binding.role.name;
            let known = bound
                .iter_mut()
                .find(|(of, target, name, _)| *of == kind && *target == *wanted && *name == role);
            match known {
                Some((.., all)) => all.extend(accounts),
                None => bound.push((kind, wanted, role, accounts)),
            }
        }
        for (kind, wanted, role, accounts) in bound {
            let key = (wanted, role);
            let found = roles.get_mut(&key).map(|(rules, is_bound)| {
                *is_bound = true;
                rules.clone()
            });
            let mut unique: Vec<String> = Vec::new();
            for account in accounts {
                if unique.len() < MOST_ACCOUNTS && !unique.contains(&account) {
                    unique.push(account);
                }
            }
            let bound = AccountRules {
                account: unique.join(", "),
                role: key.1,
                rules: found.unwrap_or_default(),
            };
            if kind == "RoleBinding" {
                self.namespaced.push(bound);
            } else {
                self.cluster.push(bound);
            }
        }
        for ((_, role), (rules, is_bound)) in roles {
            if !is_bound {
                self.unbound.push(AccountRules {
                    account: String::new(),
                    role,
                    rules,
                });
            }
        }
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
        let found = Permissions::from_bundle(line.as_bytes()).unwrap();
        assert!(found.namespaced.is_empty() && !found.is_empty());
        let [account] = &found.cluster[..] else {
            panic!("{found:?}")
        };
        assert_eq!(account.account, "crane");
        assert_eq!(account.rules[0].verbs, ["get", "list"]);
        assert_eq!(account.rules[1].non_resource_urls, ["/metrics"]);
        let metadata = r#"{"properties":[{"type":"olm.csv.metadata","value":{}}]}"#;
        assert_eq!(Permissions::from_bundle(metadata.as_bytes()), None);
    }

    #[test]
    fn roles_of_manifests_go_to_the_accounts_that_bindings_name() {
        let manifests = [
            r#"{"kind":"ClusterServiceVersion","spec":{"install":{"spec":{"permissions":[{"serviceAccountName":"crane","rules":[{"verbs":["get"],"resources":["pods"]}]}]}}}}"#,
            "kind: ClusterRole\nmetadata: {name: lift}\nrules:\n- {apiGroups: [apps], resources: [deployments], verbs: ['*']}\n",
            "kind: ClusterRole\nmetadata: {name: lift-viewer}\nrules:\n- {resources: [lifts], verbs: [get]}\n",
            r#"{"kind":"Role","metadata":{"name":"lift"},"rules":[{"verbs":["list"],"resources":["secrets"]}]}"#,
            r#"{"kind":"ClusterRoleBinding","roleRef":{"kind":"ClusterRole","name":"lift"},"subjects":[{"kind":"ServiceAccount","name":"hook"},{"kind":"ServiceAccount","name":"crane"},{"kind":"User","name":"u"}]}"#,
            r#"{"kind":"RoleBinding","roleRef":{"kind":"Role","name":"lift"},"subjects":[{"kind":"ServiceAccount","name":"crane"}]}"#,
            r#"{"kind":"RoleBinding","roleRef":{"kind":"ClusterRole","name":"view"},"subjects":[{"kind":"ServiceAccount","name":"crane"}]}"#,
            r#"{"kind":"RoleBinding","roleRef":{"kind":"Role","name":"lift"},"subjects":[{"kind":"Group","name":"g"}]}"#,
            r#"{"kind":"Role","metadata":7,"rules":"none"}"#,
            "Role: no manifest",
        ];
        let properties = manifests.map(|text| {
            format!(
                r#"{{"type":"olm.bundle.object","value":{{"data":"{}"}}}}"#,
                STANDARD.encode(text)
            )
        });
        let line = format!(
            r#"{{"schema":"olm.bundle","properties":[{}]}}"#,
            properties.join(",")
        );
        let found = Permissions::from_bundle(line.as_bytes()).unwrap();
        let told = |all: &[AccountRules]| -> Vec<String> {
            let all = all.iter();
            all.map(|one| {
                let verbs = one.rules.iter().flat_map(|rule| &rule.verbs);
                let verbs: Vec<&str> = verbs.map(String::as_str).collect();
                format!("{}|{}|{}", one.account, one.role, verbs.join(" "))
            })
            .collect()
        };
        assert_eq!(
            told(&found.namespaced),
            ["crane||get", "crane|lift|list", "crane|view|"]
        );
        assert_eq!(told(&found.cluster), ["hook, crane|lift|*"]);
        assert_eq!(told(&found.unbound), ["|lift-viewer|get"]);
    }

    #[test]
    fn bindings_do_not_multiply_the_rules_of_a_role() {
        let rules = r#"{"verbs":["get"],"resources":["pods"]},"#.repeat(50);
        let role = format!(
            r#"{{"kind":"Role","metadata":{{"name":"lift"}},"rules":[{}]}}"#,
            rules.trim_end_matches(',')
        );
        let binding = |number: usize| {
            format!(
                r#"{{"kind":"RoleBinding","roleRef":{{"kind":"Role","name":"lift"}},"subjects":[{{"kind":"ServiceAccount","name":"a{}"}}]}}"#,
                number % 2
            )
        };
        let manifests = [r#"{"kind":"ClusterServiceVersion"}"#.to_owned(), role];
        let manifests = manifests.into_iter().chain((0..90).map(binding));
        let properties: Vec<String> = manifests
            .map(|text| {
                format!(
                    r#"{{"type":"olm.bundle.object","value":{{"data":"{}"}}}}"#,
                    STANDARD.encode(text)
                )
            })
            .collect();
        let line = format!(
            r#"{{"schema":"olm.bundle","properties":[{}]}}"#,
            properties.join(",")
        );
        let found = Permissions::from_bundle(line.as_bytes()).unwrap();
        let [bound] = &found.namespaced[..] else {
            panic!("{found:?}")
        };
        assert_eq!((bound.account.as_str(), bound.rules.len()), ("a0, a1", 50));
    }
}
