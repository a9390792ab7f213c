//! The lines of a channel: edges, the rows of ranges, and steps of the selected way.

use std::collections::{HashMap, HashSet};

use crate::answers::drawing::matrix::model::{
    Cell, ChannelChange, LANES, Line, LineKind, Matrix, MatrixView, Row, UNPLACED, WayStep,
};
use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use fbc::text::semver::{Range, Version};

/// Adds the lines of a channel to the table.
pub(super) fn add<'a>(
    channel: &'a ChannelRecord<'a>,
    column: usize,
    places: &HashMap<&'a str, usize>,
    view: MatrixView<'_>,
    matrix: &mut Matrix<'a>,
) {
    let of_channel = |step: &&WayStep<'_>| step.channel == channel.name;
    let mut drawing = Drawing {
        column,
        places,
        rows: &matrix.rows,
        dots: matrix.rows.iter().map(|row| row.has(column)).collect(),
        way: view
            .way
            .iter()
            .filter(of_channel)
            .filter_map(|step| Some((*places.get(step.to)?, *places.get(step.from)?)))
            .collect(),
        seen: HashSet::new(),
        right: Lanes::default(),
        left: Lanes::default(),
        lines: Vec::new(),
        more: HashMap::new(),
        unplaced: 0,
    };
    let mut entries: Vec<&EntryRecord<'_>> = channel.entries.iter().collect();
    // Edges of selected bundles come first, so that they find room.
    entries.sort_by_key(|entry| !view.selected.contains(&&*entry.name));
    for entry in entries {
        drawing.edges(entry);
    }
    drawing.jumps();
    drawing.ranges(channel, view);
    let (lines, more) = (drawing.lines, drawing.more);
    for (row, number) in more {
        if let Some(Row::Version(bundle)) = matrix.rows.get_mut(row)
            && let Some(Some(cell)) = bundle.cells.get_mut(column)
        {
            cell.more = number;
        }
    }
    matrix.lines.extend(lines);
}

/// Where the way goes on in another of the shown channels.
pub(super) fn changes(
    channels: &[&ChannelRecord<'_>],
    places: &HashMap<&str, usize>,
    view: MatrixView<'_>,
) -> Vec<ChannelChange> {
    let column = |step: &WayStep<'_>| channels.iter().position(|one| one.name == step.channel);
    let pairs = view.way.windows(2).filter_map(|pair| {
        let (from, to) = (column(&pair[0])?, column(&pair[1])?);
        let row = *places.get(pair[1].from)?;
        (from != to).then_some(ChannelChange { row, from, to })
    });
    pairs.collect()
}

struct Drawing<'a, 'b> {
    column: usize,
    places: &'b HashMap<&'a str, usize>,
    rows: &'b [Row<'a>],
    /// Whether each row has something in this column.
    dots: Vec<bool>,
    /// The rows of the steps of the way: the bundle after, the one before.
    way: HashSet<(usize, usize)>,
    /// The rows that a line joins already.
    seen: HashSet<(usize, usize)>,
    right: Lanes,
    left: Lanes,
    lines: Vec<Line>,
    /// How many edges of each row have no room, and of all rows.
    more: HashMap<usize, usize>,
    unplaced: usize,
}

