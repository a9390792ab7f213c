//! Many ranges at once: those that contain a version, without trying each.
//!
//! A range only compares versions with its own. So the versions of all ranges cut the
//! line of versions into parts that a range has as a whole or not at all. Each range
//! stands in a few nodes of a tree over these parts.

use std::cmp::Ordering;

use crate::text::semver::range::Range;
use crate::text::semver::version::Version;

/// Ranges by the versions that they contain. A range is known by its number.
#[derive(Clone, Debug, Default)]
pub struct RangeIndex {
    /// The versions of all ranges, sorted. The part `2 n + 1` is the version `n`, the part
    /// `2 n` lies before it.
    points: Vec<Version>,
    /// The numbers of the ranges that have all parts below a node, in ascending order.
    nodes: Vec<Vec<usize>>,
}

impl RangeIndex {
    /// The index of ranges, which are numbered from 0.
    ///
    /// ```
    /// use fbc::text::semver::{Range, RangeIndex, Version};
    ///
    /// let ranges = [">=1.0.0 <2.0.0", "<1.5.0"].map(|text| Range::parse(text).unwrap());
    /// let index = RangeIndex::new(&ranges);
    /// assert_eq!(index.all(&Version::parse("1.2.0").unwrap()), [0, 1]);
    /// assert_eq!(index.first(&Version::parse("0.9.0").unwrap()), Some(1));
    /// ```
    pub fn new(ranges: &[Range]) -> Self {
        let comparisons = ranges
            .iter()
            .flat_map(|range| &range.alternatives)
            .flatten();
        let mut points: Vec<Version> = comparisons.map(|one| one.version.clone()).collect();
        points.sort_unstable();
        points.dedup();
        let mut index = Self {
            nodes: vec![Vec::new(); 2 * (2 * points.len() + 1)],
            points,
        };
        for (number, range) in ranges.iter().enumerate() {
            for (first, last) in index.parts(range) {
                index.insert(number, first, last);
            }
        }
        index
    }

    /// The lowest number of a range that contains a version.
    pub fn first(&self, version: &Version) -> Option<usize> {
        let nodes = self.nodes_of(version);
        nodes
            .filter_map(|node| self.nodes[node].first())
            .min()
            .copied()
    }

