//! Drawings of a package's upgrade graph: which version leads to which.
//!
//! What is drawn is decided here, once for all forms; `mermaid` and `svg` write
//! it down, `layout` gives each box of the latter its place.

mod layout;
mod mermaid;
mod svg;

use std::collections::{HashMap, HashSet};

use fbc::document::{Blobs, ChannelBlob};
use fbc::graph::{Chains, Survey};

/// The upgrade graph of a package, or of one channel of it: as its blobs have
/// it, for with errors it is most wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing<'a> {
    package: &'a str,
    deprecated: bool,
    channels: Vec<Column<'a>>,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column<'a> {
    name: &'a str,
    default: bool,
    deprecated: bool,
    /// The channel's entries by their names, then what they name besides.
    nodes: Vec<Node<'a>>,
    /// The nodes of the heads: one where the channel is in order.
    heads: Vec<usize>,
    edges: Vec<Edge>,
}

/// Something that can be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about a node that do not depend on each other"
)]
struct Node<'a> {
    name: &'a str,
    skip_range: &'a str,
    deprecated: bool,
    /// Whether the channel has it. Others may still be installed, from another
    /// channel or an older catalog.
    present: bool,
    /// Whether nothing replaces or skips it.
    head: bool,
    /// Whether it is another head than the only one.
    rival: bool,
    /// Whether no head leads to it.
    stranded: bool,
    /// Whether it leads back to itself.
    in_cycle: bool,
}

/// An upgrade, as indices of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    from: usize,
    to: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Replaces,
    Skips,
}

impl<'a> Drawing<'a> {
    /// Draws all channels of a package, or those of that name; `None` when
    /// there is no such channel.
    pub fn new(blobs: &'a Blobs, package: &'a str, channel: Option<&str>) -> Option<Self> {
        let blob = blobs.packages.iter().find(|one| one.blob.name == package);
        let default = blob.map(|located| located.blob.default_channel.as_str());
        let reasons = (blobs.deprecations.iter())
            .filter(|located| located.blob.package == package)
            .flat_map(|located| &located.blob.entries)
            .map(|entry| (entry.schema.as_str(), entry.name.as_str()));
        let deprecated: HashSet<(&str, &str)> = reasons.collect();
        let channels = blobs.channels.iter().map(|located| &located.blob);
        let mut channels: Vec<&ChannelBlob> = channels
            .filter(|each| each.package == package)
            .filter(|each| channel.is_none_or(|name| name == each.name))
            .collect();
        channels.sort_by(|one, other| one.name.cmp(&other.name));
        if channels.is_empty() && channel.is_some() {
            return None;
        }
        let columns = channels.into_iter().map(|channel| Column {
            default: default == Some(channel.name.as_str()),
            deprecated: deprecated.contains(&("olm.channel", channel.name.as_str())),
            ..column(channel, &deprecated)
        });
        Some(Self {
            package,
            deprecated: deprecated.contains(&("olm.package", "")),
            channels: columns.collect(),
        })
    }

    /// The drawing as a flow chart of Mermaid. Arrows lead from what is
    /// installed to what it is upgraded to.
    pub fn mermaid(&self) -> String {
        mermaid::write(self)
    }

    /// The drawing as an SVG document that needs nothing else. Arrows lead from
    /// what is installed to what it is upgraded to; heads are on top.
    pub fn svg(&self) -> String {
        svg::write(self)
    }
}

impl Node<'_> {
    /// What else there is to say of a node, as words.
    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = [
            (self.head && self.rival, "one of several heads"),
            (self.head && !self.rival, "head"),
            (self.in_cycle, "in a cycle"),
            (self.stranded, "no head leads here"),
            (self.deprecated, "deprecated"),
            (!self.present, "not in this channel"),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, remark)| remark.to_owned())
        .collect();
        if !self.skip_range.is_empty() {
            remarks.push(format!("skips {}", self.skip_range));
        }
        remarks
    }

    /// Whether the channel is not valid because of it.
    fn is_wrong(&self) -> bool {
        self.rival || self.stranded || self.in_cycle
    }
}

impl Column<'_> {
    fn title(&self) -> String {
        let mut title = self.name.to_owned();
        if self.default {
            title.push_str(" (default)");
        }
        if self.deprecated {
            title.push_str(" (deprecated)");
        }
        title
    }
}

fn column<'a>(channel: &'a ChannelBlob, deprecated: &HashSet<(&str, &str)>) -> Column<'a> {
    let entries = &channel.entries;
    let Survey {
        heads,
        stranded,
        cycles,
    } = Chains::of(entries).survey();
    let several = heads.len() > 1;
    let [heads, stranded, in_cycle]: [HashSet<usize>; 3] = [
        heads.into_iter().collect(),
        stranded.into_iter().collect(),
        cycles.into_iter().flatten().collect(),
    ];
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|number| &entries[*number].name);
    // Of entries with one name the first counts.
    order.dedup_by_key(|number| &entries[*number].name);
    let mut nodes: Vec<Node<'a>> = (order.iter())
        .map(|number| Node {
            name: &entries[*number].name,
            skip_range: &entries[*number].skip_range,
            deprecated: deprecated.contains(&("olm.bundle", entries[*number].name.as_str())),
            present: true,
            head: heads.contains(number),
            rival: several && heads.contains(number),
            stranded: stranded.contains(number),
            in_cycle: in_cycle.contains(number),
        })
        .collect();
    let mut numbers: HashMap<&'a str, usize> = (nodes.iter().enumerate())
        .map(|(number, node)| (node.name, number))
        .collect();
    let mut edges = Vec::new();
    let mut seen = HashSet::new();
    for (to, number) in order.iter().enumerate() {
        let entry = &entries[*number];
        let replaces = Some(&entry.replaces).filter(|name| !name.is_empty());
        let named = replaces.map(|name| (name, Kind::Replaces)).into_iter();
        let skipped = entry.skips.iter().map(|name| (name, Kind::Skips));
        for (name, kind) in named.chain(skipped) {
            let from = *numbers.entry(name).or_insert_with(|| {
                nodes.push(Node {
                    name,
                    skip_range: "",
                    deprecated: false,
                    present: false,
                    head: false,
                    rival: false,
                    stranded: false,
                    in_cycle: false,
                });
                nodes.len() - 1
            });
            // Often the same entry is both replaced and skipped.
            if from != to && seen.insert((from, to)) {
                edges.push(Edge { from, to, kind });
            }
        }
    }
    let heads = nodes.iter().enumerate().filter(|(_, node)| node.head);
    Column {
        name: &channel.name,
        default: false,
        deprecated: false,
        heads: heads.map(|(number, _)| number).collect(),
        nodes,
        edges,
    }
}

