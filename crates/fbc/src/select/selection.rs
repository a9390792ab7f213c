//! Selects packages from catalogs.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::select::choice::Choice;
use crate::select::dependencies;
use crate::select::error::SelectError;
use crate::select::index::{CatalogIndex, Package};
use crate::select::model::{Catalog, Selected};
use crate::select::request::{PackageSelection, Request, RequestError};
use crate::select::rewrite;
use crate::text::display::{MAX_NAMES, first_of};
use crate::text::suggest::proposal_or_all;

/// Selects from catalogs. Where several have a package, the one that stands
/// first in the selection counts.
pub fn select(catalogs: &[Catalog], request: &Request) -> Result<Selected, SelectError> {
    request.check()?;
    let indexes: Vec<CatalogIndex<'_>> = catalogs.iter().map(CatalogIndex::new).collect();
    let mut notes = Vec::new();
    let mut chosen: BTreeMap<&str, Choice<'_>> = BTreeMap::new();
    for selection in &request.selections {
        let from: Vec<usize> = (selection.from.iter().copied())
            .filter(|number| *number < indexes.len())
            .collect();
        if selection.packages.is_empty() {
            choose_all(
                &indexes,
                &from,
                selection.full,
                request.any_default,
                &mut chosen,
                &mut notes,
            )?;
        } else {
            for wanted in &selection.packages {
                let package = find(&indexes, &from, &wanted.name)?;
                let name = package.name;
                let any_default = request.any_default;
                let choice = Choice::new(package, wanted, selection.full, any_default, &mut notes)?;
                if chosen.insert(name, choice).is_some() {
                    return Err(RequestError::PackageInTwo(name.to_owned()).into());
                }
            }
        }
    }
    if request.dependencies {
        dependencies::close(&indexes, &mut chosen, &mut notes);
    }
    if chosen.is_empty() {
        return Err(SelectError::Nothing);
    }
    for choice in chosen.values_mut() {
        choice.complete()?;
    }
    rewrite::write(&indexes, request, chosen, notes)
}

/// Takes every package that is in order, with the heads of all channels or
/// with all entries. A package already chosen hides others of its name.
fn choose_all<'a>(
    indexes: &[CatalogIndex<'a>],
    from: &[usize],
    full: bool,
    any_default: bool,
    chosen: &mut BTreeMap<&'a str, Choice<'a>>,
    notes: &mut Vec<String>,
) -> Result<(), SelectError> {
    for index in from.iter().map(|number| &indexes[*number]) {
        let catalog = &index.catalog.name;
        let mut hidden = Vec::new();
        for name in index.names() {
            if index.is_quarantined(name) {
                continue;
            }
            if let Some(choice) = chosen.get(name) {
                if choice.package.catalog != catalog {
                    hidden.push(name);
                }
                continue;
            }
            if let Some(package) = index.package(name) {
                let wanted = PackageSelection::named(name);
                let choice = Choice::new(package, &wanted, full, any_default, &mut Vec::new())?;
                chosen.insert(name, choice);
            }
        }
        if !hidden.is_empty() {
            notes.push(format!(
                "these packages come from catalogs that stand before {catalog}, and those of that \
                 name in it are left out: {}",
                first_of(hidden.iter(), MAX_NAMES, ", ")
            ));
        }
    }
    Ok(())
}

/// The package of that name in the first catalog that has it.
fn find<'a>(
    indexes: &[CatalogIndex<'a>],
    from: &[usize],
    name: &str,
) -> Result<Rc<Package<'a>>, SelectError> {
    let known = || from.iter().map(|number| &indexes[*number]);
    for index in known() {
        if index.is_quarantined(name) {
            return Err(SelectError::InvalidPackage {
                package: name.to_owned(),
                catalog: index.catalog.name.clone(),
            });
        }
        if let Some(package) = index.package(name) {
            return Ok(package);
        }
    }
    let names: Vec<&str> = known().flat_map(CatalogIndex::names).collect();
    let catalogs: Vec<&str> = known().map(|index| index.catalog.name.as_str()).collect();
    Err(SelectError::UnknownPackage {
        package: name.to_owned(),
        catalogs: catalogs.join(", "),
        proposal: proposal_or_all(name, names),
    })
}
