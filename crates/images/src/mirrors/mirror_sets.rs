//! Applying mirror sets to the rules of `registries.conf`, as the machine-config
//! operator of OpenShift does (`EditRegistriesConfig` of its runtime-utils).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mirrors::matching::Mirrors;
use crate::mirrors::rule::{Mirror, MirrorRule, PullFrom, is_nested};

/// One entry of an `ImageDigestMirrorSet`, `ImageTagMirrorSet` or
/// `ImageContentSourcePolicy`.
#[derive(Debug)]
pub(super) struct MirrorSet {
    pub(super) source: String,
    /// Their locations.
    pub(super) mirrors: Vec<String>,
    pub(super) pull: PullFrom,
    pub(super) blocks_source: bool,
}

impl Mirrors {
    /// Adds mirror sets to the rules of the files. All sets of one source are
    /// merged. What the files say about a registry (`insecure`, `blocked`)
    /// applies to the sources and mirrors below it as well.
    pub(super) fn add_sets(&mut self, sets: &[MirrorSet]) {
        let files = self.rules.clone();
        let insecure = |place: &str| {
            let mut rules = files.values();
            rules.any(|rule| rule.insecure && is_nested(place, &rule.prefix))
        };
        let mut sources: BTreeMap<(PullFrom, &str), Vec<&MirrorSet>> = BTreeMap::new();
        for set in sets {
            // A set without mirrors is none, whatever its policy.
            if set.mirrors.iter().any(|mirror| *mirror != set.source) {
                let merged = sources.entry((set.pull, set.source.as_str())).or_default();
                merged.push(set);
            }
        }
        for (&(pull, source), sets) in &sources {
            let rule = self.rules.entry(source.to_owned());
            let rule = rule.or_insert_with(|| MirrorRule {
                prefix: source.to_owned(),
                location: if source.starts_with('*') {
                    String::new()
                } else {
                    source.to_owned()
                },
                insecure: insecure(source),
                blocked: files
                    .values()
                    .any(|rule| rule.blocked && is_nested(source, &rule.prefix)),
                mirrors: Vec::new(),
            });
            rule.blocked |= sets.iter().any(|set| set.blocks_source);
            let mirrors = merged(source, sets).into_iter().map(|location| Mirror {
                insecure: insecure(location),
                location: location.to_owned(),
                pull,
            });
            rule.mirrors.extend(mirrors);
        }
        // Only the longest prefix applies, so rules below a source need its
        // mirrors as well.
        for (_, source) in sources.into_keys() {
            let mirrors = self.rules.get(source).map(|rule| rule.mirrors.clone());
            let below = self.rules.values_mut().filter(|rule| {
                let rest = rule.prefix.strip_prefix(source);
                rule.mirrors.is_empty() && rest.is_some_and(|rest| rest.starts_with('/'))
            });
            for rule in below {
                rule.mirrors = mirrors.clone().unwrap_or_default();
                for mirror in &mut rule.mirrors {
                    mirror.location += &rule.prefix[source.len()..];
                }
            }
        }
    }
}

/// The mirrors of all sets of a source. Each set's order is kept, if they do not
/// contradict each other; otherwise names decide. The source itself is the last
/// location anyway.
fn merged<'a>(source: &'a str, sets: &[&'a MirrorSet]) -> Vec<&'a str> {
    let mut followers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for set in sets {
        let last = (!set.mirrors.iter().any(|mirror| mirror == source)).then_some(source);
        let chain: Vec<&str> = set.mirrors.iter().map(String::as_str).chain(last).collect();
        for pair in chain.windows(2) {
            followers.entry(pair[1]).or_default();
            followers.entry(pair[0]).or_default().insert(pair[1]);
        }
    }
    let mut predecessors: BTreeMap<&str, usize> = BTreeMap::new();
    for follower in followers.values().flatten() {
        *predecessors.entry(follower).or_default() += 1;
    }
    let mut left: BTreeSet<&str> = followers.keys().copied().collect();
    let free = left
        .iter()
        .filter(|place| !predecessors.contains_key(*place));
    let mut free: VecDeque<&str> = free.copied().collect();
    let mut order = Vec::with_capacity(left.len());
    // A circle is broken at its first name.
    while let Some(place) = free.pop_front().or_else(|| left.first().copied()) {
        left.remove(place);
        order.push(place);
        for follower in &followers[place] {
            let count = predecessors.entry(follower).or_default();
            *count -= 1;
            if *count == 0 && left.contains(follower) {
                free.push_back(follower);
            }
        }
    }
    order.pop_if(|last| *last == source);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(source: &str, sets: &[&[&str]]) -> Vec<String> {
        let sets = sets.iter().map(|mirrors| MirrorSet {
            source: source.to_owned(),
            mirrors: mirrors.iter().map(|mirror| (*mirror).to_owned()).collect(),
            pull: PullFrom::Digest,
            blocks_source: false,
        });
        let sets: Vec<MirrorSet> = sets.collect();
        let sets: Vec<&MirrorSet> = sets.iter().collect();
        merged(source, &sets)
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn the_order_of_each_set_is_kept() {
        assert_eq!(
            order("s", &[&["c", "d", "e"], &["a", "b", "c"]]),
            ["a", "b", "c", "d", "e"]
        );
        assert_eq!(order("s", &[&["b", "a"]]), ["b", "a"]);
        // Without a common mirror they alternate, sorted by name.
        assert_eq!(
            order("s", &[&["x", "a"], &["b", "y"]]),
            ["b", "x", "y", "a"]
        );
    }

    #[test]
    fn contradictions_are_settled_by_name() {
        assert_eq!(order("s", &[&["a", "b"], &["b", "a"]]), ["a", "b"]);
        assert_eq!(order("s", &[&["b", "b", "c"]]), ["b", "c"]);
        // A source before a mirror is a mirror.
        assert_eq!(order("s", &[&["s", "a"]]), ["s", "a"]);
        assert_eq!(order("s", &[&["a", "s"]]), ["a"]);
    }
}