impl Drawing<'_, '_> {
    fn cell(&self, row: usize) -> Option<&Cell<'_>> {
        self.rows.get(row)?.cell(self.column)
    }

    fn edges(&mut self, entry: &EntryRecord<'_>) {
        let Some(&from) = self.places.get(&*entry.name) else {
            return;
        };
        if !entry.replaces.is_empty()
            && let Some(to) = self.end(&entry.replaces, from)
        {
            let free = self.dots.get(from.min(to) + 1..from.max(to));
            let free = free.is_none_or(|dots| !dots.contains(&true));
            if to > from && free {
                self.line(from, to, LineKind::Replaces, Some(0));
            } else {
                // An edge that makes a way possible is always drawn.
                let lane = self.right.find(from, &[to]).unwrap_or(LANES - 1);
                self.line(from, to, LineKind::ReplacesArc, Some(lane));
            }
        }
        let skips = entry.skips.iter().filter(|skip| !skip.is_empty());
        let skips: Vec<usize> = skips.filter_map(|skip| self.end(skip, from)).collect();
        if !skips.is_empty() {
            let lane = self.left.find(from, &skips);
            for to in skips {
                // The way is drawn in any case.
                let lane = lane.or(self.way.contains(&(from, to)).then_some(0));
                if lane.is_none() {
                    *self.more.entry(from).or_default() += 1;
                    self.unplaced += 1;
                }
                if lane.is_some() || self.unplaced <= UNPLACED {
                    self.line(from, to, LineKind::Skips, lane);
                }
            }
        }
    }

    /// The row of a bundle, if no line leads there from this row.
    fn end(&mut self, name: &str, from: usize) -> Option<usize> {
        let to = *self.places.get(name)?;
        (to != from && self.seen.insert((from, to))).then_some(to)
    }

    fn line(&mut self, from: usize, to: usize, kind: LineKind, lane: Option<usize>) {
        let never = |cell: &Cell<'_>| cell.never.is_some();
        self.lines.push(Line {
            column: self.column,
            from,
            to,
            kind,
            lane,
            faint: self.cell(from).is_some_and(never),
            down: to < from,
            way: self.way.contains(&(from, to)),
        });
    }

    /// Steps of the way that no edge by name makes.
    fn jumps(&mut self) {
        let mut steps: Vec<(usize, usize)> = self.way.iter().copied().collect();
        steps.sort_unstable();
        for (to, from) in steps {
            if to != from && !self.seen.contains(&(to, from)) {
                let lane = self.right.find(to, &[from]).unwrap_or(LANES - 1);
                self.line(to, from, LineKind::Jump, Some(lane));
            }
        }
    }

    /// Brackets over the rows that the ranges of heads and of selected entries cover.
    fn ranges(&mut self, channel: &ChannelRecord<'_>, view: MatrixView<'_>) {
        let versions = channel.entries.iter();
        let versions = versions.map(|one| Version::parse(&one.version).ok());
        let versions: Vec<Option<Version>> = versions.collect();
        for entry in &channel.entries {
            let own = self.places.get(&*entry.name);
            let is_head = own.is_some_and(|row| self.cell(*row).is_some_and(|cell| cell.heads > 0));
            if !is_head && !view.selected.contains(&&*entry.name) {
                continue;
            }
            let Ok(range) = Range::parse(&entry.skip_range) else {
                continue;
            };
            let covered = channel
                .entries
                .iter()
                .zip(&versions)
                .filter(|(_, version)| {
                    version
                        .as_ref()
                        .is_some_and(|version| range.contains(version))
                });
            let rows = covered.filter_map(|(one, _)| self.places.get(&*one.name).copied());
            let rows: Vec<usize> = rows.collect();
            if let (Some(first), Some(last)) = (rows.iter().min(), rows.iter().max()) {
                self.lines.push(Line {
                    column: self.column,
                    from: *first,
                    to: *last,
                    kind: LineKind::Range,
                    lane: Some(0),
                    faint: false,
                    down: false,
                    way: false,
                });
            }
        }
    }
}

/// The arcs on one side of the dots.
#[derive(Default)]
struct Lanes([Vec<(usize, usize)>; LANES]);

impl Lanes {
    /// The first lane with room for arcs from a row to others.
    fn find(&mut self, from: usize, to: &[usize]) -> Option<usize> {
        let top = to.iter().copied().fold(from, usize::min);
        let bottom = to.iter().copied().fold(from, usize::max);
        let mut lanes = self.0.iter_mut().enumerate();
        let free = |arcs: &[(usize, usize)]| {
            let mut arcs = arcs.iter();
            arcs.all(|(first, last)| *last <= top || bottom <= *first)
        };
        let (lane, arcs) = lanes.find(|(_, arcs)| free(arcs))?;
        arcs.push((top, bottom));
        Some(lane)
    }
}
