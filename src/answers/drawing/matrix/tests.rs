//! Tests of the table.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::answers::rest::plan::Rules;
use crate::answers::rest::records::EntryRecord;

fn entry(version: usize, replaces: Option<usize>) -> EntryRecord<'static> {
    EntryRecord {
        name: format!("a.v{version}").into(),
        version: format!("1.{version}.0").into(),
        replaces: replaces
            .map(|it| format!("a.v{it}"))
            .unwrap_or_default()
            .into(),
        ..EntryRecord::default()
    }
}

/// A chain of versions, the highest first.
pub(crate) fn chain(count: usize) -> ChannelRecord<'static> {
    ChannelRecord {
        name: "stable".into(),
        default: true,
        head: Some(format!("a.v{}", count - 1).into()),
        entries: (0..count)
            .rev()
            .map(|at| entry(at, at.checked_sub(1)))
            .collect(),
        ..ChannelRecord::default()
    }
}

/// Channels of a package with a deprecated channel and version, skips, and a name that
/// the catalog lacks.
pub(crate) fn etcd() -> Vec<ChannelRecord<'static>> {
    let entry = |name: &'static str,
                 version: &'static str,
                 replaces: &'static str,
                 skips: &[&'static str]| EntryRecord {
        name: name.into(),
        version: version.into(),
        replaces: replaces.into(),
        skips: skips.iter().map(|skip| (*skip).into()).collect(),
        ..EntryRecord::default()
    };
    let mut stable = vec![
        entry(
            "etcd.v2",
            "2.0.0",
            "etcd.v1.1",
            &["etcd.v1.0", "etcd.v1.1-bad"],
        ),
        entry("etcd.v1.1", "1.1.0", "etcd.v1.0", &["etcd.v1.0"]),
        entry("etcd.v1.0", "1.0.0", "etcd.v0.9", &[]),
        entry("etcd.v1.1-bad", "1.1.0-bad", "etcd.v1.0", &[]),
    ];
    stable[2].deprecation = Some("Old.".into());
    let mut alpha = entry("etcd.v2", "2.0.0", "", &[]);
    alpha.skip_range = ">=1.0.0 <2.0.0".into();
    let channel = |name: &'static str, entries| ChannelRecord {
        name: name.into(),
        head: Some("etcd.v2".into()),
        version: "2.0.0".into(),
        entries,
        ..ChannelRecord::default()
    };
    vec![
        ChannelRecord {
            deprecation: Some("Old.".into()),
            ..channel("alpha", vec![alpha])
        },
        ChannelRecord {
            default: true,
            ..channel("stable", stable)
        },
    ]
}

/// A channel with two heads and a cycle.
pub(crate) fn broken() -> Vec<ChannelRecord<'static>> {
    let mut channels = etcd();
    channels.remove(0);
    let stable = &mut channels[0];
    stable.head = None;
    stable
        .entries
        .retain(|one| one.version != "2.0.0" && one.version != "1.1.0-bad");
    stable.entries[0].skips.clear();
    stable.entries[1].replaces = "etcd.v1.1".into();
    for (name, version) in [("etcd.v3", "3.0.0"), ("etcd.v4", "4.0.0")] {
        stable.entries.push(EntryRecord {
            name: name.into(),
            version: version.into(),
            ..EntryRecord::default()
        });
    }
    channels
}

fn names(matrix: &Matrix<'_>) -> Vec<String> {
    let rows = matrix.rows.iter().map(|row| match row {
        Row::Version(bundle) => bundle.name.to_owned(),
        Row::Fold { names, ends, .. } => format!("{}: {}..{}", names.len(), ends.0, ends.1),
    });
    rows.collect()
}

fn all() -> MatrixView<'static> {
    MatrixView {
        all: true,
        ..MatrixView::default()
    }
}

#[test]
fn a_long_run_of_plain_versions_is_one_row() {
    let channel = chain(30);
    let matrix = Matrix::of(&[&channel], MatrixView::default());
    assert_eq!(names(&matrix), ["a.v29", "28: 1.28.0..1.1.0", "a.v0"]);
    assert_eq!(matrix.hidden, 28);
    let edges: Vec<_> = matrix
        .lines
        .iter()
        .map(|line| (line.from, line.to))
        .collect();
    assert_eq!(edges, [(0, 1), (1, 2)]);
    let matrix = Matrix::of(&[&channel], all());
    assert_eq!(
        (matrix.rows.len(), matrix.lines.len(), matrix.hidden),
        (30, 29, 0)
    );
}

