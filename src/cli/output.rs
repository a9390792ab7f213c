//! Output of commands. Standard output may be closed early, and text from outside
//! cannot control the terminal.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::{Failure, terminal};
use fbc::text::display::{fit, turns_direction};

/// A column of a table is not shortened below this width, in characters.
const MIN_WIDTH: usize = 12;
/// The blanks between two columns.
const GAP: usize = 2;

/// How a table looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Whether the first line, that of the titles, is bold.
    pub(super) coloured: bool,
    /// The width that its columns are shortened to; without a terminal there is none.
    pub(super) width: Option<usize>,
}

impl Look {
    /// The look on standard output.
    pub(super) fn from_terminal() -> Self {
        Self {
            coloured: terminal::colours_output(),
            width: terminal::width(),
        }
    }

    /// The same without a width: no column is shortened.
    pub(super) fn uncut(self) -> Self {
        Self {
            width: None,
            ..self
        }
    }
}

/// Writes to standard output, and returns the exit code of success. A closed
/// pipe, as by `head`, is not a failure.
pub(super) fn print(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // Dropping the writer would write the rest of its buffer again.
            drop(out.into_parts());
        }
        printed => printed.context("cannot print").map_err(Failure::run)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a value as a JSON document.
pub(super) fn json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// How the lines of a table end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// No line ends with blanks, and a table without rows has no titles either.
    Trimmed,
    /// All cells but the last of a line are filled, as by Go's tabwriter.
    Filled,
}

/// Writes a table; the first row has the titles. Columns are as wide as their longest
/// cells, unless [`fitted`] shortens them.
pub(super) fn table<'a>(
    rows: impl Iterator<Item = Vec<Cow<'a, str>>>,
    lines: Lines,
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    let rows: Vec<Vec<String>> = rows
        .map(|row| row.iter().map(|cell| Shown(cell).to_string()).collect())
        .collect();
    if lines == Lines::Trimmed && rows.len() < 2 {
        return Ok(());
    }
    let titles = rows.first().map_or(&[][..], Vec::as_slice);
    let titles: Vec<usize> = titles.iter().map(|title| title.chars().count()).collect();
    let mut widths = titles.clone();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    if let Some(width) = look.width {
        widths = fitted(&widths, &titles, width);
    }
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = fit(cell, *width);
            // Writing to a String cannot fail.
            let _ = if at + 1 < row.len() {
                write!(line, "{cell:width$}{:GAP$}", "")
            } else {
                write!(line, "{cell}")
            };
        }
        let line = match lines {
            Lines::Filled => &line,
            Lines::Trimmed => line.trim_end(),
        };
        if look.coloured && number == 0 {
            writeln!(out, "\x1b[1m{line}\x1b[0m")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The widths of columns in a line of at most `width` characters. The last column, which has
/// the longest texts, is shortened first, then the widest of the others; none below its title
/// or [`MIN_WIDTH`]. If these minima are too wide, the line is, too.
fn fitted(widths: &[usize], titles: &[usize], width: usize) -> Vec<usize> {
    let mut fitted = widths.to_vec();
    let Some(last) = widths.len().checked_sub(1) else {
        return fitted;
    };
    let room = width.saturating_sub(GAP * last);
    let minimum = |at: usize| widths[at].min(titles[at].max(MIN_WIDTH));
    let others: usize = widths[..last].iter().sum();
    let narrowest = minimum(last);
    fitted[last] = room.saturating_sub(others).clamp(narrowest, widths[last]);
    if others + narrowest <= room {
        return fitted;
    }
    let left = room.saturating_sub(narrowest);
    let limited = |limit: usize| -> Vec<usize> {
        let columns = 0..last;
        columns
            .map(|at| limit.clamp(minimum(at), widths[at]))
            .collect()
    };
    let fits = |limit: &usize| limited(*limit).iter().sum::<usize>() <= left;
    let limit = (0..=left).rev().find(fits).unwrap_or(0);
    let others = limited(limit);
    let rest = left.saturating_sub(others.iter().sum());
    fitted[last] = widths[last].min(narrowest + rest);
    fitted[..last].copy_from_slice(&others);
    fitted
}

/// Writes a line to standard error, unless notes are unwanted.
pub(super) fn note(text: &str) {
    if terminal::is_quiet() {
        return;
    }
    // Without standard error, this cannot be reported.
    let _ = writeln!(io::stderr(), "{}", Shown(text));
}

/// A text from outside on one line. Control characters and those that change the
/// writing direction are escaped.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sign in self.0.chars() {
            if sign.is_control() || turns_direction(sign) {
                write!(f, "{}", sign.escape_default())?;
            } else {
                f.write_char(sign)?;
            }
        }
        Ok(())
    }
}

