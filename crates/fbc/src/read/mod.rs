//! Files ─► metas and blobs: the canonical line of every document, and its
//! meaning.
//!
//! A file is read in pieces (see [`pieces()`]), each by itself. As in opm, a file
//! that begins with `{` is JSON and any other is YAML. A file that begins like
//! JSON turns into YAML once: where an invalid value comes before the third
//! object, the rest of the file is YAML.

mod blobs;
mod head;
mod output;
mod pieces;
#[cfg(test)]
mod tests;
mod unreadable;

use std::sync::Arc;

use crate::bundle;
use crate::document::{Gvk, LifecycleBlob, Located, is_template};
use crate::lifecycle;
use crate::object::Object;
use crate::problem::{Code, Problem, Severity};
use crate::text::json::Canonicaliser;
use crate::text::repeated::{RepeatedKey, repeated_in_json};
use crate::text::yaml;
use crate::text::yaml::Converted;
use crate::visit::Visitor;
pub(crate) use blobs::DeprecationEntry;
pub use blobs::is_base64;
use blobs::{read_channel, read_deprecations, read_package};
use head::{CORRECT, Head, read_head};
use output::saturated;
pub use output::{Meta, Output, Spot};
pub use pieces::{Cutter, Format, Piece, Pieces, pieces};
use unreadable::{Unreadable, blanks, empty, ignored, lines, refuse, repeated};

/// The number of repeated keys of one document that are listed.
const MAX_REPEATED: usize = 10;

/// Reads pieces, and keeps its scratch memory from one to the next.
#[derive(Default)]
pub struct Reader {
    canonicaliser: Canonicaliser,
    converted: Vec<u8>,
    /// The APIs of the last bundle, which the next one mostly shares.
    provides: Arc<[Gvk]>,
}

impl Reader {
    /// Reads a piece and appends its content to `out`. `bytes` are those of the
    /// piece's range, and `file` is the number of its file. `visitor` sees the
    /// parts of each package and bundle; pass `&mut ()` if nobody wants them.
    pub fn read(
        &mut self,
        piece: &Piece,
        bytes: &[u8],
        file: u32,
        out: &mut Output,
        visitor: &mut impl Visitor,
    ) {
        let mut reading = Reading {
            reader: self,
            file,
            is_whole: piece.is_whole,
            before: out.documents,
            out,
            visitor,
        };
        match piece.format {
            Format::Json => reading.json(bytes, false),
            Format::Undecided => reading.json(bytes, true),
            Format::Yaml => reading.yaml(bytes, None),
        }
    }
}

/// The reading of one piece.
struct Reading<'a, V> {
    reader: &'a mut Reader,
    file: u32,
    /// Whether the piece is the whole file.
    is_whole: bool,
    /// The number of documents before the piece.
    before: u32,
    out: &'a mut Output,
    visitor: &'a mut V,
}