#[test]
fn a_selected_version_is_not_folded() {
    let channel = chain(30);
    let view = MatrixView {
        selected: &["a.v15"],
        ..MatrixView::default()
    };
    let matrix = Matrix::of(&[&channel], view);
    assert_eq!(
        names(&matrix),
        [
            "a.v29",
            "13: 1.28.0..1.16.0",
            "a.v15",
            "14: 1.14.0..1.1.0",
            "a.v0"
        ]
    );
}

#[test]
fn a_way_leads_through_folds_and_over_ranges() {
    let mut channel = chain(30);
    channel.entries[0].skip_range = "<1.29.0".into();
    let way = [
        WayStep {
            channel: "stable",
            from: "a.v3",
            to: "a.v4",
        },
        WayStep {
            channel: "stable",
            from: "a.v4",
            to: "a.v29",
        },
    ];
    let view = MatrixView {
        selected: &["a.v3", "a.v29"],
        way: &way,
        ..MatrixView::default()
    };
    let matrix = Matrix::of(&[&channel], view);
    let way: Vec<_> = matrix.lines.iter().filter(|line| line.way).collect();
    let found: Vec<_> = way.iter().map(|it| (it.from, it.to, it.kind)).collect();
    // The last step is by name in the channel, too: from the fold to the head.
    assert_eq!(
        found,
        [(0, 1, LineKind::Replaces), (1, 2, LineKind::Replaces)],
        "{:?}",
        names(&matrix)
    );
    let view = MatrixView {
        selected: &["a.v3", "a.v4", "a.v29"],
        way: &[WayStep {
            channel: "stable",
            from: "a.v4",
            to: "a.v29",
        }],
        ..MatrixView::default()
    };
    let matrix = Matrix::of(&[&channel], view);
    let found: Vec<_> = matrix.lines.iter().filter(|line| line.way).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, LineKind::Jump);
}

#[test]
fn names_that_no_channel_has_come_last_and_are_marked() {
    let mut channel = chain(2);
    channel.entries[1].replaces = "a.gone".into();
    let matrix = Matrix::of(&[&channel], MatrixView::default());
    assert_eq!(names(&matrix), ["a.v1", "a.v0", "a.gone"]);
    let Row::Version(bundle) = &matrix.rows[2] else {
        panic!("{:?}", matrix.rows);
    };
    assert!(bundle.cells[0].as_ref().unwrap().is_absent());
    assert_eq!(
        bundle.remarks(&matrix.columns),
        ["named, not in the catalog"]
    );
}

#[test]
fn a_range_is_a_bracket_of_heads_and_of_the_selected_entry() {
    let mut channel = chain(3);
    channel.entries[0].skip_range = ">=1.0.0 <1.2.0".into();
    channel.entries[1].skip_range = "<1.1.0".into();
    let ranges = |selected: &[&str]| {
        let view = MatrixView {
            selected,
            ..MatrixView::default()
        };
        let matrix = Matrix::of(&[&channel], view);
        let lines = matrix
            .lines
            .iter()
            .filter(|line| line.kind == LineKind::Range);
        lines.map(|line| (line.from, line.to)).collect::<Vec<_>>()
    };
    assert_eq!(ranges(&[]), [(1, 2)]);
    assert_eq!(ranges(&["a.v1"]), [(1, 2), (2, 2)]);
}

#[test]
fn an_edge_to_what_olm_v0_never_installs_is_faint_under_its_rules_only() {
    let mut channel = chain(3);
    channel.entries[0].skips = vec!["a.v1".into()];
    let faint = |rules| {
        let view = MatrixView {
            rules,
            ..MatrixView::default()
        };
        let matrix = Matrix::of(&[&channel], view);
        let lines = matrix.lines.iter().filter(|line| line.faint);
        lines.map(|line| (line.from, line.to)).collect::<Vec<_>>()
    };
    assert_eq!(faint(Rules::V1), []);
    assert_eq!(faint(Rules::V0), [(1, 2)]);
}

#[test]
fn errors_of_a_channel_are_remarks() {
    let channels = broken();
    let view = MatrixView {
        rules: Rules::V1,
        ..all()
    };
    let matrix = Matrix::of(&[&channels[0]], view);
    let remarks = matrix.rows.iter().map(|row| match row {
        Row::Version(bundle) => bundle.remarks(&matrix.columns).join("; "),
        Row::Fold { .. } => panic!("{row:?}"),
    });
    assert_eq!(
        remarks.collect::<Vec<_>>(),
        [
            "one of several heads of stable",
            "one of several heads of stable",
            "in a cycle; no head leads here",
            "in a cycle; no head leads here; replaces a higher version",
        ]
    );
    assert_eq!(matrix.lines.iter().filter(|line| line.down).count(), 1);
}

