//! What is wrong with a question, as RFC 9457 has it (`application/problem+json`).
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
use crate::serve::access::Closed;
use crate::serve::http::LOADING;
use crate::serve::worker_pool::Undone;
use crate::snapshot::{Catalog, Catalogs};
use fbc::text::suggest;

/// Texts from outside are cut to so many characters in messages.
const SHOWN: usize = 100;

/// A question that cannot be answered.
#[derive(Debug, Serialize)]
pub(in super::super) struct Problem {
    r#type: String,
    title: &'static str,
    status: u16,
    /// What is wrong and what to do.
    detail: String,
    /// The parameter that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// What may have been meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
}

impl Problem {
    /// A problem of a kind.
    pub(in super::super) fn new(
        status: StatusCode,
        kind: &str,
        title: &'static str,
        detail: String,
    ) -> Self {
        Self {
            r#type: format!("urn:almanac:problem:{kind}"),
            title,
            status: status.as_u16(),
            detail,
            parameter: None,
            suggestions: Vec::new(),
        }
    }

    /// A problem of which a status says all there is to know of its kind.
    pub(in super::super) fn plain(status: StatusCode, detail: String) -> Self {
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

    /// Adds the names that `wanted` may have been meant for.
    fn near<'a>(mut self, wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let names: Vec<&str> = suggest::near(wanted, names);
        self.detail
            .push_str(&suggest::proposal(wanted, names.clone()));
        self.suggestions = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Something other than GET and HEAD.
    pub(in super::super) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method not allowed",
            "only GET and HEAD are answered here".into(),
        )
    }

    /// A path whose escapes are no UTF-8.
    pub(in super::super) fn path() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-path",
            "Invalid path",
            "the escapes in the path do not make UTF-8; escape each byte of a name's UTF-8".into(),
        )
    }

    /// A text that names no catalog.
    #[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
    pub(in super::super) fn catalog_name(error: NameError) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-catalog-name",
            "Invalid catalog name",
            error.to_string(),
        )
    }

    /// A catalog that is not configured. Those that not everybody may read are
    /// nobody's business.
    pub(in super::super) fn unknown_catalog(
        name: &CatalogName,
        catalogs: &Catalogs,
        closed: &Closed,
    ) -> Self {
        let catalogs = catalogs.all();
        let open = |catalog: &&Arc<Catalog>| {
            !catalog.routing.withheld && !closed.has(catalog.name.as_str())
        };
        let names = catalogs.iter().filter(open);
        Self::unknown("catalog", name.as_str(), names.map(|it| it.name.as_str()))
    }

    /// A catalog that is set unavailable.
    pub(in super::super) fn withheld(name: &CatalogName) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unavailable-catalog",
            "Unavailable catalog",
            format!("catalog {name} is set unavailable in almanac's configuration"),
        )
    }

    /// A catalog of which nothing was ever loaded.
    pub(in super::super) fn not_loaded(name: &CatalogName) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-loaded",
            "Not loaded yet",
            format!("catalog {name} is not loaded yet; try again in {LOADING} seconds"),
        )
    }

    /// A name that stands for nothing. `what` is `package` or the like.
    pub(in super::super) fn unknown<'a>(
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
        .near(name, names.iter().copied());
        if problem.suggestions.is_empty() && !names.is_empty() {
            problem.detail.push_str(&suggest::listed(&names));
        }
        problem
    }

    /// A package without a picture that could be sent.
    pub(in super::super) fn no_icon(package: &str, why: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no-icon",
            "No icon",
            format!("package {:?} {why}", cut(package)),
        )
    }

    /// A parameter that the route does not know.
    pub(in super::super) fn unknown_parameter(name: &str, known: &'static [&'static str]) -> Self {
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
        .near(name, known.iter().copied())
        .about(name)
    }

    /// A parameter that has to be there.
    pub(in super::super) fn missing_parameter(name: &str, detail: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "missing-parameter",
            "Missing parameter",
            detail.to_owned(),
        )
        .about(name)
    }

    /// A parameter whose value cannot be used.
    pub(in super::super) fn invalid_parameter(name: &str, detail: String) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-parameter",
            "Invalid parameter",
            detail,
        )
        .about(name)
    }

    /// A field that the answer does not have.
    pub(in super::super) fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let detail = format!(
            "the answer has no field {:?}; it has {}",
            cut(field),
            known.join(", ")
        );
        Self::invalid_parameter("fields", detail).near(field, known.iter().copied())
    }

    /// A page of a list that has changed.
    pub(in super::super) fn expired() -> Self {
        Self::new(
            StatusCode::GONE,
            "expired-continue",
            "The catalog changed",
            "the catalog has changed since the first page; begin again without \"continue\"".into(),
        )
        .about("continue")
    }

    /// More than can be answered now.
    fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "Too many questions",
            format!("too many questions are being answered; try again in {LOADING} seconds"),
        )
    }

    /// Something that is not the client's fault.
    pub(in super::super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal error",
            "the question could not be answered; almanac's log says why".into(),
        )
    }
}

/// A text from outside, as messages show it.
pub(in super::super) fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

impl From<Undone> for Problem {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Busy => Self::busy(),
            Undone::Failed => Self::internal(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Body::from(body)).into_response();
        let headers = response.headers_mut();
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(CONTENT_TYPE, "application/problem+json");
        set(CACHE_CONTROL, "no-store");
        match status {
            StatusCode::SERVICE_UNAVAILABLE => set(RETRY_AFTER, LOADING),
            StatusCode::METHOD_NOT_ALLOWED => set(ALLOW, "GET, HEAD"),
            _ => None,
        };
        headers.insert(
            "x-content-type-options",
            HeaderValue::from_static("nosniff"),
        );
        response
    }
}
