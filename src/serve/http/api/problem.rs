//! Errors of queries as problem details (RFC 9457, `application/problem+json`).
//!
//! The last part of `type` is stable: clients may rely on it.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::name::{CatalogName, NameError};
use crate::serve::access::Reader;
use crate::serve::http::headers::{RETRY_SECONDS, no_sniffing};
use crate::serve::worker_pool::Rejected;
use crate::snapshot::{Catalog, Catalogs, State};
use crate::store::StoreError;
use fbc::text::display::clip;
use fbc::text::suggest;

/// Text of clients is cut to so many characters in messages.
const SHOWN: usize = 100;

/// A problem of a request, as RFC 9457 describes it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The kind of problem. It is stable: clients may rely on it. `about:blank` adds nothing to
    /// the status.
    #[schema(value_type = String)]
    r#type: Box<str>,
    /// The kind in words.
    #[schema(value_type = String)]
    title: Box<str>,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
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
    /// A problem with a type of its own, whose title is its kind in words.
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        let mut title = kind.replace('-', " ");
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Self {
            r#type: format!("urn:almanac:problem:{kind}").into(),
            title: title.into(),
            status: status.as_u16(),
            detail: detail.into(),
            parameter: None,
            suggestions: Vec::new(),
        }
    }

    /// A problem that its status describes fully.
    pub(crate) fn plain(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank".into(),
            ..Self::new(status, "", detail).titled(status.canonical_reason().unwrap_or("Error"))
        }
    }

    /// The error, and how to correct it.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The kind in words.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// The stable part of the type.
    pub(crate) fn kind(&self) -> &str {
        self.r#type.rsplit(':').next().unwrap_or_default()
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The parameter with the error.
    pub(crate) fn parameter(&self) -> Option<&str> {
        self.parameter.as_deref()
    }

    /// Similar names that exist.
    pub(crate) fn suggestions(&self) -> &[String] {
        &self.suggestions
    }

    /// Adds a remark to the detail.
    pub(crate) fn remarking(mut self, remark: &str) -> Self {
        let remark = if self.detail.ends_with('?') {
            format!(" ({remark})")
        } else {
            format!("; {remark}")
        };
        self.detail.push_str(&remark);
        self
    }

    fn titled(mut self, title: &str) -> Self {
        self.title = title.into();
        self
    }

    pub(crate) fn about(mut self, parameter: &str) -> Self {
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
        let detail = "only GET and HEAD are supported here";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
    }

    /// A path whose escapes are not UTF-8.
    pub(crate) fn path() -> Self {
        let detail =
            "the escapes in the path do not make UTF-8; escape each byte of a name's UTF-8";
        Self::new(StatusCode::BAD_REQUEST, "invalid-path", detail)
    }

    /// An invalid name of a catalog.
    #[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
    pub(crate) fn catalog_name(error: NameError) -> Self {
        let (status, detail) = (StatusCode::BAD_REQUEST, error.to_string());
        Self::new(status, "invalid-catalog-name", detail)
    }

    /// A catalog that the client cannot read: it is not configured, set unavailable, or not
    /// named by the cluster yet. One that the client may not read is not there for it, and
    /// only catalogs that it may read are named.
    pub(crate) fn unknown_catalog(name: &str, catalogs: &Catalogs, reader: &Reader) -> Self {
        if reader
            .find(catalogs, name)
            .is_some_and(|catalog| catalog.routing.withheld)
        {
            return Self::withheld(name, "in almanac's configuration");
        }
        if catalogs.is_unavailable(name) && reader.may_know(name) {
            let by = "by the availabilityMode of its ClusterCatalog";
            return Self::withheld(name, by);
        }
        if catalogs.awaits_cluster() {
            return Self::cluster_not_known();
        }
        let readable = reader.catalogs(catalogs);
        let names = readable.iter().map(|catalog| catalog.name.as_str());
        Self::unknown("catalog", name, names)
    }

    /// A name that may be one of the cluster's catalogs, which are not known yet.
    fn cluster_not_known() -> Self {
        let detail = format!(
            "the catalogs of the cluster are not known yet; try again in {RETRY_SECONDS} seconds"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-loaded", detail).titled("Not loaded yet")
    }

    /// A catalog that is set unavailable.
    fn withheld(name: &str, by: &str) -> Self {
        let detail = format!("catalog {name} is set unavailable {by}");
        Self::new(StatusCode::NOT_FOUND, "unavailable-catalog", detail)
    }

    /// A catalog for which the cluster announces no content.
    pub(crate) fn unannounced(name: &CatalogName) -> Self {
        let detail = format!("the cluster announces no content of the catalog {name}");
        Self::new(StatusCode::NOT_FOUND, "unavailable-catalog", detail)
    }

    /// A catalog that was never loaded.
    pub(crate) fn not_loaded(name: &CatalogName) -> Self {
        let detail =
            format!("catalog {name} is not loaded yet; try again in {RETRY_SECONDS} seconds");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-loaded", detail).titled("Not loaded yet")
    }

    /// A catalog without content. The reason of a failure stays in the log: it may name
    /// what the client may not see.
    pub(crate) fn without_content(catalog: &Catalog) -> Self {
        let mut problem = Self::not_loaded(&catalog.name);
        let refused = catalog.refused().len();
        if refused > 0 {
            problem.detail = format!(
                "catalog {name} is not loaded yet: its content was refused; \
                 /api/v1/problems?catalog={name} has the reasons",
                name = catalog.name
            );
        } else if catalog.status().image_refused {
            problem.detail = format!(
                "catalog {} is not loaded yet: the signature policy refused its image; almanac tries again by itself, and its log has the reason",
                catalog.name
            );
        } else if catalog.state() == State::Failing {
            problem.detail = format!(
                "catalog {} is not loaded yet: its source cannot be read; almanac tries again by itself, and its log has the reason",
                catalog.name
            );
        }
        problem
    }

    /// An unknown name. `what` is `package` or the like.
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let (kind, detail) = (
            format!("unknown-{what}"),
            format!("there is no {what} {:?}", cut(name)),
        );
        let mut problem =
            Self::new(StatusCode::NOT_FOUND, &kind, detail).suggesting(name, names.iter().copied());
        if problem.suggestions.is_empty() && !names.is_empty() {
            problem.detail.push_str(&suggest::listed(&names));
        }
        problem
    }

    /// A package without a usable icon.
    pub(crate) fn no_icon(package: &str, why: &str) -> Self {
        let detail = format!("package {:?} {why}", cut(package));
        Self::new(StatusCode::NOT_FOUND, "no-icon", detail)
    }

    /// A digest that no icon of the catalog has.
    pub(crate) fn no_icon_of_digest(digits: &str) -> Self {
        let detail = format!("no icon of this catalog has the digest {:?}", cut(digits));
        Self::new(StatusCode::NOT_FOUND, "no-icon", detail)
    }

    /// A parameter that the route does not know.
    pub(crate) fn unknown_parameter(name: &str, known: &[&'static str]) -> Self {
        let taken = match known {
            [] => "none".to_owned(),
            known => known.join(", "),
        };
        let detail = format!(
            "there is no parameter {:?} here; this takes {taken}",
            cut(name)
        );
        Self::new(StatusCode::BAD_REQUEST, "unknown-parameter", detail)
            .suggesting(name, known.iter().copied())
            .about(name)
    }

    /// A required parameter is missing.
    pub(crate) fn missing_parameter(name: &str, detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "missing-parameter", detail).about(name)
    }

    /// A parameter with an invalid value.
    pub(crate) fn invalid_parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-parameter", detail).about(name)
    }

    /// A field that the response cannot have.
    pub(crate) fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let (shown, known_list) = (cut(field), known.join(", "));
        let detail = format!("the answer has no field {shown:?}; it has {known_list}");
        Self::invalid_parameter("fields", detail).suggesting(field, known.iter().copied())
    }

    /// A page of a list of an earlier revision.
    pub(crate) fn expired() -> Self {
        let detail =
            "the catalog has changed since the first page; begin again without \"continue\"";
        let problem = Self::new(StatusCode::GONE, "expired-continue", detail);
        problem.titled("The catalog changed").about("continue")
    }

    /// A worker or memory limit is reached.
    fn busy() -> Self {
        let detail = format!("too many queries are running; try again in {RETRY_SECONDS} seconds");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).titled("Too many queries")
    }

    /// A history that takes too long to read.
    pub(crate) fn slow_history() -> Self {
        let detail = "the history took too long to read; come again, or ask for less: for one \
                      catalog with catalog, or for the last updates with since";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).titled("Too much to read")
    }

    /// A failure of almanac.
    pub(crate) fn internal() -> Self {
        let detail = "the query failed; almanac's log has the reason";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).titled("Internal error")
    }
}

/// Text of a client, as messages show it.
pub(crate) fn cut(text: &str) -> String {
    clip(text, SHOWN)
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Busy => Self::busy(),
            Rejected::Failed => Self::internal(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a stored answer cannot be read");
        Self::internal()
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
        // Pages for browsers are made of it.
        response.extensions_mut().insert(self);
        response
    }
}