#[test]
fn hundreds_of_versions_are_cut_but_for_the_selected_ones() {
    let mut channel = chain(300);
    for entry in &mut channel.entries {
        entry.deprecation = Some("old".into());
    }
    let matrix = Matrix::of(&[&channel], MatrixView::default());
    assert_eq!((matrix.rows.len(), matrix.hidden), (ROWS, 241));
    let view = MatrixView {
        selected: &["a.v299", "a.v100"],
        ..MatrixView::default()
    };
    let matrix = Matrix::of(&[&channel], view);
    assert_eq!((matrix.rows.len(), matrix.hidden), (ROWS, 242));
    assert!(names(&matrix).contains(&"a.v100".to_owned()));
}

#[test]
fn edges_without_room_are_counted() {
    let mut channel = chain(12);
    // Five entries skip across the same rows.
    for at in 0..5 {
        channel.entries[at].skips = vec!["a.v1".into(), "a.v2".into()];
    }
    let matrix = Matrix::of(&[&channel], all());
    let more: Vec<usize> = matrix
        .rows
        .iter()
        .filter_map(|row| row.cell(0))
        .map(|cell| cell.more)
        .collect();
    assert_eq!(more[..6], [0, 0, 0, 2, 2, 0]);
    let skips = matrix.lines.iter().filter(|it| it.kind == LineKind::Skips);
    assert_eq!(skips.count(), 10);
}

#[test]
fn a_channel_whose_entries_skip_all_others_keeps_few_lines() {
    const ENTRIES: usize = 500;
    let mut hostile = chain(ENTRIES);
    for (at, entry) in hostile.entries.iter_mut().enumerate() {
        let lower = (0..ENTRIES - 1 - at).map(|version| format!("a.v{version}").into());
        entry.skips = lower.collect();
    }
    let matrix = Matrix::of(&[&hostile], all());
    // Each row has one edge by `replaces`; the arcs in a lane do not overlap.
    let most = ENTRIES + LANES * ENTRIES + UNPLACED;
    assert!(matrix.lines.len() <= most, "{}", matrix.lines.len());
    // Omitted edges are counted: all but those to the next row, which `replaces`
    // has, and those with a place.
    let placed = matrix.lines.iter().filter(|line| line.lane.is_some());
    let placed = placed.filter(|line| line.kind == LineKind::Skips).count();
    let counted: usize = (0..ENTRIES)
        .filter_map(|row| Some(matrix.rows[row].cell(0)?.more))
        .sum();
    assert_eq!(counted + placed, (ENTRIES - 1) * (ENTRIES - 2) / 2);
}

#[test]
fn a_way_that_changes_the_channel_has_a_line_between_both() {
    let (slow, mut fast) = (chain(3), chain(5));
    fast.name = "fast".into();
    let step = |channel, from, to| WayStep { channel, from, to };
    let way = [
        step("stable", "a.v0", "a.v1"),
        step("stable", "a.v1", "a.v2"),
        step("fast", "a.v2", "a.v3"),
    ];
    let view = MatrixView { way: &way, ..all() };
    let matrix = Matrix::of(&[&slow, &fast], view);
    let row = names(&matrix).iter().position(|name| name == "a.v2");
    let [change] = matrix.changes[..] else {
        panic!("{:?}", matrix.changes)
    };
    assert_eq!((Some(change.row), change.from, change.to), (row, 0, 1));
    // A channel that is not shown has no place.
    assert!(Matrix::of(&[&slow], view).changes.is_empty());
}

#[test]
fn channels_without_room_are_counted() {
    let one = |number: usize, count: usize| ChannelRecord {
        name: format!("c{number}").into(),
        ..chain(count)
    };
    for (channels, entries, columns) in [(3, 2, 3), (101, 1, 100), (100, 5_000, 50)] {
        let of_one = (0..channels).map(|number| one(number, if number == 0 { entries } else { 1 }));
        let of_one: Vec<_> = of_one.collect();
        let shown: Vec<&ChannelRecord<'_>> = of_one.iter().collect();
        let matrix = Matrix::of(&shown, all());
        assert_eq!(matrix.columns.len(), columns, "{channels}");
        assert_eq!(matrix.beyond, channels - columns);
        assert!(matrix.rows.len() * columns <= CELLS);
    }
    // One channel always has its column.
    let tall = one(0, CELLS + 1);
    assert_eq!(fitting(&[&tall, &tall]), 1);
}

