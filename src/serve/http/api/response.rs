//! Responses of queries: selected fields, links to the next page, compression and
//! preconditions.

use std::collections::HashMap;
use std::io::Write as _;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, LAST_MODIFIED, LINK, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::queries::record::Record;
use crate::queries::records::catalogs::IndexLinks;
use crate::serve::fields::header;
use crate::serve::http::api::parameters::{Page, Parameters};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::conditional::{Precondition, Validators};
use crate::serve::http::encoding;
use crate::serve::http::form::SMALLEST_COMPRESSED;
use crate::serve::http::headers::bare;
use crate::serve::memory_budget;
use crate::serve::net::body::Slices;
use crate::snapshot::Modified;

/// Up to this size, a plain response is made in less time than another thread takes to
/// wake up. In bytes.
const QUICK: usize = 64 << 10;

/// The content of a response.
pub(crate) enum QueryResponse {
    /// An object whose fields may be selected.
    Object {
        /// JSON.
        json: Bytes,
        /// Its possible fields, in order.
        fields: &'static [&'static str],
    },
    /// A page of a list. The fields of its items may be selected.
    List {
        /// The items on the page, as JSON.
        items: Vec<Bytes>,
        /// How many items the whole list has.
        total: usize,
        /// The token of the next page.
        next: Option<String>,
        /// The possible fields of an item, in order.
        fields: &'static [&'static str],
        /// Members beside the items.
        notes: Notes,
    },
    /// A document of any media type.
    Text {
        /// Its bytes.
        bytes: Bytes,
        /// Its media type.
        media_type: &'static str,
    },
    /// An icon.
    Picture {
        /// Its bytes.
        bytes: Bytes,
        /// Its media type.
        media_type: String,
    },
}

/// The notes of lists of one catalog.
pub(crate) const HINTS: &[&str] = &["hint", "suggestions"];
/// The notes of lists over several catalogs.
pub(crate) const ACROSS_NOTES: &[&str] = &["hint", "suggestions", "notLoaded"];

/// Members of a list beside its items; absent where they are empty.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notes {
    /// Why the list is empty, and what to ask for instead; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Similar names that exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggestions: Vec<String>,
    /// Catalogs without content, which the list lacks; absent when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_loaded: Vec<String>,
    /// The paths of routes over all catalogs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) links: Option<IndexLinks>,
}

/// The parts of a request that its response depends on.
pub(crate) struct ResponseContext {
    head: bool,
    headers: HeaderMap,
}

impl QueryResponse {
    /// A record as JSON.
    pub(crate) fn object<R: Record>(json: Bytes) -> Self {
        Self::Object {
            json,
            fields: R::fields(),
        }
    }

    /// A page of a list of records with `total` items. `item` returns the item at an index, as
    /// JSON.
    pub(crate) fn list<R: Record>(
        page: Page,
        total: usize,
        item: impl FnMut(usize) -> Result<Bytes, Problem>,
    ) -> Result<Self, Problem> {
        Ok(Self::List {
            items: page.range(total).map(item).collect::<Result<_, _>>()?,
            total,
            next: page.next(total),
            fields: R::fields(),
            notes: Notes::default(),
        })
    }

    /// Adds notes to a list.
    pub(crate) fn note(&mut self, added: Notes) {
        if let Self::List { notes, .. } = self {
            *notes = added;
        }
    }
}

impl ResponseContext {
    /// Only GET and HEAD are answered.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Result<Self, Problem> {
        match *method {
            Method::GET | Method::HEAD => Ok(Self {
                head: method == Method::HEAD,
                headers: headers.clone(),
            }),
            _ => Err(Problem::method()),
        }
    }

    /// Whether a response is made in a few microseconds: it is small, and neither
    /// compressed nor read for its fields.
    pub(super) fn is_quick(&self, response: &QueryResponse, parameters: &Parameters) -> bool {
        let length = match response {
            QueryResponse::List { items, .. } => items.iter().map(Bytes::len).sum(),
            QueryResponse::Object { json: bytes, .. }
            | QueryResponse::Text { bytes, .. }
            | QueryResponse::Picture { bytes, .. } => bytes.len(),
        };
        length <= QUICK
            && parameters.get("fields").is_none()
            && !encoding::accepts_gzip(self.headers.get_all(ACCEPT_ENCODING))
    }

    /// The response, or 304 when the client has it already. Without a date of its
    /// content, only the entity tag tells.
    pub(crate) fn send(
        &self,
        response: QueryResponse,
        parameters: &Parameters,
        modified: Option<Modified>,
    ) -> Result<Response, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A new revision may replace this one at any time, so caches have to
        // revalidate.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Answers over several catalogs have no date, and depend on the catalogs that
        // the client may read. Those about the history have no date either.
        let vary = match modified {
            Some(_) => "Accept-Encoding",
            None => "Accept-Encoding, Authorization",
        };
        headers.insert(VARY, HeaderValue::from_static(vary));
        let mut compressible = true;
        let body = match response {
            QueryResponse::Object { json, fields } => match parameters.fields(fields)? {
                Some(fields) => {
                    let mut chosen = Vec::new();
                    choose(&json, &fields, &mut chosen)?;
                    chosen.into()
                }
                None => json,
            },
            QueryResponse::List {
                items,
                total,
                next,
                fields,
                notes,
            } => {
                if let Some(next) = &next {
                    let link = format!("<{}>; rel=\"next\"", parameters.next(next));
                    headers.insert(LINK, header(link));
                }
                let fields = parameters.fields(fields)?;
                list(&items, total, next.as_deref(), fields.as_deref(), &notes)?
            }
            QueryResponse::Text { bytes, media_type } => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
                bytes
            }
            QueryResponse::Picture { bytes, media_type } => {
                compressible = media_type.contains("xml");
                headers.insert(CONTENT_TYPE, header(media_type));
                // An SVG icon may contain scripts.
                headers.insert(
                    CONTENT_SECURITY_POLICY,
                    HeaderValue::from_static(
                        "default-src 'none'; style-src 'unsafe-inline'; sandbox",
                    ),
                );
                bytes
            }
        };
        let gzip = compressible
            && body.len() as u64 >= SMALLEST_COMPRESSED
            && encoding::accepts_gzip(self.headers.get_all(ACCEPT_ENCODING));
        self.send_body(body, headers, modified, gzip)
    }

    fn send_body(
        &self,
        body: Bytes,
        mut headers: HeaderMap,
        modified: Option<Modified>,
        gzip: bool,
    ) -> Result<Response, Problem> {
        let validators = Validators::of_bytes(&body, modified, gzip);
        if let Some(modified) = validators.last_modified() {
            headers.insert(LAST_MODIFIED, modified);
        }
        let precondition = validators.check(&self.headers);
        headers.insert(ETAG, validators.into_etag());
        match precondition {
            Precondition::Send => {}
            Precondition::NotModified => return Ok(bare(StatusCode::NOT_MODIFIED, headers)),
            Precondition::Failed => return Ok(bare(StatusCode::PRECONDITION_FAILED, headers)),
        }
        let body = if gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            let compressed = encoding::gzip(&body).map_err(|error| {
                tracing::error!(%error, "a response cannot be compressed");
                Problem::internal()
            })?;
            compressed.into()
        } else {
            body
        };
        headers.insert(CONTENT_LENGTH, body.len().into());
        let body = if self.head {
            Body::empty()
        } else {
            Body::new(Slices::new([memory_budget::hold(body)?]))
        };
        Ok((StatusCode::OK, headers, body).into_response())
    }
}

