//! The changes by updates, of all catalogs that the client may read.

use std::cmp::Reverse;
use std::time::SystemTime;

use axum::response::Response;
use tokio::runtime::Handle;

use crate::answers::changes::{Kind, in_words};
use crate::queries::records::history::UpdateRecord;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::history::moment;
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::recorded::{Reading, Update, Wanted};
use crate::serve::http::api::request::{QueryRequest, SCANS, json};
use crate::serve::http::api::response::QueryResponse;

/// How many updates of a catalog are read.
pub(crate) const UPDATES: u32 = 30;
/// The same with a date. By default, the last 200 are kept, and of a year one a day.
const DATED: u32 = 1_000;
/// An update of a catalog.
pub(crate) struct CatalogUpdate {
    pub(crate) catalog: String,
    pub(crate) update: Update,
}

/// The updates that are asked for: of each catalog the last ones by default.
#[derive(Clone, Copy)]
pub(crate) struct UpdateFilter<'a> {
    /// Those of a catalog.
    pub(crate) catalog: Option<&'a str>,
    /// The changes.
    pub(crate) wanted: Wanted<'a>,
    /// How many updates of each catalog are looked through.
    pub(crate) most: u32,
}

impl Default for UpdateFilter<'_> {
    fn default() -> Self {
        Self {
            catalog: None,
            wanted: Wanted::default(),
            most: UPDATES,
        }
    }
}

impl<'a> UpdateFilter<'a> {
    /// Reads the parameters `package`, `kind` and `since`.
    pub(crate) fn read(parameters: &'a Parameters) -> Result<Self, Problem> {
        let since = parameters.get("since");
        Ok(Self {
            wanted: Wanted {
                package: parameters.get("package"),
                kind: parameters.get("kind").map(kind).transpose()?,
                since: since.map(|since| moment("since", since)).transpose()?,
            },
            most: since.map_or(UPDATES, |_| DATED),
            ..Self::default()
        })
    }

    /// Whether it leaves anything out.
    pub(crate) fn is_narrow(&self) -> bool {
        let Wanted {
            package,
            kind,
            since,
        } = self.wanted;
        package.is_some() || kind.is_some() || since.is_some()
    }
}

impl CatalogUpdate {
    /// The catalog, the time and the changes in a line.
    pub(crate) fn line(&self) -> (&str, String, String) {
        let update = &self.update;
        let published = date(update.entry.committed);
        (&self.catalog, published, in_words(&update.counts))
    }
}

/// The updates of the catalogs that the client may read, the newest first.
pub(crate) fn updates(
    query: &AcrossQuery,
    runtime: Handle,
    filter: UpdateFilter<'_>,
) -> Result<Vec<CatalogUpdate>, Problem> {
    let reading = Reading::begin(runtime);
    let is_asked = |name: &str| filter.catalog.is_none_or(|wanted| wanted == name);
    let asked = || query.loaded().filter(|(name, _)| is_asked(name.as_str()));
    let mut found = Vec::new();
    for (name, snapshot) in asked() {
        for update in reading.updates(snapshot, filter.most, filter.wanted)? {
            let catalog = name.to_string();
            found.push(CatalogUpdate { catalog, update });
        }
    }
    if let Some(package) = filter.wanted.package
        && found.is_empty()
        && asked().all(|(_, snapshot)| snapshot.package_answers(package).is_none())
    {
        let names = asked().flat_map(|(_, snapshot)| snapshot.packages());
        let names = names.map(|one| &*one.name);
        return Err(Problem::unknown("package", package, names));
    }
    found.sort_by_key(|one| Reverse(one.update.entry.committed));
    Ok(found)
}

fn kind(text: &str) -> Result<Kind, Problem> {
    let found = Kind::ALL.iter().find(|kind| kind.as_str() == text);
    found.copied().ok_or_else(|| {
        let names = Kind::ALL.map(Kind::as_str).join(", ");
        let detail = format!("kind is one of {names}, and not {:?}", cut(text));
        Problem::invalid_parameter("kind", detail)
    })
}

/// `/api/v1/changes`.
pub(crate) static CHANGES: Operation = Operation {
    id: "changesOfAll",
    summary: "The updates of all catalogs",
    description: "The last 30 recorded updates of each catalog with matching changes, the newest \
first.",
    parameters: &[
        Parameter::text("catalog", "Only updates of this catalog."),
        Parameter::text("package", "Only changes of this package.").example("ferry-operator"),
        Parameter::one_of::<Kind>("kind", "Only changes of this kind."),
        Parameter::text(
            "since",
            "Only updates since a day, such as `2026-01-31`, or a time, such as \
`2026-01-31T08:00:00Z` or `2026-01-31T10:00:00+02:00`.",
        ),
        LIMIT,
        CONTINUE,
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::list::<UpdateRecord<'_>>("CatalogUpdateList", &["notLoaded"]).undated(),
    ),
};

/// The updates as a list.
pub(crate) async fn list(request: QueryRequest) -> Response {
    let runtime = Handle::current();
    let work = move |query: &AcrossQuery| {
        let parameters = &query.parameters;
        let page = parameters.page(query.content())?;
        let catalog = parameters.get("catalog");
        query.check_catalog(catalog)?;
        let filter = UpdateFilter {
            catalog,
            ..UpdateFilter::read(parameters)?
        };
        let found = updates(query, runtime, filter)?;
        let mut list = QueryResponse::list::<UpdateRecord<'_>>(page, found.len(), |at| {
            let CatalogUpdate { catalog, update } = &found[at];
            json(&UpdateRecord {
                catalog,
                revision: update.entry.revision.to_string(),
                content: update.entry.content.to_string(),
                content_before: update.content_before.to_string(),
                published: date(update.entry.committed),
                total: update.total,
                counts: &update.counts,
                changes: &update.changes,
            })
        })?;
        list.note(query.notes());
        Ok(list)
    };
    request.run_across(&SCANS, &CHANGES, work).await
}

fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::KeptHistory;

    #[test]
    fn a_date_reaches_every_update_that_is_kept_by_default() {
        let read = |query: &str| {
            let parameters = Parameters::read(query, (&["since"]).into(), &[])?;
            Ok::<_, Problem>(UpdateFilter::read(&parameters)?.most)
        };
        let kept = KeptHistory::default();
        let most = read("since=2026-01-31").unwrap();
        assert!(usize::try_from(most).unwrap() >= kept.revisions + kept.days);
        assert_eq!(read("").unwrap(), UPDATES);
    }
}
