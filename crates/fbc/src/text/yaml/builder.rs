//! From the parser's events to JSON, in one pass and without a tree: values
//! are written where they come, and an object's text is put in order once it
//! is complete.

use libyaml_safer::{Event, EventData, Parser};

use crate::text::yaml::anchors::{Anchors, NodeCount, NodeKind};
use crate::text::yaml::error::YamlError;
use crate::text::yaml::frame::{Collection, Expects, Frame, Role};
use crate::text::yaml::input;
use crate::text::yaml::limits::Limits;
use crate::text::yaml::object::{Entry, are_sorted, offset, rebuild};
use crate::text::yaml::scalar::Raw;

/// The longest prefix that a `%TAG` directive may set: it is copied for each
/// tag that uses it.
const LONGEST_TAG_PREFIX: usize = 1024;
pub(crate) const WANT_MAPPING: &str = "a merge (`<<`) takes a mapping or a list of mappings";
const TOO_LARGE: &str = "the document becomes too large as JSON: its anchors and aliases, or its escapes, make too much \
     of it";

/// The result of building the first document of a text.
#[derive(Default)]
pub(crate) struct Built {
    /// The entries of the top-level object; `None` when the document is empty
    /// or null.
    pub(crate) entries: Option<Vec<Entry>>,
    /// The line, from 0, on which something stands behind the document.
    pub(crate) rest: Option<u64>,
}

/// Builds the JSON of the first document of `text` at the end of `out`.
pub(crate) fn build(text: &str, limits: &Limits, out: &mut Vec<u8>) -> Result<Built, YamlError> {
    let mut parser = input::parser(text);
    let mut builder = Builder::new(limits, text.len(), out);
    loop {
        let event = parser
            .parse()
            .map_err(|error| YamlError::of_parser(&error, text))?;
        let mark = event.start_mark;
        match builder.event(event) {
            Ok(Next::Event) => {}
            Ok(Next::Nothing) => return Ok(Built::default()),
            Ok(Next::Done) => {
                return Ok(Built {
                    entries: (!builder.is_null()).then_some(builder.entries),
                    rest: rest(&mut parser),
                });
            }
            Err(message) => return Err(YamlError::new(message).at(mark.line, mark.column)),
        }
    }
}

/// The line, from 0, on which something stands behind a document that is
/// complete, be it another one or nothing that can be read.
fn rest(parser: &mut Parser<input::Source<'_>>) -> Option<u64> {
    match parser.parse() {
        Ok(event) => {
            let ends = matches!(event.data, EventData::StreamEnd);
            (!ends).then_some(event.start_mark.line)
        }
        Err(error) => error.problem_mark().map(|mark| mark.line),
    }
}

/// What to do after an event.
enum Next {
    Event,
    /// The stream ended before a document.
    Nothing,
    /// The document is complete.
    Done,
}

pub(crate) struct Builder<'o> {
    /// The document's own output. Offsets count from `base` in it.
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) base: usize,
    pub(crate) frames: Vec<Frame>,
    /// The entries of all mappings that are not complete.
    pub(crate) entries: Vec<Entry>,
    pub(crate) anchors: Anchors,
    pub(crate) nodes: NodeCount,
    /// Whether a key was written with an escape.
    escaped_keys: bool,
    /// Where objects are put in order.
    scratch: Vec<u8>,
    pub(crate) depth: usize,
    budget: usize,
}

impl<'o> Builder<'o> {
    fn new(limits: &Limits, length: usize, out: &'o mut Vec<u8>) -> Self {
        Self {
            base: out.len(),
            out,
            frames: Vec::new(),
            entries: Vec::new(),
            anchors: Anchors::default(),
            nodes: NodeCount::new(),
            escaped_keys: false,
            scratch: Vec::new(),
            depth: limits.depth,
            budget: limits.budget(length),
        }
    }

    /// Whether the document is null.
    fn is_null(&self) -> bool {
        self.json() == b"null"
    }

