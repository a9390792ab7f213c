//! The contents of `policy.json`: every requirement with all rules about its
//! shape, whatever its scope. A file is refused when the tools for containers
//! refuse it.

mod fields;
mod members;
mod openshift;
mod requirement;
mod scopes;
mod sigstore;

use std::collections::BTreeMap;

use members::{Json, shown};

use crate::mirrors::is_nested;
use crate::policy::parse::scopes::check_scope;
use crate::policy::subject::PolicySubject;

pub(super) use openshift::ImagePolicy;
pub(super) use requirement::{KeyType, Requirement, SignedBy};
pub(super) use sigstore::{SigstoreSigned, SigstoreTrust};

/// A whole policy.
#[derive(Debug)]
pub(super) struct Policy {
    default: Vec<Requirement>,
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
}

impl Policy {
    /// Reads a file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let json: Json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut members = json.object()?;
        let default = members.field("default", requirements)?;
        let mut transports = BTreeMap::new();
        let given = members.field("transports", Json::object)?;
        for (transport, scopes) in given.into_iter().flat_map(members::Members::into_all) {
            let place = |problem| format!("transports.{}: {problem}", shown(&transport));
            let mut all = BTreeMap::new();
            for (scope, list) in scopes.object().map_err(place)?.into_all() {
                check_scope(&transport, &scope).map_err(place)?;
                let list = requirements(list)
                    .map_err(|problem| place(format!("{:?}: {problem}", shown(&scope))))?;
                all.insert(scope, list);
            }
            transports.insert(transport, all);
        }
        members.finish()?;
        Ok(Self {
            default: default.ok_or("default is missing")?,
            transports,
        })
    }

    /// A policy that accepts everything.
    pub(super) fn accepting() -> Self {
        Self {
            default: vec![Requirement::InsecureAcceptAnything],
            transports: BTreeMap::new(),
        }
    }

    /// Adds the image policies of a cluster, and those of one namespace. A
    /// scope gets the requirements of all of them behind its own. A namespace
    /// has no say in the scopes of the cluster.
    pub(super) fn add(&mut self, objects: &[ImagePolicy], namespace: Option<&str>) {
        let of_cluster = || objects.iter().filter(|one| one.namespace.is_none());
        let of_namespace = objects
            .iter()
            .filter(|one| one.namespace.is_some() && one.namespace.as_deref() == namespace);
        let scopes = self.transports.entry("docker".to_owned()).or_default();
        for object in of_cluster().chain(of_namespace) {
            for scope in &object.scopes {
                let mut cluster = of_cluster().flat_map(|one| &one.scopes);
                if object.namespace.is_some() && cluster.any(|above| lies_in(scope, above)) {
                    continue;
                }
                let list = scopes.entry(scope.clone()).or_default();
                list.push(object.requirement.clone());
            }
        }
    }

    /// The requirements for an image, from the longest matching scope, and the
    /// name of that scope.
    pub(super) fn of(mut self, image: &PolicySubject) -> (String, Vec<Requirement>) {
        if let Some(mut scopes) = self.transports.remove(image.transport()) {
            for scope in image.scopes() {
                if let Some(found) = scopes.remove(&scope) {
                    let scope = if scope.is_empty() {
                        image.kind().to_owned() + " by default"
                    } else {
                        scope
                    };
                    return (scope, found);
                }
            }
        }
        ("everything by default".to_owned(), self.default)
    }
}

/// Whether a scope is another one or lies in it: also a tag or a digest in its
/// repository. A colon behind a host begins a port, and another registry.
pub(super) fn lies_in(scope: &str, above: &str) -> bool {
    let version = scope
        .strip_prefix(above)
        .is_some_and(|rest| rest.starts_with('@') || rest.starts_with(':') && above.contains('/'));
    version || is_nested(scope, above)
}

/// Checks the content of a policy file.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    Policy::parse(bytes).map(drop)
}

/// A list of requirements, which is not empty.
fn requirements(list: Json) -> Result<Vec<Requirement>, String> {
    let list = list.list()?;
    if list.is_empty() {
        return Err("its list of requirements is empty".into());
    }
    let numbered = (1..).zip(list).map(|(number, json)| {
        Requirement::parse(json).map_err(|problem| format!("requirement {number}: {problem}"))
    });
    numbered.collect()
}
