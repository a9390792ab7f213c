//! Answers on their way out: fields chosen, pages linked, compressed when the
//! client takes it, and only sent when it does not have them yet.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::SystemTime;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, LAST_MODIFIED, LINK, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::value::RawValue;

use crate::serve::http::conditional::{Precondition, Validators};
use crate::serve::http::queries::parameters::{Page, Parameters};
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::{SMALLEST_COMPRESSED, bare, encoding, header};
use crate::serve::net::body::Slices;
use crate::serve::worker_pool;
use crate::snapshot::Snapshot;

/// What a question is answered with.
pub(super) enum Answer {
    /// JSON as it is.
    Whole(Bytes),
    /// An object, of which fields may be chosen.
    Object {
        /// JSON.
        json: Bytes,
        /// The fields it may have, in their order.
        fields: &'static [&'static str],
    },
    /// A page of a list, of whose items fields may be chosen.
    List {
        /// The items on the page, as JSON.
        items: Vec<Bytes>,
        /// How many the whole list has.
        total: usize,
        /// What gets the next page.
        next: Option<String>,
        /// The fields that an item may have, in their order.
        fields: &'static [&'static str],
    },
    /// Something that another form was asked for of.
    Text {
        /// Its bytes.
        bytes: Bytes,
        /// Its media type.
        media_type: &'static str,
    },
    /// A picture.
    Picture {
        /// Its bytes.
        bytes: Bytes,
        /// Its media type.
        media_type: String,
    },
}

/// How an answer is to be sent.
pub(super) struct Sending {
    pub(super) head: bool,
    pub(super) headers: HeaderMap,
}

impl Answer {
    /// A page of a list that has `total` items; `item` makes the one at a
    /// place in it.
    pub(super) fn list(
        page: Page,
        total: usize,
        snapshot: &Snapshot,
        fields: &'static [&'static str],
        item: impl FnMut(usize) -> Result<Bytes, Problem>,
    ) -> Result<Self, Problem> {
        Ok(Self::List {
            items: page.range(total).map(item).collect::<Result<_, _>>()?,
            total,
            next: page.next(total, snapshot),
            fields,
        })
    }
}

impl Sending {
    /// Sends an answer, or what is left to say when the client has it.
    pub(super) fn send(
        &self,
        answer: Answer,
        parameters: &Parameters,
        modified: SystemTime,
    ) -> Result<Response, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A new revision may come at any time: what is kept has to be checked.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        let mut compressible = true;
        let body = match answer {
            Answer::Whole(json) => json,
            Answer::Object { json, fields } => match parameters.fields(fields)? {
                Some(fields) => {
                    let mut chosen = Vec::new();
                    choose(&json, &fields, &mut chosen)?;
                    chosen.into()
                }
                None => json,
            },
            Answer::List {
                items,
                total,
                next,
                fields,
            } => {
                if let Some(next) = &next {
                    let link = format!("<{}>; rel=\"next\"", parameters.next(next));
                    headers.insert(LINK, header(link));
                }
                {
                    let fields = parameters.fields(fields)?;
                    list(&items, total, next.as_deref(), fields.as_deref())?
                }
            }
            Answer::Text { bytes, media_type } => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
                bytes
            }
            Answer::Picture { bytes, media_type } => {
                compressible = media_type.contains("xml");
                headers.insert(CONTENT_TYPE, header(media_type));
                // A picture may be a document with scripts.
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
        modified: SystemTime,
        gzip: bool,
    ) -> Result<Response, Problem> {
        let validators = Validators::of_bytes(&body, modified, gzip);
        headers.insert(LAST_MODIFIED, validators.last_modified());
        let precondition = validators.check(&self.headers);
        headers.insert(ETAG, validators.into_etag());
        match precondition {
            Precondition::Send => {}
            Precondition::NotModified => return Ok(bare(StatusCode::NOT_MODIFIED, headers)),
            Precondition::Failed => return Ok(bare(StatusCode::PRECONDITION_FAILED, headers)),
        }
        let body = if gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            compressed(&body)
        } else {
            body
        };
        headers.insert(CONTENT_LENGTH, body.len().into());
        let body = if self.head {
            Body::empty()
        } else {
            Body::new(Slices::new([worker_pool::hold(body)?]))
        };
        Ok((StatusCode::OK, headers, body).into_response())
    }
}

/// Level 1, for an answer that is small and made for one question.
fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    // Writing to memory works.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default().into()
}

fn list(
    items: &[Bytes],
    total: usize,
    next: Option<&str>,
    fields: Option<&[&str]>,
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
    body.push(b'}');
    Ok(body.into())
}

/// Appends an object with no more than the given fields.
fn choose(json: &[u8], fields: &[&str], out: &mut Vec<u8>) -> Result<(), Problem> {
    let object: HashMap<&str, &RawValue> = serde_json::from_slice(json).map_err(|error| {
        tracing::error!(%error, "a stored answer cannot be read");
        Problem::internal()
    })?;
    out.push(b'{');
    let mut first = true;
    for field in fields {
        if let Some(value) = object.get(field) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            // Names of fields need no escapes.
            let _ = write!(out, "\"{field}\":{}", value.get());
        }
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_put_together_of_its_items() {
        let items = [
            r#"{"name":"a","version":"1","x":[{"y":"}"}]}"#,
            r#"{"name":"b"}"#,
        ];
        let items = items.map(Bytes::from_static_str);
        let text = |fields: Option<&[&str]>, next| {
            let body = list(&items, 7, next, fields).unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert_eq!(
            text(None, None),
            r#"{"items":[{"name":"a","version":"1","x":[{"y":"}"}]},{"name":"b"}],"total":7}"#
        );
        assert_eq!(
            text(Some(&["version", "x"]), Some("t")),
            r#"{"items":[{"version":"1","x":[{"y":"}"}]},{}],"total":7,"continue":"t"}"#
        );
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
