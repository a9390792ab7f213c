//! One pass over JSON text. Canonical text is not copied: a value is known by its
//! position in the input. Only changes are written to a buffer.

use std::cmp::Ordering;

use crate::text::json::buffers::{Buffers, CHANGED, Member, Slice, TopMember, offset};
use crate::text::json::cursor::StringEnds;
use crate::text::json::strings::compare_keys;

/// The deepest nesting of arrays and objects. The limit is the same for JSON and YAML,
/// since documents of one format may be written in the other. Go's reader allows
/// 10,000; real catalogs stay below 40.
pub const MAX_DEPTH: usize = 500;

/// The largest value, and the largest input of one call, in bytes.
pub(crate) const MAX_LENGTH: usize = (CHANGED >> 1) as usize;
/// The number of bytes by which numbers such as `1e20`, written out, may make the
/// canonical form longer, in addition to the length of the input.
pub(super) const MAX_GROWTH: usize = 1 << 20;

/// A position in the input that is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// Bytes from the start of the input.
    pub offset: usize,
    /// The expected or the unexpected text, as a sentence.
    pub message: String,
}

/// Reads values and writes them canonically; keeps its scratch memory.
#[derive(Default)]
pub struct Canonicaliser {
    buffers: Buffers,
    top: Vec<TopMember>,
    line_ends: u32,
    repeats: bool,
}

impl Canonicaliser {
    /// Reads the value at `input[start..]`, with white space before it, and appends it
    /// to `out`. Returns its end in the input; `None` if only white space is left.
    /// Appends nothing on an error. Each byte of a string that is not UTF-8 becomes
    /// U+FFFD, as in Go's reader.
    pub fn read(
        &mut self,
        input: &[u8],
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, JsonError> {
        self.top.clear();
        self.line_ends = 0;
        self.repeats = false;
        if input.len() > MAX_LENGTH {
            return Err(JsonError {
                offset: start,
                message: "a file of more than 1 GiB cannot be read".to_owned(),
            });
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.clear();
        let mut reader = Reader::new(input, start, buffers);
        let read = reader.next(out, &mut self.top);
        self.buffers = reader.buffers;
        self.line_ends = reader.line_ends;
        self.repeats = reader.repeats;
        read
    }

    /// The members of the last value, if it is an object.
    pub fn top_members(&self) -> &[TopMember] {
        &self.top
    }

    /// The number of line ends in the last value and before it.
    pub(crate) fn line_ends(&self) -> u32 {
        self.line_ends
    }

    /// Whether an object of the last value has a key twice.
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    /// The ends of the strings in the value of a top member.
    pub(crate) fn string_ends(&self, member: &TopMember) -> StringEnds<'_> {
        match self.buffers.ends.get(member.ends..) {
            Some([start, ends @ ..]) => StringEnds {
                ends,
                start: *start,
            },
            _ => StringEnds::default(),
        }
    }
}

pub(super) struct Reader<'a> {
    pub(super) input: &'a [u8],
    pub(super) start: usize,
    pub(super) at: usize,
    /// The number of bytes by which numbers became longer.
    pub(super) growth: usize,
    /// The input from here to `at` is unchanged, and not in `changed` yet.
    pub(super) pending: usize,
    pub(super) line_ends: u32,
    /// Whether a member was dropped for a later one with its key.
    repeats: bool,
    pub(super) buffers: Buffers,
}