    fn event(&mut self, event: Event) -> Result<Next, String> {
        match event.data {
            EventData::StreamStart { .. } => {}
            EventData::StreamEnd => return Ok(Next::Nothing),
            EventData::DocumentStart { tag_directives, .. } => {
                if tag_directives
                    .iter()
                    .any(|directive| directive.prefix.len() > LONGEST_TAG_PREFIX)
                {
                    return Err("the prefix of a %TAG directive is too long".to_owned());
                }
            }
            EventData::DocumentEnd { .. } => return Ok(Next::Done),
            EventData::Alias { anchor } => self.alias(&anchor)?,
            EventData::Scalar {
                anchor,
                tag,
                value,
                plain_implicit,
                ..
            } => {
                let raw = Raw {
                    value: &value,
                    tag: tag.as_deref(),
                    plain: plain_implicit,
                };
                self.scalar(raw, anchor)?;
            }
            EventData::SequenceStart { anchor, .. } => self.start(Collection::List, anchor)?,
            EventData::MappingStart { anchor, .. } => {
                self.start(
                    Collection::Mapping {
                        expects: Expects::Key,
                        merged: false,
                    },
                    anchor,
                )?;
            }
            EventData::SequenceEnd | EventData::MappingEnd => self.end()?,
        }
        Ok(Next::Event)
    }

    fn scalar(&mut self, raw: Raw<'_>, anchor: Option<String>) -> Result<(), String> {
        let anchor = anchor.map(|name| self.anchors.open(name));
        let role = self.place();
        if matches!(role, Role::Merge | Role::MergeItem) {
            return Err(WANT_MAPPING.to_owned());
        }
        let merge = role == Role::Key && raw.is_merge();
        if !merge {
            self.count(0)?;
        }
        let scalar = raw.typed()?;
        if let Some(slot) = anchor {
            let mut key = Vec::new();
            let key = scalar.write_key(&mut key).map(|()| key);
            self.scratch.clear();
            scalar.write_value(&mut self.scratch)?;
            self.charge(self.scratch.len())?;
            let kind = NodeKind::Scalar(key);
            self.anchors.close(slot, &self.scratch, kind, 0, 1);
        }
        if merge {
            self.expect(Expects::MergeValue);
        } else if role == Role::Key {
            let key = self.start_key();
            scalar.write_key(self.out)?;
            self.end_key(key);
        } else {
            scalar.write_value(self.out)?;
            self.finish_node(0);
        }
        self.charge(0)
    }

    fn start(&mut self, collection: Collection, anchor: Option<String>) -> Result<(), String> {
        let anchor = anchor.map(|name| self.anchors.open(name));
        let role = self.place();
        let list = matches!(collection, Collection::List);
        match role {
            Role::Key => return Err(no_key()),
            Role::MergeItem if list => return Err(WANT_MAPPING.to_owned()),
            _ => {}
        }
        if self.frames.len() >= self.depth {
            return Err(self.too_deep());
        }
        let nodes_before = self.nodes.all();
        // goyaml takes the list of a merge apart without reading it as a node.
        if !(list && role == Role::Merge) {
            self.count(0)?;
        }
        self.frames.push(Frame {
            collection,
            role,
            start: self.out.len() - self.base,
            first_entry: self.entries.len(),
            anchor,
            height: 0,
            nodes_before,
        });
        self.out.push(if list { b'[' } else { b'{' });
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        let height = frame.height + 1;
        match frame.collection {
            Collection::List => {
                self.out.push(b']');
                if frame.role == Role::Merge
                    && let Some(merged) = self.entries.get_mut(frame.first_entry..)
                {
                    // The first mapping of the list takes precedence. Within
                    // each no key is twice, so that its order does not matter.
                    merged.reverse();
                }
            }
            Collection::Mapping { merged, .. } => self.end_object(&frame, merged),
        }
        self.charge(0)?;
        if let Some(slot) = frame.anchor {
            self.close(slot, &frame, height)?;
        }
        if frame.role == Role::Value && !self.frames.is_empty() {
            self.entries.truncate(frame.first_entry);
        }
        self.finish_node(height);
        Ok(())
    }

