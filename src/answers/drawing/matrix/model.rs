//! Parts of a table, and their descriptions in words.

use crate::answers::rest::plan::Rules;
use crate::answers::rest::records::EntryRecord;
use fbc::text::display::clip;

/// How many rows are shown at first.
pub const ROWS: usize = 60;
/// How many channels have a column at most. Real packages have 38.
pub const COLUMNS: usize = 100;
/// How many cells a table has at most, unless one channel alone has more. Authors decide
/// how many versions and channels there are.
pub const CELLS: usize = 250_000;
/// How many arcs stand side by side.
pub const LANES: usize = 3;
/// How many edges without room a column keeps. Authors decide how many there are.
pub const UNPLACED: usize = 1_000;

/// The shown part of the graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatrixView<'a> {
    /// Whether nothing is folded or cut.
    pub all: bool,
    /// The rules that decide which entries are never installed.
    pub rules: Rules,
    /// The selected bundles, which are never folded.
    pub selected: &'a [&'a str],
    /// The steps of a selected way.
    pub way: &'a [WayStep<'a>],
}

/// A step of a way.
#[derive(Clone, Copy, Debug)]
pub struct WayStep<'a> {
    /// The channel with the edge.
    pub channel: &'a str,
    /// The bundle before.
    pub from: &'a str,
    /// The bundle after.
    pub to: &'a str,
}

/// The table.
#[derive(Debug, Default)]
pub struct Matrix<'a> {
    /// The channels in their order, as many as have room.
    pub columns: Vec<Column<'a>>,
    /// How many further channels have no column.
    pub beyond: usize,
    /// The rows, from the top.
    pub rows: Vec<Row<'a>>,
    /// The lines in the columns. Of edges without room, each column has the first
    /// [`UNPLACED`] only.
    pub lines: Vec<Line>,
    /// Where the selected way goes on in another channel.
    pub changes: Vec<ChannelChange>,
    /// How many bundles are folded.
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
    Version(BundleRow<'a>),
    /// A run of bundles.
    Fold {
        /// Their names, the highest version first.
        names: Vec<&'a str>,
        /// The highest and the lowest version.
        ends: (&'a str, &'a str),
        /// Whether each column has some of them.
        cells: Vec<bool>,
        /// Whether the selected way leads through it.
        way: bool,
    },
}

/// A bundle.
#[derive(Debug)]
pub struct BundleRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version; empty for one that no channel has.
    pub version: &'a str,
    /// The reason of its deprecation.
    pub deprecation: Option<&'a str>,
    /// Its cell in each column.
    pub cells: Vec<Option<Cell<'a>>>,
    /// Whether the selected way leads through it.
    pub way: bool,
}

/// A bundle in a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Its entry; none if the channel only names it.
    pub entry: Option<&'a EntryRecord<'a>>,
    /// The number of heads of the channel, if it is one of them; otherwise 0.
    pub heads: usize,
    /// Whether its chain leads back to it.
    pub in_cycle: bool,
    /// Whether no head leads to it.
    pub stranded: bool,
    /// Whether it replaces a higher version.
    pub down: bool,
    /// Why OLM v0 never installs it; only under its rules.
    pub never: Option<String>,
    /// How many of its edges by `skips` have no room in the picture.
    pub more: usize,
}

/// An edge, or the rows of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The column.
    pub column: usize,
    /// The row of the entry that has it; for a range, the first row.
    pub from: usize,
    /// The row that it names; for a range, the last row.
    pub to: usize,
    /// Its kind.
    pub kind: LineKind,
    /// The place beside the dots, from 0, for arcs; none if there is no room.
    pub lane: Option<usize>,
    /// Whether it leads to a bundle that is never installed.
    pub faint: bool,
    /// Whether the versions go down along it.
    pub down: bool,
    /// Whether the selected way takes it.
    pub way: bool,
}

/// A change of the channel on a way, in the row of the bundle that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelChange {
    /// The row.
    pub row: usize,
    /// The column of the step before.
    pub from: usize,
    /// The column of the step behind.
    pub to: usize,
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
    /// The rows of a `skipRange`.
    Range,
    /// A step of the selected way by a `skipRange`.
    Jump,
}

impl Column<'_> {
    /// Its name with its states.
    pub fn title(&self) -> String {
        let mut title = self.name.to_owned();
        if self.default {
            title.push_str(" (default)");
        }
        if self.deprecation.is_some() {
            title.push_str(" (deprecated)");
        }
        title
    }
}

