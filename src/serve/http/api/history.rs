//! The revisions of a catalog, and what they changed: as JSON and as a feed.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use tokio::runtime::Handle;

use crate::answers::changes::{Change, FeedEntry, changes, counts, feed};
use crate::answers::outline::Outline;
use crate::queries::records::history::{ChangesRecord, RevisionRecord};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, Content as Body, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::Content;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::recorded::{Reading, Wanted};
use crate::serve::http::api::request::{
    FeedPath, Origin, ParsedQuery, QueryRequest, SCANS, json, respond_dated,
};
use crate::serve::http::api::response::{HINTS, QueryResponse};
use crate::serve::http::headers::vary_by_host;
use crate::snapshot::Snapshot;
use crate::store::HistoryEntry;
use ::images::Reference;
use ::images::digest::Digest;

/// The most entries of a feed.
const FEED: u32 = 50;
/// The least number of digits that name a digest.
const DIGITS: usize = 6;
const DAY: Duration = Duration::from_hours(24);

/// `/catalogs/{catalog}/api/v1/revisions`.
pub(crate) static REVISIONS: Operation = Operation {
    id: "revisions",
    summary: "The history of a catalog",
    description: "The revisions that were published, the newest first, also those whose content is \
gone.",
    parameters: &[LIMIT, CONTINUE, FIELDS],
    answer: Answer::Query(QueryAnswer::list::<RevisionRecord>("RevisionList", HINTS).undated()),
};

/// The revisions of a catalog, the newest first.
pub(crate) async fn revisions(request: QueryRequest) -> Response {
    let work = |query: &ParsedQuery, reading: &Reading| {
        let history = &reading.all(&query.snapshot)?[..];
        let newest = history.first().map(|newest| newest.revision);
        let page = query.parameters.page(Content::of_history(newest))?;
        QueryResponse::list::<RevisionRecord>(page, history.len(), |at| {
            json(&record(&history[at], history))
        })
    };
    answer(request, &REVISIONS, work).await
}

/// `/catalogs/{catalog}/api/v1/changes`.
pub(crate) static CHANGES: Operation = Operation {
    id: "changes",
    summary: "What an update changed",
    description: "The changes from one revision to another; by default from the last but one to the \
last.",
    parameters: &[
        Parameter::text(
            "from",
            "The older revision: its number, a digest of source or content or its first 6 digits, \
a time such as `2026-01-31T08:00:00Z` or `2026-01-31T10:00:00+02:00`, or a day, \
which counts from its start. A time means the revision that was served then.",
        ),
        Parameter::text(
            "to",
            "The newer revision, in the same forms. A day counts to its end.",
        ),
        Parameter::text("package", "Only changes of this package.").example("ferry-operator"),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<ChangesRecord>().undated()),
};

/// Changes between two revisions; by default the last two.
pub(crate) async fn differences(request: QueryRequest) -> Response {
    let work = |query: &ParsedQuery, reading: &Reading| {
        let history = &reading.all(&query.snapshot)?[..];
        let parameters = &query.parameters;
        let to = match parameters.get("to") {
            Some(text) => find("to", text, history)?,
            None => newest(history)?,
        };
        let from = match parameters.get("from") {
            Some(text) => Some(find("from", text, history)?),
            None => before(to, history),
        };
        let package = parameters.get("package");
        let found = match from {
            Some(from) => between(&query.snapshot, from, to, package)?,
            None => Vec::new(),
        };
        let bytes = json(&ChangesRecord {
            from: from.map(|from| record(from, history)),
            to: record(to, history),
            counts: counts(&found),
            changes: found,
        })?;
        Ok(QueryResponse::object::<ChangesRecord>(bytes))
    };
    answer(request, &CHANGES, work).await
}

/// `/catalogs/{catalog}/api/v1/changes.atom`.
pub(crate) static FEED_OF_CHANGES: Operation = Operation {
    id: "changesFeed",
    summary: "A feed of changes",
    description: "The last updates that changed something, as an Atom feed (RFC 4287).",
    parameters: &[
        Parameter::text("package", "Only updates that changed this package.")
            .example("ferry-operator"),
    ],
    answer: Answer::Query(QueryAnswer::contents(&[Body::Text("application/atom+xml")]).undated()),
};

