//! The upgrade graph of a package as a table: a row for each version, the highest on
//! top, and a column for each channel. Lines in the columns are its edges.
//!
//! Graphs are long and thin, so a general layout would help nobody. A range is no
//! edge: only the heads and the selected entry show which rows theirs covers.
//!
//! `model` has the parts; `bundles` finds what the channels say about each bundle, `rows`
//! folds runs of plain ones, `lines` joins the rows.

mod bundles;
mod lines;
mod model;
mod rows;

use std::collections::HashSet;

use crate::answers::rest::records::ChannelRecord;

pub use model::{
    BundleRow, CELLS, COLUMNS, Cell, ChannelChange, Column, LANES, Line, LineKind, Matrix,
    MatrixView, ROWS, Row, UNPLACED, WayStep,
};

impl<'a> Matrix<'a> {
    /// The table of these channels: the first ones, if there is no room for all.
    pub fn of(all: &[&'a ChannelRecord<'a>], view: MatrixView<'_>) -> Self {
        let channels = &all[..fitting(all)];
        let bundles = bundles::of(channels, view.rules);
        let (rows, places, hidden) = rows::of(bundles, view);
        let mut matrix = Self {
            columns: channels
                .iter()
                .map(|channel| Column {
                    name: &channel.name,
                    default: channel.default,
                    deprecation: channel.deprecation.as_deref(),
                })
                .collect(),
            beyond: all.len() - channels.len(),
            rows,
            lines: Vec::new(),
            changes: Vec::new(),
            hidden,
        };
        for (column, channel) in channels.iter().enumerate() {
            lines::add(channel, column, &places, view, &mut matrix);
        }
        matrix.changes = lines::changes(channels, &places, view);
        matrix
    }

    /// The channels without a column, in words.
    pub fn further(&self) -> Option<String> {
        let end = if self.beyond == 1 { "" } else { "s" };
        (self.beyond > 0).then(|| format!("and {} more channel{end}", self.beyond))
    }

    /// How many edges of a column are no line, beyond [`UNPLACED`].
    pub fn left_out(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cell(column));
        let unplaced: usize = cells.map(|cell| cell.more).sum();
        let lines = self.lines.iter();
        let kept = lines.filter(|line| line.column == column && line.lane.is_none());
        unplaced.saturating_sub(kept.count())
    }
}

/// How many of the channels have room in a table.
fn fitting(channels: &[&ChannelRecord<'_>]) -> usize {
    let mut names: HashSet<&str> = HashSet::new();
    let mut fitting = 0;
    for channel in channels.iter().take(COLUMNS) {
        for entry in &channel.entries {
            let own = entry.skips.iter().chain([&entry.name, &entry.replaces]);
            names.extend(own.map(|name| &**name).filter(|name| !name.is_empty()));
        }
        if fitting > 0 && (fitting + 1) * names.len() > CELLS {
            break;
        }
        fitting += 1;
    }
    fitting
}

#[cfg(test)]
pub(crate) mod tests;
