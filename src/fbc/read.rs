//! Files ─► metas: the canonical line of every blob, and what the blobs say.
//!
//! A file is read in pieces of about a megabyte, so that one large file is
//! shared out between workers and never lies in memory twice. A piece begins
//! where a document begins. In a stream of JSON objects such a place is easy to
//! see without reading: `}`, a line end and `{` stand together only between
//! two top-level objects, since inside of one a comma comes between values,
//! and a string holds no bare line end. That ends where a separator between
//! objects makes YAML of what follows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::blob::{
    Blobs, ChannelBlob, Defect, DeprecationBlob, DeprecationsBlob, EntryBlob, Gvk, Located,
    PackageBlob,
};
use super::csv::{self, Icon};
use super::fields::Fields;
use super::json::{Canonicaliser, JsonError, unescape};
use super::message::{Ends, Span};
use super::object::Object;
use super::problem::{Code, Problem, Severity, Subject};
use super::typed::{Text, fields};
use super::{bundle, yaml};

/// A part of a file that can be read by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// How its documents are written.
    pub format: Format,
}

/// How documents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A stream of JSON objects.
    Json,
    /// YAML documents between separator lines.
    Yaml,
}

/// Cuts a file into pieces of at least `target` bytes (the last may be
/// shorter). As the peers have it, a file that begins with `{` is JSON, and
/// anything else YAML. Looks no further into the file than the next piece goes.
pub fn pieces(content: &[u8], target: usize) -> Pieces<'_> {
    let cut = if content.trim_ascii_start().starts_with(b"{") {
        Cut::Json
    } else {
        Cut::Yaml(Box::new(yaml::documents(content)))
    };
    Pieces {
        content,
        target,
        start: Some(0),
        cut,
    }
}

/// The pieces of a file, in order. See [`pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    content: &'a [u8],
    target: usize,
    /// Where the next piece starts.
    start: Option<usize>,
    cut: Cut<'a>,
}

#[derive(Clone, Debug)]
enum Cut<'a> {
    Json,
    Yaml(Box<yaml::Documents<'a>>),
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.start?;
        let from = start.saturating_add(self.target);
        let format;
        (format, self.start) = match &mut self.cut {
            Cut::Json => (Format::Json, json_cut(self.content, start, from)),
            Cut::Yaml(documents) => {
                let mut starts = documents.map(|document| document.offset);
                (Format::Yaml, starts.find(|offset| *offset >= from.max(1)))
            }
        };
        Some(Piece {
            range: start..self.start.unwrap_or(self.content.len()),
            format,
        })
    }
}

/// Where a document begins at `from` or behind, unless a separator comes
/// before that: what follows one is YAML. It is seen by `---` behind an object.
/// A string may hold the same, and then only fewer pieces are made.
fn json_cut(content: &[u8], start: usize, from: usize) -> Option<usize> {
    let found = memchr::memmem::find(content.get(from..)?, b"}\n{")?;
    let cut = from + found + 2;
    let behind_object = |at: usize| content[..start + at].trim_ascii_end().ends_with(b"}");
    let separated = memchr::memmem::find_iter(&content[start..cut], b"---").any(behind_object);
    (!separated).then_some(cut)
}

/// What to do about a document that is none of a catalog.
const CORRECT: &str = "correct it, or list a file that is no part of the catalog in .indexignore";

/// How many findings about documents of one piece are listed.
const MAX_PROBLEMS: usize = 1_000;

/// What a piece holds.
#[derive(Debug, Default)]
pub struct Output {
    /// Canonical lines, each with its line end.
    pub lines: Vec<u8>,
    /// Parts of registry messages; the spans in `blobs` count from here.
    pub messages: Vec<u8>,
    /// One for each line.
    pub metas: Vec<Meta>,
    /// What the blobs say. Their `meta`, `document` and `line` count from this
    /// piece.
    pub blobs: Blobs,
    /// What fields the blobs have.
    pub fields: Fields,
    /// Ends of made `ClusterServiceVersion`s, one for each package in `blobs`.
    pub ends: Vec<Ends>,
    /// What is wrong with documents: number of the document in the piece
    /// (from 0), line in the piece (from 1), finding. At most a thousand, and
    /// then one that stands for the rest.
    pub problems: Vec<(u32, u32, Problem)>,
    /// How many documents there were.
    pub documents: u32,
    /// How many line ends there were.
    pub line_ends: u32,
}