/// The state at the start of a value.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) at: usize,
    pub(super) pending: usize,
    pub(super) changed: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8], start: usize, buffers: Buffers) -> Self {
        Self {
            input,
            start,
            at: start,
            growth: 0,
            pending: start,
            line_ends: 0,
            repeats: false,
            buffers,
        }
    }

    /// Reads the next value, if there is one, and appends it to `out`.
    pub(super) fn next(
        &mut self,
        out: &mut Vec<u8>,
        top: &mut Vec<TopMember>,
    ) -> Result<Option<usize>, JsonError> {
        self.white_space();
        match self.peek() {
            None => return Ok(None),
            Some(b'{') => self.document(out, top)?,
            Some(_) => {
                self.value(0)?;
                self.flush();
                out.extend_from_slice(&self.buffers.changed);
            }
        }
        Ok(Some(self.at))
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// Copies the pending input.
    pub(super) fn flush(&mut self) {
        self.buffers
            .changed
            .extend_from_slice(&self.input[self.pending..self.at]);
        self.pending = self.at;
    }

    /// Moves over `length` bytes and leaves them out of the output.
    pub(super) fn leave_out(&mut self, length: usize) {
        self.flush();
        self.at += length;
        self.pending = self.at;
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            pending: self.pending,
            changed: self.buffers.changed.len(),
        }
    }

    /// The value that was read since a mark.
    pub(super) fn since(&mut self, mark: Mark) -> Slice {
        if self.buffers.changed.len() == mark.changed {
            return Slice {
                start: offset(mark.at),
                length: offset(self.at - mark.at),
            };
        }
        self.flush();
        let start = mark.changed + (mark.at - mark.pending);
        Slice {
            start: offset(start) | CHANGED,
            length: offset(self.buffers.changed.len() - start),
        }
    }

    fn bytes(&self, slice: Slice) -> &[u8] {
        slice.of(self.input, &self.buffers.changed)
    }

    #[inline]
    pub(super) fn white_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.pass_white_space();
        }
    }

    #[inline(never)]
    fn pass_white_space(&mut self) {
        let rest = &self.input[self.at..];
        let mut length = 0;
        for byte in rest {
            match byte {
                b'\n' => self.line_ends += 1,
                b' ' | b'\t' | b'\r' => {}
                _ => break,
            }
            length += 1;
        }
        self.leave_out(length);
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, JsonError> {
        Err(JsonError {
            offset: self.at.min(self.input.len()),
            message: message.into(),
        })
    }

    #[cold]
    pub(super) fn unexpected<T>(&self, wanted: &str) -> Result<T, JsonError> {
        match self.peek() {
            None => self.error(format!("the text ends where {wanted} should stand")),
            Some(byte) => self.error(format!(
                "{:?} stands where {wanted} should",
                char::from(byte)
            )),
        }
    }

    /// Reads an object and appends it to `out`; `top` gets its members.
    fn document(&mut self, out: &mut Vec<u8>, top: &mut Vec<TopMember>) -> Result<(), JsonError> {
        if !self.members(0)? {
            self.sort(0);
        }
        let start = out.len();
        let length = |member: &Member| (member.key.length + member.value.length) as usize + 2;
        out.reserve(self.buffers.members.iter().map(length).sum::<usize>() + 2);
        out.push(b'{');
        for member in &self.buffers.members {
            if out.len() > start + 1 {
                out.push(b',');
            }
            let key = out.len();
            out.extend_from_slice(self.bytes(member.key));
            out.push(b':');
            let value = out.len();
            out.extend_from_slice(self.bytes(member.value));
            top.push(TopMember {
                key: key + 1..value - 2,
                value: value..out.len(),
                ends: member.ends as usize,
            });
        }
        out.push(b'}');
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.unexpected("a JSON value"),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if !self.input[self.at..].starts_with(word) {
            return self.unexpected("true, false or null");
        }
        self.at += word.len();
        Ok(())
    }

    /// Enters an array or object.
    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= MAX_DEPTH {
            return self.error(format!("values nest deeper than {MAX_DEPTH} levels"));
        }
        self.at += 1;
        self.white_space();
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        self.enter(depth)?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.white_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.unexpected("',' or ']'"),
            }
            self.white_space();
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        let mark = self.mark();
        let first = self.buffers.members.len();
        let first_end = self.buffers.ends.len();
        if !self.members(depth)? {
            self.sort(first);
            self.buffers.ordered.clear();
            self.buffers.ordered_ends.clear();
            self.buffers.ordered.push(b'{');
            let start = mark.changed + (mark.at - mark.pending);
            for number in first..self.buffers.members.len() {
                let member = self.buffers.members[number];
                if number > first {
                    self.buffers.ordered.push(b',');
                }
                self.move_ends(&member, offset(start + self.buffers.ordered.len()));
                let (input, changed) = (self.input, &self.buffers.changed);
                self.buffers
                    .ordered
                    .extend_from_slice(member.key.of(input, changed));
                self.buffers.ordered.push(b':');
                self.buffers
                    .ordered
                    .extend_from_slice(member.value.of(input, changed));
            }
            self.buffers.ordered.push(b'}');
            self.buffers.ends.truncate(first_end);
            self.buffers
                .ends
                .extend_from_slice(&self.buffers.ordered_ends);
            self.buffers.changed.truncate(mark.changed);
            self.buffers
                .changed
                .extend_from_slice(&self.input[mark.pending..mark.at]);
            self.buffers
                .changed
                .extend_from_slice(&self.buffers.ordered);
            self.pending = self.at;
        }
        self.buffers.members.truncate(first);
        Ok(())
    }

    /// Notes the ends of the strings of a member that moves to `start`.
    fn move_ends(&mut self, member: &Member, start: u32) {
        let Some(ends @ [key_end, ..]) = self.buffers.ends.get(member.ends as usize..) else {
            return;
        };
        let was = key_end - member.key.length;
        let end = key_end + 1 + member.value.length;
        let own = ends.iter().take_while(|at| **at <= end);
        self.buffers
            .ordered_ends
            .extend(own.map(|at| at - was + start));
    }

    /// Reads an object's members. Returns whether their keys are sorted and distinct.
    fn members(&mut self, depth: usize) -> Result<bool, JsonError> {
        self.enter(depth)?;
        let first = self.buffers.members.len();
        let mut sorted = true;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(true);
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.unexpected("a key in quotes");
            }
            if depth == 0 {
                // A document's members are taken one by one.
                self.pending = self.at;
            }
            let mark = self.mark();
            let ends = self.buffers.ends.len();
            let escaped = self.string()?;
            let key = self.since(mark);
            self.white_space();
            if self.peek() != Some(b':') {
                return self.unexpected("':' behind a key");
            }
            self.at += 1;
            self.white_space();
            if depth == 0 {
                self.pending = self.at;
                self.buffers.ends[ends] = offset(self.buffers.changed.len());
            }
            let mark = self.mark();
            self.value(depth + 1)?;
            let value = self.since(mark);
            let member = Member {
                key,
                value,
                ends: offset(ends),
                escaped,
            };
            let last = self.buffers.members.get(first..).and_then(<[Member]>::last);
            match last.map(|last| self.compare(last, &member)) {
                // The last of equal keys counts.
                Some(Ordering::Equal) => {
                    sorted = false;
                    self.repeats = true;
                    self.buffers.members.pop();
                }
                Some(Ordering::Greater) => sorted = false,
                Some(Ordering::Less) | None => {}
            }
            self.buffers.members.push(member);
            if depth == 0 {
                self.pending = self.at;
            }
            self.white_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(sorted);
                }
                _ => return self.unexpected("',' or '}'"),
            }
            self.white_space();
        }
    }

    /// Sorts members. Of equal keys only the last remains.
    fn sort(&mut self, first: usize) {
        let mut members = std::mem::take(&mut self.buffers.members);
        let own = members.get_mut(first..).unwrap_or_default();
        // A stable sort: of equal keys, the last read stays last.
        own.sort_by(|a, b| self.compare(a, b));
        let mut kept = first;
        for number in first..members.len() {
            let next = members.get(number + 1);
            if next.is_none_or(|next| self.compare(&members[number], next).is_ne()) {
                members[kept] = members[number];
                kept += 1;
            }
        }
        self.repeats |= kept < members.len();
        members.truncate(kept);
        self.buffers.members = members;
    }

    fn compare(&self, a: &Member, b: &Member) -> Ordering {
        let (key, other) = (self.bytes(a.key), self.bytes(b.key));
        let (key, other) = (&key[1..key.len() - 1], &other[1..other.len() - 1]);
        if a.escaped || b.escaped {
            return compare_keys(key, other);
        }
        // The first byte decides for most.
        match (key.first(), other.first()) {
            (Some(one), Some(other)) if one != other => one.cmp(other),
            _ => key.cmp(other),
        }
    }
}
