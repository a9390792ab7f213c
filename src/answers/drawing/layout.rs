//! The positions of a channel's boxes. The head and the entries on its chain form one
//! lane, from the top down. Entries that are only skipped form a second lane
//! beside it.

use std::collections::VecDeque;

use crate::answers::drawing::model::{Column, EdgeKind};

/// The position of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// 0 is the lane of the head, 1 the other.
    pub(crate) lane: usize,
    /// From the top.
    pub(crate) row: usize,
}

/// A cell for each node. No two nodes get the same.
pub(crate) fn cells(column: &Column<'_>) -> Vec<Cell> {
    let count = column.nodes.len();
    let mut replaced = vec![None; count];
    let mut leads_back = vec![Vec::new(); count];
    for edge in &column.edges {
        if edge.kind == EdgeKind::Replaces {
            replaced[edge.to] = Some(edge.from);
        }
        leads_back[edge.to].push(edge.from);
    }
    let mut cells = vec![None; count];
    let mut queue = VecDeque::new();
    let mut next = [0, 0];
    for &head in &column.heads {
        let mut at = Some(head);
        while let Some(node) = at.filter(|node| cells[*node].is_none()) {
            cells[node] = Some(Cell {
                lane: 0,
                row: next[0],
            });
            next[0] += 1;
            queue.push_back(node);
            at = replaced[node];
        }
    }
    // The queue has the nodes of each lane from the top down.
    while let Some(node) = queue.pop_front() {
        let above = cells[node].map_or(0, |cell: Cell| cell.row);
        for &older in &leads_back[node] {
            if cells[older].is_none() {
                let row = next[1].max(above + 1);
                cells[older] = Some(Cell { lane: 1, row });
                next[1] = row + 1;
                queue.push_back(older);
            }
        }
    }
    // Nodes that no head leads to come last.
    let place = |cell: Option<Cell>| {
        cell.unwrap_or_else(|| {
            let row = next[1];
            next[1] += 1;
            Cell { lane: 1, row }
        })
    };
    cells.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::Drawing;
    use crate::answers::drawing::samples::sample;

    #[test]
    fn the_chain_of_the_head_has_a_lane_of_its_own() {
        let blobs = sample();
        let drawing = Drawing::new(&blobs, "etcd", Some("stable")).unwrap();
        let cells: Vec<_> = cells(&drawing.channels[0])
            .into_iter()
            .map(|cell| (cell.lane, cell.row))
            .collect();
        assert_eq!(cells, [(0, 2), (0, 1), (1, 1), (0, 0), (0, 3)]);
    }

    #[test]
    fn a_cycle_comes_to_an_end() {
        let mut blobs = sample();
        blobs.channels[1].blob.entries[0].replaces = "etcd.v2".into();
        let drawing = Drawing::new(&blobs, "etcd", Some("stable")).unwrap();
        let mut cells: Vec<_> = cells(&drawing.channels[0])
            .into_iter()
            .map(|cell| (cell.lane, cell.row))
            .collect();
        cells.sort_unstable();
        cells.dedup();
        assert_eq!(cells.len(), 4);
    }
}
