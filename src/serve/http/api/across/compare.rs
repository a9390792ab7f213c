//! Catalogs side by side, and what changes from one to another.

use std::collections::BTreeMap;

use axum::response::Response;
use http::StatusCode;
use tokio::runtime::Handle;

use crate::answers::changes::{changes, counts};
use crate::answers::outline::Outline;
use crate::name::CatalogName;
use crate::queries::records::compare::{ComparisonRecord, DifferenceRecord, Head, RowRecord};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::history::find;
use crate::serve::http::api::operation::{
    Answer, Content, FIELDS, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::recorded::Reading;
use crate::serve::http::api::request::{QueryRequest, SCANS, json};
use crate::serve::http::api::response::QueryResponse;
use crate::store::OutlineName;

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
    /// The catalogs that `catalog` names, by default all with content. Without `all`, only
    /// packages that differ.
    pub(crate) fn of(query: &'a AcrossQuery, all: bool) -> Result<Self, Problem> {
        let wanted: Vec<&str> = query.parameters.all("catalog").collect();
        for name in &wanted {
            query.check_catalog(Some(name))?;
        }
        let is_wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
        let mut chosen: Vec<_> = query
            .loaded()
            .filter(|(name, _)| is_wanted(name.as_str()))
            .collect();
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

    /// One line for each package; a column for the channel and one for the version of each
    /// catalog.
    fn csv(&self) -> String {
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

/// A side of a comparison: a catalog, at its content or at an earlier one.
pub(crate) struct Side {
    /// As the address names it.
    pub(crate) text: String,
    catalog: CatalogName,
    outline: OutlineName,
}

impl Side {
    /// Reads `CATALOG` or `CATALOG@REVISION`, which is named as in the history.
    pub(crate) fn read(
        query: &AcrossQuery,
        reading: &Reading,
        parameter: &'static str,
    ) -> Result<Self, Problem> {
        let text = query.parameters.get(parameter).ok_or_else(|| {
            Problem::missing_parameter(parameter, "name both catalogs by from and to")
        })?;
        let (name, wanted) = match text.split_once('@') {
            Some((name, wanted)) => (name, Some(wanted)),
            None => (text, None),
        };
        let (catalog, snapshot) = query.loaded_named(name)?;
        let outline = match wanted {
            None => snapshot.revision().outline(),
            Some(wanted) => {
                let entries = reading.all(snapshot)?;
                let found = find(parameter, wanted, &entries);
                found.map_err(|problem| problem.about(parameter))?.outline()
            }
        };
        Ok(Self {
            text: text.to_owned(),
            catalog: catalog.clone(),
            outline,
        })
    }

    /// Its outline.
    pub(crate) fn outline(&self, query: &AcrossQuery) -> Result<Outline, Problem> {
        let found = query.loaded().find(|(one, _)| **one == self.catalog);
        let outline = found.and_then(|(_, snapshot)| snapshot.history().outline(&self.outline));
        outline.ok_or_else(|| {
            let detail = format!(
                "the outline of {} is not kept; it is made with its next update",
                cut(&self.text)
            );
            Problem::new(StatusCode::NOT_FOUND, "unknown-revision", detail)
        })
    }
}

/// Whether packages that do not differ are asked for, too.
pub(crate) fn shows_all(parameters: &Parameters) -> Result<bool, Problem> {
    match parameters.get("show") {
        None | Some("differences") => Ok(false),
        Some("all") => Ok(true),
        Some(other) => {
            let detail = format!("show is differences or all, and not {:?}", cut(other));
            Err(Problem::invalid_parameter("show", detail))
        }
    }
}

/// `/api/v1/compare`.
pub(crate) static COMPARE: Operation = Operation {
    id: "compare",
    summary: "Catalogs side by side",
    description: "The default channel of each package and the version of its head, in at most six \
catalogs.",
    parameters: &[
        Parameter::repeated(
            "catalog",
            "Only these catalogs; may be given several times.",
        ),
        Parameter::choice(
            "show",
            "Only packages that differ (default), or all.",
            &["differences", "all"],
        ),
        Parameter::choice("format", "How the answer is written.", &["json", "csv"]).default("json"),
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::object::<ComparisonRecord<'_>>()
            .or(&[Content::Text("text/csv")])
            .undated(),
    ),
};

/// Catalogs side by side.
pub(crate) async fn matrix(request: QueryRequest) -> Response {
    let work = |query: &AcrossQuery| {
        let parameters = &query.parameters;
        let found = Comparison::of(query, shows_all(parameters)?)?;
        match parameters.get("format") {
            None | Some("json") => {}
            Some("csv") => {
                return Ok(QueryResponse::Text {
                    bytes: found.csv().into(),
                    media_type: "text/csv; charset=utf-8",
                });
            }
            Some(other) => {
                let detail = format!("format is json or csv, and not {:?}", cut(other));
                return Err(Problem::invalid_parameter("format", detail));
            }
        }
        let packages = found.rows.iter().map(|(package, row)| {
            let heads = found.chosen.iter().zip(row);
            let heads = heads.filter_map(|(name, head)| Some((*name, head.as_ref()?)));
            RowRecord {
                package,
                catalogs: heads.collect(),
            }
        });
        let record = ComparisonRecord {
            catalogs: &found.chosen,
            total: found.total,
            packages: packages.collect(),
        };
        Ok(QueryResponse::object::<ComparisonRecord<'_>>(json(
            &record,
        )?))
    };
    request.run_across(&SCANS, &COMPARE, work).await
}

/// `/api/v1/diff`.
pub(crate) static DIFF: Operation = Operation {
    id: "diff",
    summary: "What changes from one catalog to another",
    description: "Each side is a catalog, or a catalog at an earlier content of its history.",
    parameters: &[
        Parameter::text(
            "from",
            "`CATALOG` or `CATALOG@REVISION`: the number of a revision, a digest or its first 6 \
digits, a time or a day.",
        )
        .required()
        .example("community"),
        Parameter::text("to", "The other side.")
            .required()
            .example("community"),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<DifferenceRecord<'_>>().undated()),
};

/// Changes from one catalog to another, or between two contents of one.
pub(crate) async fn diff(request: QueryRequest) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let reading = Reading::begin(runtime);
        let from = Side::read(query, &reading, "from")?;
        let to = Side::read(query, &reading, "to")?;
        let found = changes(&from.outline(query)?, &to.outline(query)?);
        let record = DifferenceRecord {
            from: &from.text,
            to: &to.text,
            counts: counts(&found),
            changes: found,
        };
        Ok(QueryResponse::object::<DifferenceRecord<'_>>(json(
            &record,
        )?))
    };
    request.run_across(&SCANS, &DIFF, work).await
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
