//! Output of commands. Standard output may be closed early, and text from outside
//! cannot control the terminal.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::{Failure, terminal};
use fbc::text::display::turns_direction;

/// The least characters of the last column of a table.
const LEAST: usize = 12;

/// How a table looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Whether the first line, that of the titles, is bold.
    pub(super) coloured: bool,
    /// The width that its last column is cut for; none without a terminal.
    pub(super) width: Option<usize>,
}

impl Look {
    /// The look on standard output.
    pub(super) fn of_output() -> Self {
        Self {
            coloured: terminal::colours_output(),
            width: terminal::width(),
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

/// Writes a table whose columns are as wide as their longest cells. With `blanks`, all
/// cells but the last of a line are filled, as by Go's tabwriter; otherwise lines do not
/// end with blanks.
pub(super) fn table<'a>(
    rows: impl Iterator<Item = Vec<Cow<'a, str>>>,
    blanks: bool,
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    let rows: Vec<Vec<String>> = rows
        .map(|row| row.iter().map(|cell| Shown(cell).to_string()).collect())
        .collect();
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    // The last column has the longest texts. Where the others leave too little room,
    // a cut would not help.
    let others: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    let room = look.width.map(|width| width.saturating_sub(others));
    let title = rows.first().and_then(|titles| titles.last());
    let minimum = title.map_or(0, |title| title.chars().count()).max(LEAST);
    let room = room.filter(|room| *room >= minimum);
    for (number, row) in rows.iter().enumerate() {
        let Some((last, others)) = row.split_last() else {
            continue;
        };
        let last = match room {
            Some(room) => Cow::from(shortened(last, room)),
            None => Cow::from(last),
        };
        let mut line = String::new();
        for (cell, width) in others.iter().zip(&widths) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        line.push_str(&last);
        let line = if blanks { &line } else { line.trim_end() };
        if look.coloured && number == 0 {
            writeln!(out, "\x1b[1m{line}\x1b[0m")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The beginning of a text, of at most so many characters; `…` tells that there is more.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept.push('…');
    kept
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
        for (blanks, end) in [(false, ""), (true, "  ")] {
            let rows = [
                ("NAME", "HEAD"),
                ("é", "a.v1"),
                ("longer\n", ""),
                ("b", "c"),
            ];
            let rows = rows.map(|(name, head)| vec![name.into(), head.into()]);
            let mut out = Vec::new();
            table(rows.into_iter(), blanks, Look::default(), &mut out).unwrap();
            assert_eq!(
                String::from_utf8(out).unwrap(),
                format!("NAME      HEAD\né         a.v1\nlonger\\n{end}\nb         c\n")
            );
        }
    }

    #[test]
    fn the_last_column_is_cut_for_the_width_of_a_terminal() {
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
            table(rows.into_iter(), false, look, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(of(24), "NAME   SUMMARY\nferry  carries messages…\n");
        assert_eq!(
            of(34),
            "NAME   SUMMARY\nferry  carries messages to and fro\n"
        );
        assert_eq!(of(19), "NAME   SUMMARY\nferry  carries mes…\n");
        assert_eq!(of(18), of(34));
    }

    #[test]
    fn numbers_have_their_nouns() {
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!(count(0, "entry"), "0 entries");
        assert_eq!(count(2, "package"), "2 packages");
    }
}
