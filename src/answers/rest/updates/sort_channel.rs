//! The path of OLM v0 beside a second writing of how its resolver sorts a channel
//! (operator-lifecycle-manager, `pkg/controller/registry/resolver`, `sortChannel`), from
//! the documents of a catalog on.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use crate::answers::rest::ordered::OrderedPackage;
use crate::answers::rest::updates::{Installed, path};
use fbc::document::{Blobs, BundleBlob, ChannelBlob, EntryBlob, Located, PackageBlob};
use fbc::text::semver::{Range, Version};

fn name(number: usize) -> String {
    format!("a.v{number}.0.0")
}

fn version(number: usize) -> String {
    format!("{number}.0.0")
}

/// Entries in any order. Each may replace a lower one, also one that is not there, and
/// skip any other; some have ranges. So there may be several heads or none.
fn entries() -> impl Strategy<Value = Vec<EntryBlob>> {
    let number = 0..10_usize;
    let entry = (
        prop::option::weighted(0.8, number.clone()),
        prop::collection::vec(number.clone(), 0..3),
        prop::bool::weighted(0.3),
        prop::option::weighted(0.3, number),
    );
    let entries = prop::collection::vec(entry, 1..10);
    let entries = entries.prop_map(|entries| {
        let entries = entries.into_iter().enumerate();
        let entries = entries.map(|(own, (replaces, skips, has_skips, lowest))| EntryBlob {
            name: name(own),
            replaces: match replaces {
                Some(other) if other < own => name(other),
                // Most often the next one below.
                Some(_) if own > 0 => name(own - 1),
                _ => String::new(),
            },
            skips: skips
                .into_iter()
                .filter(|other| has_skips && *other != own)
                .map(name)
                .collect(),
            skip_range: lowest
                .filter(|lowest| *lowest < own)
                .map_or(String::new(), |lowest| format!(">={lowest}.0.0 <{own}.0.0")),
        });
        entries.collect::<Vec<_>>()
    });
    entries.prop_shuffle()
}

/// The chain of the only head without skipped entries. Nothing where the resolver
/// reports an error: no head, several heads, or a cycle.
fn sort_channel(entries: &[EntryBlob]) -> Option<Vec<&EntryBlob>> {
    let lookup: HashMap<&str, &EntryBlob> =
        entries.iter().map(|entry| (&*entry.name, entry)).collect();
    let mut replaced_by: HashMap<&str, &EntryBlob> = HashMap::new();
    let mut replaces: HashMap<&str, &EntryBlob> = HashMap::new();
    let mut skipped: HashSet<&str> = HashSet::new();
    for entry in entries {
        if let Some(other) = lookup.get(&*entry.replaces) {
            replaced_by.insert(&other.name, entry);
            replaces.insert(&entry.name, other);
        }
        for skip in &entry.skips {
            if lookup.contains_key(&**skip) {
                replaced_by.insert(skip, entry);
                skipped.insert(skip);
            }
        }
    }
    let mut heads = entries
        .iter()
        .filter(|entry| !replaced_by.contains_key(&*entry.name));
    let (Some(head), None) = (heads.next(), heads.next()) else {
        return None;
    };
    let mut chain = Vec::new();
    let mut visited = HashSet::new();
    let mut current = head;
    loop {
        if !visited.insert(&*current.name) {
            return None;
        }
        if !skipped.contains(&*current.name) {
            chain.push(current);
        }
        match replaces.get(&*current.name) {
            Some(next) => current = next,
            None => return Some(chain),
        }
    }
}

/// Step by step, the entry nearest to the head that replaces or skips the installed
/// one, by name or by range, and that is nearer to the head than it.
fn walk(entries: &[EntryBlob], from: usize) -> Vec<&str> {
    let Some(chain) = sort_channel(entries) else {
        return Vec::new();
    };
    let mut installed = (name(from), Version::parse(&version(from)).unwrap());
    let mut steps = Vec::new();
    loop {
        let above = chain.iter().take_while(|entry| entry.name != installed.0);
        let next = above.into_iter().find(|entry| {
            entry.replaces == installed.0
                || entry.skips.contains(&installed.0)
                || Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(&installed.1))
        });
        let Some(next) = next else { return steps };
        steps.push(&*next.name);
        let number = next.name.trim_start_matches("a.v");
        installed = (next.name.clone(), Version::parse(number).unwrap());
    }
}

fn located<T>(blob: T) -> Located<T> {
    Located {
        blob,
        meta: 0,
        file: 0,
        document: 1,
        line: 1,
    }
}

fn blobs(entries: &[EntryBlob]) -> Blobs {
    let bundles = (0..entries.len()).map(|number| {
        located(BundleBlob {
            name: name(number),
            package: "a".into(),
            version: version(number),
            ..BundleBlob::default()
        })
    });
    Blobs {
        packages: vec![located(PackageBlob {
            name: "a".into(),
            default_channel: "stable".into(),
            defects: Vec::new(),
        })],
        channels: vec![located(ChannelBlob {
            name: "stable".into(),
            package: "a".into(),
            entries: entries.to_vec(),
            defects: Vec::new(),
        })],
        bundles: bundles.collect(),
        ..Blobs::default()
    }
}

proptest! {
    #[test]
    fn a_path_of_olm_v0_is_that_of_its_sorted_channel(entries in entries(), from in 0..11_usize) {
        let blobs = blobs(&entries);
        let package = "a".to_owned();
        let package = OrderedPackage::of(&blobs, &package).unwrap();
        let records = package.records(&blobs);
        let start = name(from);
        let installed = Installed {
            name: &start,
            version: Version::parse(&version(from)).ok(),
        };
        let found = path(&records[0], Some(&installed));
        let steps: Vec<&str> = found.steps.iter().map(|step| step.name).collect();
        prop_assert_eq!(steps, walk(&entries, from), "{:?}", entries);
    }
}
