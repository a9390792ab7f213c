//! Tests of the table.

use super::*;

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
fn chain(count: usize) -> ChannelRecord<'static> {
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

fn names(matrix: &Matrix<'_>) -> Vec<String> {
    let rows = matrix.rows.iter().map(|row| match row {
        Row::Version { name, .. } => (*name).to_owned(),
        Row::Fold { count, ends, .. } => format!("{count}: {}..{}", ends.0, ends.1),
    });
    rows.collect()
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
    let all = MatrixView {
        all: true,
        ..MatrixView::default()
    };
    let matrix = Matrix::of(&[&channel], all);
    assert_eq!(
        (matrix.rows.len(), matrix.lines.len(), matrix.hidden),
        (30, 29, 0)
    );
}

#[test]
fn a_kept_version_is_not_folded() {
    let channel = chain(30);
    let view = MatrixView {
        kept: &["a.v15"],
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
fn names_that_no_channel_has_come_last_and_are_marked() {
    let mut channel = chain(2);
    channel.entries[1].replaces = "a.gone".into();
    let matrix = Matrix::of(&[&channel], MatrixView::default());
    assert_eq!(names(&matrix), ["a.v1", "a.v0", "a.gone"]);
    let Row::Version { cells, remarks, .. } = &matrix.rows[2] else {
        panic!("{:?}", matrix.rows);
    };
    assert!(cells[0].unwrap().absent);
    assert_eq!(remarks, &["named, not in the catalog"]);
}

#[test]
fn a_range_is_a_bracket_of_heads_and_of_the_selected_entry() {
    let mut channel = chain(3);
    channel.entries[0].skip_range = ">=1.0.0 <1.2.0".into();
    channel.entries[1].skip_range = "<1.1.0".into();
    let ranges = |selected| {
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
    assert_eq!(ranges(None), [(1, 2)]);
    assert_eq!(ranges(Some("a.v1")), [(1, 2), (2, 2)]);
}

#[test]
fn what_olm_v0_never_installs_is_faint_under_its_rules_only() {
    let mut channel = chain(3);
    channel.entries[0].skips = vec!["a.v1".into()];
    let faint = |rules| {
        let view = MatrixView {
            rules,
            ..MatrixView::default()
        };
        let matrix = Matrix::of(&[&channel], view);
        matrix.lines.iter().filter(|line| line.faint).count()
    };
    assert_eq!(faint(Rules::V1), 0);
    assert!(faint(Rules::V0) > 0);
}

#[test]
fn a_cycle_and_versions_that_go_down_are_drawn_as_such() {
    let mut channel = chain(2);
    channel.entries[1].replaces = "a.v1".into();
    let matrix = Matrix::of(&[&channel], MatrixView::default());
    assert_eq!(matrix.lines.iter().filter(|line| line.down).count(), 1);
    assert_eq!(matrix.rows.len(), 2);
}

#[test]
fn hundreds_of_versions_are_cut_at_first() {
    let mut channel = chain(300);
    for entry in &mut channel.entries {
        entry.deprecation = Some("old".into());
    }
    let matrix = Matrix::of(&[&channel], MatrixView::default());
    assert_eq!((matrix.rows.len(), matrix.hidden), (ROWS, 240));
}
