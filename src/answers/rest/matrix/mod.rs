//! The upgrade graph of a package as a table: a row for each version, the highest on
//! top, and a column for each channel. Lines in the columns are its edges.
//!
//! Graphs are long and thin, so a general layout would help nobody. A range is no
//! edge: only the heads and the selected entry show which rows theirs covers.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::answers::rest::plan::Rules;
use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::answers::rest::updates::{Never, never_installed};
use fbc::text::semver::{Range, Version};

/// How many rows are shown at first.
pub const ROWS: usize = 60;
/// Longer runs of plain rows are folded.
const RUN: usize = 8;
/// How many arcs stand side by side.
const LANES: usize = 3;

/// What of the graph is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatrixView<'a> {
    /// Whether nothing is folded or cut.
    pub all: bool,
    /// The rules that decide which entries are never installed.
    pub rules: Rules,
    /// The bundles that are never folded: the selected ones and those on a way.
    pub kept: &'a [&'a str],
    /// The selected bundle.
    pub selected: Option<&'a str>,
}

/// The table.
#[derive(Debug, Default)]
pub struct Matrix<'a> {
    /// The channels in their order.
    pub columns: Vec<Column<'a>>,
    /// The rows, from the top.
    pub rows: Vec<Row<'a>>,
    /// The lines in the columns.
    pub lines: Vec<Line>,
    /// How many versions are folded or below the last row.
    pub hidden: usize,
}

/// A channel.
#[derive(Debug)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is the default channel.
    pub default: bool,
    /// The reason of its deprecation.
    pub deprecation: Option<&'a str>,
}

/// A row.
#[derive(Debug)]
pub enum Row<'a> {
    /// A bundle.
    Version {
        /// Its name.
        name: &'a str,
        /// Its version; empty for one that no channel has.
        version: &'a str,
        /// The reason of its deprecation.
        deprecation: Option<&'a str>,
        /// What each column has of it.
        cells: Vec<Option<Cell>>,
        /// What is worth saying about it.
        remarks: Vec<String>,
    },
    /// A run of plain versions.
    Fold {
        /// How many.
        count: usize,
        /// The highest and the lowest.
        ends: (&'a str, &'a str),
        /// Whether each column has them.
        cells: Vec<bool>,
    },
}

/// A bundle in a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Whether nothing of the channel replaces or skips it.
    pub head: bool,
    /// Whether the channel only names it.
    pub absent: bool,
    /// Whether OLM v0 never installs it.
    pub never: bool,
}

/// An edge, or the rows of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The column.
    pub column: usize,
    /// The row of the entry that has it.
    pub from: usize,
    /// The row that it names; for a range, the last row.
    pub to: usize,
    /// What it is.
    pub kind: LineKind,
    /// The place beside the dots, from 0, for arcs.
    pub lane: usize,
    /// Whether one of its ends is never installed.
    pub faint: bool,
    /// Whether the versions go down along it.
    pub down: bool,
}

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// `replaces`, straight from dot to dot.
    Replaces,
    /// `replaces`, around dots between.
    ReplacesArc,
    /// `skips`.
    Skips,
    /// `skipRange`.
    Range,
}

/// A bundle of the shown channels.
struct Bundle<'a> {
    name: &'a str,
    version: &'a str,
    parsed: Option<Version>,
    deprecation: Option<&'a str>,
    entries: Vec<Option<&'a EntryRecord<'a>>>,
    cells: Vec<Option<Cell>>,
    remarks: Vec<String>,
    plain: bool,
}

impl<'a> Matrix<'a> {
    /// The table of these channels.
    pub fn of(channels: &[&'a ChannelRecord<'a>], view: MatrixView<'_>) -> Self {
        let mut bundles = bundles(channels);
        for (column, channel) in channels.iter().enumerate() {
            mark(&mut bundles, column, channel, view);
        }
        for bundle in &mut bundles {
            bundle.plain &= !view.kept.contains(&bundle.name);
        }
        let (rows, places, hidden) = rows(bundles, view.all);
        let mut lines = Vec::new();
        for (column, channel) in channels.iter().enumerate() {
            draw(channel, column, &rows, &places, view, &mut lines);
        }
        Self {
            columns: channels
                .iter()
                .map(|channel| Column {
                    name: &channel.name,
                    default: channel.default,
                    deprecation: channel.deprecation.as_deref(),
                })
                .collect(),
            rows,
            lines,
            hidden,
        }
    }
}