impl Output {
    /// Forgets what was read and keeps the memory of the byte buffers.
    pub fn clear(&mut self) {
        let (mut lines, mut messages) = (
            std::mem::take(&mut self.lines),
            std::mem::take(&mut self.messages),
        );
        lines.clear();
        messages.clear();
        *self = Self {
            lines,
            messages,
            ..Self::default()
        };
    }

    /// Notes what is wrong with the document that comes next.
    fn problem(&mut self, line: u32, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((self.documents, line, problem));
            return;
        }
        let severity = problem.severity;
        if self.problems.len() == MAX_PROBLEMS {
            let problem = Problem {
                code: Code::ProblemsOmitted,
                severity,
                subject: Subject::default(),
                place: None,
                message: "from here on the file has further problems that are not listed; \
                          correct the listed ones first"
                    .to_owned(),
            };
            self.problems.push((self.documents, line, problem));
        } else if let Some((_, _, rest)) = self.problems.last_mut() {
            // What is not listed still counts as what it is.
            rest.severity = rest.severity.max(severity);
        }
    }
}

/// A blob as it is stored: what it can be asked for by, and its line's length.
/// Kept small: a blob may say nothing but its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Schema, package and name, one behind the other.
    texts: Box<str>,
    schema_length: u32,
    package_length: u32,
    /// Bytes of its line, the line end included.
    pub length: u32,
}

impl Meta {
    fn new(head: &Head<'_>, length: u32) -> Self {
        let Head {
            schema,
            package,
            name,
        } = head;
        Self {
            texts: [&**schema, &**package, &**name].concat().into(),
            schema_length: schema.len() as u32,
            package_length: package.len() as u32,
            length,
        }
    }

    /// Its schema.
    pub fn schema(&self) -> &str {
        &self.texts[..self.schema_length as usize]
    }

    /// Its package, or empty.
    pub fn package(&self) -> &str {
        &self.texts[self.schema_length as usize..][..self.package_length as usize]
    }

    /// Its name, or empty.
    pub fn name(&self) -> &str {
        &self.texts[(self.schema_length + self.package_length) as usize..]
    }
}

/// Reads pieces, and keeps its scratch memory from one to the next.
#[derive(Default)]
pub struct Reader {
    canonicaliser: Canonicaliser,
    converted: Vec<u8>,
    /// What the last bundle provides: most likely the next one does as well.
    provides: Arc<[Gvk]>,
}

impl Reader {
    /// Reads a piece (`bytes` are those of its range; `file` is its file's
    /// number) and appends what it holds to `out`.
    pub fn read(&mut self, piece: &Piece, bytes: &[u8], file: u32, out: &mut Output) {
        match piece.format {
            Format::Json => self.read_json(bytes, file, out),
            Format::Yaml => self.read_yaml(bytes, file, out),
        }
    }

    fn read_json(&mut self, bytes: &[u8], file: u32, out: &mut Output) {
        let text = bytes;
        let mut at = 0;
        loop {
            let next = at + text[at..].len() - text[at..].trim_ascii_start().len();
            out.line_ends += lines(&text[at..next]);
            // The peers go over to YAML at a separator between documents.
            if text[next..].starts_with(b"---") {
                return self.read_yaml(&text[next..], file, out);
            }
            let start = out.lines.len();
            match self.canonicaliser.read(text, next, &mut out.lines) {
                Ok(None) => return,
                Ok(Some(end)) => {
                    self.take(start, file, out.line_ends + 1, out);
                    out.line_ends += self.canonicaliser.line_ends();
                    at = end;
                }
                Err(JsonError { offset, message }) => {
                    let line = out.line_ends + 1 + lines(&text[next..offset]);
                    let message = format!("this is not JSON: {message}; {CORRECT}");
                    refuse(out, line, Code::FileUnreadable, message);
                    out.line_ends += lines(&text[next..]);
                    return;
                }
            }
        }
    }

