//! Files ─► metas: the canonical line of every blob, and what the blobs say.
//!
//! A file is read in pieces (see [`pieces`]), each by itself. The peers take a
//! file that begins with `{` for JSON and anything else for YAML, and change
//! their mind once: where something that is no JSON comes before the third
//! object, the rest of the file is YAML.

mod pieces;

use std::borrow::Cow;
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
pub use pieces::{Format, Piece, Pieces, pieces};

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
    /// What is wrong with documents, and where. At most a thousand, and then
    /// one that stands for the rest.
    pub problems: Vec<(Spot, Problem)>,
    /// How many documents there were.
    pub documents: u32,
    /// How many line ends there were.
    pub line_ends: u32,
}

/// Where in a piece something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The number of the document, from 0.
    pub document: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1, where it is known.
    pub column: Option<u32>,
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
    fn problem(&mut self, line: u32, column: Option<u32>, problem: Problem) {
        let spot = Spot {
            document: self.documents,
            line,
            column,
        };
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((spot, problem));
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
            let spot = Spot {
                column: None,
                ..spot
            };
            self.problems.push((spot, problem));
        } else if let Some((_, rest)) = self.problems.last_mut() {
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
            Format::Json => self.read_json(bytes, false, file, out),
            Format::Undecided => self.read_json(bytes, true, file, out),
            Format::Yaml => self.read_yaml(bytes, None, file, out),
        }
    }

    fn read_json(&mut self, text: &[u8], undecided: bool, file: u32, out: &mut Output) {
        let mut at = 0;
        let mut objects = 0;
        loop {
            let next = at + text[at..].len() - text[at..].trim_ascii_start().len();
            out.line_ends += lines(&text[at..next]);
            let start = out.lines.len();
            match self.canonicaliser.read(text, next, &mut out.lines) {
                Ok(None) => return,
                Ok(Some(end)) => {
                    self.take(start, file, out.line_ends + 1, out);
                    out.line_ends += self.canonicaliser.line_ends();
                    at = end;
                    objects += 1;
                }
                Err(error) => {
                    let refusal = Refusal::of_json(&error, text, next, out.line_ends);
                    if undecided && objects <= 1 {
                        let yaml = at + blanks(&text[at..]);
                        out.line_ends -= lines(&text[yaml..next]);
                        // Behind a separator nobody meant JSON.
                        let refusal = (!text[next..].starts_with(b"---")).then_some(refusal);
                        return self.read_yaml(&text[yaml..], refusal, file, out);
                    }
                    refusal.note(out);
                    out.line_ends += lines(&text[next..]);
                    return;
                }
            }
        }
    }

    /// Reads documents of YAML; `not_json` is why the first one is not read as
    /// JSON, which says more if it is no YAML either.
    fn read_yaml(
        &mut self,
        bytes: &[u8],
        mut not_json: Option<Refusal>,
        file: u32,
        out: &mut Output,
    ) {
        let before = out.line_ends;
        let mut documents = yaml::documents(bytes);
        for document in documents.by_ref() {
            // Documents count their lines from 1.
            let first = before + document.line as u32;
            let line = before + document.text_line() as u32;
            let not_json = not_json.take();
            self.converted.clear();
            let limits = yaml::Limits::default();
            match yaml::convert(document.bytes, &limits, &mut self.converted) {
                Ok(converted) => {
                    if let Some(rest) = converted.rest {
                        out.problem(first + rest as u32 - 1, None, ignored());
                    }
                    match not_json {
                        Some(refusal) if converted.found && !self.converted.starts_with(b"{") => {
                            refusal.note(out);
                        }
                        _ if converted.found => self.take_converted(file, line, out),
                        _ => {}
                    }
                }
                Err(error) => {
                    let refusal = Refusal::of_yaml(&error, first);
                    not_json.unwrap_or(refusal).note(out);
                }
            }
        }
        out.line_ends += documents.lines() as u32;
    }

    fn take_converted(&mut self, file: u32, line: u32, out: &mut Output) {
        let start = out.lines.len();
        match self.canonicaliser.read(&self.converted, 0, &mut out.lines) {
            Ok(_) => self.take(start, file, line, out),
            Err(error) => refuse(out, line, Code::FileUnreadable, error.message),
        }
    }

    /// Takes the value that was just written to `out.lines[start..]`.
    fn take(&mut self, start: usize, file: u32, line: u32, out: &mut Output) {
        out.lines.push(b'\n');
        if out.lines[start] != b'{' {
            out.lines.truncate(start);
            let message = "every document must be an object with a \"schema\"".to_owned();
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
            other if is_of_olm(other) => problem = Some(unknown_schema(&head)),
            _ => {}
        }
        out.fields.add(&head.schema, &object, plain);
        out.metas
            .push(Meta::new(&head, (out.lines.len() - start) as u32));
        if let Some(problem) = problem {
            out.problem(line, None, problem);
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

/// The bytes at the start of `text` that the peers pass over before they go on
/// with it as YAML: blanks, up to a line's end.
fn blanks(text: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    line - text[..line].trim_ascii_start().len()
}

/// Why a document is not read, and where that shows in its piece.
struct Refusal {
    line: u32,
    column: Option<u32>,
    message: String,
}

impl Refusal {
    /// `line_ends` are those before `start`, where the value begins.
    fn of_json(error: &JsonError, text: &[u8], start: usize, line_ends: u32) -> Self {
        // What is missing at the end is missing behind the last text.
        let end = text.trim_ascii_end().len().max(start);
        let (at, message) = if text[start..].starts_with(b"---") {
            let message = "a file that begins with two JSON objects is JSON to its end, where \
                           `---` cannot stand; leave that line out";
            (start, message.to_owned())
        } else {
            let message = format!("this is not JSON: {}", error.message);
            (error.offset.clamp(start, end), message)
        };
        let before = &text[..at];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count()
            + 1;
        Self {
            line: line_ends + 1 + lines(&text[start..at]),
            column: Some(column as u32),
            message,
        }
    }

    /// `first` is the document's first line.
    fn of_yaml(error: &yaml::YamlError, first: u32) -> Self {
        Self {
            line: first + error.line.map_or(0, |line| line as u32 - 1),
            column: error.column.map(|column| column as u32),
            message: format!("this is not YAML: {}", error.message),
        }
    }

    fn note(self, out: &mut Output) {
        refuse_at(
            out,
            self.line,
            self.column,
            Code::FileUnreadable,
            self.message,
        );
    }
}

fn refuse(out: &mut Output, line: u32, code: Code, message: String) {
    refuse_at(out, line, None, code, message);
}

fn refuse_at(out: &mut Output, line: u32, column: Option<u32>, code: Code, message: String) {
    let problem = Problem {
        code,
        severity: Severity::Fatal,
        subject: Subject::default(),
        place: None,
        message,
    };
    out.problem(line, column, problem);
    out.documents += 1;
}

/// The peers read the first YAML document between two separators and pass over
/// the others without a word.
fn ignored() -> Problem {
    Problem {
        code: Code::DocumentIgnored,
        severity: Severity::Warning,
        subject: Subject::default(),
        place: None,
        message: "what begins here is not read, since a document has ended before it; \
                  put a line `---` between the two"
            .to_owned(),
    }
}

/// Whether a schema is meant to be one of OLM's, whatever its case and the
/// blanks around it.
fn is_of_olm(schema: &str) -> bool {
    let start = schema.trim_start().get(..4);
    start.is_some_and(|start| start.eq_ignore_ascii_case("olm."))
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
            format!("the key {key:?} stands twice, in different case"),
        ));
    }
    let text = |key: &str| match object.get(key) {
        None => Ok(Cow::Borrowed("")),
        Some([b'"', inner @ .., b'"']) => Ok(unescape(inner)),
        Some(_) => Err((
            Code::DocumentKeyNotString,
            format!("the value of {key:?} must be a string"),
        )),
    };
    let head = Head {
        schema: text("schema")?,
        package: text("package")?,
        name: text("name")?,
    };
    if head.schema.is_empty() {
        return Err((
            Code::SchemaMissing,
            "the document has no \"schema\"; every blob of a catalog needs one".into(),
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
            message: "has an icon whose \"base64data\" is not base64".into(),
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

    fn findings(out: &Output) -> Vec<(Code, u32)> {
        let found = out.problems.iter();
        found
            .map(|(spot, problem)| (problem.code, spot.line))
            .collect()
    }

    fn schemas(out: &Output) -> Vec<&str> {
        out.metas.iter().map(Meta::schema).collect()
    }

    #[test]
    fn a_file_that_begins_like_json_may_be_yaml() {
        for (content, wanted) in [
            ("{schema: x, name: b}", &["x"][..]),
            ("{'schema':'x'}", &["x"]),
            ("{\"schema\":\"x\",}", &["x"]),
            ("{\"schema\":\"x\", # c\n\"name\":\"y\"}", &["x"]),
            ("{\"schema\":\"x\"}\n{schema: b}", &["x", "b"]),
            (
                "{\"schema\":\"x\"}\nschema: b\n---\n{schema: c}",
                &["x", "b", "c"],
            ),
            // What the first line is indented by counts only from where it begins.
            ("{\"schema\":\"x\"} schema: b\nname: z\n", &["x", "b"]),
            ("{\"schema\":\"x\"} \n  schema: b\n  name: z\n", &["x", "b"]),
            ("{\"schema\":\"x\"}\n# c\n", &["x"]),
            ("{\"schema\":\"x\"}\n---\n{\"schema\":\"b\"}\n", &["x", "b"]),
            (
                "{\"schema\":\"x\"}\n{\"schema\":\"y\"}\n{\"schema\":\"z\"}",
                &["x", "y", "z"],
            ),
        ] {
            for target in [1, 1000] {
                let out = read(content.as_bytes(), target);
                assert_eq!(out.problems, [], "{content:?}");
                assert_eq!(schemas(&out), wanted, "{content:?}");
            }
        }
    }

    #[test]
    fn a_file_of_two_json_objects_is_json_to_its_end() {
        let two = "{\"schema\":\"x\"}\n{\"schema\":\"y\"}\n";
        for (rest, column, message) in [
            ("---\nschema: z\n", 1, "`---` cannot stand"),
            (" {schema: z}\n", 3, "'s' stands where a key"),
            ("# c\n", 1, "'#' stands where a JSON value"),
        ] {
            for target in [1, 1000] {
                let out = read(format!("{two}{rest}").as_bytes(), target);
                assert_eq!(schemas(&out), ["x", "y"]);
                let [(spot, problem)] = &out.problems[..] else {
                    panic!("{:?}", out.problems);
                };
                assert_eq!((problem.code, spot.line), (Code::FileUnreadable, 3));
                assert_eq!(spot.column, Some(column));
                assert!(problem.message.contains(message), "{}", problem.message);
            }
        }
    }

    #[test]
    fn what_is_neither_json_nor_yaml_is_told_of_as_json() {
        for (content, line, column, message) in [
            (
                "{\"schema\":\"x\"",
                1,
                14,
                "JSON: the text ends where ',' or '}'",
            ),
            (
                "{\"schema\":\n \"x\n\n\n",
                2,
                4,
                "JSON: a control character",
            ),
            (
                "{\"schema\":\n",
                1,
                11,
                "JSON: the text ends where a JSON value",
            ),
            ("{\"é\":\"1\" \"x\"}", 1, 10, "JSON: '\"' stands where ','"),
            (
                "{\"schema\":\"x\"}\n\n x\n",
                3,
                2,
                "JSON: 'x' stands where a JSON value",
            ),
            // Behind a separator it is YAML.
            (
                "{\"schema\":\"x\"}\n---\na: 1\nb: 'c\n",
                4,
                4,
                "YAML: found unexpected end",
            ),
            (
                "{\"schema\":\"x\"}\ny: z: 1\n---\na: b: c\n",
                2,
                1,
                "JSON: 'y' stands",
            ),
        ] {
            let out = read(content.as_bytes(), 1000);
            let (spot, problem) = &out.problems[0];
            assert_eq!(
                (spot.line, spot.column),
                (line, Some(column)),
                "{content:?}"
            );
            let message = format!("this is not {message}");
            assert!(problem.message.starts_with(&message), "{}", problem.message);
        }
    }

    #[test]
    fn the_place_of_a_document_is_where_its_text_begins() {
        for (content, line) in [
            ("---\nname: b", 2),
            ("# c\n\nname: b", 3),
            ("{\"schema\":\"x\"}\n---\n# c\n\nname: b", 5),
            ("{\"schema\":\"x\"}\n\n\nname: b", 4),
            ("schema: x\n---\n# c\n--- # d\nname: b", 5),
        ] {
            let out = read(content.as_bytes(), 1000);
            assert_eq!(findings(&out), [(Code::SchemaMissing, line)], "{content:?}");
        }
        let out = read(b"---\n# c\n\na: b\nc: \"d\n", 1000);
        assert_eq!(findings(&out), [(Code::FileUnreadable, 5)]);
    }

    #[test]
    fn what_stands_behind_the_end_of_a_document_is_warned_of() {
        for (content, line) in [
            ("---\n{\"schema\":\"x\"}\n{\"schema\":\"y\"}", 3),
            ("schema: x\n...\nschema: z", 3),
            ("---\n...\n\n{a: b}\n---\nschema: x\n", 4),
            ("{schema: x}\n{\"schema\":\"y\"}", 2),
        ] {
            let out = read(content.as_bytes(), 1000);
            assert_eq!(
                findings(&out),
                [(Code::DocumentIgnored, line)],
                "{content:?}"
            );
            assert_eq!(out.problems[0].1.severity, Severity::Warning);
            assert_eq!(schemas(&out)[0], "x");
        }
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
            "{schema: a, name: \"x }\n{ y\"}\n---\nschema: b\n",
            "{\"schema\":\"a\"}\n{schema: b}\n---\n{schema: c,\n name: \"}\n{\"}\n",
        ] {
            let whole = read(content.as_bytes(), usize::MAX / 2);
            assert_eq!(whole.problems, []);
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
                "{\"schema\":\"a\"}\n{\"schema\":\n\"b\"x}\n",
                Code::FileUnreadable,
                3,
            ),
            (
                "{\"schema\":\"a\"}\n\n{\"name\":\"b\"}\n",
                Code::SchemaMissing,
                3,
            ),
            ("schema: a\n---\nname: b\n", Code::SchemaMissing, 3),
            ("schema: a\n---\nname: [b\n", Code::FileUnreadable, 3),
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
                assert_eq!(
                    findings(&out),
                    [(code, line)],
                    "{content:?}: {:?}",
                    out.problems
                );
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
            let (spot, last) = out.problems.last().unwrap();
            assert_eq!(
                (last.code, last.severity, spot.line),
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
        for (schema, warned) in [
            ("olm.bundel", true),
            ("OLM.bundle", true),
            (" olm.bundle", true),
            ("example.com.x", false),
            ("olmé", false),
        ] {
            let text = format!("{{\"schema\":\"{schema}\",\"package\":\"p\"}}");
            let out = read(text.as_bytes(), 1000);
            let found: Vec<_> = out
                .problems
                .iter()
                .map(|(_, p)| (p.code, p.severity))
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
