//! A drawing as an SVG document: a column for each channel, heads on top.
//!
//! All lengths are pixels. The font is monospaced, so the width of a box follows
//! from the number of its characters.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::iter;

use crate::answers::drawing::layout::{Cell, cells};
use crate::answers::drawing::model::{Column, Drawing, DrawnEdge, EdgeKind};
use crate::answers::xml::escaped;

/// The margin.
const MARGIN: usize = 24;
/// The baseline of the channels' titles.
const TITLES: usize = 72;
/// The top of the first boxes.
const TOP: usize = 88;
/// The height of a box.
const BOX: usize = 40;
/// The distance from one box to the next below.
const ROW: usize = 64;
/// Room left of a lane for the bends of its arrows.
const GAP: usize = 56;
/// Ten times the width of a character of a name, and of a smaller one.
const SIGN: usize = 75;
const SMALL_SIGN: usize = 62;
/// The same of the package's name, and of a channel's name.
const TITLE_SIGN: usize = 97;
const CHANNEL_SIGN: usize = 79;
/// The longest text that is not cut, in characters.
const LONGEST: usize = 60;

/// Colours for light pages and for dark ones.
const STYLE: &str = "
text { font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 12px; fill: #1f2328 }
.page { fill: #ffffff }
.title { font-size: 16px; font-weight: bold }
.channel { font-size: 13px; font-weight: bold }
.remark, .key { font-size: 10px; fill: #59636e }
.node rect { fill: #f6f8fa; stroke: #818b98 }
.head rect { stroke: #1a7f37; stroke-width: 2.5 }
.deprecated rect { fill: #fff1e5; stroke-dasharray: 6 3 }
.deprecated .remark { fill: #953800 }
.absent rect { fill: none; stroke-dasharray: 2 3 }
.absent text { fill: #59636e }
.wrong rect { stroke: #cf222e; stroke-width: 2.5 }
.wrong .remark { fill: #cf222e }
.edge { fill: none; stroke: #59636e; stroke-width: 1.2 }
.skips { stroke-dasharray: 2 4 }
.tip { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.page { fill: #0d1117 }
.remark, .key, .absent text { fill: #9198a1 }
.node rect { fill: #151b23; stroke: #656c76 }
.head rect { stroke: #3fb950 }
.deprecated rect { fill: #301c0d }
.deprecated .remark { fill: #f0883e }
.absent rect { fill: none }
.wrong rect { stroke: #f85149 }
.wrong .remark { fill: #f85149 }
.edge { stroke: #9198a1 }
.tip { fill: #9198a1 }
}
";

/// A channel with the positions of its boxes.
struct Placed<'a> {
    column: &'a Column<'a>,
    cells: Vec<Cell>,
    /// The left edges of the lanes, and the widths of their boxes.
    lanes: [(usize, usize); 2],
}

impl Drawing<'_> {
    /// The drawing as a self-contained SVG document. Arrows lead from a version to its
    /// upgrades; heads are on top.
    pub fn svg(&self) -> String {
        let mut placed = Vec::with_capacity(self.channels.len());
        let mut right = MARGIN;
        let mut rows = 0;
        for column in &self.channels {
            let channel = Placed::new(column, right);
            right = channel.right() + MARGIN;
            let lowest = channel.cells.iter().map(|cell| cell.row + 1).max();
            rows = rows.max(lowest.unwrap_or_default());
            placed.push(channel);
        }
        // The title and the key want some room, too.
        let mark = self.mark();
        let title = self.package.chars().chain(mark.chars()).count() * TITLE_SIGN / 10;
        let width = right.max(MARGIN * 2 + title.max(460));
        let height = TOP + rows * ROW + MARGIN;
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>Upgrade graph of {name}</title>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
             <text class=\"title\" x=\"{MARGIN}\" y=\"36\">{name}{mark}</text>\n",
            name = escaped(self.package),
        );
        for channel in &placed {
            channel.write(&mut out);
        }
        let _ = write!(
            out,
            "<text class=\"key\" x=\"{MARGIN}\" y=\"{}\">solid: replaces; dotted: skips; arrows lead to what is \
             installed next</text>\n\
             </svg>\n",
            height - 12
        );
        out
    }
}

impl<'a> Placed<'a> {
    fn new(column: &'a Column<'a>, left: usize) -> Self {
        let cells = cells(column);
        let width = |lane| {
            let nodes = column.nodes.iter().enumerate().zip(&cells);
            let widths = nodes
                .filter(|(_, cell)| cell.lane == lane)
                .map(|((_, node), _)| {
                    let remark = node.remarks().join(", ");
                    (signs(node.name) * SIGN).max(signs(&remark) * SMALL_SIGN) / 10 + 24
                });
            widths.max().unwrap_or_default()
        };
        let first = (left + GAP, width(0));
        let second = match width(1) {
            0 => (first.0 + first.1, 0),
            width => (first.0 + first.1 + GAP, width),
        };
        Self {
            column,
            cells,
            lanes: [first, second],
        }
    }

    /// The right edge of the column.
    fn right(&self) -> usize {
        let (start, width) = self.lanes[1];
        let title = signs(&self.column.title()) * CHANNEL_SIGN / 10 + 16;
        (start + width).max(self.lanes[0].0 + title)
    }

    fn write(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<text class=\"channel\" x=\"{}\" y=\"{TITLES}\">{}</text>",
            self.lanes[0].0,
            escaped(&cut(&self.column.title()))
        );
        // Boxes are drawn over the arrows and hide their crossings.
        for edge in &self.column.edges {
            self.write_edge(*edge, out);
        }
        for at in 0..self.cells.len() {
            self.write_node(at, out);
        }
    }

    fn write_node(&self, at: usize, out: &mut String) {
        let node = &self.column.nodes[at];
        let (left, width) = self.lanes[self.cells[at].lane];
        let top = self.top(at);
        let class: Vec<&str> = iter::once("node").chain(node.classes()).collect();
        let class = class.join(" ");
        let remark = node.remarks().join(", ");
        let baseline = top + if remark.is_empty() { 24 } else { 17 };
        let _ = write!(
            out,
            "<g class=\"{class}\"><title>{}</title><rect x=\"{left}\" y=\"{top}\" \
             width=\"{width}\" height=\"{BOX}\" rx=\"6\"/><text x=\"{}\" y=\"{baseline}\">{}</text>",
            escaped(node.name),
            left + 12,
            escaped(&cut(node.name))
        );
        if !remark.is_empty() {
            let _ = write!(
                out,
                "<text class=\"remark\" x=\"{}\" y=\"{}\">{}</text>",
                left + 12,
                top + 32,
                escaped(&cut(&remark))
            );
        }
        out.push_str("</g>\n");
    }

    fn write_edge(&self, edge: DrawnEdge, out: &mut String) {
        let (from, to) = (self.cells[edge.from], self.cells[edge.to]);
        let ((from_left, from_width), (to_left, to_width)) =
            (self.lanes[from.lane], self.lanes[to.lane]);
        let (from_top, to_top) = (self.top(edge.from), self.top(edge.to));
        let (from_middle, to_middle) = (from_top + BOX / 2, to_top + BOX / 2);
        let path = if from.lane == to.lane && from.row == to.row + 1 {
            let middle = from_left + from_width / 2;
            format!("M{middle} {from_top}V{}", to_top + BOX)
        } else if from.lane == to.lane {
            // Around the boxes between; longer arrows bend more.
            let bend = (10 + 6 * from.row.abs_diff(to.row)).min(GAP - 8);
            let outside = from_left - bend;
            format!(
                "M{from_left} {from_middle}C{outside} {from_middle} {outside} {to_middle} \
                 {to_left} {to_middle}"
            )
        } else {
            let (start, end) = if from.lane > to.lane {
                (from_left, to_left + to_width)
            } else {
                (from_left + from_width, to_left)
            };
            let middle = usize::midpoint(start, end);
            format!(
                "M{start} {from_middle}C{middle} {from_middle} {middle} {to_middle} {end} \
                 {to_middle}"
            )
        };
        let class = match edge.kind {
            EdgeKind::Replaces => "edge",
            EdgeKind::Skips => "edge skips",
        };
        let _ = writeln!(
            out,
            "<path class=\"{class}\" marker-end=\"url(#tip)\" d=\"{path}\"/>"
        );
    }

    fn top(&self, at: usize) -> usize {
        TOP + self.cells[at].row * ROW
    }
}

/// The number of characters of a text that are shown.
fn signs(text: &str) -> usize {
    text.chars().take(LONGEST + 1).count().min(LONGEST)
}

fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        None => Cow::Borrowed(text),
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::samples::{broken_sample, sample};

    #[test]
    fn a_package_is_a_document() {
        let blobs = sample();
        let text = Drawing::new(&blobs, "etcd", None).unwrap().svg();
        assert!(text.starts_with("<svg xmlns="));
        assert!(text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<g class=").count(), 6);
        assert_eq!(text.matches("class=\"edge\"").count(), 4);
        assert_eq!(text.matches("class=\"edge skips\"").count(), 2);
        assert_eq!(text.matches("class=\"node head\"").count(), 2);
        assert!(text.contains(">stable (default)</text>"), "{text}");
        assert!(
            text.contains(">head, skips &gt;=1.0.0 &lt;2.0.0</text>"),
            "{text}"
        );
    }

    #[test]
    fn a_long_title_has_room() {
        let name = "n".repeat(63);
        let mut blobs = broken_sample();
        blobs.packages[0].blob.name = name.clone();
        blobs.channels[0].blob.package = name.clone();
        blobs.deprecations[0].blob.package = name.clone();
        let text = Drawing::new(&blobs, &name, None).unwrap().svg();
        assert_eq!(text.matches("<g class=\"node head wrong\">").count(), 2);
        let width = text.split("width=\"").nth(1).unwrap();
        let width: usize = width.split('"').next().unwrap().parse().unwrap();
        assert!(width > 24 + 76 * 96 / 10, "{width}");
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let mut blobs = sample();
        blobs.channels[0].blob.entries[0].name = "</text></svg><script>\"'&\u{0}\n]]>".repeat(20);
        let text = Drawing::new(&blobs, "etcd", Some("alpha")).unwrap().svg();
        assert_eq!(text.matches("</svg>").count(), 1);
        assert!(!text.contains("<script"));
        assert!(!text.contains('\u{0}'));
        assert!(text.contains("&lt;/text&gt;&lt;/svg&gt;&lt;script&gt;&quot;&#39;&amp;"));
        assert!(text.contains("…</text>"));
    }
}