    fn read_yaml(&mut self, bytes: &[u8], file: u32, out: &mut Output) {
        let before = out.line_ends;
        let mut documents = yaml::documents(bytes);
        for document in documents.by_ref() {
            // Documents count their lines from 1.
            let line = before + document.line as u32;
            self.converted.clear();
            let limits = yaml::Limits::default();
            match yaml::to_json(document.bytes, &limits, &mut self.converted) {
                Ok(false) => {}
                Ok(true) => {
                    let start = out.lines.len();
                    let read = self.canonicaliser.read(&self.converted, 0, &mut out.lines);
                    match read {
                        Ok(_) => self.take(start, file, line, out),
                        Err(error) => refuse(out, line, Code::FileUnreadable, error.message),
                    }
                }
                Err(error) => {
                    let line = line + error.line.map_or(0, |line| line as u32 - 1);
                    let message = format!("this is not YAML: {}; {CORRECT}", error.message);
                    refuse(out, line, Code::FileUnreadable, message);
                }
            }
        }
        out.line_ends += documents.lines() as u32;
    }

    /// Takes the value that was just written to `out.lines[start..]`.
    fn take(&mut self, start: usize, file: u32, line: u32, out: &mut Output) {
        out.lines.push(b'\n');
        if out.lines[start] != b'{' {
            out.lines.truncate(start);
            let message = format!("every document must be an object with a \"schema\"; {CORRECT}");
            return refuse(out, line, Code::DocumentNotObject, message);
        }
        let object = Object::new(&out.lines, &self.canonicaliser);
        let head = match head(&object) {
            Ok(head) => head,
            Err((code, message)) => {
                out.lines.truncate(start);
                return refuse(out, line, code, message);
            }
        };
        let located = |meta| (meta, file, out.documents + 1, line);
        let place = located(out.metas.len() as u32);
        let mut problem = None;
        let mut plain = [false; 2];
        match &*head.schema {
            "olm.package" => {
                let (blob, ends) = read_package(&object, &head.name, &mut out.messages);
                out.blobs.packages.push(locate(blob, place));
                out.ends.push(ends);
            }
            "olm.channel" => {
                let blob = read_channel(&object, &head.name, &head.package);
                out.blobs.channels.push(locate(blob, place));
            }
            "olm.bundle" => {
                let Head { name, package, .. } = &head;
                let mut provides = std::mem::take(&mut self.provides);
                let bundle = bundle::read(
                    &object,
                    &out.lines,
                    name,
                    package,
                    &mut out.messages,
                    &mut provides,
                );
                plain = bundle.plain;
                out.blobs.bundles.push(locate(bundle.blob, place));
                self.provides = provides;
            }
            "olm.deprecations" => {
                let blob = read_deprecations(&object, &head.package);
                out.blobs.deprecations.push(locate(blob, place));
            }
            other if other.starts_with("olm.") => problem = Some(unknown_schema(&head)),
            _ => {}
        }
        let at = (out.documents + 1, line);
        out.fields.add(&head.schema, at, &object, plain);
        out.metas
            .push(Meta::new(&head, (out.lines.len() - start) as u32));
        if let Some(problem) = problem {
            out.problem(line, problem);
        }
        out.documents += 1;
    }
}

fn locate<T>(blob: T, (meta, file, document, line): (u32, u32, u32, u32)) -> Located<T> {
    Located {
        blob,
        meta,
        file,
        document,
        line,
    }
}

fn lines(bytes: &[u8]) -> u32 {
    memchr::memchr_iter(b'\n', bytes).count() as u32
}

fn refuse(out: &mut Output, line: u32, code: Code, message: String) {
    let problem = Problem {
        code,
        severity: Severity::Fatal,
        subject: Subject::default(),
        place: None,
        message,
    };
    out.problem(line, problem);
    out.blobs.incomplete = true;
    out.documents += 1;
}

/// The prefix is OLM's own, so such a blob is a mistake more often than not.
fn unknown_schema(head: &Head<'_>) -> Problem {
    let Head {
        schema,
        package,
        name,
    } = head;
    let blob = if name.is_empty() {
        "a blob".to_owned()
    } else {
        format!("the blob {name:?}")
    };
    Problem {
        code: Code::SchemaUnknown,
        severity: Severity::Warning,
        subject: Subject {
            package: package.to_string(),
            schema: schema.to_string(),
            ..Subject::default()
        },
        place: None,
        message: format!(
            "{blob} has the schema {schema:?}, which nobody defines: OLM will not see it; \
             check the spelling"
        ),
    }
}