/// The last updates as an Atom feed.
pub(crate) async fn atom(
    origin: Origin,
    request: QueryRequest,
    Path(path): Path<FeedPath>,
) -> Response {
    let options = request.site.options.clone();
    let pages = options.enabled;
    let work = move |query: &ParsedQuery, reading: &Reading| {
        let of_path = path.package.as_deref();
        let package = of_path.or_else(|| query.parameters.get("package"));
        let wanted = Wanted {
            package,
            ..Wanted::default()
        };
        let mut updates = reading.updates(&query.snapshot, FEED, wanted)?;
        // A content that came back keeps its latest entry.
        let mut contents = HashSet::new();
        updates.retain(|update| contents.insert(update.entry.content));
        if let Some(name) = package
            && updates.is_empty()
            && query.snapshot.package_answers(name).is_none()
        {
            let names = query.snapshot.packages().iter();
            return Err(Problem::unknown(
                "package",
                name,
                names.map(|one| &*one.name),
            ));
        }
        let entries: Vec<FeedEntry<'_>> = updates
            .iter()
            .map(|update| FeedEntry {
                revision: update.entry.revision.to_string(),
                before: update.before.to_string(),
                content: update.entry.content.hex(),
                content_before: update.content_before.hex(),
                published: update.entry.committed,
                changes: &update.changes,
                counts: &update.counts,
                total: update.total,
            })
            .collect();
        let revision = query.snapshot.revision();
        let latest = entries
            .first()
            .map_or(revision.modified, |one| one.published);
        let feed = feed(
            &origin.0,
            pages,
            revision.catalog.as_str(),
            package,
            latest,
            &entries,
        );
        Ok(QueryResponse::Text {
            bytes: feed.into(),
            media_type: "application/atom+xml; charset=utf-8",
        })
    };
    let mut response = answer(request, &FEED_OF_CHANGES, work).await;
    vary_by_host(response.headers_mut(), &options);
    response
}

/// Reads the history and makes the response on a worker.
async fn answer(
    request: QueryRequest,
    operation: &'static Operation,
    work: impl FnOnce(&ParsedQuery, &Reading) -> Result<QueryResponse, Problem> + Send + 'static,
) -> Response {
    let (query, context) = match request.parse(operation.into()) {
        Ok(parsed) => parsed,
        Err(problem) => return problem.into_response(),
    };
    let runtime = Handle::current();
    let work = move |query: &ParsedQuery| work(query, &Reading::begin(runtime));
    // Another revision with the same content changes the answer.
    respond_dated(&SCANS, query, context, None, Box::new(work)).await
}

/// `history` begins with the served revision.
fn record(entry: &HistoryEntry, history: &[HistoryEntry]) -> RevisionRecord {
    let counts = &entry.counts;
    RevisionRecord {
        revision: entry.revision.to_string(),
        source: image(&entry.source),
        digest: entry.digest.to_string(),
        content: entry.content.to_string(),
        published: date(entry.committed),
        packages: counts.packages,
        channels: counts.channels,
        entries: counts.entries,
        bundles: counts.bundles,
        quarantined: counts.quarantined,
        changes: entry.changed,
        served: history
            .first()
            .is_some_and(|first| first.revision == entry.revision),
    }
}

/// A source that is an image reference.
pub(super) fn image(source: &str) -> Option<String> {
    let reference = source.parse::<Reference>().ok()?;
    (reference.to_string() == source).then(|| source.to_owned())
}

/// The revision that a parameter names: a number, a digest or its first digits, or a date.
/// `history` has the newest first; of several with a digest, it is that one.
pub(crate) fn find<'a>(
    parameter: &'static str,
    text: &str,
    history: &'a [HistoryEntry],
) -> Result<&'a HistoryEntry, Problem> {
    let unknown = "is no revision of this catalog";
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = || {
        let mut history = history.iter();
        history.find(|one| one.revision.to_string() == text)
    };
    let is_bare = text.len() >= DIGITS && is_hex(text);
    let digits = text.strip_prefix("sha256:");
    let digits = digits.or_else(|| is_bare.then_some(text));
    let (found, absent) = if let Some(digits) = digits {
        if digits.len() < DIGITS || !is_hex(digits) {
            let detail = format!(
                "{parameter} {:?} needs {DIGITS} digits of a digest or more",
                cut(text)
            );
            return Err(Problem::invalid_parameter(parameter, detail));
        }
        let begins = |digest: &Digest| digest.hex().starts_with(digits);
        let is_meant = |one: &&HistoryEntry| begins(&one.digest) || begins(&one.content);
        // A long number may be either.
        let number = if is_number { numbered() } else { None };
        (number.or_else(|| history.iter().find(is_meant)), unknown)
    } else if is_number {
        (numbered(), unknown)
    } else {
        let time = moment(parameter, text)?;
        let found = history.iter().find(|one| one.committed <= time);
        (found, "is before the history of this catalog begins")
    };
    found.ok_or_else(|| {
        let kept = match (history.last(), history.first()) {
            (Some(oldest), Some(newest)) => format!(
                "the history has {} revisions, from {} of {} to {} of {}",
                history.len(),
                oldest.revision,
                date(oldest.committed),
                newest.revision,
                date(newest.committed)
            ),
            _ => "the history has no revision yet".to_owned(),
        };
        let detail = format!("{parameter} {:?} {absent}; {kept}", cut(text));
        Problem::new(StatusCode::NOT_FOUND, "unknown-revision", detail)
    })
}

