//! The contents of `policy.json`: every requirement with all rules about its
//! shape, whatever its scope. A file is refused when the tools for containers
//! refuse it.

mod fields;
mod members;
mod requirement;
mod scopes;
mod sigstore;

use std::collections::BTreeMap;

use members::{Json, shown};

use crate::policy::parse::scopes::check_scope;
use crate::policy::subject::PolicySubject;

pub(super) use requirement::Requirement;
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