struct Head<'a> {
    schema: Cow<'a, str>,
    package: Cow<'a, str>,
    name: Cow<'a, str>,
}

/// What a meta is asked for by. Keys are found whatever their case; two that
/// differ in nothing else are refused, as the peers do.
fn head<'a>(object: &Object<'a>) -> Result<Head<'a>, (Code, String)> {
    if let Some(key) = key_in_two_cases(object) {
        return Err((
            Code::DocumentDuplicateKey,
            format!("the key {key:?} stands twice, in different case; keep one of them"),
        ));
    }
    let text = |key: &str| match object.get(key) {
        None => Ok(Cow::Borrowed("")),
        Some([b'"', inner @ .., b'"']) => Ok(unescape(inner)),
        Some(value) => {
            // As it is written, for YAML's 4.20 is another text than 4.2.
            let advice = match value[0] {
                b'{' | b'[' | b'n' => "write one",
                _ => "quote it as it is written, as in \"4.20\"",
            };
            let message = format!("the value of {key:?} must be a string; {advice}");
            Err((Code::DocumentKeyNotString, message))
        }
    };
    let head = Head {
        schema: text("schema")?,
        package: text("package")?,
        name: text("name")?,
    };
    if head.schema.is_empty() {
        return Err((
            Code::SchemaMissing,
            format!(
                "the document has no \"schema\", which every blob of a catalog needs; {CORRECT}"
            ),
        ));
    }
    Ok(head)
}

/// Up to so many keys are compared one by one.
const FEW_KEYS: usize = 16;

fn key_in_two_cases(object: &Object<'_>) -> Option<String> {
    let plain = |(key, _): (&[u8], _)| key.is_ascii() && !key.contains(&b'\\');
    if object.members().count() <= FEW_KEYS && object.members().all(plain) {
        let mut rest = object.members();
        while let Some((key, _)) = rest.next() {
            if rest
                .clone()
                .any(|(other, _)| other.eq_ignore_ascii_case(key))
            {
                return Some(unescape(key).to_ascii_lowercase());
            }
        }
        return None;
    }
    // There may be a key in every few bytes.
    if object.members().all(plain) {
        let mut keys: Vec<&[u8]> = object.members().map(|(key, _)| key).collect();
        keys.sort_unstable_by(|one, other| {
            one.iter()
                .map(u8::to_ascii_lowercase)
                .cmp(other.iter().map(u8::to_ascii_lowercase))
        });
        let twice = keys
            .windows(2)
            .find(|pair| pair[0].eq_ignore_ascii_case(pair[1]));
        return twice.map(|pair| unescape(pair[0]).to_ascii_lowercase());
    }
    let mut keys: Vec<String> = object
        .members()
        .map(|(key, _)| unescape(key).to_lowercase())
        .collect();
    keys.sort_unstable();
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map(|pair| pair[0].clone())
}

fn read_package(object: &Object<'_>, name: &str, messages: &mut Vec<u8>) -> (PackageBlob, Ends) {
    let mut defects = Vec::new();
    let default_channel: Text<'_> = object.field("defaultChannel", &mut defects);
    let description: Text<'_> = object.field("description", &mut defects);
    let icon: Option<Icon<'_>> = object.field("icon", &mut defects);
    if let Some(icon) = &icon
        && !is_base64(&icon.base64data.0)
    {
        defects.push(Defect {
            code: Code::PackageIconInvalid,
            message: "has an icon whose \"base64data\" is not base64; encode the picture anew, or \
                      remove the icon"
                .into(),
        });
    }
    let start = messages.len();
    csv::put_end(messages, icon.as_ref(), None);
    let plain = Span::since(messages, start);
    let start = messages.len();
    csv::put_end(messages, icon.as_ref(), Some(&description.0));
    let described = Span::since(messages, start);
    let blob = PackageBlob {
        name: name.to_owned(),
        default_channel: default_channel.0.into_owned(),
        defects,
    };
    (blob, Ends { plain, described })
}