impl<V: Visitor> Reading<'_, V> {
    fn json(&mut self, text: &[u8], undecided: bool) {
        let mut at = 0;
        let mut objects = 0;
        loop {
            let next = at + text[at..].len() - text[at..].trim_ascii_start().len();
            self.out.line_ends += lines(&text[at..next]);
            let start = self.out.lines.len();
            let canonicaliser = &mut self.reader.canonicaliser;
            match canonicaliser.read(text, next, &mut self.out.lines) {
                Ok(None) => return,
                Ok(Some(end)) => {
                    if self.reader.canonicaliser.repeats() {
                        let keys = repeated_in_json(text, next..end, MAX_REPEATED);
                        let first = self.out.line_ends + 1;
                        warn_of_repeated(self.out, keys, first);
                    }
                    self.take(start, self.out.line_ends + 1);
                    self.out.line_ends += self.reader.canonicaliser.line_ends();
                    at = end;
                    objects += 1;
                }
                Err(error) => {
                    let reason = Unreadable::from_json(&error, text, next, self.out.line_ends);
                    if undecided && objects <= 1 {
                        let yaml = at + blanks(&text[at..]);
                        self.out.line_ends -= lines(&text[yaml..next]);
                        // After a separator the author did not mean JSON.
                        let reason = (!text[next..].starts_with(b"---")).then_some(reason);
                        return self.yaml(&text[yaml..], reason);
                    }
                    reason.note(self.out);
                    self.out.line_ends += lines(&text[next..]);
                    return;
                }
            }
        }
    }

    /// Reads documents of YAML. `not_json` is the error of the first one as JSON;
    /// it is reported when the document is not YAML either.
    fn yaml(&mut self, bytes: &[u8], mut not_json: Option<Unreadable>) {
        let before = self.out.line_ends;
        let (problems, mut empty_documents) = (self.out.problems.len(), 0);
        let mut documents = yaml::documents(bytes);
        for document in documents.by_ref() {
            // Documents count their lines from 1.
            let first = before + saturated(document.line);
            let line = before + saturated(document.text_line());
            let not_json = not_json.take();
            let converted = &mut self.reader.converted;
            converted.clear();
            match yaml::convert(document.bytes, &yaml::Limits::default(), converted) {
                Ok(Converted {
                    found,
                    rest,
                    repeats,
                }) => {
                    if repeats {
                        let keys = yaml::repeated_keys(document.bytes, MAX_REPEATED);
                        warn_of_repeated(self.out, keys, first);
                    }
                    if let Some(rest) = rest {
                        self.out
                            .problem(first + saturated(rest) - 1, None, ignored());
                    }
                    match not_json {
                        Some(reason) if found && !converted.starts_with(b"{") => {
                            reason.note(self.out);
                        }
                        _ if found => self.take_converted(line),
                        _ => {
                            self.out.problem(first, None, empty(false));
                            empty_documents += u32::from(rest.is_none());
                            self.out.documents += 1;
                        }
                    }
                }
                Err(error) => {
                    let reason = Unreadable::from_yaml(&error, first);
                    not_json.unwrap_or(reason).note(self.out);
                }
            }
        }
        self.out.line_ends += saturated(documents.lines());
        let read = self.out.documents - self.before;
        if self.is_whole && read > 0 && read == empty_documents {
            self.out.problems.truncate(problems);
            // It stands at the start of the file.
            let documents = std::mem::replace(&mut self.out.documents, self.before);
            self.out.problem(before + 1, None, empty(true));
            self.out.documents = documents;
        }
    }

    fn take_converted(&mut self, line: u32) {
        let start = self.out.lines.len();
        let Reader {
            canonicaliser,
            converted,
            ..
        } = &mut *self.reader;
        match canonicaliser.read(converted, 0, &mut self.out.lines) {
            Ok(_) => self.take(start, line),
            Err(error) => refuse(self.out, line, Code::FileUnreadable, error.message),
        }
    }

    /// Takes the value that was just written to `out.lines[start..]`.
    fn take(&mut self, start: usize, line: u32) {
        let Self {
            reader,
            file,
            out,
            visitor,
            ..
        } = self;
        out.lines.push(b'\n');
        if out.lines[start] != b'{' {
            out.lines.truncate(start);
            let message = format!("every document must be an object with a \"schema\"; {CORRECT}");
            return refuse(out, line, Code::DocumentNotObject, message);
        }
        let object = Object::new(&out.lines, &reader.canonicaliser);
        let head = match read_head(&object) {
            Ok(head) => head,
            Err((code, message)) => {
                out.lines.truncate(start);
                return refuse(out, line, code, message);
            }
        };
        let place = Place {
            meta: saturated(out.metas.len()),
            file: *file,
            document: out.documents + 1,
            line,
        };
        let mut problem = None;
        let mut plain = [false; 2];
        match &*head.schema {
            "olm.package" => {
                let blob = read_package(&object, &head.name, *visitor);
                out.blobs.packages.push(place.locate(blob));
            }
            "olm.channel" => {
                let blob = read_channel(&object, &head.name, &head.package);
                out.blobs.channels.push(place.locate(blob));
            }
            "olm.bundle" => {
                let Head { name, package, .. } = &head;
                let blob;
                (blob, plain) =
                    bundle::read(&object, name, package, &mut reader.provides, *visitor);
                out.blobs.bundles.push(place.locate(blob));
            }
            "olm.deprecations" => {
                let blob = read_deprecations(&object, &head.package);
                out.blobs.deprecations.push(place.locate(blob));
            }
            lifecycle::SCHEMA if !head.package.is_empty() => {
                let blob = LifecycleBlob {
                    package: head.package.to_string(),
                    defects: lifecycle::defects(&out.lines[start..]),
                };
                out.blobs.lifecycles.push(place.locate(blob));
            }
            other if is_of_olm(other) => problem = Some(unknown_schema(&head)),
            _ => {}
        }
        let at = (out.documents + 1, line);
        out.fields.add(&head.schema, at, &object, plain);
        out.metas.push(Meta::new(&head, out.lines.len() - start));
        if let Some(problem) = problem {
            out.problem(line, None, problem);
        }
        out.documents += 1;
    }
}

/// Warns of keys of the next document, whose lines count from this one.
fn warn_of_repeated(out: &mut Output, keys: Vec<RepeatedKey>, first: u32) {
    for key in keys {
        let line = |line| first.saturating_add(saturated(line) - 1);
        let (at, column) = (line(key.line), saturated(key.column));
        let problem = repeated(&key.key, line(key.first_line));
        out.problem(at, Some(column), problem);
    }
}

/// The place of a blob in a catalog.
#[derive(Clone, Copy)]
struct Place {
    meta: u32,
    file: u32,
    document: u32,
    line: u32,
}

impl Place {
    fn locate<T>(self, blob: T) -> Located<T> {
        let Self {
            meta,
            file,
            document,
            line,
        } = self;
        Located {
            blob,
            meta,
            file,
            document,
            line,
        }
    }
}

/// Whether a schema has OLM's prefix, whatever its case and the blanks around
/// it.
fn is_of_olm(schema: &str) -> bool {
    let start = schema.trim_start().get(..4);
    start.is_some_and(|start| start.eq_ignore_ascii_case("olm."))
}

/// The prefix is reserved for OLM, so such a blob is mostly a mistake. A template of opm is
/// not read by any client.
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
    let message = if is_template(schema) {
        format!(
            "{blob} has the schema {schema:?}, which is that of a template and no part of a \
             catalog; put what `opm alpha render-template` makes of it in its place"
        )
    } else {
        format!(
            "{blob} has the schema {schema:?}, which nobody defines: OLM will not see it; check \
             the spelling"
        )
    };
    let mut problem = Problem::new(Code::SchemaUnknown, Severity::Warning, message);
    problem.subject.package = package.to_string();
    problem.subject.schema = schema.to_string();
    problem
}