impl<'a> Row<'a> {
    /// The cell of a column.
    pub fn cell(&self, column: usize) -> Option<&Cell<'a>> {
        match self {
            Self::Version(bundle) => bundle.cells.get(column)?.as_ref(),
            Self::Fold { .. } => None,
        }
    }

    /// Whether a column has something in the row.
    pub fn has(&self, column: usize) -> bool {
        match self {
            Self::Version(bundle) => bundle.cells.get(column).is_some_and(Option::is_some),
            Self::Fold { cells, .. } => cells.get(column) == Some(&true),
        }
    }
}

impl BundleRow<'_> {
    /// The text of the row's heading.
    pub fn label(&self) -> &str {
        if self.version.is_empty() {
            self.name
        } else {
            self.version
        }
    }

    /// Remarks about it, each with the channels of which it is true.
    pub fn remarks(&self, columns: &[Column<'_>]) -> Vec<String> {
        if self.version.is_empty() && self.cells.iter().flatten().all(Cell::is_absent) {
            return vec!["named, not in the catalog".to_owned()];
        }
        let mut remarks: Vec<(String, Vec<String>)> = Vec::new();
        for (cell, column) in self.cells.iter().zip(columns) {
            let Some(cell) = cell else { continue };
            for remark in cell.remarks() {
                match remarks.iter_mut().find(|(known, _)| *known == remark) {
                    Some((_, channels)) => channels.push(short(column.name)),
                    None => remarks.push((remark, vec![short(column.name)])),
                }
            }
        }
        let told = remarks.into_iter().map(|(remark, channels)| {
            if remark == "head" || remark.starts_with("one of ") {
                format!("{remark} of {}", channels.join(", "))
            } else if columns.len() == 1 {
                remark
            } else {
                format!("{remark} ({})", channels.join(", "))
            }
        });
        told.collect()
    }
}

impl Cell<'_> {
    /// Whether the channel only names it.
    pub fn is_absent(&self) -> bool {
        self.entry.is_none()
    }

    /// Whether it makes the channel invalid.
    pub fn is_wrong(&self) -> bool {
        self.heads > 1 || self.in_cycle || self.stranded || self.down
    }

    /// Remarks about it in its channel, each in a few words.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        match self.heads {
            0 => {}
            1 => remarks.push("head".to_owned()),
            _ => remarks.push("one of several heads".to_owned()),
        }
        for (is_so, remark) in [
            (self.in_cycle, "in a cycle"),
            (self.stranded, "no head leads here"),
            (self.down, "replaces a higher version"),
        ] {
            if is_so {
                remarks.push(remark.to_owned());
            }
        }
        if let Some(why) = &self.never {
            remarks.push(format!("never installed: {why}"));
        }
        remarks
    }

    /// The dot in words: its bundle and channel, then its state and edges.
    pub fn spoken(&self, bundle: &BundleRow<'_>, column: &Column<'_>) -> String {
        let mut text = format!("{} in {}", short(bundle.label()), short(column.name));
        for word in self.words(bundle) {
            text.push_str(", ");
            text.push_str(&word);
        }
        text
    }

    /// Its state and edges in words.
    pub fn words(&self, bundle: &BundleRow<'_>) -> Vec<String> {
        let mut words = self.remarks();
        if bundle.deprecation.is_some() {
            words.push("deprecated".to_owned());
        }
        let Some(entry) = self.entry else {
            words.push("named only".to_owned());
            return words;
        };
        if !entry.replaces.is_empty() {
            words.push(format!("replaces {}", short(&entry.replaces)));
        }
        if !entry.skips.is_empty() {
            let skips = entry.skips.iter().take(MAX_SPOKEN);
            let skips: Vec<_> = skips.map(|skip| short(skip)).collect();
            let end = match entry.skips.len() - skips.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            words.push(format!("skips {}{end}", skips.join(" and ")));
        }
        if !entry.skip_range.is_empty() {
            words.push(format!("skipRange {}", short(&entry.skip_range)));
        }
        words
    }
}

/// A name as texts about it show it.
fn short(name: &str) -> String {
    clip(name, LONGEST)
}

/// The longest name in such a text, in bytes.
const LONGEST: usize = 120;
/// How many skipped entries the name of a dot lists.
const MAX_SPOKEN: usize = 12;
