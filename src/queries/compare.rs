//! Catalogs side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::name::CatalogName;
use crate::queries::records::compare::{ComparisonRecord, Head, RowRecord};
use crate::snapshot::Snapshot;
use crate::store::StoreError;

/// How many catalogs are compared.
const MOST: usize = 6;

/// The packages of catalogs side by side.
pub(crate) struct Comparison<'a> {
    /// The catalogs.
    pub(crate) chosen: Vec<&'a str>,
    /// By package: what each catalog has of it.
    pub(crate) rows: BTreeMap<String, Vec<Option<Head>>>,
    /// How many packages they have.
    pub(crate) total: usize,
    /// How many further catalogs were asked for.
    pub(crate) beyond: usize,
}

impl<'a> Comparison<'a> {
    /// The catalogs that are given: the first of them. Without `all`, only packages that
    /// differ.
    ///
    /// # Errors
    /// When a stored package cannot be read: the file is damaged.
    pub(crate) fn new(
        mut chosen: Vec<(&'a CatalogName, &'a Arc<Snapshot>)>,
        all: bool,
    ) -> Result<Self, StoreError> {
        let beyond = chosen.len().saturating_sub(MOST);
        chosen.truncate(MOST);
        let mut rows: BTreeMap<String, Vec<Option<Head>>> = BTreeMap::new();
        for (at, (_, snapshot)) in chosen.iter().enumerate() {
            for package in snapshot.packages() {
                let stored = snapshot.summary(package)?;
                let row = rows
                    .entry(package.name.to_string())
                    .or_insert_with(|| vec![None; chosen.len()]);
                row[at] = Some(Head {
                    channel: stored.default_channel.into_owned(),
                    version: stored.version.into_owned(),
                });
            }
        }
        let total = rows.len();
        if !all {
            rows.retain(|_, row| row.windows(2).any(|pair| pair[0] != pair[1]));
        }
        Ok(Self {
            chosen: chosen.into_iter().map(|(name, _)| name.as_str()).collect(),
            rows,
            total,
            beyond,
        })
    }

    /// Its record.
    pub(crate) fn record(&self) -> ComparisonRecord<'_> {
        let packages = self.rows.iter().map(|(package, row)| {
            let heads = self.chosen.iter().zip(row);
            let heads = heads.filter_map(|(name, head)| Some((*name, head.as_ref()?)));
            RowRecord {
                package,
                catalogs: heads.collect(),
            }
        });
        ComparisonRecord {
            catalogs: &self.chosen,
            total: self.total,
            packages: packages.collect(),
        }
    }

    /// One line for each package; a column for the channel and one for the version of each
    /// catalog.
    pub(crate) fn csv(&self) -> String {
        let mut out = String::from("package");
        for name in &self.chosen {
            for part in ["channel", "version"] {
                out.push(',');
                out.push_str(&cell(&format!("{name} {part}")));
            }
        }
        out.push_str("\r\n");
        for (package, row) in &self.rows {
            out.push_str(&cell(package));
            for head in row {
                let parts = head
                    .as_ref()
                    .map_or(["", ""], |head| [&head.channel, &head.version]);
                for part in parts {
                    out.push(',');
                    out.push_str(&cell(part));
                }
            }
            out.push_str("\r\n");
        }
        out
    }
}

/// How a package differs from one catalog to the next, in words.
pub(crate) fn differences(row: &[Option<Head>]) -> Vec<&'static str> {
    let mut words = Vec::new();
    for pair in row.windows(2) {
        let found = match (&pair[0], &pair[1]) {
            (None, None) => [None, None],
            (None, Some(_)) => [Some("added"), None],
            (Some(_), None) => [Some("removed"), None],
            (Some(before), Some(after)) => [
                (before.channel != after.channel).then_some("default channel"),
                (before.version != after.version).then_some("head"),
            ],
        };
        for word in found.into_iter().flatten() {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    words
}

/// A cell (RFC 4180). One that a spreadsheet would take for a formula gets a quote before
/// it.
fn cell(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_how_a_package_differs() {
        let head = |channel: &str, version: &str| {
            let (channel, version) = (channel.to_owned(), version.to_owned());
            Some(Head { channel, version })
        };
        let one = head("stable", "1.0.0");
        for (row, words) in [
            (vec![one.clone(), one.clone()], vec![]),
            (vec![None, one.clone()], vec!["added"]),
            (vec![one.clone(), head("stable", "2.0.0")], vec!["head"]),
            (
                vec![one.clone(), head("fast", "2.0.0"), None, one],
                vec!["default channel", "head", "removed", "added"],
            ),
        ] {
            assert_eq!(differences(&row), words, "{row:?}");
        }
    }

    #[test]
    fn a_cell_is_neither_cut_nor_a_formula() {
        for (text, wanted) in [
            ("stable", "stable"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("=1+1", "'=1+1"),
            ("", ""),
        ] {
            assert_eq!(cell(text), wanted);
        }
    }
}
