//! `registries.conf` as OpenShift's machine-config operator writes it from
//! mirror sets.
//!
//! Its rules: the entries for one source are merged by sorting the graph of
//! their orders, whose last node is the source; an entry that names no mirror
//! but the source itself is ignored; one entry that forbids the source blocks
//! it; mirrors by digest come before mirrors by tag; and insecure registries
//! hold for mirrors below them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

/// The use of an entry of a mirror set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Digest,
    Tag,
}

/// An entry of a mirror set.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) source: String,
    pub(super) mirrors: Vec<String>,
    pub(super) never_source: bool,
}

/// A registry as it is written.
#[derive(Default)]
struct Registry {
    insecure: bool,
    blocked: bool,
    mirrors: Vec<(String, Kind)>,
}

/// The file for the entries of all objects.
pub(super) fn render(entries: &[Entry], insecure: &[&str]) -> String {
    let mut registries: Vec<(String, Registry)> = Vec::new();
    for kind in [Kind::Digest, Kind::Tag] {
        let mut sources: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            if entry.mirrors.iter().any(|mirror| *mirror != entry.source) {
                sources.entry(&entry.source).or_default().push(entry);
            }
        }
        for (source, entries) in sources {
            let registry = registry(&mut registries, source);
            registry.blocked |= entries.iter().any(|entry| entry.never_source);
            let mirrors = merged(source, &entries);
            registry
                .mirrors
                .extend(mirrors.into_iter().map(|mirror| (mirror, kind)));
        }
    }
    for scope in insecure {
        registry(&mut registries, scope).insecure = true;
        for (name, registry) in &mut registries {
            registry.insecure |= is_below(name, scope);
        }
    }
    let mut text = String::new();
    for (name, registry) in &registries {
        let key = if name.starts_with("*.") {
            "prefix"
        } else {
            "location"
        };
        writeln!(text, "[[registry]]\n{key} = {name:?}").unwrap();
        writeln!(text, "blocked = {}", registry.blocked).unwrap();
        writeln!(text, "insecure = {}", registry.insecure).unwrap();
        for (mirror, kind) in &registry.mirrors {
            let pull = match kind {
                Kind::Digest => "digest-only",
                Kind::Tag => "tag-only",
            };
            let is_insecure = insecure.iter().any(|scope| is_below(mirror, scope));
            writeln!(text, "[[registry.mirror]]\nlocation = {mirror:?}").unwrap();
            writeln!(
                text,
                "pull-from-mirror = {pull:?}\ninsecure = {is_insecure}"
            )
            .unwrap();
        }
    }
    text
}

fn registry<'a>(registries: &'a mut Vec<(String, Registry)>, name: &str) -> &'a mut Registry {
    let at = registries.iter().position(|(there, _)| there == name);
    let at = at.unwrap_or_else(|| {
        registries.push((name.to_owned(), Registry::default()));
        registries.len() - 1
    });
    &mut registries[at].1
}

/// Whether a name is in the scope of another.
fn is_below(name: &str, scope: &str) -> bool {
    if let Some(domain) = scope.strip_prefix('*') {
        let host = name.split(['/', ':']).next().unwrap_or_default();
        return name == scope || host.ends_with(domain);
    }
    let rest = name.strip_prefix(scope);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The mirrors of all entries in an order that each of them agrees with, if
/// there is one.
fn merged(source: &str, entries: &[&Entry]) -> Vec<String> {
    let mut after: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut edge = |from, to| {
        after.entry(to).or_default();
        after.entry(from).or_default().insert(to);
    };
    for entry in entries {
        for pair in entry.mirrors.windows(2) {
            edge(pair[0].as_str(), pair[1].as_str());
        }
        if !entry.mirrors.iter().any(|mirror| mirror == source) {
            edge(entry.mirrors.last().unwrap(), source);
        }
    }
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, successors) in &after {
        before.entry(from).or_default();
        for to in successors {
            before.entry(to).or_default().insert(from);
        }
    }
    let free = before.iter().filter(|(_, before)| before.is_empty());
    let mut free: VecDeque<&str> = free.map(|(name, _)| *name).collect();
    let mut left: BTreeSet<&str> = after.keys().copied().collect();
    let mut sorted = Vec::new();
    // A circle is broken at its first name.
    while let Some(name) = free.pop_front().or_else(|| left.first().copied()) {
        left.remove(name);
        sorted.push(name.to_owned());
        for next in &after[name] {
            let before = before.get_mut(next).unwrap();
            before.remove(name);
            if before.is_empty() && left.contains(next) {
                free.push_back(next);
            }
        }
    }
    // The source is asked last in any case.
    if sorted.last().is_some_and(|last| last == source) {
        sorted.pop();
    }
    sorted
}

#[test]
fn mirrors_are_merged_in_the_order_of_each_object() {
    let entry = |mirrors: &[&str]| Entry {
        kind: Kind::Digest,
        source: "source".to_owned(),
        mirrors: mirrors.iter().map(|mirror| (*mirror).to_owned()).collect(),
        never_source: false,
    };
    for (entries, expected) in [
        (
            vec![entry(&["a", "b", "c"]), entry(&["c", "d", "e"])],
            "a b c d e",
        ),
        (vec![entry(&["z", "b"]), entry(&["b", "a"])], "z b a"),
        (vec![entry(&["b"]), entry(&["a"])], "a b"),
        (vec![entry(&["a", "b"]), entry(&["b", "a"])], "a b"),
        (vec![entry(&["source", "a"])], "source a"),
    ] {
        let entries: Vec<&Entry> = entries.iter().collect();
        assert_eq!(merged("source", &entries).join(" "), expected);
    }
}