/// Package `etcd` for the tests of all forms.
#[cfg(test)]
fn sample() -> Blobs {
    use fbc::document::{DeprecationBlob, DeprecationsBlob, EntryBlob, Located, PackageBlob};

    fn at<T>(blob: T) -> Located<T> {
        Located {
            blob,
            meta: 0,
            file: 0,
            document: 1,
            line: 1,
        }
    }
    let entry = |name: &str, replaces: &str, skips: &[&str], skip_range: &str| EntryBlob {
        name: name.into(),
        replaces: replaces.into(),
        skips: skips.iter().map(|skip| (*skip).to_owned()).collect(),
        skip_range: skip_range.into(),
    };
    let channel = |name: &str, entries: Vec<EntryBlob>| {
        at(ChannelBlob {
            name: name.into(),
            package: "etcd".into(),
            entries,
            defects: Vec::new(),
        })
    };
    let deprecation = |schema: &str, name: &str| DeprecationBlob {
        schema: schema.into(),
        name: name.into(),
        message: "Old.".into(),
    };
    Blobs {
        packages: vec![at(PackageBlob {
            name: "etcd".into(),
            default_channel: "stable".into(),
            defects: Vec::new(),
        })],
        channels: vec![
            channel("alpha", vec![entry("etcd.v2", "", &[], ">=1.0.0 <2.0.0")]),
            channel(
                "stable",
                vec![
                    entry("etcd.v1.0", "etcd.v0.9", &[], ""),
                    entry("etcd.v1.1", "etcd.v1.0", &["etcd.v1.0"], ""),
                    entry("etcd.v1.1-bad", "etcd.v1.0", &[], ""),
                    entry("etcd.v2", "etcd.v1.1", &["etcd.v1.0", "etcd.v1.1-bad"], ""),
                ],
            ),
        ],
        deprecations: vec![at(DeprecationsBlob {
            package: "etcd".into(),
            entries: vec![
                deprecation("olm.channel", "alpha"),
                deprecation("olm.bundle", "etcd.v1.0"),
            ],
            defects: Vec::new(),
        })],
        ..Blobs::default()
    }
}

/// The same with two heads, a cycle, and as deprecated as a whole.
#[cfg(test)]
fn broken_sample() -> Blobs {
    let mut blobs = sample();
    blobs.channels.remove(0);
    let entries = &mut blobs.channels[0].blob.entries;
    entries.truncate(2);
    entries[0].replaces = "etcd.v1.1".into();
    entries[1].skips.clear();
    for name in ["etcd.v3", "etcd.v4"] {
        let mut entry = entries[0].clone();
        entry.name = name.into();
        entry.replaces.clear();
        entries.push(entry);
    }
    let deprecations = &mut blobs.deprecations[0].blob.entries;
    deprecations[0].schema = "olm.package".into();
    deprecations[0].name.clear();
    blobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upgrade_is_drawn_once() {
        let blobs = sample();
        let drawing = Drawing::new(&blobs, "etcd", Some("stable")).unwrap();
        let [column] = &drawing.channels[..] else {
            panic!("{drawing:?}");
        };
        let names: Vec<&str> = column.nodes.iter().map(|node| node.name).collect();
        assert_eq!(names[4..], ["etcd.v0.9"]);
        assert!(!column.nodes[4].present);
        let edges: Vec<_> = column
            .edges
            .iter()
            .map(|edge| (edge.from, edge.to, edge.kind))
            .collect();
        assert_eq!(
            edges,
            [
                (4, 0, Kind::Replaces),
                (0, 1, Kind::Replaces),
                (0, 2, Kind::Replaces),
                (1, 3, Kind::Replaces),
                (0, 3, Kind::Skips),
                (2, 3, Kind::Skips),
            ]
        );
    }

    #[test]
    fn an_unknown_channel_is_no_drawing() {
        let blobs = sample();
        let drawn = |channel| Drawing::new(&blobs, "etcd", channel);
        assert_eq!(drawn(Some("beta")), None);
        assert_eq!(drawn(None).unwrap().channels.len(), 2);
    }

    #[test]
    fn what_makes_a_channel_invalid_is_marked() {
        let blobs = broken_sample();
        let drawing = Drawing::new(&blobs, "etcd", None).unwrap();
        let [column] = &drawing.channels[..] else {
            panic!("{drawing:?}");
        };
        let remarks: Vec<String> = (column.nodes.iter())
            .map(|node| node.remarks().join(", "))
            .collect();
        assert_eq!(
            remarks,
            [
                "in a cycle, no head leads here, deprecated",
                "in a cycle, no head leads here",
                "one of several heads",
                "one of several heads",
            ]
        );
        assert_eq!(column.heads, [2, 3]);
        assert!(drawing.deprecated);
    }
}
