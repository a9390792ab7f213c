//! The stored answers about packages, and lookups of bundles, for queries over
//! HTTP.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::answers::index::PackageAnswers;
use crate::answers::rest::facets::FacetRow;
use crate::answers::rest::records::{ChannelRecord, PackageDetails, PackageSummary};
use crate::answers::span::Span;
use crate::snapshot::Snapshot;
use crate::snapshot::slices::slice;
use crate::store::{Damage, Found, StoreError};
use fbc::document::Gvk;

/// The file of stored answers.
const QUERIES: &str = "queries.jsonl";

/// A bundle that provides an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provided<'a> {
    /// Its package.
    pub package: &'a str,
    /// Its name.
    pub bundle: &'a str,
    /// The API.
    pub api: &'a Gvk,
}

impl Snapshot {
    /// All packages, also those with errors, sorted by name.
    pub fn packages(&self) -> &[PackageAnswers] {
        &self.index.queries.packages
    }

    /// The package of that name, whether it has errors or not.
    pub fn package_answers(&self, name: &str) -> Option<&PackageAnswers> {
        let packages = self.packages();
        let at = packages.binary_search_by(|package| (*package.name).cmp(name));
        packages.get(at.ok()?)
    }

    /// Facets of the packages, in the order of [`packages`](Self::packages). It
    /// is made when it is first asked for.
    ///
    /// # Errors
    /// When a stored package cannot be read: the file is damaged.
    pub fn facets(&self) -> Result<&[FacetRow], StoreError> {
        if let Some(facets) = self.facets.get() {
            return Ok(facets);
        }
        let packages = self.packages().iter();
        let rows = packages.map(|package| Ok(FacetRow::new(self.details(package)?)));
        let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        Ok(self.facets.get_or_init(|| rows))
    }

    /// The record of a package in lists.
    ///
    /// # Errors
    /// When the stored record cannot be read: the file is damaged.
    pub fn summary(&self, package: &PackageAnswers) -> Result<PackageSummary<'static>, StoreError> {
        let stored = self.answer(package.summary);
        serde_json::from_slice(&stored).map_err(|error| self.unreadable(&package.name, &error))
    }

    /// The full record of a package.
    ///
    /// # Errors
    /// When the stored record cannot be read: the file is damaged.
    pub fn details(&self, package: &PackageAnswers) -> Result<PackageDetails<'static>, StoreError> {
        let stored = self.answer(package.details);
        serde_json::from_slice(&stored).map_err(|error| self.unreadable(&package.name, &error))
    }

    /// The damage of an answer about a package.
    fn unreadable(&self, package: &str, error: &serde_json::Error) -> StoreError {
        let revision = self.revision().id;
        let reason =
            format!("an answer of revision {revision} about {package:?} cannot be read: {error}");
        let path = QUERIES.into();
        Damage { path, reason }.into()
    }

    /// A stored answer: JSON in one line.
    pub fn answer(&self, span: Span) -> Bytes {
        slice(&self.queries, span)
    }

    /// Reads a stored channel from its answer.
    ///
    /// # Errors
    /// When it cannot be read: the file is damaged.
    pub fn channel_record(answer: &Bytes) -> Result<ChannelRecord<'_>, StoreError> {
        serde_json::from_slice(answer).map_err(|error| {
            let reason = format!("a channel cannot be read: {error}");
            let path = QUERIES.into();
            Damage { path, reason }.into()
        })
    }

    /// The bundles of that name in all packages, by their metas.
    pub fn bundles_named(&self, name: &str) -> Vec<u32> {
        let bundles = &self.meta_lookup.schema("olm.bundle").metas;
        let named = self.meta_lookup.name(&self.index, name);
        let named = named.iter().copied();
        named
            .filter(|meta| bundles.binary_search(meta).is_ok())
            .collect()
    }

    /// The names of all bundles, some more than once.
    pub fn bundle_names(&self) -> impl Iterator<Item = &str> {
        let bundles = self.meta_lookup.schema("olm.bundle").metas.iter();
        bundles.filter_map(|meta| Some(&*self.index.metas.get(*meta as usize)?.name))
    }

    /// The package that a meta names; empty when it names none.
    pub fn package_of(&self, meta: u32) -> &str {
        let meta = self.index.metas.get(meta as usize);
        meta.and_then(|meta| self.index.texts.get(meta.package as usize))
            .map_or("", |package| package)
    }

    /// All APIs that bundles provide, unordered and with duplicates.
    pub fn apis(&self) -> impl Iterator<Item = &Gvk> {
        let served = self.index.providers.iter().map(|provider| &provider.api);
        let others = self.index.queries.quarantined_apis.iter();
        served.chain(others.map(|quarantined| &quarantined.api))
    }

    /// The bundles that provide an API that `wanted` accepts, sorted, each once
    /// per API.
    pub fn provided(&self, wanted: impl Fn(&Gvk) -> bool) -> Vec<Provided<'_>> {
        let mut found = Vec::new();
        for provider in &self.index.providers {
            if !wanted(&provider.api) {
                continue;
            }
            found.extend(provider.bundles.iter().filter_map(|bundle| {
                let at = self.entry_lookup.entries_of(*bundle).first()?;
                Some(Provided {
                    package: &self.index.packages.get(at.package as usize)?.name,
                    bundle: &self.index.bundles.get(*bundle as usize)?.name,
                    api: &provider.api,
                })
            }));
        }
        for quarantined in &self.index.queries.quarantined_apis {
            if wanted(&quarantined.api)
                && let Some(package) = self.packages().get(quarantined.package as usize)
            {
                found.push(Provided {
                    package: &package.name,
                    bundle: &quarantined.bundle,
                    api: &quarantined.api,
                });
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The APIs that each bundle of a package provides, by the name of the bundle.
    pub fn apis_of(&self, package: &str) -> HashMap<&str, BTreeSet<&Gvk>> {
        let mut found: HashMap<&str, BTreeSet<&Gvk>> = HashMap::new();
        let packages = self.index.packages.iter();
        let served = packages.zip(0_u32..).find(|(one, _)| *one.name == *package);
        if let Some((_, number)) = served {
            let is_own = |bundle: u32| {
                let entries = self.entry_lookup.entries_of(bundle);
                entries.first().is_some_and(|at| at.package == number)
            };
            for provider in &self.index.providers {
                let own = provider.bundles.iter().filter(|bundle| is_own(**bundle));
                for bundle in own.filter_map(|bundle| self.index.bundles.get(*bundle as usize)) {
                    found.entry(&bundle.name).or_default().insert(&provider.api);
                }
            }
        }
        for quarantined in &self.index.queries.quarantined_apis {
            let of = self.packages().get(quarantined.package as usize);
            if of.is_some_and(|of| *of.name == *package) {
                let apis = found.entry(&quarantined.bundle).or_default();
                apis.insert(&quarantined.api);
            }
        }
        found
    }

    /// The packages with words that begin with each of `words`, by their indexes in
    /// [`packages`](Self::packages), the best first. `None` when the revision was
    /// replaced meanwhile: its catalog has a newer snapshot.
    pub async fn search(
        self: &Arc<Self>,
        words: &[&str],
    ) -> Result<Option<Vec<Found>>, StoreError> {
        self.searcher.search(words).await
    }
}