fn list(
    items: &[Bytes],
    total: usize,
    next: Option<&str>,
    fields: Option<&[&str]>,
    notes: &Notes,
) -> Result<Bytes, Problem> {
    let length: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut body = Vec::with_capacity(length + 100);
    body.extend_from_slice(b"{\"items\":[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        match fields {
            Some(fields) => choose(item, fields, &mut body)?,
            None => body.extend_from_slice(item),
        }
    }
    let _ = write!(body, "],\"total\":{total}");
    if let Some(next) = next {
        let _ = write!(body, ",\"continue\":\"{next}\"");
    }
    let notes = serde_json::to_string(notes).map_err(|error| {
        tracing::error!(%error, "the notes of a list cannot be written as JSON");
        Problem::internal()
    })?;
    // An object, whose members go on.
    let members = notes.strip_prefix('{').unwrap_or(&notes);
    if members != "}" {
        body.push(b',');
    }
    body.extend_from_slice(members.as_bytes());
    Ok(body.into())
}

/// Appends an object with the given fields only.
fn choose(json: &[u8], fields: &[&str], out: &mut Vec<u8>) -> Result<(), Problem> {
    let object: HashMap<&str, &RawValue> = serde_json::from_slice(json).map_err(|error| {
        tracing::error!(%error, "a stored response cannot be read");
        Problem::internal()
    })?;
    out.push(b'{');
    let mut first = true;
    for field in fields {
        if let Some(value) = object.get(field) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            // Field names need no escapes.
            let _ = write!(out, "\"{field}\":{}", value.get());
        }
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::http::api::parameters::Known;

    #[test]
    fn a_list_is_put_together_of_its_items() {
        let items = [
            r#"{"name":"a","version":"1","x":[{"y":"}"}]}"#,
            r#"{"name":"b"}"#,
        ];
        let items = items.map(Bytes::from_static_str);
        let text = |fields: Option<&[&str]>, next, notes: Notes| {
            let body = list(&items, 7, next, fields, &notes).unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert_eq!(
            text(None, None, Notes::default()),
            r#"{"items":[{"name":"a","version":"1","x":[{"y":"}"}]},{"name":"b"}],"total":7}"#
        );
        assert_eq!(
            text(Some(&["version", "x"]), Some("t"), Notes::default()),
            r#"{"items":[{"version":"1","x":[{"y":"}"}]},{}],"total":7,"continue":"t"}"#
        );
        let notes = Notes {
            hint: Some("{none}".to_owned()),
            not_loaded: vec!["later".to_owned()],
            ..Notes::default()
        };
        assert_eq!(
            text(Some(&["name"]), None, notes),
            r#"{"items":[{"name":"a"},{"name":"b"}],"total":7,"hint":"{none}","notLoaded":["later"]}"#
        );
    }

    #[test]
    fn only_small_plain_responses_with_all_fields_are_quick() {
        let quick = |sizes: &[usize], query, encoding: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
            let context = ResponseContext::of(&Method::GET, &headers).unwrap();
            let list = QueryResponse::List {
                items: sizes.iter().map(|size| vec![b'1'; *size].into()).collect(),
                total: sizes.len(),
                next: None,
                fields: &["name"],
                notes: Notes::default(),
            };
            let parameters = Parameters::read(query, Known::from(&["fields"]), &[]).unwrap();
            context.is_quick(&list, &parameters)
        };
        assert!(quick(&[], "", ""));
        assert!(quick(&[QUICK / 2, QUICK / 2], "", "identity"));
        assert!(!quick(&[QUICK / 2, QUICK / 2 + 1], "", "identity"));
        assert!(!quick(&[1], "fields=name", "identity"));
        assert!(!quick(&[1], "", "gzip"));
    }

    trait FromStaticStr {
        fn from_static_str(text: &'static str) -> Self;
    }

    impl FromStaticStr for Bytes {
        fn from_static_str(text: &'static str) -> Self {
            Self::from_static(text.as_bytes())
        }
    }
}
