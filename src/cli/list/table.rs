//! Columns of text.

use std::io::{self, Write};

use crate::cli::output::Shown;

/// A table whose columns are as wide as their longest cells.
pub(super) struct Table {
    /// The titles first.
    rows: Vec<Vec<String>>,
    /// In characters.
    widths: Vec<usize>,
}

impl Table {
    /// A table with these titles.
    pub(super) fn new(titles: &[&str]) -> Self {
        let mut table = Self {
            rows: Vec::new(),
            widths: vec![0; titles.len()],
        };
        let titles: Vec<String> = titles.iter().copied().map(str::to_owned).collect();
        table.add(&titles);
        table
    }

    /// Adds a row.
    pub(super) fn add(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| Shown(cell).to_string()).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        self.rows.push(cells);
    }

    /// Prints the table, without blanks at line ends.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for row in &self.rows {
            let mut line = String::new();
            for (cell, &width) in row.iter().zip(&self.widths) {
                line.push_str(cell);
                let missing = width - cell.chars().count();
                line.extend(std::iter::repeat_n(' ', missing + 2));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(&["NAME", "HEAD"]);
        for (name, head) in [("é", "a.v1"), ("longer\n", ""), ("b", "c")] {
            table.add(&[name.to_owned(), head.to_owned()]);
        }
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "NAME      HEAD\né         a.v1\nlonger\\n\nb         c\n"
        );
    }
}
