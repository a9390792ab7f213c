//! Errors of queries as problem details (RFC 9457, `application/problem+json`).
//!
//! The last part of `type` is stable: clients may rely on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::name::{CatalogName, NameError};
use crate::serve::access::Rules;
use crate::serve::http::headers::{RETRY_SECONDS, no_sniffing};
use crate::serve::worker_pool::Rejected;
use crate::snapshot::{Catalog, Catalogs};
use fbc::text::suggest;

/// Text of clients is cut to so many characters in messages.
const SHOWN: usize = 100;

/// An error of a query.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    r#type: String,
    title: &'static str,
    status: u16,
    /// The error, and how to correct it.
    detail: String,
    /// The parameter with the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// Similar names that exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
}

impl Problem {
    /// A problem with a type of its own.
    pub(crate) fn new(status: StatusCode, kind: &str, title: &'static str, detail: String) -> Self {
        Self {
            r#type: format!("urn:almanac:problem:{kind}"),
            title,
            status: status.as_u16(),
            detail,
            parameter: None,
            suggestions: Vec::new(),
        }
    }

    /// A problem that its status describes fully.
    pub(crate) fn plain(status: StatusCode, detail: String) -> Self {
        Self {
            r#type: "about:blank".into(),
            title: status.canonical_reason().unwrap_or("Error"),
            ..Self::new(status, "", "", detail)
        }
    }

    fn about(mut self, parameter: &str) -> Self {
        self.parameter = Some(cut(parameter));
        self
    }

    /// Adds the names that are similar to `wanted`.
    fn suggesting<'a>(mut self, wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let names: Vec<&str> = suggest::similar(wanted, names);
        self.detail
            .push_str(&suggest::proposal(wanted, names.clone()));
        self.suggestions = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// A method other than GET and HEAD.
    pub(crate) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method not allowed",
            "only GET and HEAD are supported here".into(),
        )
    }

    /// A path whose escapes are not UTF-8.
    pub(crate) fn path() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-path",
            "Invalid path",
            "the escapes in the path do not make UTF-8; escape each byte of a name's UTF-8".into(),
        )
    }

    /// An invalid name of a catalog.
    #[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
    pub(crate) fn catalog_name(error: NameError) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-catalog-name",
            "Invalid catalog name",
            error.to_string(),
        )
    }

    /// A catalog that is not configured. Restricted catalogs are not suggested.
    pub(crate) fn unknown_catalog(name: &CatalogName, catalogs: &Catalogs, rules: &Rules) -> Self {
        let catalogs = catalogs.all();
        let open = |catalog: &&Arc<Catalog>| {
            !catalog.routing.withheld && !rules.restrict(catalog.name.as_str())
        };
        let names = catalogs.iter().filter(open);
        Self::unknown("catalog", name.as_str(), names.map(|it| it.name.as_str()))
    }

    /// A catalog that is set unavailable.
    pub(crate) fn withheld(name: &CatalogName) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unavailable-catalog",
            "Unavailable catalog",
            format!("catalog {name} is set unavailable in almanac's configuration"),
        )
    }

    /// A catalog that was never loaded.
    pub(crate) fn not_loaded(name: &CatalogName) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-loaded",
            "Not loaded yet",
            format!("catalog {name} is not loaded yet; try again in {RETRY_SECONDS} seconds"),
        )
    }

    /// An unknown name. `what` is `package` or the like.
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let title = match what {
            "catalog" => "Unknown catalog",
            "package" => "Unknown package",
            "channel" => "Unknown channel",
            _ => "Unknown bundle",
        };
        let names: BTreeSet<&str> = names.into_iter().collect();
        let mut problem = Self::new(
            StatusCode::NOT_FOUND,
            &format!("unknown-{what}"),
            title,
            format!("there is no {what} {:?}", cut(name)),
        )
        .suggesting(name, names.iter().copied());
        if problem.suggestions.is_empty() && !names.is_empty() {
            problem.detail.push_str(&suggest::listed(&names));
        }
        problem
    }

    /// A package without a usable icon.
    pub(crate) fn no_icon(package: &str, why: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no-icon",
            "No icon",
            format!("package {:?} {why}", cut(package)),
        )
    }

    /// A parameter that the route does not know.
    pub(crate) fn unknown_parameter(name: &str, known: &'static [&'static str]) -> Self {
        let detail = if known.is_empty() {
            format!(
                "there is no parameter {:?} here; this takes none",
                cut(name)
            )
        } else {
            format!(
                "there is no parameter {:?} here; this takes {}",
                cut(name),
                known.join(", ")
            )
        };
        Self::new(
            StatusCode::BAD_REQUEST,
            "unknown-parameter",
            "Unknown parameter",
            detail,
        )
        .suggesting(name, known.iter().copied())
        .about(name)
    }

    /// A required parameter is missing.
    pub(crate) fn missing_parameter(name: &str, detail: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "missing-parameter",
            "Missing parameter",
            detail.to_owned(),
        )
        .about(name)
    }

    /// A parameter with an invalid value.
    pub(crate) fn invalid_parameter(name: &str, detail: String) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-parameter",
            "Invalid parameter",
            detail,
        )
        .about(name)
    }

    /// A field that the response cannot have.
    pub(crate) fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let detail = format!(
            "the answer has no field {:?}; it has {}",
            cut(field),
            known.join(", ")
        );
        Self::invalid_parameter("fields", detail).suggesting(field, known.iter().copied())
    }

    /// A page of a list of an earlier revision.
    pub(crate) fn expired() -> Self {
        Self::new(
            StatusCode::GONE,
            "expired-continue",
            "The catalog changed",
            "the catalog has changed since the first page; begin again without \"continue\"".into(),
        )
        .about("continue")
    }

    /// A worker or memory limit is reached.
    fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "Too many queries",
            format!("too many queries are running; try again in {RETRY_SECONDS} seconds"),
        )
    }

    /// A failure of almanac.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal error",
            "the query failed; almanac's log has the reason".into(),
        )
    }
}

/// Text of a client, as messages show it.
pub(crate) fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Busy => Self::busy(),
            Rejected::Failed => Self::internal(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Strings and numbers always serialise. If not, the status remains.
        let body = serde_json::to_vec(&self).map_or_else(|_| Body::empty(), Body::from);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(CONTENT_TYPE, "application/problem+json");
        set(CACHE_CONTROL, "no-store");
        match status {
            StatusCode::SERVICE_UNAVAILABLE => set(RETRY_AFTER, RETRY_SECONDS),
            StatusCode::METHOD_NOT_ALLOWED => set(ALLOW, "GET, HEAD"),
            _ => None,
        };
        no_sniffing(headers);
        response
    }
}
