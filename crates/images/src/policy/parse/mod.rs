//! The contents of `policy.json`: every requirement with all rules about its
//! shape, whatever its scope. A file is refused when the tools for containers
//! refuse it.

mod fields;
mod members;
mod openshift;
mod requirement;
mod scopes;
mod sigstore;

use std::collections::{BTreeMap, BTreeSet};

use members::{Json, shown};

use crate::policy::parse::scopes::{check_scope, folded};
use crate::policy::subject::{PolicySubject, enclosing_scopes};

pub(super) use openshift::ImagePolicy;
pub(super) use requirement::{KeyType, Requirement, SignedBy};
pub(super) use sigstore::{SigstoreSigned, SigstoreTrust};

/// The transport of registries.
const DOCKER: &str = "docker";

/// A whole policy.
#[derive(Debug)]
pub(super) struct Policy {
    default: Vec<Requirement>,
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
    /// The scopes of registries whose requirements all come from image policies.
    of_objects: BTreeSet<String>,
}

/// The requirements for an image.
#[derive(Debug)]
pub(super) struct Applicable {
    /// The name of their scope.
    pub(super) scope: String,
    pub(super) requirements: Vec<Requirement>,
    /// Whether all of them come from image policies.
    pub(super) of_objects: bool,
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
            let mut all: BTreeMap<String, Vec<Requirement>> = BTreeMap::new();
            for (scope, list) in scopes.object().map_err(place)?.into_all() {
                check_scope(&transport, &scope).map_err(place)?;
                let list = requirements(list)
                    .map_err(|problem| place(format!("{:?}: {problem}", shown(&scope))))?;
                // Two spellings of one host have the requirements of both.
                all.entry(folded(&transport, scope))
                    .or_default()
                    .extend(list);
            }
            transports.insert(transport, all);
        }
        members.finish()?;
        Ok(Self {
            default: default.ok_or("default is missing")?,
            transports,
            of_objects: BTreeSet::new(),
        })
    }

    /// A policy that accepts everything.
    pub(super) fn accepting() -> Self {
        Self {
            default: vec![Requirement::InsecureAcceptAnything],
            transports: BTreeMap::new(),
            of_objects: BTreeSet::new(),
        }
    }

    /// Adds the image policies of a cluster, and those of one namespace. They
    /// let in nothing that the file keeps out: a scope gets their requirements
    /// besides those that the file has for it, and none where the file rejects
    /// everything. A namespace has no say in the scopes of the cluster.
    pub(super) fn add(&mut self, objects: &[ImagePolicy], namespace: Option<&str>) {
        let mut added: BTreeMap<&str, Vec<&Requirement>> = BTreeMap::new();
        let (cluster, namespaced): (Vec<_>, Vec<_>) =
            objects.iter().partition(|one| one.namespace.is_none());
        for object in &cluster {
            for scope in &object.scopes {
                added.entry(scope).or_default().push(&object.requirement);
            }
        }
        let of_cluster: BTreeSet<&str> = added.keys().copied().collect();
        let ours = namespaced
            .iter()
            .filter(|one| one.namespace.as_deref() == namespace);
        for object in ours {
            for scope in &object.scopes {
                let above = enclosing_scopes(scope);
                if above.iter().all(|above| !of_cluster.contains(&**above)) {
                    added.entry(scope).or_default().push(&object.requirement);
                }
            }
        }
        let mut of_objects = BTreeSet::new();
        let added: Vec<_> = added
            .into_iter()
            .filter_map(|(scope, list)| {
                let mut all = self.of_scope(scope).to_vec();
                let rejects = |one: &Requirement| matches!(one, Requirement::Reject);
                if all.iter().any(rejects) {
                    return None;
                }
                all.retain(|one| !matches!(one, Requirement::InsecureAcceptAnything));
                if all.is_empty() {
                    of_objects.insert(scope.to_owned());
                }
                all.extend(list.into_iter().cloned());
                Some((scope.to_owned(), all))
            })
            .collect();
        let scopes = self.transports.entry(DOCKER.to_owned()).or_default();
        scopes.extend(added);
        self.of_objects = of_objects;
    }

    /// The requirements for all images of a scope in registries.
    fn of_scope(&self, scope: &str) -> &[Requirement] {
        let mut scopes = enclosing_scopes(scope);
        scopes.push(String::new());
        let of_registries = self.transports.get(DOCKER);
        let found = of_registries.and_then(|all| scopes.iter().find_map(|one| all.get(one)));
        found.unwrap_or(&self.default)
    }

    /// The requirements for an image, from the longest matching scope.
    pub(super) fn of(mut self, image: &PolicySubject) -> Applicable {
        let transport = image.transport();
        if let Some(mut scopes) = self.transports.remove(transport) {
            for scope in image.scopes() {
                if let Some(requirements) = scopes.remove(&scope) {
                    let of_objects = transport == DOCKER && self.of_objects.contains(&scope);
                    let scope = if scope.is_empty() {
                        image.kind().to_owned() + " by default"
                    } else {
                        scope
                    };
                    return Applicable {
                        scope,
                        requirements,
                        of_objects,
                    };
                }
            }
        }
        Applicable {
            scope: "everything by default".to_owned(),
            requirements: self.default,
            of_objects: false,
        }
    }
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
