//! Drawings of a package's upgrade graph: which version leads to which.
//!
//! What is drawn is decided here, once for all forms; `mermaid` and `svg` write
//! it down, `layout` gives each box of the latter its place.

mod layout;
mod mermaid;
mod svg;

use std::collections::{HashMap, HashSet};

use super::graph::{Channel, Package};

/// The upgrade graph of a package, or of one channel of it.
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
    /// The channel's entries in their order, then what they name besides.
    nodes: Vec<Node<'a>>,
    /// The node of the head.
    head: usize,
    edges: Vec<Edge>,
}

/// Something that can be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node<'a> {
    name: &'a str,
    skip_range: &'a str,
    deprecated: bool,
    /// Whether the channel has it. Others may still be installed, from another
    /// channel or an older catalog.
    present: bool,
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
    /// Draws all channels of a package, or the one of that name; `None` when
    /// there is no such channel.
    pub fn new(package: &'a Package, channel: Option<&str>) -> Option<Self> {
        let channels: Vec<Column<'a>> = package
            .channels
            .iter()
            .enumerate()
            .filter(|(_, each)| channel.is_none_or(|name| name == each.name))
            .map(|(number, each)| column(package, each, number == package.default_channel))
            .collect();
        (!channels.is_empty()).then_some(Self {
            package: &package.name,
            deprecated: package.deprecation.is_some(),
            channels,
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
    fn remarks(&self, head: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        if head {
            remarks.push("head".to_owned());
        }
        if self.deprecated {
            remarks.push("deprecated".to_owned());
        }
        if !self.present {
            remarks.push("not in this channel".to_owned());
        }
        if !self.skip_range.is_empty() {
            remarks.push(format!("skips {}", self.skip_range));
        }
        remarks
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

fn column<'a>(package: &Package, channel: &'a Channel, default: bool) -> Column<'a> {
    let mut nodes: Vec<Node<'a>> = channel
        .entries
        .iter()
        .map(|entry| Node {
            name: &entry.name,
            skip_range: &entry.skip_range,
            deprecated: package.deprecated_bundles.contains_key(&entry.bundle),
            present: true,
        })
        .collect();
    let mut numbers: HashMap<&'a str, usize> = channel
        .entries
        .iter()
        .enumerate()
        .map(|(number, entry)| (entry.name.as_str(), number))
        .collect();
    let mut edges = Vec::new();
    let mut seen = HashSet::new();
    for (to, entry) in channel.entries.iter().enumerate() {
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
                });
                nodes.len() - 1
            });
            // Often the same entry is both replaced and skipped.
            if from != to && seen.insert((from, to)) {
                edges.push(Edge { from, to, kind });
            }
        }
    }
    Column {
        name: &channel.name,
        default,
        deprecated: channel.deprecation.is_some(),
        nodes,
        head: channel.head,
        edges,
    }
}

/// A package for the tests of all forms.
#[cfg(test)]
fn sample() -> Package {
    use super::graph::Entry;

    let entry = |name: &str, bundle, replaces: &str, skips: &[&str], skip_range: &str| Entry {
        name: name.into(),
        bundle,
        replaces: replaces.into(),
        skips: skips.iter().map(|skip| (*skip).to_owned()).collect(),
        skip_range: skip_range.into(),
    };
    Package {
        name: "etcd".into(),
        meta: 0,
        blob: 0,
        default_channel: 1,
        channels: vec![
            Channel {
                name: "alpha".into(),
                head: 0,
                entries: vec![entry("etcd.v2", 3, "", &[], ">=1.0.0 <2.0.0")],
                deprecation: Some("Old.".into()),
            },
            Channel {
                name: "stable".into(),
                head: 3,
                entries: vec![
                    entry("etcd.v1.0", 0, "etcd.v0.9", &[], ""),
                    entry("etcd.v1.1", 1, "etcd.v1.0", &["etcd.v1.0"], ""),
                    entry("etcd.v1.1-bad", 2, "etcd.v1.0", &[], ""),
                    entry(
                        "etcd.v2",
                        3,
                        "etcd.v1.1",
                        &["etcd.v1.0", "etcd.v1.1-bad"],
                        "",
                    ),
                ],
                deprecation: None,
            },
        ],
        deprecation: None,
        deprecated_bundles: [(0, "Old.".to_owned())].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upgrade_is_drawn_once() {
        let package = sample();
        let drawing = Drawing::new(&package, Some("stable")).unwrap();
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
        let package = sample();
        assert_eq!(Drawing::new(&package, Some("beta")), None);
        assert_eq!(Drawing::new(&package, None).unwrap().channels.len(), 2);
    }
}
