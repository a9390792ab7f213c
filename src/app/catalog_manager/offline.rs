//! Catalogs that are available in offline mode.

use std::collections::BTreeSet;

use crate::ingest::{Followed, Source};
use crate::name::CatalogName;

/// The catalogs with a stored revision, and the curated ones that can be made
/// from these. Each item says whether its catalog has a stored revision.
pub(super) fn available(catalogs: &[(Followed, bool)]) -> BTreeSet<CatalogName> {
    let stored = catalogs.iter().filter(|(_, is_stored)| *is_stored);
    let mut names: BTreeSet<CatalogName> =
        stored.map(|(followed, _)| followed.name.clone()).collect();
    loop {
        let known = names.len();
        for (followed, _) in catalogs {
            if can_be_curated(followed, &names) {
                names.insert(followed.name.clone());
            }
        }
        if names.len() == known {
            return names;
        }
    }
}

/// Whether a catalog is curated and all its origins are `available`.
pub(super) fn can_be_curated(followed: &Followed, available: &BTreeSet<CatalogName>) -> bool {
    match &followed.source {
        Source::Curated(curation) => curation.from.iter().all(|name| available.contains(name)),
        _ => false,
    }
}
