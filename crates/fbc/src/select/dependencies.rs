//! Adds the bundles that selected bundles require.
//!
//! A requirement that a selected bundle meets needs no addition. Otherwise one
//! bundle is added, from the first catalog that has one. Channels that are selected
//! come first, then the default channel, then the others; in a channel the highest
//! version comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::document::Gvk;
use crate::select::choice::Choice;
use crate::select::index::{CatalogIndex, Package};
use crate::select::model::Reason;
use crate::select::requirement::Requirement;
use crate::text::semver::Version;

/// The number of unmet requirements that are reported one by one.
const MAX_NOTES: usize = 100;

/// How good a bundle is that fits: whether its channel is chosen and the bundle
/// not above what is, whether its channel is chosen, whether that is the
/// default one; the version; then the first channel, and the highest place.
type Rank<'v> = (
    bool,
    bool,
    bool,
    Option<&'v Version>,
    Reverse<usize>,
    Reverse<Option<usize>>,
);

/// Adds the dependencies of the chosen bundles, and the dependencies of those.
pub(crate) fn close<'a>(
    indexes: &[CatalogIndex<'a>],
    chosen: &mut BTreeMap<&'a str, Choice<'a>>,
    notes: &mut Vec<String>,
) {
    let mut closing = Closing {
        indexes,
        chosen,
        provided: BTreeSet::new(),
        providers: None,
        visited: BTreeSet::new(),
        left: Vec::new(),
    };
    let packages: Vec<&str> = closing.chosen.keys().copied().collect();
    for package in packages {
        closing.visit(package);
    }
    let mut unmet = 0;
    while let Some((package, bundle)) = closing.left.pop() {
        let Some(choice) = closing.chosen.get(package.as_str()) else {
            continue;
        };
        let package = Rc::clone(&choice.package);
        let Some(found) = package.bundles.get(bundle.as_str()) else {
            continue;
        };
        let of = format!("{} of {}", bundle, package.name);
        for requirement in &found.facts().requires {
            if !closing.meet(requirement, &of) {
                unmet += 1;
                if unmet <= MAX_NOTES {
                    notes.push(format!("{of} {}", requirement.unmet()));
                }
            }
        }
    }
    if unmet > MAX_NOTES {
        notes.push(format!(
            "{} further needs are not met either",
            unmet - MAX_NOTES
        ));
    }
}

struct Closing<'c, 'a> {
    indexes: &'c [CatalogIndex<'a>],
    chosen: &'c mut BTreeMap<&'a str, Choice<'a>>,
    /// The APIs that chosen bundles provide.
    provided: BTreeSet<Gvk>,
    /// For each API the places of packages that provide it, the best first.
    providers: Option<BTreeMap<Gvk, Vec<(usize, &'a str)>>>,
    /// Chosen bundles, by package and name, that were visited.
    visited: BTreeSet<(String, String)>,
    /// Those whose needs have to be met still.
    left: Vec<(String, String)>,
}

/// A bundle that meets a requirement: its package, the channel and the entry there.
type Found<'a> = (Rc<Package<'a>>, usize, usize);

