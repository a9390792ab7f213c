//! The output formats of lists.

use std::borrow::Cow;
use std::io::{self, Write};
use std::iter;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::cli::output::{Lines, Look, Shown};
use crate::cli::{Failure, output};
use fbc::text::yaml;

/// The format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns for people; a terminal shortens them to its width
    #[default]
    Table,
    /// The table with all columns, not shortened to the terminal
    Wide,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// One line of JSON per item
    Jsonl,
    /// One name per line
    Name,
}

/// An item of a list.
pub(super) trait Row: Serialize {
    /// The titles of the columns.
    const COLUMNS: &'static [&'static str];
    /// The titles of those that only [`Format::Wide`] has.
    const WIDE: &'static [&'static str] = &[];

    /// The cells of the item, one for each column.
    fn cells(&self) -> Vec<Cow<'_, str>>;

    /// The name of the item.
    fn name(&self) -> Cow<'_, str>;
}

/// A column of a list of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    cell: fn(&Value) -> String,
    /// Whether only [`Format::Wide`] has it.
    is_wide: bool,
}

impl Column {
    /// A column of every table, with the cell of an object.
    pub(super) const fn new(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self {
            title,
            cell,
            is_wide: false,
        }
    }

    /// A column that only [`Format::Wide`] has.
    pub(super) const fn wide(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self {
            is_wide: true,
            ..Self::new(title, cell)
        }
    }
}

impl Format {
    /// Prints a list.
    pub(super) fn print<R: Row>(self, rows: &[R]) -> Result<ExitCode, Failure> {
        self.print_within(rows, &rows)
    }

    /// Prints a document with a list: the document as JSON or YAML, the list in the
    /// other formats.
    pub(super) fn print_within<R: Row>(
        self,
        rows: &[R],
        document: &impl Serialize,
    ) -> Result<ExitCode, Failure> {
        let list = List {
            items: rows,
            columns: (R::COLUMNS.iter())
                .map(|title| (*title, R::WIDE.contains(title)))
                .collect(),
            cells: R::cells,
            name: R::name,
        };
        output::print(|out| self.write(&list, document, Look::from_terminal(), out))
    }

    /// Prints a list of objects, within a document for JSON and YAML. Each is named by
    /// its member `name`.
    pub(super) fn print_objects(
        self,
        items: &[Value],
        document: &impl Serialize,
        columns: &[Column],
        name: &str,
    ) -> Result<ExitCode, Failure> {
        let list = List {
            items,
            columns: (columns.iter())
                .map(|column| (column.title, column.is_wide))
                .collect(),
            cells: |item: &Value| {
                let cells = columns.iter().map(|column| (column.cell)(item).into());
                cells.collect()
            },
            name: |item: &Value| match item.get(name).and_then(Value::as_str) {
                Some(name) => name.to_owned().into(),
                None => Cow::from(""),
            },
        };
        output::print(|out| self.write(&list, document, Look::from_terminal(), out))
    }

