//! The entries of channels, from the rows of their edges.

use std::collections::{BTreeMap, HashMap};

use crate::sqlite::rows::{EdgeRow, Edges};

/// The entries of channels, by package, channel and name.
///
/// A bundle has a row for each edge. The edges on the way from a head to the
/// end, always along what is replaced, are those of `replaces`; all others are
/// of `skips`. The bundles' own rows are not used: indexes that order
/// bundles by version have nothing there.
pub fn entries(rows: &[EdgeRow]) -> BTreeMap<(&str, &str), BTreeMap<&str, Edges>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&at| rows[at].id);
    let by_id: HashMap<i64, usize> = order.iter().map(|&at| (rows[at].id, at)).collect();
    let next = |at: usize| by_id.get(&rows[at].replaces?).copied();

    let head = rows.iter().filter_map(|row| row.depth).min();
    let is_head = |at: &usize| head.is_some() && rows[*at].depth == head;
    let mut on_the_way = vec![false; rows.len()];
    for start in (0..rows.len()).filter(is_head) {
        let mut at = Some(start);
        while let Some(here) = at.filter(|&here| !on_the_way[here]) {
            on_the_way[here] = true;
            at = next(here);
        }
    }

    let mut entries: BTreeMap<_, BTreeMap<&str, Edges>> = BTreeMap::new();
    for at in order {
        let (package, channel, name) = &rows[at].of;
        let channel = entries.entry((package.as_str(), channel.as_str()));
        let edges = channel.or_default().entry(name.as_str()).or_default();
        if let Some(other) = next(at) {
            let other = rows[other].of.2.clone();
            if on_the_way[at] {
                edges.replaces = edges.replaces.take().max(Some(other));
            } else {
                edges.skips.push(other);
            }
        }
    }
    entries
}
