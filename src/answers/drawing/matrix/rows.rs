//! The rows of the table. Runs of plain bundles fold into one row, and so does what is
//! below the last row.

use std::collections::{HashMap, HashSet};

use crate::answers::drawing::matrix::bundles::Bundle;
use crate::answers::drawing::matrix::model::{BundleRow, Cell, MatrixView, ROWS, Row};

/// Longer runs of plain bundles are folded.
const RUN: usize = 8;

/// The rows, the row of each bundle, and how many bundles are folded.
pub(super) fn of<'a>(
    bundles: Vec<Bundle<'a>>,
    view: MatrixView<'_>,
) -> (Vec<Row<'a>>, HashMap<&'a str, usize>, usize) {
    let way: HashSet<&str> = view
        .way
        .iter()
        .flat_map(|step| [step.from, step.to])
        .collect();
    let mut runs: Vec<Vec<Bundle<'a>>> = Vec::new();
    for mut bundle in bundles {
        bundle.plain &= !view.selected.contains(&bundle.name);
        match runs.last_mut() {
            Some(run) if follows(run, &bundle) => run.push(bundle),
            _ => runs.push(vec![bundle]),
        }
    }
    if !view.all {
        runs = runs.into_iter().flat_map(opened).collect();
        runs = cut(runs, view.selected);
    }
    let mut rows = Vec::new();
    let mut places = HashMap::new();
    let mut hidden = 0;
    for run in runs {
        let is_fold = !view.all && run.len() > 1;
        if is_fold {
            places.extend(run.iter().map(|bundle| (bundle.name, rows.len())));
            hidden += run.len();
            rows.push(fold(&run, &way));
            continue;
        }
        for bundle in run {
            places.insert(bundle.name, rows.len());
            rows.push(Row::Version(BundleRow {
                way: way.contains(bundle.name),
                name: bundle.name,
                version: bundle.version,
                deprecation: bundle.deprecation,
                cells: bundle.cells,
            }));
        }
    }
    (rows, places, hidden)
}

/// Whether a bundle is the next of a run: in each of its channels, the one above
/// replaces it, and both have the same channels. So a fold hides no branch.
fn follows(run: &[Bundle<'_>], bundle: &Bundle<'_>) -> bool {
    let Some(last) = run.last().filter(|last| last.plain && bundle.plain) else {
        return false;
    };
    let mut pairs = last.cells.iter().zip(&bundle.cells);
    pairs.all(|pair| match pair {
        (Some(above), Some(_)) => above
            .entry
            .is_some_and(|entry| entry.replaces == bundle.name),
        (None, None) => true,
        _ => false,
    })
}

/// A run as one if it is long enough, otherwise its bundles by themselves.
fn opened(run: Vec<Bundle<'_>>) -> Vec<Vec<Bundle<'_>>> {
    if run.len() > RUN {
        return vec![run];
    }
    run.into_iter().map(|bundle| vec![bundle]).collect()
}

/// Joins what is below the last row, except for selected bundles.
fn cut<'a>(runs: Vec<Vec<Bundle<'a>>>, selected: &[&str]) -> Vec<Vec<Bundle<'a>>> {
    if runs.len() <= ROWS {
        return runs;
    }
    let is_selected = |run: &[Bundle<'_>]| run.iter().any(|one| selected.contains(&one.name));
    // A selected row below needs a place for itself and for the fold behind it.
    let below = runs
        .iter()
        .skip(ROWS - 1 - 2 * selected.len().min(ROWS / 4));
    let below = below.filter(|run| is_selected(run)).count();
    let shown = ROWS - 1 - 2 * below.min(ROWS / 4);
    let mut rows: Vec<Vec<Bundle<'a>>> = Vec::new();
    let mut open = false;
    for (at, run) in runs.into_iter().enumerate() {
        let stays = at < shown || is_selected(&run);
        match rows.last_mut() {
            Some(last) if open && !stays => last.extend(run),
            _ => rows.push(run),
        }
        open = !stays;
    }
    rows
}

fn fold<'a>(run: &[Bundle<'a>], way: &HashSet<&str>) -> Row<'a> {
    let columns = run.first().map_or(0, |bundle| bundle.cells.len());
    let has = |column: usize| run.iter().any(|bundle| bundle.cells[column].is_some());
    let label = |bundle: Option<&Bundle<'a>>| match bundle {
        Some(bundle) if bundle.cells.iter().flatten().all(Cell::is_absent) => bundle.name,
        Some(bundle) => bundle.version,
        None => "",
    };
    Row::Fold {
        names: run.iter().map(|bundle| bundle.name).collect(),
        ends: (label(run.first()), label(run.last())),
        cells: (0..columns).map(has).collect(),
        way: run.iter().any(|bundle| way.contains(bundle.name)),
    }
}