/// Whether a text is base64, as the peers decode it: line ends do not count.
pub fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    let lines = memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_some();
    let text = if lines {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(text)
    };
    // What is decoded is not kept: only so much at once, all but the last
    // without padding.
    let mut decoded = [0; 3 * 1024];
    let end = text.len().saturating_sub(4);
    memchr::memchr(b'=', &text.as_bytes()[..end]).is_none()
        && text.as_bytes().chunks(4 * 1024).all(|chunk| {
            let engine = base64::engine::general_purpose::STANDARD;
            engine.decode_slice(chunk, &mut decoded).is_ok()
        })
}

fn read_channel(object: &Object<'_>, name: &str, package: &str) -> ChannelBlob {
    let mut defects = Vec::new();
    let entries: Vec<EntryBlob> = object.list("entries", &mut defects);
    ChannelBlob {
        name: name.to_owned(),
        package: package.to_owned(),
        entries,
        defects,
    }
}

#[derive(Default, PartialEq)]
struct DeprecationEntry {
    reference: DeprecationReference,
    message: String,
}

fields!(DeprecationEntry { reference = "reference", message = "message" });

#[derive(Default, PartialEq)]
struct DeprecationReference {
    schema: String,
    name: String,
}

fields!(DeprecationReference { schema = "schema", name = "name" });

