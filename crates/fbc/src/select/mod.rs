//! Selections of catalogs: some packages of them, some channels and versions
//! of those, as an `ImageSetConfiguration` (v2) means them, and what they
//! depend on. The lines of catalogs go in, the lines of a catalog come out,
//! which has no problem that its origins do not have.
//!
//! `request` is what can be asked for, `material` what there is, `channel` cuts
//! a channel, `choice` is what was taken of a package, `dependencies` adds what
//! that needs, `rewrite` makes the lines. `image_set` reads what to select
//! from a file. Getting catalogs and storing the result is left to others.

mod channel;
mod choice;
mod dependencies;
mod error;
pub mod image_set;
mod material;
mod request;
mod rewrite;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;

pub use error::SelectError;
pub use material::{Catalog, Line};
pub use request::{
    ChannelSelection, PackageSelection, Request, RequestError, Selection, VersionRange,
};

use choice::Choice;
use material::Shelf;

/// What a selection came to.
#[derive(Debug, Default)]
pub struct Selected {
    /// The packages, sorted by name; all lines of the catalog where a single
    /// one was taken as it is.
    pub packages: Vec<SelectedPackage>,
    /// The lines that are about no package, each once, in the order of their
    /// catalogs.
    pub others: Vec<Bytes>,
    /// What somebody should know who wrote the selection.
    pub notes: Vec<String>,
}

/// A package and what was taken of it.
#[derive(Debug)]
pub struct SelectedPackage {
    /// Its name.
    pub name: String,
    /// The catalog that it comes from.
    pub catalog: String,
    /// Its lines without line ends, in the order of its catalog.
    pub lines: Vec<Bytes>,
    /// Its bundles, sorted by name.
    pub bundles: Vec<SelectedBundle>,
}

/// A bundle that was taken.
#[derive(Debug)]
pub struct SelectedBundle {
    /// Its name.
    pub name: String,
    /// Its version, as it was written; empty where there is none.
    pub version: String,
    /// Its line.
    pub line: Bytes,
    /// The channels that it was taken for, sorted, and why.
    pub channels: Vec<(String, Reason)>,
}

/// Why a bundle was taken for a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is the channel's head.
    Head,
    /// Its version is in the range.
    InRange,
    /// It is not in the range, but the way from the new head to others leads
    /// over it.
    OnTheWay,
    /// All of the channel was asked for.
    Full,
    /// A bundle needs it.
    Dependency {
        /// The bundle, behind its package.
        of: String,
        /// What that asks for.
        requirement: String,
    },
}

/// The most packages that one note names.
const MAX_NAMES: usize = 20;

/// Selects from catalogs. Where several have a package, the one that stands
/// first in the selection counts.
pub fn select(catalogs: &[Catalog], request: &Request) -> Result<Selected, SelectError> {
    request.check()?;
    let shelves: Vec<Shelf<'_>> = catalogs.iter().map(Shelf::of).collect();
    let mut notes = Vec::new();
    let mut chosen: BTreeMap<&str, Choice<'_>> = BTreeMap::new();
    for selection in &request.selections {
        let from: Vec<usize> = (selection.from.iter().copied())
            .filter(|number| *number < shelves.len())
            .collect();
        if selection.packages.is_empty() {
            choose_all(
                &shelves,
                &from,
                selection.full,
                request.any_default,
                &mut chosen,
                &mut notes,
            )?;
        } else {
            for wanted in &selection.packages {
                let package = find(&shelves, &from, &wanted.name)?;
                let name = package.name;
                let any_default = request.any_default;
                let choice = Choice::of(package, wanted, selection.full, any_default, &mut notes)?;
                if chosen.insert(name, choice).is_some() {
                    return Err(RequestError::PackageInTwo(name.to_owned()).into());
                }
            }
        }
    }
    if request.dependencies {
        dependencies::close(&shelves, &mut chosen, &mut notes);
    }
    if chosen.is_empty() {
        return Err(SelectError::Nothing);
    }
    for choice in chosen.values_mut() {
        choice.settle()?;
    }
    rewrite::write(&shelves, request, chosen, notes)
}

/// Takes every package that is in order, with the heads of all channels or
/// with all entries. What is chosen already hides others of its name.
fn choose_all<'a>(
    shelves: &[Shelf<'a>],
    from: &[usize],
    full: bool,
    any_default: bool,
    chosen: &mut BTreeMap<&'a str, Choice<'a>>,
    notes: &mut Vec<String>,
) -> Result<(), SelectError> {
    for shelf in from.iter().map(|number| &shelves[*number]) {
        let catalog = &shelf.catalog().name;
        let mut hidden = Vec::new();
        for name in shelf.names() {
            if shelf.is_quarantined(name) {
                continue;
            }
            if let Some(choice) = chosen.get(name) {
                if choice.package.catalog != catalog {
                    hidden.push(name);
                }
                continue;
            }
            if let Some(package) = shelf.package(name) {
                let wanted = PackageSelection::named(name);
                let choice = Choice::of(package, &wanted, full, any_default, &mut Vec::new())?;
                chosen.insert(name, choice);
            }
        }
        if !hidden.is_empty() {
            notes.push(format!(
                "these packages come from catalogs that stand before {catalog}, and those of that \
                 name in it are left out: {}",
                some(&hidden)
            ));
        }
    }
    Ok(())
}

/// Names to be shown, the first ones of many.
fn some(names: &[&str]) -> String {
    let shown = names.get(..MAX_NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The package of that name in the first catalog that has it.
fn find<'a>(
    shelves: &[Shelf<'a>],
    from: &[usize],
    name: &str,
) -> Result<Rc<material::Package<'a>>, SelectError> {
    let known = || from.iter().map(|number| &shelves[*number]);
    for shelf in known() {
        if shelf.is_quarantined(name) {
            return Err(SelectError::InvalidPackage {
                package: name.to_owned(),
                catalog: shelf.catalog().name.clone(),
            });
        }
        if let Some(package) = shelf.package(name) {
            return Ok(package);
        }
    }
    let names: Vec<&str> = known().flat_map(Shelf::names).collect();
    let catalogs: Vec<&str> = known().map(|shelf| shelf.catalog().name.as_str()).collect();
    Err(SelectError::UnknownPackage {
        package: name.to_owned(),
        catalogs: catalogs.join(", "),
        proposal: crate::text::suggest::proposal_or_all(name, names),
    })
}