/// A number with its noun.
pub(super) fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_reaches_the_terminal() {
        let text = "a\u{1b}[31m\n\tb\u{202e}c é \u{9b}";
        let shown = r"a\u{1b}[31m\n\tb\u{202e}c é \u{9b}";
        assert_eq!(Shown(text).to_string(), shown);
    }

    #[test]
    fn columns_stand_below_each_other() {
        for (lines, end) in [(Lines::Trimmed, ""), (Lines::Filled, "  ")] {
            let rows = [
                ("NAME", "HEAD"),
                ("é", "a.v1"),
                ("longer\n", ""),
                ("b", "c"),
            ];
            let rows = rows.map(|(name, head)| vec![name.into(), head.into()]);
            let mut out = Vec::new();
            table(rows.into_iter(), lines, Look::default(), &mut out).unwrap();
            assert_eq!(
                String::from_utf8(out).unwrap(),
                format!("NAME      HEAD\né         a.v1\nlonger\\n{end}\nb         c\n")
            );
        }
    }

    #[test]
    fn a_table_without_rows_has_titles_only_where_go_writes_them() {
        let write = |lines| {
            let titles = [vec![Cow::from("NAME"), Cow::from("HEAD")]];
            let mut out = Vec::new();
            table(titles.into_iter(), lines, Look::default(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(write(Lines::Trimmed), "");
        assert_eq!(write(Lines::Filled), "NAME  HEAD\n");
    }

    #[test]
    fn the_last_and_the_widest_columns_are_shortened_to_the_width_of_a_terminal() {
        let titles = [4, 7, 6];
        // Name, channels, APIs.
        let widths = [20, 600, 30];
        for (width, expected) in [
            (700, widths),
            (640, [20, 600, 16]),
            (100, [20, 64, 12]),
            (60, [20, 24, 12]),
            (45, [14, 14, 13]),
            // No column is narrower than 12 characters.
            (30, [12, 12, 12]),
        ] {
            assert_eq!(fitted(&widths, &titles, width), expected, "{width}");
        }
        assert_eq!(fitted(&[3, 20], &[3, 15], 10), [3, 15]);
        assert!(fitted(&[], &[], 10).is_empty());
    }

    #[test]
    fn a_shortened_cell_ends_with_an_ellipsis() {
        let of = |width: usize| {
            let rows = [
                ("NAME", "SUMMARY"),
                ("ferry", "carries messages to and fro"),
            ];
            let rows = rows.map(|(name, text)| vec![name.into(), text.into()]);
            let look = Look {
                coloured: false,
                width: Some(width),
            };
            let mut out = Vec::new();
            table(rows.into_iter(), Lines::Trimmed, look, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(of(24), "NAME   SUMMARY\nferry  carries messages…\n");
        assert_eq!(
            of(34),
            "NAME   SUMMARY\nferry  carries messages to and fro\n"
        );
        assert_eq!(of(19), "NAME   SUMMARY\nferry  carries mes…\n");
        assert_eq!(of(10), of(19));
    }

    #[test]
    fn numbers_have_their_nouns() {
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!(count(0, "entry"), "0 entries");
        assert_eq!(count(2, "package"), "2 packages");
    }
}
