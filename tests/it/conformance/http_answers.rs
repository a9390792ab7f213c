//! The HTTP API on the sample catalog, compared with the answers of catalogd.
//!
//! A recorded question is a sentence, such as `GET metas {"schema": "a"} gzip`.
//! Of a body the JSON values are compared, in their order, by a checksum.

use std::fmt::Write as _;
use std::io::{self, Read as _};

use images::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use crate::support::fixtures;
use crate::support::http::Reply;
use crate::support::served::{Served, source};

/// How many distinct questions were recorded.
const QUESTIONS: usize = 205;
/// A time before every revision.
const LONG_AGO: &str = "Mon, 02 Jan 2006 15:04:05 GMT";
/// How much of a body that is no JSON was recorded, in bytes.
const SHOWN: usize = 200;

/// A line of the recording.
#[derive(Debug, Default, PartialEq, Deserialize)]
struct Recorded {
    ask: String,
    status: u16,
    #[serde(rename = "type")]
    media_type: Option<String>,
    last_modified: bool,
    encoding: Option<String>,
    /// The number of JSON values in the body.
    n: Option<usize>,
    /// The checksum of their canonical texts.
    sha: Option<String>,
    /// A body of another kind.
    body: Option<String>,
}

/// A request, and which parts of the reply were recorded.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says of one part of a reply whether it was recorded"
)]
struct Question<'a> {
    method: &'a str,
    path: String,
    /// Beside the header that asks for an encoding.
    header: Option<(&'static str, &'a str)>,
    gzip: bool,
    headers_count: bool,
    encoding_counts: bool,
    body_counts: bool,
    is_json: bool,
}

#[test]
fn every_http_answer_on_the_sample_catalog_is_that_of_catalogd() {
    let sample = source("sample", &super::sample());
    let served = Served::start([sample.as_str(), "--poll", "never"]);
    let differing = differing(&served);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Asks everything that was recorded; gives the questions that are answered
/// otherwise, with both answers.
pub(super) fn differing(served: &Served) -> Vec<String> {
    let all = served.get("/catalogs/sample/api/v1/all");
    let modified = all.header("last-modified").unwrap();
    let recorded: Vec<Recorded> = fixtures::json_lines("sample/http.jsonl");
    assert_eq!(recorded.len(), QUESTIONS);
    let mut differing = Vec::new();
    for theirs in recorded {
        let question = Question::read(&theirs.ask, modified);
        let encoding = if question.gzip { "gzip" } else { "identity" };
        let mut headers = vec![("Accept-Encoding", encoding)];
        headers.extend(question.header);
        let reply = served.ask(question.method, &question.path, &headers);
        let ours = question.record(&theirs.ask, &reply);
        if ours != theirs {
            differing.push(format!("catalogd: {theirs:?}\nours:     {ours:?}"));
        }
    }
    differing
}

impl<'a> Question<'a> {
    /// Reads a recorded question; `modified` is when the catalog last changed.
    fn read(ask: &'a str, modified: &'a str) -> Self {
        let (method, rest) = ask.split_once(' ').unwrap();
        let plain = Self {
            method,
            headers_count: true,
            encoding_counts: true,
            body_counts: true,
            ..Self::default()
        };
        if rest.starts_with('/') {
            return Self {
                path: rest.replace("CAT", "sample"),
                headers_count: false,
                body_counts: false,
                ..plain
            };
        }
        if let Some(query) = rest.strip_prefix("metas {") {
            let (query, encoding) = query.rsplit_once(' ').unwrap();
            return Self {
                path: format!("/catalogs/sample/api/v1/metas{}", parameters(query)),
                gzip: encoding == "gzip",
                encoding_counts: false,
                is_json: true,
                ..plain
            };
        }
        let (name, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let path = match name {
            "all" => "/catalogs/sample/api/v1/all",
            "metas" => "/catalogs/sample/api/v1/metas?schema=olm.package",
            other => panic!("{ask}: {other}"),
        };
        let plain = Self {
            path: path.to_owned(),
            is_json: method == "GET",
            ..plain
        };
        match more {
            "" => plain,
            "gzip" => Self {
                gzip: true,
                ..plain
            },
            "range status" => Self {
                header: Some(("Range", "bytes=0-99")),
                headers_count: false,
                body_counts: false,
                is_json: false,
                ..plain
            },
            "if-modified-since" => Self {
                header: Some(("If-Modified-Since", modified)),
                headers_count: false,
                is_json: false,
                ..plain
            },
            "if-modified-since old" => Self {
                header: Some(("If-Modified-Since", LONG_AGO)),
                ..plain
            },
            other => panic!("{ask}: {other}"),
        }
    }

    /// The reply in the form of the recording.
    fn record(&self, ask: &str, reply: &Reply) -> Recorded {
        let header = |name| reply.header(name).map(str::to_owned);
        let encoding = header("content-encoding");
        let mut body = Vec::new();
        if encoding.as_deref() == Some("gzip") {
            let mut decoder = flate2::read::GzDecoder::new(&reply.body[..]);
            decoder.read_to_end(&mut body).unwrap();
        } else {
            body.clone_from(&reply.body);
        }
        let mut recorded = Recorded {
            ask: ask.to_owned(),
            status: reply.status,
            ..Recorded::default()
        };
        if self.headers_count {
            recorded.media_type = header("content-type");
            recorded.last_modified = reply.header("last-modified").is_some();
            recorded.encoding = encoding.filter(|_| self.encoding_counts);
        }
        if self.is_json && reply.status == 200 {
            let values = serde_json::Deserializer::from_slice(&body).into_iter();
            let values: Vec<Value> = values.collect::<Result<_, _>>().unwrap();
            let texts: Vec<String> = values.iter().map(canonical).collect();
            recorded.n = Some(texts.len());
            recorded.sha = Some(Digest::of(texts.join("\n").as_bytes()).hex());
        } else if self.body_counts {
            let shown = &body[..body.len().min(SHOWN)];
            recorded.body = Some(String::from_utf8_lossy(shown).into_owned());
        } else {
            recorded.body = Some(String::new());
        }
        recorded
    }
}

/// The query of a URL for an object such as `"schema": "a"}`.
fn parameters(object: &str) -> String {
    let object: Value = serde_json::from_str(&format!("{{{object}")).unwrap();
    let mut query = String::new();
    for (key, value) in object.as_object().unwrap() {
        query.push(if query.is_empty() { '?' } else { '&' });
        write!(query, "{key}=").unwrap();
        for byte in value.as_str().unwrap().bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                query.push(byte.into());
            } else {
                write!(query, "%{byte:02X}").unwrap();
            }
        }
    }
    query
}

/// The text whose checksum was recorded: with sorted keys, and a blank behind
/// each comma and colon.
fn canonical(value: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Spaced);
    value.serialize(&mut serializer).unwrap();
    String::from_utf8(text).unwrap()
}

struct Spaced;

impl Spaced {
    fn separate<W: io::Write + ?Sized>(out: &mut W, is_first: bool) -> io::Result<()> {
        if is_first {
            Ok(())
        } else {
            out.write_all(b", ")
        }
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        Self::separate(out, first)
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        Self::separate(out, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}
