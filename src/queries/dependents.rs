//! The packages of a catalog whose newest version needs a package.

use std::collections::HashSet;

use crate::answers::index::PackageAnswers;
use crate::queries::records::dependencies::Dependent;
use crate::snapshot::Snapshot;
use crate::store::StoreError;
use fbc::document::Gvk;

/// The packages of a catalog that need a package, by name or by an API that the head of
/// its default channel provides.
pub(crate) fn dependents<'a>(
    snapshot: &'a Snapshot,
    package: &PackageAnswers,
) -> Result<Vec<Dependent<'a>>, StoreError> {
    let own = snapshot.details(package)?.provided_apis;
    let own: HashSet<&Gvk> = own.iter().collect();
    let needs = snapshot.needs()?.iter();
    let others = needs.filter(|needs| needs.package != package.name);
    let found = others.filter_map(|needs| {
        let mut named = needs.packages.iter();
        let range = named.find(|(name, _)| **name == *package.name);
        let apis: Vec<&Gvk> = needs.apis.iter().filter(|api| own.contains(api)).collect();
        (range.is_some() || !apis.is_empty()).then_some(Dependent {
            package: &needs.package,
            bundle: &needs.bundle,
            version: &needs.version,
            range: range.map(|(_, range)| range.as_str()),
            apis,
        })
    });
    Ok(found.collect())
}
