//! Catalogs side by side, and what changes from one to another.

use axum::response::Response;
use http::StatusCode;
use tokio::runtime::Handle;

use crate::answers::changes::{changes, counts};
use crate::answers::outline::Outline;
use crate::name::CatalogName;
use crate::queries::compare::Comparison;
use crate::queries::records::compare::{ComparisonRecord, DifferenceRecord};
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

/// The catalogs that `catalog` names side by side, by default all with content. Without
/// `all`, only packages that differ.
pub(crate) fn compared(query: &AcrossQuery, all: bool) -> Result<Comparison<'_>, Problem> {
    let wanted: Vec<&str> = query.parameters.all("catalog").collect();
    for name in &wanted {
        query.check_catalog(Some(name))?;
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
    let chosen = query.loaded().filter(|(name, _)| is_wanted(name.as_str()));
    Ok(Comparison::new(chosen.collect(), all)?)
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
        let found = compared(query, shows_all(parameters)?)?;
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
        let json = json(&found.record())?;
        Ok(QueryResponse::object::<ComparisonRecord<'_>>(json))
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