    /// The numbers of the ranges that contain a version, in ascending order.
    pub fn all(&self, version: &Version) -> Vec<usize> {
        let nodes = self.nodes_of(version);
        let mut all: Vec<usize> = nodes.flat_map(|node| &self.nodes[node]).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The same numbers, each of which is also forgotten where it was found. A number may
    /// come again for other versions. So all calls together look at each place of a number
    /// once.
    pub fn take(&mut self, version: &Version) -> Vec<usize> {
        let nodes: Vec<usize> = self.nodes_of(version).collect();
        let taken = nodes
            .iter()
            .map(|node| std::mem::take(&mut self.nodes[*node]));
        let mut all: Vec<usize> = taken.flatten().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The nodes whose ranges contain a version, from the leaf to the root.
    fn nodes_of(&self, version: &Version) -> impl Iterator<Item = usize> + use<> {
        let part = match self.points.binary_search(version) {
            Ok(at) => 2 * at + 1,
            Err(at) => 2 * at,
        };
        let leaf = Some(part + self.nodes.len() / 2).filter(|leaf| *leaf < self.nodes.len());
        std::iter::successors(leaf, |node| Some(node / 2).filter(|node| *node > 0))
    }

    /// The first and the last part of each piece of a range.
    fn parts(&self, range: &Range) -> Vec<(usize, usize)> {
        let mut pieces = Vec::new();
        for all in &range.alternatives {
            let (mut first, mut last) = (0, 2 * self.points.len());
            let mut holes = Vec::new();
            for one in all {
                let Ok(at) = self.points.binary_search(&one.version) else {
                    continue;
                };
                let point = 2 * at + 1;
                let orderings = [Ordering::Less, Ordering::Equal, Ordering::Greater];
                match orderings.map(|ordering| (one.holds)(ordering)) {
                    [true, false, true] => holes.push(point),
                    [below, exactly, above] => {
                        // Nothing is left if no part holds: `last` comes before `first`.
                        if !below {
                            first = first.max(if exactly { point } else { point + 1 });
                        }
                        if !above {
                            last = last.min(if exactly { point } else { point - 1 });
                        }
                    }
                }
            }
            holes.sort_unstable();
            for hole in holes {
                if (first..=last).contains(&hole) {
                    pieces.push((first, hole - 1));
                    first = hole + 1;
                }
            }
            pieces.push((first, last));
        }
        pieces.retain(|(first, last)| first <= last);
        pieces
    }

    /// Notes a range in the few nodes that make up these parts.
    fn insert(&mut self, number: usize, first: usize, last: usize) {
        let leaves = self.nodes.len() / 2;
        let (mut low, mut high) = (first + leaves, last + leaves + 1);
        while low < high {
            if low % 2 == 1 {
                self.nodes[low].push(number);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.nodes[high].push(number);
            }
            low /= 2;
            high /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_index_without_ranges_finds_nothing() {
        let version = Version::parse("1.0.0").unwrap();
        assert_eq!(RangeIndex::new(&[]).first(&version), None);
        assert!(RangeIndex::default().all(&version).is_empty());
    }

    #[test]
    fn a_range_stands_in_few_nodes_and_a_version_is_found_in_few() {
        let ranges: Vec<Range> = (0..500)
            .map(|at| Range::parse(&format!(">={at}.0.0 <{}.0.0", 1_000 - at)).unwrap())
            .collect();
        let index = RangeIndex::new(&ranges);
        // Twice the depth of a tree over 2,001 parts.
        let stored: usize = index.nodes.iter().map(Vec::len).sum();
        assert!(stored <= 500 * 2 * 11, "{stored}");
        let visited = index.nodes_of(&Version::parse("700.5.0").unwrap()).count();
        assert!(visited <= 12, "{visited}");
    }

    #[test]
    fn a_hole_outside_of_a_range_takes_nothing_away() {
        let ranges =
            ["0.0.1 !1.0.0", ">2.0.0 !1.0.0 !3.0.0"].map(|text| Range::parse(text).unwrap());
        let index = RangeIndex::new(&ranges);
        for (version, wanted) in [
            ("0.0.1", Some(0)),
            ("2.5.0", Some(1)),
            ("3.0.0", None),
            ("4.0.0", Some(1)),
        ] {
            assert_eq!(
                index.first(&Version::parse(version).unwrap()),
                wanted,
                "{version}"
            );
        }
    }

    #[test]
    fn what_is_taken_is_looked_at_once() {
        let ranges: Vec<Range> = ["<9.0.0", "<9.0.0", ">=5.0.0"]
            .map(|text| Range::parse(text).unwrap())
            .into();
        let mut index = RangeIndex::new(&ranges);
        let at = |text| Version::parse(text).unwrap();
        assert_eq!(index.take(&at("1.0.0")), [0, 1]);
        assert_eq!(index.take(&at("1.0.0")), [0_usize; 0]);
    }

    fn text() -> impl Strategy<Value = String> {
        let operator = prop::sample::select(vec!["", "!", ">", ">=", "<", "<="]);
        let version =
            prop::sample::select(vec!["0.0.1", "1.0.0-a", "1.0.0", "1.2.0", "2.0.0", "3.0.0"]);
        let comparison =
            (operator, version).prop_map(|(operator, version)| format!("{operator}{version}"));
        let all = prop::collection::vec(comparison, 1..4).prop_map(|all| all.join(" "));
        prop::collection::vec(all, 1..3).prop_map(|any| any.join(" || "))
    }

    proptest! {
        #[test]
        fn an_index_finds_the_ranges_that_contain_a_version(texts in prop::collection::vec(text(), 0..8)) {
            let ranges: Vec<Range> = texts.iter().map(|text| Range::parse(text).unwrap()).collect();
            let index = RangeIndex::new(&ranges);
            for version in ["0.0.0", "0.0.1", "0.5.0", "1.0.0-a", "1.0.0-b", "1.0.0+1", "1.1.0", "1.2.0",
                "2.0.0", "2.5.0", "3.0.0", "4.0.0"] {
                let version = Version::parse(version).unwrap();
                let wanted: Vec<usize> = (0..ranges.len()).filter(|at| ranges[*at].contains(&version)).collect();
                prop_assert_eq!(index.first(&version), wanted.first().copied(), "{:?} {}", &texts, &version);
                prop_assert_eq!(index.all(&version), wanted, "{:?} {}", &texts, &version);
            }
        }
    }
}
