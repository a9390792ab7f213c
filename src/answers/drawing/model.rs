//! The upgrade graph of a package, as all drawings show it.

use std::collections::{HashMap, HashSet};

use fbc::document::{Blobs, ChannelBlob};
use fbc::graph::{Chains, Survey};

/// The classes of nodes.
pub(super) const CLASSES: [&str; 4] = ["head", "deprecated", "absent", "wrong"];

/// The upgrade graph of a package, or of one of its channels. It is made from the
/// blobs, so packages with errors can be drawn too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing<'a> {
    pub(super) package: &'a str,
    pub(super) deprecated: bool,
    pub(super) channels: Vec<Column<'a>>,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) default: bool,
    pub(super) deprecated: bool,
    /// The channel's entries by name, then other names that entries refer to.
    pub(super) nodes: Vec<Node<'a>>,
    /// The nodes of the heads. A valid channel has one.
    pub(super) heads: Vec<usize>,
    pub(super) edges: Vec<DrawnEdge>,
}

/// A bundle in a channel.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a node"
)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) skip_range: &'a str,
    pub(super) deprecated: bool,
    /// Whether the channel has it. Other bundles may be installed from another
    /// channel or an older catalog.
    pub(super) present: bool,
    /// Whether nothing replaces or skips it.
    pub(super) head: bool,
    /// Whether it is one of several heads.
    pub(super) rival: bool,
    /// Whether no head leads to it.
    pub(super) stranded: bool,
    /// Whether it leads back to itself.
    pub(super) in_cycle: bool,
}

/// An upgrade, as indices of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawnEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: EdgeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeKind {
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
}

impl Drawing<'_> {
    /// The remark about a deprecated package.
    pub(super) fn mark(&self) -> &'static str {
        if self.deprecated { " (deprecated)" } else { "" }
    }
}

impl Node<'_> {
    /// Remarks about the node, each in a few words.
    pub(super) fn remarks(&self) -> Vec<String> {
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

    /// The classes that decide its look.
    pub(super) fn classes(&self) -> impl Iterator<Item = &'static str> {
        let is_wrong = self.rival || self.stranded || self.in_cycle;
        let is_so = [self.head, self.deprecated, !self.present, is_wrong];
        let classes = CLASSES.into_iter().zip(is_so);
        classes.filter(|(_, is_so)| *is_so).map(|(class, _)| class)
    }
}

impl Column<'_> {
    pub(super) fn title(&self) -> String {
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
        let named = replaces.map(|name| (name, EdgeKind::Replaces)).into_iter();
        let skipped = entry.skips.iter().map(|name| (name, EdgeKind::Skips));
        for (name, kind) in named.chain(skipped) {
            let from = *numbers.entry(name).or_insert_with(|| {
                nodes.push(Node {
                    name,
                    ..Node::default()
                });
                nodes.len() - 1
            });
            // Often the same entry is both replaced and skipped.
            if from != to && seen.insert((from, to)) {
                edges.push(DrawnEdge { from, to, kind });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::samples::{broken_sample, sample};

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
                (4, 0, EdgeKind::Replaces),
                (0, 1, EdgeKind::Replaces),
                (0, 2, EdgeKind::Replaces),
                (1, 3, EdgeKind::Replaces),
                (0, 3, EdgeKind::Skips),
                (2, 3, EdgeKind::Skips),
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