/// The bundles of the channels, the highest version first; those that entries only
/// name come last.
fn bundles<'a>(channels: &[&'a ChannelRecord<'a>]) -> Vec<Bundle<'a>> {
    let mut numbers: HashMap<&'a str, usize> = HashMap::new();
    let mut bundles: Vec<Bundle<'a>> = Vec::new();
    let mut number = |name: &'a str, bundles: &mut Vec<Bundle<'a>>| {
        *numbers.entry(name).or_insert_with(|| {
            bundles.push(Bundle {
                name,
                version: "",
                parsed: None,
                deprecation: None,
                entries: vec![None; channels.len()],
                cells: vec![None; channels.len()],
                remarks: Vec::new(),
                plain: true,
            });
            bundles.len() - 1
        })
    };
    for (column, channel) in channels.iter().enumerate() {
        for entry in &channel.entries {
            let at = number(&entry.name, &mut bundles);
            let bundle = &mut bundles[at];
            bundle.version = &entry.version;
            bundle.deprecation = entry.deprecation.as_deref();
            // Of entries with one name the first counts.
            bundle.entries[column].get_or_insert(entry);
            bundle.cells[column].get_or_insert_with(Cell::default);
        }
    }
    for (column, channel) in channels.iter().enumerate() {
        for entry in &channel.entries {
            let named = entry.skips.iter().chain([&entry.replaces]);
            for name in named.filter(|name| !name.is_empty()) {
                let at = number(name, &mut bundles);
                bundles[at].cells[column].get_or_insert(Cell {
                    absent: true,
                    ..Cell::default()
                });
            }
        }
    }
    for bundle in &mut bundles {
        bundle.parsed = Version::parse(bundle.version).ok();
    }
    bundles.sort_by(|one, other| {
        let key = |bundle: &Bundle<'a>| bundle.entries.iter().all(Option::is_none);
        key(one)
            .cmp(&key(other))
            .then_with(|| Reverse(&one.parsed).cmp(&Reverse(&other.parsed)))
            .then_with(|| one.name.cmp(other.name))
    });
    bundles
}

/// Notes what a channel says about its bundles.
fn mark<'a>(
    bundles: &mut [Bundle<'a>],
    column: usize,
    channel: &'a ChannelRecord<'a>,
    view: MatrixView<'_>,
) {
    let mut named: HashMap<&str, usize> = HashMap::new();
    for entry in &channel.entries {
        for name in entry.skips.iter().chain([&entry.replaces]) {
            *named.entry(name).or_default() += 1;
        }
    }
    let never = match view.rules {
        Rules::V0 => never_installed(channel),
        Rules::V1 => HashMap::new(),
    };
    let heads = channel.entries.iter();
    let heads = heads
        .filter(|entry| !named.contains_key(&*entry.name))
        .count();
    for bundle in bundles {
        let Some(cell) = &mut bundle.cells[column] else {
            continue;
        };
        let Some(entry) = bundle.entries[column] else {
            bundle.plain = false;
            if bundle.version.is_empty() {
                bundle.remarks = vec!["named, not in the catalog".to_owned()];
            }
            continue;
        };
        let ends = named.get(bundle.name).copied().unwrap_or_default();
        cell.head = ends == 0;
        if cell.head {
            bundle.remarks.push(if heads > 1 {
                format!("one of {heads} heads of {}", channel.name)
            } else {
                format!("head of {}", channel.name)
            });
        }
        if let Some(why) = never.get(bundle.name) {
            cell.never = true;
            let why = match why {
                Never::Skipped(by) => format!("skipped by {by}"),
                Never::Prohibited => "olm.deprecated".to_owned(),
                Never::Beside => "beside the chain of the head".to_owned(),
            };
            bundle
                .remarks
                .push(format!("never installed from {}: {why}", channel.name));
        }
        bundle.plain &= ends == 1
            && !cell.never
            && !entry.replaces.is_empty()
            && entry.skips.is_empty()
            && entry.skip_range.is_empty()
            && bundle.deprecation.is_none();
    }
}

