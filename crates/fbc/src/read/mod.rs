//! Files ─► metas: the canonical line of every blob, and what the blobs say.
//!
//! A file is read in pieces (see [`pieces()`]), each by itself. The peers take a
//! file that begins with `{` for JSON and anything else for YAML, and change
//! their mind once: where something that is no JSON comes before the third
//! object, the rest of the file is YAML.

mod blobs;
mod output;
mod pieces;
mod refusal;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::bundle;
use crate::document::{Gvk, Located};
use crate::object::Object;
use crate::problem::{Code, Problem, Severity, Subject};
use crate::text::json::{Canonicaliser, unescape};
use crate::text::yaml;
pub use blobs::is_base64;
use blobs::{read_channel, read_deprecations, read_package};
pub use output::{Meta, Output, Spot};
pub use pieces::{Format, Piece, Pieces, pieces};
use refusal::{CORRECT, Refusal, blanks, empty, ignored, lines, refuse};

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
                        _ => {
                            out.problem(first, None, empty());
                            out.documents += 1;
                        }
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
            other if is_of_olm(other) => problem = Some(unknown_schema(&head)),
            _ => {}
        }
        let at = (out.documents + 1, line);
        out.fields.add(&head.schema, at, &object, plain);
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

pub(crate) struct Head<'a> {
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