impl<'a> Closing<'_, 'a> {
    /// Notes the new bundles among the chosen ones of a package.
    fn visit(&mut self, package: &str) {
        let Some(choice) = self.chosen.get(package) else {
            return;
        };
        for bundle in choice.bundles() {
            let key = (package.to_owned(), bundle.to_owned());
            if self.visited.contains(&key) {
                continue;
            }
            if let Some(found) = choice.package.bundles.get(bundle) {
                self.provided.extend(found.facts().provides.iter().cloned());
            }
            self.left.push(key.clone());
            self.visited.insert(key);
        }
    }

    /// Makes sure that a requirement is met; whether it is.
    fn meet(&mut self, requirement: &Requirement, of: &str) -> bool {
        if self.is_met(requirement) {
            return true;
        }
        match requirement {
            Requirement::Package { .. } | Requirement::Api(_) => {
                let found = self.find(requirement);
                found
                    .map(|found| self.add(found, requirement, of))
                    .is_some()
            }
            Requirement::All(all) => {
                // Each is met where it can be, also behind one that is not.
                let met: Vec<bool> = all.iter().map(|one| self.meet(one, of)).collect();
                met.into_iter().all(|met| met)
            }
            // Nothing is added for one that would not be met after all.
            Requirement::Any(any) => {
                (any.iter()).any(|one| self.can_be_met(one) && self.meet(one, of))
            }
            Requirement::Other(_) => false,
        }
    }

    /// Whether a requirement is met, or something can be added that meets it.
    fn can_be_met(&mut self, requirement: &Requirement) -> bool {
        match requirement {
            Requirement::Package { .. } | Requirement::Api(_) => {
                self.is_met(requirement) || self.find(requirement).is_some()
            }
            Requirement::All(all) => all.iter().all(|one| self.can_be_met(one)),
            Requirement::Any(any) => any.iter().any(|one| self.can_be_met(one)),
            Requirement::Other(_) => false,
        }
    }

    fn is_met(&self, requirement: &Requirement) -> bool {
        match requirement {
            Requirement::Package { name, range, .. } => {
                let Some(choice) = self.chosen.get(name.as_str()) else {
                    return false;
                };
                choice.bundles().any(|bundle| {
                    let version = choice.package.version(bundle);
                    (range.as_ref().zip(version))
                        .is_some_and(|(range, version)| range.contains(version))
                })
            }
            Requirement::Api(api) => self.provided.contains(api),
            Requirement::All(all) => all.iter().all(|one| self.is_met(one)),
            Requirement::Any(any) => any.iter().any(|one| self.is_met(one)),
            Requirement::Other(_) => false,
        }
    }

    /// Packages that provide an API: by catalog, those that are chosen before
    /// others, then by name.
    fn providers_of(&mut self, api: &Gvk) -> Vec<(usize, &'a str)> {
        let indexes = self.indexes;
        let providers = self.providers.get_or_insert_with(|| all_providers(indexes));
        let mut found = providers.get(api).cloned().unwrap_or_default();
        found.sort_by_key(|(index, name)| (*index, !self.chosen.contains_key(name), *name));
        found
    }

    /// The bundle that meets a requirement best, if one does.
    fn find(&mut self, requirement: &Requirement) -> Option<Found<'a>> {
        match requirement {
            Requirement::Package { name, range, .. } => {
                let range = range.as_ref()?;
                let fits = |_: &Package<'_>, _: &str, version: Option<&Version>| {
                    version.is_some_and(|version| range.contains(version))
                };
                (0..self.indexes.len()).find_map(|index| self.best(index, name, &fits))
            }
            Requirement::Api(api) => {
                let fits = |package: &Package<'_>, bundle: &str, _: Option<&Version>| {
                    let bundle = package.bundles.get(bundle);
                    bundle.is_some_and(|bundle| bundle.facts().provides.contains(api))
                };
                let providers = self.providers_of(api);
                (providers.into_iter())
                    .find_map(|(index, package)| self.best(index, package, &fits))
            }
            Requirement::All(_) | Requirement::Any(_) | Requirement::Other(_) => None,
        }
    }

    /// The best bundle of a package that fits.
    fn best(
        &self,
        place: usize,
        name: &str,
        fits: &dyn Fn(&Package<'_>, &str, Option<&Version>) -> bool,
    ) -> Option<Found<'a>> {
        let package = self.indexes.get(place)?.package(name)?;
        let chosen = self.chosen.get(package.name);
        // One package comes from one catalog.
        if chosen.is_some_and(|choice| choice.package.catalog != package.catalog) {
            return None;
        }
        let mut best: Option<(Rank<'_>, usize, usize)> = None;
        for (number, channel) in package.channels.iter().enumerate() {
            let kept = chosen.and_then(|choice| choice.channels.get(&number));
            let head = kept.and_then(|kept| {
                let places = kept.keys().filter_map(|entry| channel.place(*entry));
                places.min()
            });
            for (entry, blob) in channel.entries.iter().enumerate() {
                let version = package.version(&blob.name);
                if !fits(&package, &blob.name, version) {
                    continue;
                }
                let above = head.is_some_and(|head| channel.place(entry) < Some(head));
                let key = (
                    kept.is_some() && !above,
                    kept.is_some(),
                    channel.name == package.default_channel,
                    version,
                    Reverse(number),
                    Reverse(channel.place(entry)),
                );
                if best.as_ref().is_none_or(|(other, ..)| key > *other) {
                    best = Some((key, number, entry));
                }
            }
        }
        let (_, channel, entry) = best?;
        Some((package, channel, entry))
    }

    /// Adds a bundle that meets a requirement.
    fn add(&mut self, found: Found<'a>, requirement: &Requirement, of: &str) {
        let (package, channel, entry) = found;
        let reason = Reason::Dependency {
            of: of.to_owned(),
            requirement: requirement.shown(),
        };
        let choice = self
            .chosen
            .entry(package.name)
            .or_insert_with(|| Choice::empty(Rc::clone(&package)));
        let kept = choice.channels.entry(channel).or_default();
        package.channels[channel].add(kept, entry, reason);
        self.visit(package.name);
    }
}

fn all_providers<'a>(indexes: &[CatalogIndex<'a>]) -> BTreeMap<Gvk, Vec<(usize, &'a str)>> {
    let mut providers: BTreeMap<Gvk, Vec<(usize, &'a str)>> = BTreeMap::new();
    for (place, index) in indexes.iter().enumerate() {
        for package in index.names().filter_map(|name| index.package(name)) {
            for bundle in package.bundles.values() {
                for api in &bundle.facts().provides {
                    let list = providers.entry(api.clone()).or_default();
                    if list.last() != Some(&(place, package.name)) {
                        list.push((place, package.name));
                    }
                }
            }
        }
    }
    providers
}