/// The rows, the row of each bundle, and how many bundles have no row.
fn rows<'a>(bundles: Vec<Bundle<'a>>, all: bool) -> (Vec<Row<'a>>, HashMap<&'a str, usize>, usize) {
    let mut runs: Vec<Vec<Bundle<'a>>> = Vec::new();
    for bundle in bundles {
        match runs.last_mut() {
            Some(run) if bundle.plain && run[0].plain && run[0].cells == bundle.cells => {
                run.push(bundle);
            }
            _ => runs.push(vec![bundle]),
        }
    }
    let mut rows = Vec::new();
    let mut places = HashMap::new();
    let mut hidden = 0;
    for run in runs {
        if run.len() > RUN && !all {
            places.extend(run.iter().map(|bundle| (bundle.name, rows.len())));
            hidden += run.len();
            rows.push(Row::Fold {
                count: run.len(),
                ends: (run[0].version, run[run.len() - 1].version),
                cells: run[0].cells.iter().map(Option::is_some).collect(),
            });
            continue;
        }
        for bundle in run {
            places.insert(bundle.name, rows.len());
            rows.push(row(bundle));
        }
    }
    if !all && rows.len() > ROWS {
        for row in rows.drain(ROWS..) {
            hidden += match row {
                Row::Version { .. } => 1,
                // Already counted.
                Row::Fold { .. } => 0,
            };
        }
    }
    (rows, places, hidden)
}

fn row(bundle: Bundle<'_>) -> Row<'_> {
    Row::Version {
        name: bundle.name,
        version: bundle.version,
        deprecation: bundle.deprecation,
        cells: bundle.cells,
        remarks: bundle.remarks,
    }
}

/// The lines of a channel.
fn draw<'a>(
    channel: &'a ChannelRecord<'a>,
    column: usize,
    rows: &[Row<'a>],
    places: &HashMap<&'a str, usize>,
    view: MatrixView<'_>,
    lines: &mut Vec<Line>,
) {
    let has_dot = |row: &Row<'_>| match row {
        Row::Version { cells, .. } => cells[column].is_some(),
        Row::Fold { cells, .. } => cells[column],
    };
    let dots: Vec<bool> = rows.iter().map(has_dot).collect();
    let never = |row: usize| match rows.get(row) {
        Some(Row::Version { cells, .. }) => cells[column].is_some_and(|cell| cell.never),
        _ => false,
    };
    let heads = |row: usize| match rows.get(row) {
        Some(Row::Version { cells, .. }) => cells[column].is_some_and(|cell| cell.head),
        _ => false,
    };
    let mut seen = HashSet::new();
    let mut arcs = [Vec::new(), Vec::new()];
    for entry in &channel.entries {
        let Some(&from) = places.get(&*entry.name).filter(|row| **row < rows.len()) else {
            continue;
        };
        let mut add = |name: &str, kind: LineKind, arcs: &mut [Vec<(usize, usize)>; 2]| {
            let Some(&to) = places.get(name).filter(|to| **to != from) else {
                return;
            };
            if !seen.insert((from, to)) {
                return;
            }
            let between = from.min(to) + 1..from.max(to);
            let mut lane = 0;
            let mut kind = kind;
            let free = dots.get(between).is_none_or(|dots| !dots.contains(&true));
            if kind == LineKind::Replaces && (to < from || !free) {
                kind = LineKind::ReplacesArc;
            }
            if kind != LineKind::Replaces {
                let side = usize::from(kind == LineKind::Skips);
                lane = arcs[side]
                    .iter()
                    .filter(|(top, bottom)| from.min(to) < *bottom && *top < from.max(to))
                    .count()
                    .min(LANES - 1);
                arcs[side].push((from.min(to), from.max(to)));
            }
            lines.push(Line {
                column,
                from,
                to,
                kind,
                lane,
                faint: never(from) || never(to),
                down: to < from,
            });
        };
        if !entry.replaces.is_empty() {
            add(&entry.replaces, LineKind::Replaces, &mut arcs);
        }
        for skip in entry.skips.iter().filter(|skip| !skip.is_empty()) {
            add(skip, LineKind::Skips, &mut arcs);
        }
        let shown = heads(from) || view.selected == Some(&*entry.name);
        if shown && let Ok(range) = Range::parse(&entry.skip_range) {
            let covered = channel.entries.iter().filter(|one| {
                Version::parse(&one.version).is_ok_and(|version| range.contains(&version))
            });
            let covered = covered.filter_map(|one| places.get(&*one.name).copied());
            let covered: Vec<usize> = covered.collect();
            if let (Some(first), Some(last)) = (covered.iter().min(), covered.iter().max()) {
                lines.push(Line {
                    column,
                    from: *first,
                    to: *last,
                    kind: LineKind::Range,
                    lane: 0,
                    faint: false,
                    down: false,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
