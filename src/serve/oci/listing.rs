//! Lists of tags, referrers and repositories.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Value, json};

use crate::answers::rest::records::percent_encoded;
use crate::serve::fields::header;
use crate::serve::oci::rejection::OciRejection;
use crate::serve::oci::repository::Repository;
use ::images::digest::Digest;
use ::images::manifest::OCI_INDEX;

/// Maximum entries of a page of referrers.
const MAX_REFERRERS: usize = 1000;

/// The parameters of a query. The first value of a key counts, and unknown keys
/// are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    number: Option<String>,
    last: Option<String>,
    artifact_type: Option<String>,
    /// The upstream registry that the client means.
    pub(super) namespace: Option<String>,
    /// The scopes of a token.
    pub(super) scopes: Vec<String>,
}

/// Maximum scopes of a token.
const MAX_SCOPES: usize = 100;

impl Parameters {
    pub(super) fn read(query: &str) -> Self {
        let mut read = Self::default();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let field = match key {
                "n" => &mut read.number,
                "last" => &mut read.last,
                "artifactType" => &mut read.artifact_type,
                "ns" => &mut read.namespace,
                "scope" => {
                    let value = unescape(value);
                    let scopes = value.split([' ', '+']).filter(|scope| !scope.is_empty());
                    let room = MAX_SCOPES - read.scopes.len();
                    read.scopes.extend(scopes.take(room).map(str::to_owned));
                    continue;
                }
                _ => continue,
            };
            field.get_or_insert_with(|| unescape(value).into_owned());
        }
        for field in [&mut read.namespace, &mut read.artifact_type] {
            field.take_if(|text| text.is_empty());
        }
        read
    }

    /// The requested page of sorted names, and whether more follow.
    fn page<'a>(&self, names: Vec<&'a str>) -> Result<(Vec<&'a str>, bool), OciRejection> {
        let limit = match self.number.as_deref() {
            None => usize::MAX,
            Some(number) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
                number.parse().unwrap_or(usize::MAX)
            }
            Some(_) => return Err(OciRejection::Number),
        };
        let last = self.last.as_deref();
        let mut behind = names
            .into_iter()
            .filter(|name| last.is_none_or(|last| *name > last));
        let page: Vec<&str> = behind.by_ref().take(limit).collect();
        let more = limit > 0 && behind.next().is_some();
        Ok((page, more))
    }
}

/// The response to `tags/list`.
pub(super) fn tags(
    name: &str,
    repository: &Repository,
    parameters: &Parameters,
    method: &Method,
) -> Result<Response, OciRejection> {
    let tags = repository.tags().into_keys().collect();
    let path = format!("/v2/{name}/tags/list");
    names(
        &path,
        tags,
        parameters,
        method,
        |page| json!({"name": name, "tags": page}),
    )
}

/// The response to `_catalog`, a list that Docker's registry introduced.
pub(super) fn repositories(
    repositories: &[String],
    parameters: &Parameters,
    method: &Method,
) -> Result<Response, OciRejection> {
    let mut all: Vec<&str> = repositories.iter().map(String::as_str).collect();
    all.dedup();
    names(
        "/v2/_catalog",
        all,
        parameters,
        method,
        |page| json!({"repositories": page}),
    )
}

/// A page of sorted names, with a link at `path` to the next page.
fn names(
    path: &str,
    names: Vec<&str>,
    parameters: &Parameters,
    method: &Method,
    body: impl FnOnce(&[&str]) -> Value,
) -> Result<Response, OciRejection> {
    let (page, more) = parameters.page(names)?;
    let mut headers = HeaderMap::new();
    if more && let (Some(number), Some(last)) = (&parameters.number, page.last()) {
        let next = format!("<{path}?n={number}&last={last}>; rel=\"next\"");
        headers.insert(LINK, header(next));
    }
    Ok(document(method, headers, &body(&page)))
}

