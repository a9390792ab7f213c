//! Finding the locations of an image by the rules.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::mirrors::remarks::FileRemark;
use crate::mirrors::rule::{MirrorRule, PullFrom, shown};
use crate::reference::Reference;

/// The rules of all files. The default has no rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// The rules by their prefixes.
    pub(super) rules: BTreeMap<String, MirrorRule>,
    pub(super) remarks: Vec<FileRemark>,
    /// The names in `credential-helpers`, and their file.
    pub(crate) credential_helpers: Option<(PathBuf, Vec<String>)>,
}

/// A location to pull an image from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullLocation {
    /// The image, with its name at the location.
    pub reference: Reference,
    /// Whether any certificate is accepted, and plain http.
    pub insecure: bool,
    /// Whether it is a mirror, and not the image's own location.
    pub is_mirror: bool,
    /// The blocked prefix, if pulling from the location is forbidden.
    pub blocked: Option<String>,
}

/// A rewritten name that is no valid reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLocation {
    /// The rewritten name.
    pub text: String,
    /// Why it is no reference.
    pub problem: String,
}

impl Mirrors {
    /// The remarks on the files.
    pub(crate) fn remarks(&self) -> &[FileRemark] {
        &self.remarks
    }

    /// The locations of an image in order: its mirrors, then its own.
    pub fn locations(&self, reference: &Reference) -> Vec<Result<PullLocation, InvalidLocation>> {
        let name = reference.to_string();
        let Some((rule, length)) = self.find(&reference.name()) else {
            return vec![Ok(PullLocation {
                reference: reference.clone(),
                insecure: false,
                is_mirror: false,
                blocked: None,
            })];
        };
        let by_digest = reference.digest().is_some();
        let mirrors = rule.mirrors.iter().filter(|mirror| match mirror.pull {
            PullFrom::All => true,
            PullFrom::Digest => by_digest,
            PullFrom::Tag => !by_digest,
        });
        let mirrors = mirrors.map(|mirror| (&mirror.location, mirror.insecure, true));
        let own = (&rule.location, rule.insecure, false);
        let mut locations = Vec::new();
        for (location, insecure, is_mirror) in mirrors.chain([own]) {
            let text = match location.as_str() {
                "" => name.clone(),
                location => format!("{location}{}", &name[length..]),
            };
            let location = match text.parse::<Reference>() {
                Err(error) => Err(InvalidLocation {
                    text: shown(&text),
                    problem: error.to_string(),
                }),
                Ok(reference) => {
                    let there = self.find(&reference.name()).map(|(rule, _)| rule);
                    Ok(PullLocation {
                        reference,
                        insecure,
                        is_mirror,
                        blocked: there
                            .filter(|rule| rule.blocked)
                            .or((!is_mirror && rule.blocked).then_some(rule))
                            .map(|rule| rule.prefix.clone()),
                    })
                }
            };
            // A repeated location is tried once.
            if !locations.contains(&location) {
                locations.push(location);
            }
        }
        locations
    }

    /// The rule with the longest prefix of a name, and the length of the match.
    /// Of equal lengths a host comes before a wildcard.
    fn find(&self, name: &str) -> Option<(&MirrorRule, usize)> {
        let matching = self.rules.values();
        let matching = matching.filter_map(|rule| Some((rule, matched(name, &rule.prefix)?)));
        matching.max_by_key(|(rule, _)| (rule.prefix.len(), !rule.prefix.starts_with('*')))
    }
}

/// The length that a prefix matches of a name (`HOST[:PORT]/REPOSITORY`). It has
/// to end at the end of a part.
fn matched(name: &str, prefix: &str) -> Option<usize> {
    let length = match prefix.strip_prefix('*') {
        None => {
            name.strip_prefix(prefix)?;
            prefix.len()
        }
        Some(domain) => {
            let at = name.find(domain)?;
            if at == 0 || name[..at].contains('/') {
                return None;
            }
            at + domain.len()
        }
    };
    let ends = name[length..].is_empty() || name[length..].starts_with([':', '/']);
    ends.then_some(length)
}