fn read_deprecations(object: &Object<'_>, package: &str) -> DeprecationsBlob {
    let mut defects = Vec::new();
    let entries: Vec<DeprecationEntry> = object.list("entries", &mut defects);
    let entries = entries.into_iter().map(|entry| DeprecationBlob {
        schema: entry.reference.schema,
        name: entry.reference.name,
        message: entry.message,
    });
    DeprecationsBlob {
        package: package.to_owned(),
        entries: entries.collect(),
        defects,
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::MAX_LIST;
    use super::*;

    fn read(content: &[u8], target: usize) -> Output {
        let mut out = Output::default();
        let mut reader = Reader::default();
        for piece in pieces(content, target) {
            reader.read(&piece, &content[piece.range.clone()], 0, &mut out);
        }
        out
    }

    #[test]
    fn a_file_means_the_same_in_one_piece_or_many() {
        let json = "{\"schema\":\"a\",\n \"name\":\"}\\n{\"}\n{\"schema\":\"b\"}\n\n{\"schema\":\"c\"} {\"schema\":\"d\"}\n{\"schema\":\"e\"}\n";
        let yaml =
            "---\nschema: a\n---\nschema: b\nname: |\n  }\n  {\n---\n# nothing\n---\nschema: c\n";
        for content in [json, yaml] {
            let whole = read(content.as_bytes(), usize::MAX / 2);
            assert!(whole.problems.is_empty(), "{:?}", whole.problems);
            for target in 1..content.len() {
                let parts = read(content.as_bytes(), target);
                assert_eq!(parts.lines, whole.lines);
                assert_eq!(parts.metas, whole.metas);
            }
        }
        assert!(pieces(json.as_bytes(), 1).count() > 2);
        assert!(pieces(yaml.as_bytes(), 1).count() > 2);
    }

    #[test]
    fn a_file_is_not_cut_like_json_where_it_is_yaml() {
        for content in [
            "{\"schema\":\"a\"}\n---\nschema: b\nname: \"x }\n{ y\"\n",
            "{\"schema\":\"a\"}{\"schema\":\"b\"}\n{\"schema\":\"c\"} ---\n{schema: d}\n{e}\n",
        ] {
            let whole = read(content.as_bytes(), usize::MAX / 2);
            for target in 1..content.len() {
                let parts = read(content.as_bytes(), target);
                assert_eq!(parts.problems, whole.problems);
                assert_eq!(parts.lines, whole.lines);
            }
        }
    }

    #[test]
    fn a_problem_names_its_line_in_the_file() {
        for (content, code, line) in [
            (
                "{\"schema\":\"a\"}\n{\"schema\":\n\"b\",}\n",
                Code::FileUnreadable,
                3,
            ),
            (
                "{\"schema\":\"a\"}\n\n{\"name\":\"b\"}\n",
                Code::SchemaMissing,
                3,
            ),
            ("schema: a\n---\nname: b\n", Code::SchemaMissing, 3),
            ("schema: a\n---\nname: [b\n", Code::FileUnreadable, 4),
            ("schema: a\n---\n- b\n", Code::DocumentNotObject, 3),
            ("{\"schema\":1}", Code::DocumentKeyNotString, 1),
            (
                "{\"schema\":\"a\",\"Schema\":\"b\"}",
                Code::DocumentDuplicateKey,
                1,
            ),
        ] {
            for target in [1, 1000] {
                let out = read(content.as_bytes(), target);
                let found: Vec<_> = out.problems.iter().map(|p| (p.2.code, p.1)).collect();
                assert_eq!(found, [(code, line)], "{content:?}: {:?}", out.problems);
            }
        }
    }

    #[test]
    fn a_flood_of_findings_keeps_its_worst() {
        let warned = "{\"schema\":\"olm.x\"}\n".repeat(MAX_PROBLEMS + 5);
        for (content, severity) in [
            (warned.clone(), Severity::Warning),
            (warned + "{}\n{\"schema\":\"olm.x\"}", Severity::Fatal),
        ] {
            let out = read(content.as_bytes(), usize::MAX / 2);
            assert_eq!(out.problems.len(), MAX_PROBLEMS + 1);
            let (_, line, last) = out.problems.last().unwrap();
            assert_eq!(
                (last.code, last.severity, *line),
                (Code::ProblemsOmitted, severity, 1001)
            );
        }
    }

    #[test]
    fn lists_that_say_nothing_take_no_memory() {
        let list = |count: usize| vec!["{}"; count].join(",");
        for (schema, count, defects) in [
            ("olm.channel", 5, 0),
            ("olm.channel", MAX_LIST, 0),
            ("olm.channel", MAX_LIST + 1, 1),
            ("olm.deprecations", MAX_LIST + 5, 1),
        ] {
            let entries = list(count);
            let content = format!("{{\"schema\":\"{schema}\",\"entries\":[{entries}]}}");
            let blobs = read(content.as_bytes(), usize::MAX / 2).blobs;
            let found = match (&blobs.channels[..], &blobs.deprecations[..]) {
                ([one], []) => (one.blob.entries.len(), one.blob.defects.len()),
                ([], [one]) => (one.blob.entries.len(), one.blob.defects.len()),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, (1, defects), "{schema} {count}");
        }
    }

    #[test]
    fn keys_are_found_whatever_their_case() {
        let out = read(
            br#"{"Schema":"olm.package","Name":"a","DefaultChannel":"b"}"#,
            100,
        );
        assert_eq!(out.blobs.packages[0].blob.name, "a");
        assert_eq!(out.blobs.packages[0].blob.default_channel, "b");
        assert_eq!(out.metas[0].schema(), "olm.package");
    }

    #[test]
    fn keys_within_a_blob_are_found_whatever_their_case() {
        let out = read(
            br#"{"schema":"olm.package","name":"a","icon":{"Base64Data":"%","mediaType":"b"}}
{"schema":"olm.channel","Entries":[{"Name":"a","REPLACES":"b","Skips":["c"],"skiprange":"<1.0.0"}]}
{"schema":"olm.deprecations","Entries":[{"Reference":{"Schema":"olm.bundle","Name":"a"},"Message":"m"}]}
{"schema":"olm.bundle","name":"a","package":"p","Image":"a/b","RelatedImages":[{"Image":"A@"}],
 "Properties":[{"Type":"olm.package","Value":{"PackageName":"p","Version":"1.0.0"}},
 {"TYPE":"olm.gvk","value":{"Group":"g","VERSION":"v1","Kind":"k"}}]}"#,
            1000,
        );
        let icon = &out.blobs.packages[0].blob.defects[0];
        assert_eq!(icon.code, Code::PackageIconInvalid);
        let entry = EntryBlob {
            name: "a".into(),
            replaces: "b".into(),
            skips: vec!["c".into()],
            skip_range: "<1.0.0".into(),
        };
        assert_eq!(out.blobs.channels[0].blob.entries, [entry]);
        let deprecation = DeprecationBlob {
            schema: "olm.bundle".into(),
            name: "a".into(),
            message: "m".into(),
        };
        assert_eq!(out.blobs.deprecations[0].blob.entries, [deprecation]);
        let bundle = &out.blobs.bundles[0].blob;
        assert!(bundle.has_image);
        assert_eq!(bundle.version, "1.0.0");
        assert_eq!(bundle.provides[0].group, "g");
        let defects: Vec<_> = bundle.defects.iter().map(|defect| defect.code).collect();
        assert_eq!(defects, [Code::ImageInvalid], "{:?}", bundle.defects);
    }

    #[test]
    fn what_a_bundle_says_wrongly_of_itself_has_a_code_of_its_own() {
        let package = r#"{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}"#;
        let other = package.replace("\"p\"", "\"q\"");
        let object = r#"{"type":"olm.bundle.object","value":{"data":"!"}}"#;
        for (properties, wanted) in [
            (package.to_owned(), vec![]),
            (String::new(), vec![Code::PackagePropertyCount]),
            (
                format!("{package},{package}"),
                vec![Code::PackagePropertyCount],
            ),
            (other, vec![Code::PackagePropertyMismatch]),
            (
                format!("{package},{object}"),
                vec![Code::BundleObjectInvalid],
            ),
        ] {
            let text = format!(
                "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"a\",\
                 \"image\":\"example.com/a:1\",\"properties\":[{properties}]}}"
            );
            let out = read(text.as_bytes(), 1000);
            let defects = &out.blobs.bundles[0].blob.defects;
            let codes: Vec<_> = defects.iter().map(|defect| defect.code).collect();
            assert_eq!(codes, wanted, "{properties}: {defects:?}");
        }
    }

    #[test]
    fn a_schema_of_olm_that_nobody_defines_is_warned_of() {
        for (schema, warned) in [("olm.bundel", true), ("example.com.x", false)] {
            let text = format!("{{\"schema\":\"{schema}\",\"package\":\"p\"}}");
            let out = read(text.as_bytes(), 1000);
            let found: Vec<_> = out
                .problems
                .iter()
                .map(|(.., p)| (p.code, p.severity))
                .collect();
            let warning = (Code::SchemaUnknown, Severity::Warning);
            assert_eq!(found == [warning], warned, "{schema}: {found:?}");
        }
    }

    #[test]
    fn what_clients_make_of_manifests_is_known() {
        let bundle = |properties: &str| {
            let text = format!(
                "{{\"schema\":\"olm.bundle\",\"name\":\"a\",\"properties\":[{properties}]}}"
            );
            let mut out = read(text.as_bytes(), 1000);
            out.blobs.bundles.remove(0).blob
        };
        let object = |json: &str| {
            use base64::Engine as _;
            let data = base64::engine::general_purpose::STANDARD.encode(json);
            bundle(&format!(
                "{{\"type\":\"olm.bundle.object\",\"value\":{{\"data\":\"{data}\"}}}}"
            ))
        };
        assert!(bundle(r#"{"type":"olm.csv.metadata","value":{}}"#).has_csv_metadata);
        // Here the value comes before its type.
        for (value, good) in [
            ("{\"keywords\":[\"a\"]}", true),
            ("{\"keywords\":1}", false),
        ] {
            let text = format!("{{\"type\":\"olm.csv.metadata\",\"Value\":{value}}}");
            let blob = bundle(&text);
            assert_eq!(blob.has_csv_metadata, good);
            let invalid = |defect: &Defect| defect.code == Code::PropertyInvalid;
            assert_eq!(blob.defects.iter().any(invalid), !good);
        }
        assert!(!bundle(r#"{"type":"olm.gvk","value":{}}"#).has_csv_metadata);
        for (crashes, kind, spec) in [
            (true, "ClusterServiceVersion", r#"{"relatedImages":[{}]}"#),
            (
                true,
                "ClusterServiceVersion",
                r#"{"install":{"strategy":"other"},"relatedImages":[{"image":"a"}]}"#,
            ),
            (
                false,
                "ClusterServiceVersion",
                r#"{"install":{"strategy":"deployment"},"relatedImages":[{"image":"a"}]}"#,
            ),
            (false, "ClusterServiceVersion", r#"{"relatedImages":[]}"#),
            (false, "ClusterServiceVersion", r#"{"relatedImages":"a"}"#),
            (false, "ClusterServiceVersion", "null"),
            (false, "Service", r#"{"relatedImages":[{}]}"#),
        ] {
            let blob = object(&format!("{{\"kind\":\"{kind}\",\"spec\":{spec}}}"));
            assert_eq!(blob.crashes_packageserver, crashes, "{kind} {spec}");
            assert!(blob.has_objects && !blob.has_csv_metadata);
        }
    }
}
