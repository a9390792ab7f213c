//! The lines of a table as paths of SVG. The page lays them behind its table, the file
//! behind its own labels; classes give them their look.

use std::fmt::Write as _;

use crate::answers::drawing::matrix::{Line, LineKind, Matrix};

/// The height of a row, in sixteenths of a rem, or pixels of a file.
pub const ROW: usize = 32;
/// The width of a column, in the same.
pub const COLUMN: usize = 48;

/// The lines, from the upper left corner of the first cell. `data-edge` has the column,
/// the row of the entry and the row that it names.
pub fn strokes(matrix: &Matrix<'_>) -> String {
    let mut out = String::new();
    for line in &matrix.lines {
        let Some(lane) = line.lane else { continue };
        let kind = match line.kind {
            LineKind::Replaces | LineKind::ReplacesArc => "replaces",
            LineKind::Skips => "skips",
            LineKind::Range => "range",
            LineKind::Jump => "jump",
        };
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<path class=\"{kind}{}{}{}\"",
            if line.faint { " faint" } else { "" },
            if line.down { " down" } else { "" },
            if line.way { " way" } else { "" },
        );
        if line.kind != LineKind::Range {
            let Line {
                column, from, to, ..
            } = line;
            let _ = write!(out, " data-edge=\"{column} {from} {to}\"");
        }
        let _ = writeln!(out, " d=\"{}\"/>", shape(line, lane));
    }
    for change in &matrix.changes {
        let middle = |column: usize| column * COLUMN + COLUMN / 2;
        let height = change.row * ROW + ROW / 2;
        let (from, to) = (middle(change.from), middle(change.to));
        let _ = writeln!(
            out,
            "<path class=\"change way\" d=\"M{from} {height}H{to}\"/>"
        );
    }
    for (at, row) in matrix.rows.iter().enumerate() {
        for column in 0..matrix.columns.len() {
            if let Some(cell) = row.cell(column).filter(|cell| cell.more > 0) {
                let (x, y) = (column * COLUMN + COLUMN / 2 + 9, at * ROW + ROW / 2 - 5);
                let _ = writeln!(
                    out,
                    "<text class=\"more\" x=\"{x}\" y=\"{y}\">+{}</text>",
                    cell.more
                );
            }
        }
    }
    out
}

/// The shape of a line. A short stroke crosses one that leads to what is never
/// installed.
fn shape(line: &Line, place: usize) -> String {
    let middle = line.column * COLUMN + COLUMN / 2;
    let height = |row: usize| row * ROW + ROW / 2;
    let (from, to) = (height(line.from), height(line.to));
    let arc = |side: usize| format!("M{middle} {from}H{side}V{to}H{middle}");
    let (side, mut shape) = match line.kind {
        LineKind::Replaces => (middle, format!("M{middle} {from}V{to}")),
        LineKind::ReplacesArc | LineKind::Jump => {
            let side = middle + 10 + 5 * place;
            (side, arc(side))
        }
        LineKind::Skips => {
            let side = middle - 10 - 4 * place;
            (side, arc(side))
        }
        LineKind::Range => {
            let side = line.column * COLUMN + 2;
            let (top, bottom) = (line.from * ROW + 4, (line.to + 1) * ROW - 4);
            (side, format!("M{0} {top}H{side}V{bottom}H{0}", side + 4))
        }
    };
    if line.faint {
        let at = usize::midpoint(from, to);
        let _ = write!(
            shape,
            "M{} {}L{} {}",
            side.saturating_sub(5),
            at + 5,
            side + 5,
            at.saturating_sub(5)
        );
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::matrix::MatrixView;
    use crate::answers::rest::records::{ChannelRecord, EntryRecord};

    #[test]
    fn lines_run_from_dot_to_dot() {
        let entry = |version: usize, replaces: &'static str, skips: &[&'static str]| EntryRecord {
            name: format!("a.v{version}").into(),
            version: format!("{version}.0.0").into(),
            replaces: replaces.into(),
            skips: skips.iter().map(|skip| (*skip).into()).collect(),
            ..EntryRecord::default()
        };
        let channel = ChannelRecord {
            name: "stable".into(),
            head: Some("a.v3".into()),
            entries: vec![
                entry(3, "a.v2", &["a.v1"]),
                entry(2, "a.v1", &[]),
                entry(1, "", &[]),
            ],
            ..ChannelRecord::default()
        };
        let matrix = Matrix::of(&[&channel], MatrixView::default());
        assert_eq!(
            strokes(&matrix),
            "<path class=\"replaces\" data-edge=\"0 0 1\" d=\"M24 16V48\"/>\n\
             <path class=\"skips\" data-edge=\"0 0 2\" d=\"M24 16H14V80H24\"/>\n\
             <path class=\"replaces\" data-edge=\"0 1 2\" d=\"M24 48V80\"/>\n"
        );
    }
}