/// Up to three channels of up to 80 versions, with edges between any of them.
fn channels() -> impl Strategy<Value = Vec<ChannelRecord<'static>>> {
    let edges = (
        0_usize..90,
        prop::bool::weighted(0.85),
        prop::collection::vec(0_usize..90, 0..2),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
    );
    let channel = (prop::collection::vec(edges, 1..80), 0_usize..10);
    prop::collection::vec(channel, 1..4).prop_map(|channels| {
        let channels = channels.into_iter().enumerate();
        let channels = channels.map(|(number, (edges, first))| {
            let entries = edges.into_iter().enumerate();
            let entries = entries.map(|(at, (other, chained, skips, ranged, old))| {
                let at = first + at;
                let mut own = entry(
                    at,
                    if chained {
                        at.checked_sub(1)
                    } else {
                        Some(other)
                    },
                );
                if ranged {
                    own.skips = skips.iter().map(|it| format!("a.v{it}").into()).collect();
                    own.skip_range = "<1.20.0".into();
                }
                own.deprecation = old.then(|| "old".into());
                own
            });
            ChannelRecord {
                name: format!("c{number}").into(),
                entries: entries.collect(),
                ..ChannelRecord::default()
            }
        });
        channels.collect()
    })
}

/// The bundles of each row.
fn members<'a>(matrix: &Matrix<'a>) -> Vec<Vec<&'a str>> {
    let rows = matrix.rows.iter().map(|row| match row {
        Row::Version(bundle) => vec![bundle.name],
        Row::Fold { names, .. } => names.clone(),
    });
    rows.collect()
}

proptest! {
    #[test]
    fn folding_loses_no_version_and_no_edge(
        channels in channels(),
        selected in 0_usize..90,
        v1 in any::<bool>(),
    ) {
        let shown: Vec<&ChannelRecord<'_>> = channels.iter().collect();
        let selected = format!("a.v{selected}");
        let rules = if v1 { Rules::V1 } else { Rules::V0 };
        let selected = [selected.as_str()];
        let view = |all| MatrixView { all, rules, selected: &selected, ..MatrixView::default() };
        let whole = Matrix::of(&shown, view(true));
        let folded = Matrix::of(&shown, view(false));
        let (rows, folds) = (members(&whole), members(&folded));

        // The same bundles in the same order, each once.
        prop_assert_eq!(rows.concat(), folds.concat());
        prop_assert!(rows.iter().all(|row| row.len() == 1));
        let once: BTreeSet<&str> = rows.concat().into_iter().collect();
        prop_assert_eq!(once.len(), rows.len());
        prop_assert!(folds.len() <= ROWS);
        let hidden: usize = folds.iter().filter(|row| row.len() > 1).map(Vec::len).sum();
        prop_assert_eq!(folded.hidden, hidden);

        // The selection keeps its row.
        prop_assert!(folds.iter().all(|row| row.len() == 1 || !row.contains(&selected[0])));

        // Edges between rows are those of the whole table.
        let place: BTreeMap<&str, usize> = folds
            .iter()
            .enumerate()
            .flat_map(|(at, row)| row.iter().map(move |name| (*name, at)))
            .collect();
        let edges = |matrix: &Matrix<'_>, place: &dyn Fn(usize) -> usize| {
            let lines = matrix.lines.iter().filter(|line| line.kind != LineKind::Range);
            let edges = lines.map(|it| (it.column, place(it.from), place(it.to)));
            edges.filter(|(_, from, to)| from != to).collect::<BTreeSet<_>>()
        };
        let wanted = edges(&whole, &|row| place[rows[row][0]]);
        prop_assert_eq!(edges(&folded, &|row| row), wanted);

        // A fold hides a simple chain, or the rows below the cut.
        if whole.rows.len() <= ROWS {
            for fold in folds.iter().filter(|row| row.len() > 1) {
                prop_assert!(fold.len() > 8);
                for pair in fold.windows(2) {
                    for channel in &channels {
                        let entry = channel.entries.iter().find(|it| it.name == pair[0]);
                        if let Some(entry) = entry {
                            prop_assert_eq!(&*entry.replaces, pair[1]);
                            prop_assert!(entry.skips.is_empty() && entry.skip_range.is_empty());
                        }
                    }
                }
            }
        }
    }
}
