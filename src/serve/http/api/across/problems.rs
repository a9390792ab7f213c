//! The problems of all catalogs, and the kinds that their packages provide.

use std::collections::BTreeSet;

use axum::response::Response;

use crate::queries::records::problems::{KindRecord, ProblemRecord};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, SCANS, json};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::api::response::{ACROSS_NOTES, HINTS};
use crate::snapshot::Catalog;
use fbc::problem::{Code, Problem as CatalogProblem, Severity};
use fbc::text::suggest;

/// The severities as parameters name them.
pub(crate) const SEVERITIES: [&str; 3] = ["warning", "error", "fatal"];

/// The problems of a catalog.
pub(crate) struct ProblemsOfCatalog {
    pub(crate) catalog: String,
    /// Those of the content that the last pass refused.
    pub(crate) refused: Vec<CatalogProblem>,
    /// Those of the served content.
    pub(crate) served: Vec<CatalogProblem>,
}

/// The problems that the parameters `catalog`, `severity` and `code` ask for, by catalog.
pub(crate) fn problems(
    query: &AcrossQuery,
    only: Option<&str>,
) -> Result<Vec<ProblemsOfCatalog>, Problem> {
    let parameters = &query.parameters;
    let (severity, code) = (parameters.get("severity"), parameters.get("code"));
    if let Some(other) = severity.filter(|severity| !SEVERITIES.contains(severity)) {
        let detail = format!(
            "severity is warning, error or fatal, and not {:?}",
            cut(other)
        );
        return Err(Problem::invalid_parameter("severity", detail));
    }
    let mut wanted: Vec<&str> = parameters.all("catalog").collect();
    wanted.extend(only);
    for name in &wanted {
        query.check_catalog(Some(name))?;
    }
    let codes = || Code::ALL.iter().map(|code| code.as_str());
    if let Some(unknown) = code.filter(|code| !codes().any(|known| known == *code)) {
        return Err(Problem::unknown("code", unknown, codes()));
    }
    let catalogs = query.catalogs.iter().map(|(catalog, _)| &**catalog);
    let catalogs = catalogs.filter(|one| wanted.is_empty() || wanted.contains(&one.name.as_str()));
    let is_asked = |problem: &&CatalogProblem| {
        let own = match problem.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Fatal => "fatal",
        };
        severity.is_none_or(|severity| severity == own)
            && code.is_none_or(|code| problem.code.as_str() == code)
    };
    let of = |catalog: &Catalog| {
        let status = catalog.status();
        ProblemsOfCatalog {
            catalog: catalog.name.to_string(),
            refused: status.refused.iter().filter(is_asked).cloned().collect(),
            served: status.problems.iter().filter(is_asked).cloned().collect(),
        }
    };
    Ok(catalogs.map(of).collect())
}

/// `/api/v1/problems`.
pub(crate) static PROBLEMS: Operation = Operation {
    id: "problems",
    summary: "The problems of all catalogs",
    description: "With file, line and what to do. Problems of content that the last pass refused come \
first, each with `refused`.",
    parameters: &[
        Parameter::repeated(
            "catalog",
            "Only these catalogs; may be given several times.",
        ),
        Parameter::one_of::<Severity>(
            "severity",
            "Only problems of this severity. Fatal ones are those of refused content.",
        ),
        Parameter::text(
            "code",
            "Only problems with this code; an unknown one is 404 `unknown-code`.",
        ),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::list::<ProblemRecord<'_>>("ProblemOfCatalogList", HINTS).undated(),
    ),
};

/// The problems as a list.
pub(crate) async fn list(request: QueryRequest) -> Response {
    let work = |query: &AcrossQuery| {
        let page = query.parameters.page(query.content())?;
        let found = problems(query, None)?;
        let all: Vec<ProblemRecord<'_>> = found
            .iter()
            .flat_map(|found| {
                let refused = found.refused.iter().map(|problem| (true, problem));
                let served = found.served.iter().map(|problem| (false, problem));
                refused
                    .chain(served)
                    .map(|(refused, problem)| ProblemRecord {
                        catalog: &found.catalog,
                        refused,
                        problem,
                    })
            })
            .collect();
        QueryResponse::list::<ProblemRecord<'_>>(page, all.len(), |at| json(&all[at]))
    };
    request.run_across(&LOOKUPS, &PROBLEMS, work).await
}

/// The kinds with a word in their names, each once.
pub(crate) fn kinds(query: &AcrossQuery) -> BTreeSet<(&str, &str)> {
    let wanted = query.parameters.get("q").unwrap_or_default();
    let wanted = wanted.trim().to_lowercase();
    let apis = query.loaded().flat_map(|(_, snapshot)| snapshot.apis());
    let apis = apis.filter(|api| {
        wanted.is_empty()
            || api.kind.to_lowercase().contains(&wanted)
            || api.group.to_lowercase().contains(&wanted)
    });
    apis.map(|api| (api.kind.as_str(), api.group.as_str()))
        .collect()
}

/// Similar kinds, for a word that no kind and no group has.
pub(crate) fn near_kinds(query: &AcrossQuery) -> Vec<&str> {
    let wanted = query.parameters.get("q").unwrap_or_default();
    let apis = query.loaded().flat_map(|(_, snapshot)| snapshot.apis());
    let kinds: BTreeSet<&str> = apis.map(|api| api.kind.as_str()).collect();
    suggest::similar(wanted.trim(), kinds)
}

/// `/api/v1/kinds`.
pub(crate) static KINDS: Operation = Operation {
    id: "kinds",
    summary: "The kinds that packages of all catalogs provide",
    description: "Each once, sorted.",
    parameters: &[
        Parameter::text("q", "A part of the kind or the group.").longest(1024),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::list::<KindRecord<'_>>("KindList", ACROSS_NOTES).undated()),
};

/// The kinds as a list.
pub(crate) async fn kind_list(request: QueryRequest) -> Response {
    let work = |query: &AcrossQuery| {
        let page = query.parameters.page(query.content())?;
        let all: Vec<(&str, &str)> = kinds(query).into_iter().collect();
        let mut response = QueryResponse::list::<KindRecord<'_>>(page, all.len(), |at| {
            let (kind, group) = all[at];
            json(&KindRecord { group, kind })
        })?;
        let mut notes = query.notes();
        if let Some(words) = query.parameters.get("q").filter(|_| all.is_empty()) {
            notes.hint = Some(format!("no kind and no group contains {:?}", cut(words)));
            notes.suggestions = near_kinds(query).into_iter().map(str::to_owned).collect();
        }
        response.note(notes);
        Ok(response)
    };
    request.run_across(&SCANS, &KINDS, work).await
}