    /// Completes the text of an object, with its keys in order.
    fn end_object(&mut self, frame: &Frame, merged: bool) {
        let json = self.out.get(self.base..).unwrap_or_default();
        let own = self.entries.get(frame.first_entry..).unwrap_or_default();
        if !merged && are_sorted(own, json, self.escaped_keys) {
            self.out.push(b'}');
            return;
        }
        let start = offset(frame.start);
        rebuild(
            &mut self.entries,
            frame.first_entry,
            json,
            self.escaped_keys,
            start,
            &mut self.scratch,
        );
        self.out.truncate(self.base + frame.start);
        self.out.extend_from_slice(&self.scratch);
    }

    /// What the next node is to the collection it comes in. Writes the comma
    /// before it in a list.
    pub(crate) fn place(&mut self) -> Role {
        let Some(frame) = self.frames.last() else {
            return Role::Value;
        };
        match frame.collection {
            Collection::List => {
                if self.out.len() - self.base > frame.start + 1 {
                    self.out.push(b',');
                }
                if frame.role == Role::Merge {
                    Role::MergeItem
                } else {
                    Role::Value
                }
            }
            Collection::Mapping { expects, .. } => match expects {
                Expects::Key => Role::Key,
                Expects::MergeValue => Role::Merge,
                Expects::Value { .. } => Role::Value,
            },
        }
    }

    /// Notes that a value is complete, which is `height` levels deep.
    pub(crate) fn finish_node(&mut self, height: usize) {
        let end = offset(self.out.len() - self.base);
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        frame.height = frame.height.max(height);
        if let Collection::Mapping { expects, merged } = &mut frame.collection {
            match *expects {
                Expects::Value { key, value } => self.entries.push(Entry { key, value, end }),
                Expects::MergeValue => *merged = true,
                Expects::Key => {}
            }
            *expects = Expects::Key;
        }
    }

    /// Writes the comma before a key, and tells where the key starts.
    pub(crate) fn start_key(&mut self) -> u32 {
        let length = self.out.len() - self.base;
        if self
            .frames
            .last()
            .is_some_and(|frame| length > frame.start + 1)
        {
            self.out.push(b',');
        }
        offset(self.out.len() - self.base)
    }

    pub(crate) fn end_key(&mut self, key: u32) {
        let text = self.json().get(key as usize..).unwrap_or_default();
        if text.contains(&b'\\') {
            self.escaped_keys = true;
        }
        self.out.push(b':');
        let value = offset(self.out.len() - self.base);
        self.expect(Expects::Value { key, value });
    }

    fn expect(&mut self, next: Expects) {
        if let Some(Frame {
            collection: Collection::Mapping { expects, .. },
            ..
        }) = self.frames.last_mut()
        {
            *expects = next;
        }
    }

    /// Counts a node and the nodes that it stands for as an alias.
    pub(crate) fn count(&mut self, aliased: u64) -> Result<(), String> {
        self.nodes.add(aliased);
        if self.nodes.is_excessive() {
            return Err("the document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    /// Refuses a document that is too large already, or would be with `more`
    /// bytes.
    pub(crate) fn charge(&self, more: usize) -> Result<(), String> {
        if self.json().len() + self.anchors.size() + more > self.budget {
            return Err(TOO_LARGE.to_owned());
        }
        Ok(())
    }

    fn json(&self) -> &[u8] {
        self.out.get(self.base..).unwrap_or_default()
    }

    pub(crate) fn too_deep(&self) -> String {
        format!(
            "lists and mappings are nested deeper than {} levels",
            self.depth
        )
    }
}

/// Why a list or mapping in the place of a key is refused.
pub(crate) fn no_key() -> String {
    "a list or mapping cannot be a key".to_owned()
}
