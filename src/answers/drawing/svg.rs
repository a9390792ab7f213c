//! A table as an SVG document of its own: labels, dots, the lines of `strokes`, remarks.
//!
//! All lengths are pixels. The font is monospaced, so the width of a text follows from
//! the number of its characters.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::answers::drawing::matrix::{BundleRow, Cell, Column, Matrix, Row};
use crate::answers::drawing::{COLUMN, ROW, Subject, strokes};
use crate::answers::xml::escaped;
use fbc::text::display::fit;

/// The margin.
const MARGIN: usize = 24;
/// The baseline of the title.
const TITLE: usize = 40;
/// Room for the key below the rows.
const KEY: usize = 48;
/// Ten times the width of a character of a label, of the title, and of a remark.
const SIGN: usize = 75;
const TITLE_SIGN: usize = 97;
const SMALL_SIGN: usize = 66;
/// The longest texts that are not cut, in characters.
const LABEL: usize = 40;
const REMARK: usize = 100;

/// Colours for light pages and for dark ones.
const STYLE: &str = "
text { font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 12px; fill: #1b1f24 }
.page { fill: #ffffff }
.band { fill: #f4f5f7 }
.title { font-size: 16px; font-weight: bold }
.remark, .key, .fold { font-size: 11px; fill: #545b64 }
.gone { fill: #545b64; text-decoration: line-through }
path { fill: none; stroke: #5f6772; stroke-width: 1.5 }
.skips { stroke-dasharray: 2 4 }
.range { stroke: #7a4b00; stroke-width: 2 }
.jump { stroke-dasharray: 6 3 }
.faint { stroke-opacity: .5 }
.down { stroke: #a61b1b }
path.way { stroke: #0b57a4; stroke-width: 3 }
.more { font-size: 9px; fill: #545b64 }
.dot { fill: #5f6772; stroke: #5f6772; stroke-width: 2 }
.head { fill: #ffffff; stroke-width: 4 }
.old { fill: #f7ede0; stroke: #6a3d00; stroke-dasharray: 3 2 }
.absent { fill: #ffffff; stroke-dasharray: 2 2 }
.wrong { stroke: #a61b1b; stroke-width: 3 }
.dot.way { fill: #0b57a4; stroke: #0b57a4 }
.head.way { fill: #ffffff }
.change { stroke-dasharray: 1 3; stroke-linecap: round }
.never { stroke: #1b1f24; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e8eaed }
.page { fill: #14171a }
.band { fill: #1d2126 }
.remark, .key, .fold, .gone, .more { fill: #a3abb5 }
path { stroke: #929aa5 }
.range { stroke: #e8b84f }
.down { stroke: #ff9a93 }
.never { stroke: #e8eaed }
path.way { stroke: #8ab8f0 }
.dot { fill: #929aa5; stroke: #929aa5 }
.head { fill: #14171a }
.old { fill: #2a2016; stroke: #e0a866 }
.absent { fill: #14171a }
.wrong { stroke: #ff9a93 }
.dot.way { fill: #8ab8f0; stroke: #8ab8f0 }
.head.way { fill: #14171a }
}
@media print { .page { fill: none } }
";

const KEY_TEXT: [&str; 2] = [
    "ring: head; dashed: deprecated; hollow: named only; struck through: never installed; red: an error",
    "solid line: replaces; dotted: skips; bracket: skipRange of a head or a selected version",
];

/// The table as a self-contained document, the highest version on top.
pub fn svg(subject: Subject<'_>, matrix: &Matrix<'_>) -> String {
    let labels = matrix.rows.iter().map(|row| signs(&label(row), LABEL));
    let left = MARGIN + labels.max().unwrap_or_default().max(8) * SIGN / 10 + 16;
    let titles = matrix.columns.iter().map(|one| signs(&one.title(), LABEL));
    let top = TITLE + 24 + titles.max().unwrap_or_default() * SIGN / 10;
    let right = left + matrix.columns.len() * COLUMN + 16;
    let remarks: Vec<String> = matrix
        .rows
        .iter()
        .map(|row| remark(row, &matrix.columns))
        .collect();
    let widest = remarks.iter().map(|remark| signs(remark, REMARK)).max();
    let mut mark = String::new();
    if subject.deprecated {
        mark.push_str(" (deprecated)");
    }
    if let Some(further) = matrix.further() {
        let _ = write!(mark, ", {further}");
    }
    let title = signs(subject.package, LABEL) + mark.len();
    let key = signs(KEY_TEXT[1], REMARK) * SMALL_SIGN / 10;
    let width = (right + widest.unwrap_or_default() * SMALL_SIGN / 10)
        .max(MARGIN + title * TITLE_SIGN / 10)
        .max(MARGIN + key)
        + MARGIN;
    let bottom = top + matrix.rows.len() * ROW;
    let height = bottom + KEY + MARGIN;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" \
         height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>Upgrade graph of {name}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{TITLE}\">{name}{mark}</text>\n",
        name = escaped(&fit(subject.package, LABEL)),
    );
    for (at, column) in matrix.columns.iter().enumerate() {
        let (x, y) = (left + at * COLUMN + COLUMN / 2 + 4, top - 8);
        let class = column.deprecation.map_or("", |_| " class=\"gone\"");
        let _ = writeln!(
            out,
            "<text{class} transform=\"translate({x} {y}) rotate(-90)\">{}</text>",
            escaped(&fit(&column.title(), LABEL))
        );
    }
    for at in (0..matrix.rows.len()).step_by(2) {
        let (y, width) = (top + at * ROW, width - 2 * MARGIN);
        let _ = writeln!(
            out,
            "<rect class=\"band\" x=\"{MARGIN}\" y=\"{y}\" width=\"{width}\" height=\"{ROW}\"/>"
        );
    }
    let _ = writeln!(out, "<g transform=\"translate({left} {top})\">");
    out.push_str(&strokes(matrix));
    for (at, row) in matrix.rows.iter().enumerate() {
        dots(row, at * ROW + ROW / 2, &matrix.columns, &mut out);
    }
    out.push_str("</g>\n");
    for (at, (row, remark)) in matrix.rows.iter().zip(&remarks).enumerate() {
        let y = top + at * ROW + ROW / 2 + 4;
        let class = match row {
            Row::Version(_) => "",
            Row::Fold { .. } => " class=\"fold\"",
        };
        let _ = writeln!(
            out,
            "<text{class} x=\"{}\" y=\"{y}\">{}</text>",
            MARGIN + 6,
            escaped(&fit(&label(row), LABEL))
        );
        if !remark.is_empty() {
            let _ = writeln!(
                out,
                "<text class=\"remark\" x=\"{right}\" y=\"{y}\">{}</text>",
                escaped(&fit(remark, REMARK))
            );
        }
    }
    for (at, text) in KEY_TEXT.iter().enumerate() {
        let y = bottom + 28 + at * 18;
        let _ = writeln!(
            out,
            "<text class=\"key\" x=\"{MARGIN}\" y=\"{y}\">{text}</text>"
        );
    }
    out.push_str("</svg>\n");
    out
}

fn label<'a>(row: &'a Row<'_>) -> Cow<'a, str> {
    match row {
        Row::Version(bundle) => Cow::Borrowed(bundle.label()),
        Row::Fold { names, .. } => Cow::Owned(format!("⋮ {} versions", names.len())),
    }
}

fn remark(row: &Row<'_>, columns: &[Column<'_>]) -> String {
    match row {
        Row::Fold { ends, .. } => format!("{} … {}", ends.0, ends.1),
        Row::Version(bundle) => {
            let mut remarks = bundle.remarks(columns);
            if let Some(reason) = bundle.deprecation {
                remarks.push(format!("deprecated: {}", reason.trim()));
            }
            remarks.join("; ")
        }
    }
}

/// The dots of a row.
fn dots(row: &Row<'_>, y: usize, columns: &[Column<'_>], out: &mut String) {
    for (at, column) in columns.iter().enumerate() {
        let x = at * COLUMN + COLUMN / 2;
        match row {
            Row::Fold { cells, .. } if cells.get(at) == Some(&true) => {
                let _ = writeln!(
                    out,
                    "<text class=\"fold\" text-anchor=\"middle\" x=\"{x}\" y=\"{}\">⋮</text>",
                    y + 4
                );
            }
            Row::Fold { .. } => {}
            Row::Version(bundle) => {
                if let Some(Some(cell)) = bundle.cells.get(at) {
                    dot(cell, bundle, column, (x, y), out);
                }
            }
        }
    }
}

fn dot(
    cell: &Cell<'_>,
    bundle: &BundleRow<'_>,
    column: &Column<'_>,
    (x, y): (usize, usize),
    out: &mut String,
) {
    let mut class = "dot".to_owned();
    for (is_so, name) in [
        (cell.heads > 0, " head"),
        (bundle.deprecation.is_some(), " old"),
        (cell.is_absent(), " absent"),
        (cell.is_wrong(), " wrong"),
        (bundle.way, " way"),
    ] {
        if is_so {
            class.push_str(name);
        }
    }
    let radius = if cell.heads > 0 { 7 } else { 5 };
    let _ = write!(
        out,
        "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"><title>{}: {}</title></circle>",
        escaped(bundle.name),
        escaped(&cell.spoken(bundle, column))
    );
    if cell.never.is_some() {
        let _ = write!(
            out,
            "<path class=\"never\" d=\"M{} {}L{} {}\"/>",
            x - 8,
            y + 8,
            x + 8,
            y - 8
        );
    }
    out.push('\n');
}

/// The number of characters of a text that are shown.
fn signs(text: &str, most: usize) -> usize {
    text.chars().take(most + 1).count().min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::matrix::MatrixView;
    use crate::answers::drawing::matrix::tests::{broken, etcd};
    use crate::answers::rest::records::ChannelRecord;

    fn drawn(channels: &[ChannelRecord<'_>]) -> String {
        let shown: Vec<&ChannelRecord<'_>> = channels.iter().collect();
        let view = MatrixView {
            all: true,
            ..MatrixView::default()
        };
        let subject = Subject {
            package: "etcd",
            deprecated: false,
        };
        svg(subject, &Matrix::of(&shown, view))
    }

    #[test]
    fn a_package_is_a_document() {
        let text = drawn(&etcd());
        assert!(text.starts_with("<svg xmlns="));
        assert!(text.ends_with("</svg>\n"));
        for (part, count) in [
            ("<circle class=\"dot", 6),
            ("<circle class=\"dot head", 2),
            ("<circle class=\"dot old", 1),
            ("<circle class=\"dot absent", 1),
            ("<path class=\"replaces", 4),
            ("<path class=\"skips", 2),
            (">stable (default)</text>", 1),
            ("<text class=\"gone\"", 1),
        ] {
            assert_eq!(text.matches(part).count(), count, "{part}: {text}");
        }
    }

    #[test]
    fn errors_of_a_channel_are_red_and_in_words() {
        let text = drawn(&broken());
        assert_eq!(text.matches(" wrong\"").count(), 4, "{text}");
        assert!(text.contains("one of several heads of stable"), "{text}");
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let mut channels = etcd();
        channels[1].entries[0].name = "</text></svg><script>\"'&\u{0}\n]]>".repeat(20).into();
        channels[1].entries[0].version = "".into();
        let text = drawn(&channels);
        assert_eq!(text.matches("</svg>").count(), 1);
        assert!(!text.contains("<script"));
        assert!(!text.contains('\u{0}'));
        assert!(text.contains("&lt;/text&gt;&lt;/svg&gt;&lt;script&gt;&quot;&#39;&amp;"));
        assert!(text.contains("…</text>"));
    }
}