/// The response to `referrers`: an index, which may be empty.
pub(super) fn referrers(
    name: &str,
    repository: &Repository,
    subject: Option<Digest>,
    parameters: &Parameters,
    method: &Method,
) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Index<'a> {
        schema_version: u32,
        media_type: &'a str,
        manifests: Vec<Descriptor<'a>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Descriptor<'a> {
        media_type: &'a str,
        digest: Digest,
        size: u64,
        #[serde(skip_serializing_if = "str::is_empty")]
        artifact_type: &'a str,
        #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        annotations: &'a std::collections::BTreeMap<String, String>,
    }
    let mut headers = HeaderMap::new();
    let wanted = parameters.artifact_type.as_deref();
    if wanted.is_some() {
        headers.insert(
            "oci-filters-applied",
            HeaderValue::from_static("artifactType"),
        );
    }
    // A digest of another algorithm has no referrers.
    let found = subject.map(|subject| repository.referrers(subject));
    let found = found.unwrap_or_default();
    let last: Option<Digest> = parameters
        .last
        .as_deref()
        .and_then(|last| last.parse().ok());
    let mut fitting = found.values().filter_map(|manifest| {
        let referrer = manifest.referrer.as_ref()?;
        let kind = referrer.artifact_type.as_str();
        let behind = last.is_none_or(|last| manifest.digest > last);
        (behind && wanted.is_none_or(|wanted| wanted == kind)).then_some(Descriptor {
            media_type: &manifest.media_type,
            digest: manifest.digest,
            size: manifest.size,
            artifact_type: kind,
            annotations: &referrer.annotations,
        })
    });
    let manifests: Vec<Descriptor<'_>> = fitting.by_ref().take(MAX_REFERRERS).collect();
    if let (Some(_), Some(subject), Some(last)) = (fitting.next(), subject, manifests.last()) {
        let mut next = format!("</v2/{name}/referrers/{subject}?last={}", last.digest);
        if let Some(wanted) = wanted {
            next += "&artifactType=";
            next += &percent_encoded(wanted);
        }
        headers.insert(LINK, header(next + ">; rel=\"next\""));
    }
    let index = Index {
        schema_version: 2,
        media_type: OCI_INDEX,
        manifests,
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(OCI_INDEX));
    document(method, headers, &index)
}

/// A response of JSON; `headers` may have a more specific media type.
pub(super) fn document(
    method: &Method,
    mut headers: HeaderMap,
    document: &impl Serialize,
) -> Response {
    let bytes = match serde_json::to_vec(document) {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::error!(%error, "a response cannot be written as JSON");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    headers
        .entry(CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, bytes.len().into());
    if *method == Method::HEAD {
        return headers.into_response();
    }
    (headers, bytes).into_response()
}

/// Decodes escapes. Malformed ones are kept, and so is `+`: media types have it, and
/// clients do not always escape it. In a scope it separates two scopes.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_follows_the_last_name() {
        let page = |query: &str| {
            let names = vec!["A", "a", "b", "c"];
            Parameters::read(query).page(names).map_err(|_| ())
        };
        assert_eq!(page(""), Ok((vec!["A", "a", "b", "c"], false)));
        assert_eq!(page("n=2"), Ok((vec!["A", "a"], true)));
        assert_eq!(page("n=2&last=a"), Ok((vec!["b", "c"], false)));
        assert_eq!(page("n=0"), Ok((vec![], false)));
        assert_eq!(page("last=aa"), Ok((vec!["b", "c"], false)));
        assert_eq!(
            page("n=99999999999999999999999&last=zz"),
            Ok((vec![], false))
        );
        for bad in ["n=", "n=-1", "n=a", "n=1.5"] {
            assert_eq!(page(bad), Err(()), "{bad}");
        }
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(unescape("a%2Fb+c%zz%"), "a/b+c%zz%");
        let kind = "application/vnd.x+json&a";
        let empty = Parameters::read("artifactType=&ns=");
        assert_eq!((empty.artifact_type, empty.namespace), (None, None));
        let read = Parameters::read(&format!("artifactType={}", percent_encoded(kind)));
        assert_eq!(read.artifact_type.as_deref(), Some(kind));
    }
}
