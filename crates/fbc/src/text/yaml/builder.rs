//! The parser's events to JSON, in one pass and without a tree. Values are written in
//! the order of the events. The text of a complete object is sorted if necessary.

use libyaml_safer::{Event, EventData, Parser};

use crate::text::yaml::anchors::{AnchorKind, Anchors, NodeCount};
use crate::text::yaml::error::YamlError;
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

/// The result of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Whether there was a value other than null, which was appended.
    pub found: bool,
    /// The line within the document, from 1, of the first text that was not read: a
    /// YAML document had ended before it.
    pub rest: Option<usize>,
    /// Whether a mapping may have a key twice: an earlier value was dropped, which may
    /// be one that was merged into it. [`repeated_keys`] finds the keys.
    ///
    /// [`repeated_keys`]: crate::text::yaml::repeated_keys
    pub repeats: bool,
}

/// Builds the JSON of the first document of `text` at the end of `out`.
pub(crate) fn build(
    text: &str,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<Converted, YamlError> {
    let mut parser = input::parser(text);
    let mut builder = Builder::new(limits, text.len(), out);
    loop {
        let event = parser
            .parse()
            .map_err(|error| YamlError::from_parser(&error, text))?;
        let mark = event.start_mark;
        match builder.event(event) {
            Ok(Next::Event) => {}
            Ok(Next::Nothing) => return Ok(Converted::default()),
            Ok(Next::Done) => {
                let found = builder.json() != b"null";
                return Ok(Converted {
                    found,
                    rest: rest(&mut parser),
                    repeats: builder.repeats,
                });
            }
            Err(message) => return Err(YamlError::new(message).at(mark.line, mark.column)),
        }
    }
}

/// The line, from 1, of the text behind a complete document: of another document, or
/// of text that cannot be read.
fn rest(parser: &mut Parser<input::Source<'_>>) -> Option<usize> {
    let mark = match parser.parse() {
        Ok(event) if matches!(event.data, EventData::StreamEnd) => return None,
        Ok(event) => event.start_mark,
        Err(error) => error.problem_mark()?,
    };
    usize::try_from(mark.line).ok()?.checked_add(1)
}

/// The next step after an event.
enum Next {
    Event,
    /// The stream ended before a document.
    Nothing,
    /// The document is complete.
    Done,
}

/// The role of a node in its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The document, an item of a list or the value of an entry.
    Value,
    Key,
    /// The value of a merge key.
    Merge,
    /// An item of the list that is the value of a merge key.
    MergeItem,
}

/// A list or mapping that is not complete.
pub(crate) struct Frame {
    pub(crate) collection: Collection,
    pub(crate) role: Role,
    /// The position of its bracket in the output.
    pub(crate) start: usize,
    /// The first of its entries on the stack of entries.
    pub(crate) first_entry: usize,
    pub(crate) anchor: Option<usize>,
    /// The depth of the nodes in it so far.
    pub(crate) height: usize,
    /// The count of nodes before it.
    pub(crate) nodes_before: u64,
}

pub(crate) enum Collection {
    List,
    Mapping {
        expects: Expects,
        /// Whether other mappings were merged into it. Then its text has more than its
        /// entries.
        merged: bool,
    },
}

/// The next node of a mapping.
#[derive(Clone, Copy)]
pub(crate) enum Expects {
    Key,
    MergeValue,
    /// The value of the key at the first offset. The value starts at the second.
    Value {
        key: u32,
        value: u32,
    },
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
    /// Whether an entry was dropped for a later one with its key.
    repeats: bool,
    /// The buffer for sorting objects.
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
            repeats: false,
            scratch: Vec::new(),
            depth: limits.depth,
            budget: limits.budget(length),
        }
    }

    fn event(&mut self, event: Event) -> Result<Next, String> {
        match event.data {
            EventData::StreamStart { .. } => {}
            EventData::StreamEnd => return Ok(Next::Nothing),
            EventData::DocumentStart { tag_directives, .. } => {
                let mut prefixes = tag_directives.iter().map(|directive| &directive.prefix);
                if prefixes.any(|prefix| prefix.len() > LONGEST_TAG_PREFIX) {
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
                let (expects, merged) = (Expects::Key, false);
                self.start(Collection::Mapping { expects, merged }, anchor)?;
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
            let kind = AnchorKind::Scalar(key);
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
                    // The first mapping of the list takes precedence. In each, keys
                    // are distinct, so their order does not matter.
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
        self.repeats |= rebuild(
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

    /// The role of the next node in its collection. Writes the comma before it in a
    /// list.
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

    /// Notes that a value of `height` levels is complete.
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

    /// Writes the comma before a key. Returns the start of the key.
    pub(crate) fn start_key(&mut self) -> u32 {
        let length = self.out.len() - self.base;
        let top = self.frames.last();
        if top.is_some_and(|frame| length > frame.start + 1) {
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

    /// Counts a node and the nodes that it refers to as an alias.
    pub(crate) fn count(&mut self, aliased: u64) -> Result<(), String> {
        self.nodes.add(aliased);
        if self.nodes.is_excessive() {
            return Err("the document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    /// Refuses a document that would be too large with `more` bytes.
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

/// The message for a list or mapping as a key.
pub(crate) fn no_key() -> String {
    "a list or mapping cannot be a key".to_owned()
}