    fn write<'a, T, C, N>(
        self,
        list: &List<'a, T, C, N>,
        document: &impl Serialize,
        look: Look,
        out: &mut impl Write,
    ) -> io::Result<()>
    where
        T: Serialize,
        C: Fn(&'a T) -> Vec<Cow<'a, str>>,
        N: Fn(&'a T) -> Cow<'a, str>,
    {
        match self {
            Self::Table => {
                let shown = |at: usize| list.columns.get(at).is_some_and(|(_, is_wide)| !is_wide);
                let rows = list.rows().map(|row| {
                    let cells = row.into_iter().enumerate();
                    let cells = cells.filter(|(at, _)| shown(*at));
                    cells.map(|(_, cell)| cell).collect()
                });
                output::table(rows, Lines::Trimmed, look, out)
            }
            Self::Wide => output::table(list.rows(), Lines::Trimmed, look.uncut(), out),
            Self::Json => output::json(document, out),
            Self::Yaml => yaml_of(document, out),
            Self::Jsonl => {
                for item in list.items {
                    json_line(item, out)?;
                }
                Ok(())
            }
            Self::Name => {
                for item in list.items {
                    writeln!(out, "{}", Shown(&(list.name)(item)))?;
                }
                Ok(())
            }
        }
    }
}

/// Items, and how they are shown.
struct List<'a, T, C, N> {
    items: &'a [T],
    /// The titles, and whether only [`Format::Wide`] has the column.
    columns: Vec<(&'static str, bool)>,
    cells: C,
    name: N,
}

impl<'a, T, C, N> List<'a, T, C, N>
where
    C: Fn(&'a T) -> Vec<Cow<'a, str>>,
{
    /// The titles and the cells of each item.
    fn rows(&self) -> impl Iterator<Item = Vec<Cow<'a, str>>> {
        let titles = self.columns.iter();
        let titles = titles.map(|(title, _)| Cow::from(*title)).collect();
        iter::once(titles).chain(self.items.iter().map(&self.cells))
    }
}

/// The format of a report about what a command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Report {
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

impl Report {
    /// Prints the report.
    pub(super) fn print(self, report: &impl Serialize) -> Result<ExitCode, Failure> {
        output::print(|out| match self {
            Self::Json => output::json(report, out),
            Self::Yaml => yaml_of(report, out),
        })
    }
}

/// Writes a value as one line of JSON.
pub(super) fn json_line(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// Writes a value as a YAML document.
pub(super) fn yaml_of(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    let mut text = Vec::new();
    yaml::from_json(&json, &mut text);
    out.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Ship {
        name: &'static str,
        length: u32,
    }

    impl Row for Ship {
        const COLUMNS: &'static [&'static str] = &["NAME", "LENGTH", "BERTH"];
        const WIDE: &'static [&'static str] = &["BERTH"];

        fn cells(&self) -> Vec<Cow<'_, str>> {
            let length = self.length.to_string();
            vec![self.name.into(), length.into(), "the east quay".into()]
        }

        fn name(&self) -> Cow<'_, str> {
            self.name.into()
        }
    }

    fn written(format: Format, coloured: bool) -> String {
        let ships = [
            Ship {
                name: "ferry",
                length: 90,
            },
            Ship {
                name: "a\u{1b}[1m",
                length: 7,
            },
        ];
        let mut out = Vec::new();
        let list = List {
            items: &ships,
            columns: vec![("NAME", false), ("LENGTH", false), ("BERTH", true)],
            cells: Ship::cells,
            name: Ship::name,
        };
        let look = Look {
            coloured,
            width: Some(20),
        };
        format.write(&list, &&ships[..], look, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_list_has_six_formats() {
        assert_eq!(
            written(Format::Table, false),
            "NAME        LENGTH\nferry       90\na\\u{1b}[1m  7\n"
        );
        assert_eq!(
            written(Format::Wide, false),
            "NAME        LENGTH  BERTH\nferry       90      the east quay\n\
             a\\u{1b}[1m  7       the east quay\n"
        );
        assert_eq!(written(Format::Name, true), "ferry\na\\u{1b}[1m\n");
        let lines = written(Format::Jsonl, true);
        assert_eq!(
            lines.lines().next(),
            Some(r#"{"name":"ferry","length":90}"#)
        );
        assert_eq!(lines.lines().count(), 2);
        let json: serde_json::Value = serde_json::from_str(&written(Format::Json, true)).unwrap();
        assert_eq!(json[0]["length"], 90);
        let yaml = written(Format::Yaml, true);
        assert!(yaml.starts_with("- "), "{yaml}");
        assert!(yaml.contains("length: 90"), "{yaml}");
    }

    #[test]
    fn only_titles_are_bold() {
        let table = written(Format::Table, true);
        assert!(table.starts_with("\u{1b}[1mNAME        LENGTH\u{1b}[0m\n"));
        assert_eq!(table.matches('\u{1b}').count(), 2, "{table:?}");
    }
}