/// Whether a text has only digits as those of a digest.
fn is_hex(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.bytes().all(is_digit)
}

/// The moment of a date: a day counts from its start for `from`, and to its end for
/// `to`.
pub(crate) fn moment(parameter: &'static str, text: &str) -> Result<SystemTime, Problem> {
    let is_day = text.len() == 10;
    let full = if is_day {
        format!("{text}T00:00:00Z")
    } else {
        with_plus(text)
    };
    let time = full.parse::<Timestamp>().map_err(|_| {
        let revisions = match parameter {
            "since" => "",
            _ => "the number of a revision, a digest or its first 6 digits, ",
        };
        let detail = format!(
            "{parameter} is {revisions}a day such as 2026-01-31 or a time such as \
             2026-01-31T08:00:00Z, not {:?}",
            cut(text)
        );
        Problem::invalid_parameter(parameter, detail)
    })?;
    let time = SystemTime::from(time);
    if time > SystemTime::now() {
        let detail = format!("{parameter} {text} is in the future");
        return Err(Problem::invalid_parameter(parameter, detail));
    }
    Ok(if is_day && parameter == "to" {
        time + DAY
    } else {
        time
    })
}

/// A time whose offset, such as `+02:00`, lost its sign: in a query, a plus that is not
/// encoded means a space.
fn with_plus(text: &str) -> String {
    let sign = text.len().checked_sub("+02:00".len());
    match sign.and_then(|sign| text.split_at_checked(sign)) {
        Some((time, offset)) if time.contains('T') && offset.starts_with(' ') => {
            format!("{time}+{}", offset.trim_start())
        }
        _ => text.to_owned(),
    }
}

fn newest(history: &[HistoryEntry]) -> Result<&HistoryEntry, Problem> {
    history.first().ok_or_else(|| {
        let detail = "the history begins with the next update of this catalog";
        Problem::new(StatusCode::NOT_FOUND, "unknown-revision", detail)
    })
}

fn before<'a>(entry: &HistoryEntry, history: &'a [HistoryEntry]) -> Option<&'a HistoryEntry> {
    history.iter().find(|one| one.revision < entry.revision)
}

/// The changes between two revisions, of one package or all.
fn between(
    snapshot: &Snapshot,
    from: &HistoryEntry,
    to: &HistoryEntry,
    package: Option<&str>,
) -> Result<Vec<Change>, Problem> {
    let outline = |entry: &HistoryEntry| {
        snapshot.history().outline(&entry.outline()).ok_or_else(|| {
            let detail = format!(
                "the outline of revision {} is not kept, or not fetched yet",
                entry.revision
            );
            Problem::new(StatusCode::NOT_FOUND, "unknown-revision", detail)
        })
    };
    let (before, after) = (outline(from)?, outline(to)?);
    let mut found = changes(&before, &after);
    if let Some(package) = package {
        if !has(&before, package) && !has(&after, package) {
            let names = before.packages.keys().chain(after.packages.keys());
            return Err(Problem::unknown(
                "package",
                package,
                names.map(String::as_str),
            ));
        }
        found.retain(|change| change.package == package);
    }
    Ok(found)
}

fn has(outline: &Outline, package: &str) -> bool {
    outline.packages.contains_key(package) || outline.quarantined.contains(package)
}

fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_are_named_as_sources() {
        for source in [
            "quay.io/operatorhubio/catalog:latest",
            "localhost:5000/a/b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ] {
            assert_eq!(image(source).as_deref(), Some(source));
        }
        for source in [
            "file:/srv/catalog",
            "file:/a",
            "oci:/srv/layout:v1",
            "oci-archive:/srv/a.tar",
            "docker-archive:/srv/a.tar:v1",
            "",
        ] {
            assert_eq!(image(source), None, "{source}");
        }
    }
}
