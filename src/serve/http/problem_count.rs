//! The number of problems that the navigation of pages tells.

use std::borrow::Borrow;

use crate::snapshot::Catalog;

/// How many problems catalogs have, with those of refused content.
pub(super) fn problem_count(catalogs: impl IntoIterator<Item = impl Borrow<Catalog>>) -> usize {
    let catalogs = catalogs.into_iter();
    catalogs
        .map(|catalog| catalog.borrow().problems() + catalog.borrow().refused().len())
        .sum()
}
