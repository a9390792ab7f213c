//! The deprecations of a package: whether each says what it deprecates and
//! why, once, and of something that is there.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::document::DeprecationBlob;
use crate::graph::group::{Group, is_malformed};
use crate::graph::names::Names;
use crate::graph::report::{About, Report};
use crate::problem::Code;
use crate::text::display::quoted;

/// Deprecated objects, with the reasons.
#[derive(Default)]
pub(crate) struct Deprecations<'a> {
    /// The package.
    pub(crate) package: Option<&'a str>,
    /// Channels by name.
    pub(crate) channels: HashMap<&'a str, &'a str>,
    /// Bundles by their index in the catalog's.
    pub(crate) bundles: BTreeMap<usize, String>,
}

/// Checks the deprecations of a package.
pub(crate) fn check<'a>(
    group: &Group<'a>,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Deprecations<'a> {
    let mut deprecations = Deprecations::default();
    let mut seen = HashSet::new();
    for (number, located) in group.deprecations().enumerate() {
        if number > 0 {
            let text = "stand in more than one olm.deprecations blob; make them one";
            let code = Code::DeprecationDuplicate;
            report.error(code, About::Deprecations, located, text);
        }
        if located.blob.entries.is_empty() && located.blob.defects.is_empty() {
            let text = "have no entries, so they deprecate nothing; add entries or remove the blob";
            let code = Code::DeprecationWithoutEffect;
            report.warning(code, About::Deprecations, located, text);
        }
        for (position, entry) in located.blob.entries.iter().enumerate() {
            // A malformed blob may have lost the missing value.
            let whole = !entry.schema.is_empty()
                && !entry.message.is_empty()
                && (entry.schema == "olm.package" || !entry.name.is_empty());
            if !whole && is_malformed(&located.blob.defects) {
                continue;
            }
            let mut error = |code, text: &str| {
                report.error(code, About::Deprecations, located, text);
            };
            if entry.message.is_empty() {
                let text = format!("have no message in entries[{position}]; say why");
                error(Code::DeprecationInvalid, &text);
            }
            if let Err((code, text)) = deprecations.add(entry, names) {
                error(code, &format!("in entries[{position}] {text}"));
            } else if !seen.insert((entry.schema.as_str(), entry.name.as_str())) {
                let text = format!(
                    "name {} {} more than once; keep one of them",
                    entry.schema,
                    quoted(&entry.name)
                );
                error(Code::DeprecationDuplicate, &text);
            }
        }
    }
    deprecations
}

impl<'a> Deprecations<'a> {
    /// Adds a deprecation, or says why it cannot be.
    fn add(&mut self, entry: &'a DeprecationBlob, names: &Names<'_>) -> Result<(), (Code, String)> {
        let name = entry.name.as_str();
        match entry.schema.as_str() {
            "olm.package" => {
                if !name.is_empty() {
                    let text = format!(
                        "name the package as {}; leave the name of an olm.package away",
                        quoted(name)
                    );
                    return Err((Code::DeprecationInvalid, text));
                }
                self.package = Some(&entry.message);
            }
            "olm.channel" => {
                if !names.channels.contains_key(name) && names.complete {
                    return Err((Code::DeprecationUnknown, unknown("channel", name)));
                }
                self.channels.insert(name, &entry.message);
            }
            "olm.bundle" => {
                if let Some(bundle) = names.bundles.get(name) {
                    self.bundles.insert(*bundle, entry.message.clone());
                } else if names.complete {
                    return Err((Code::DeprecationUnknown, unknown("bundle", name)));
                }
            }
            "" => {
                let text = "do not say what they deprecate; set the reference's \"schema\"";
                return Err((Code::DeprecationInvalid, text.to_owned()));
            }
            schema => {
                let text = format!(
                    "have a reference with schema {}, which cannot be deprecated; use \
                     olm.package, olm.channel or olm.bundle",
                    quoted(schema)
                );
                return Err((Code::DeprecationInvalid, text));
            }
        }
        Ok(())
    }
}

fn unknown(kind: &str, name: &str) -> String {
    format!(
        "name the {kind} {}, which the package does not have; correct the name or remove them",
        quoted(name)
    )
}
