//! JSON text ─► canonical JSON text, in one pass and without a tree.
//!
//! Canonical is what the ecosystem's Go programs write after reading: one
//! line, keys sorted bytewise at every level, the last of equal keys kept,
//! numbers as a float64 round trip prints them (an integer that no float64
//! holds is kept exactly), escapes only where they are needed. Values are
//! written to the output as they are read; only an object whose keys come
//! unsorted is put in order afterwards, by moving its members once.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::text::{write_number, write_string_part};

/// How deep arrays and objects may nest. Go's reader allows 10,000; real
/// catalogs stay below 40.
pub const MAX_DEPTH: usize = 500;

/// A place in the input that is no JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// Bytes from the start of the input.
    pub offset: usize,
    /// What was expected or found there.
    pub message: String,
}

/// A member of an object in the output: where its key (with quotes) starts and
/// ends, and where its value ends. The value starts one byte behind the key.
#[derive(Clone, Copy, Debug)]
struct Member {
    key: usize,
    key_end: usize,
    end: usize,
}

/// Reads values and writes them canonically; keeps its scratch memory.
#[derive(Default)]
pub struct Canonicaliser {
    members: Vec<Member>,
    scratch: Vec<u8>,
    top: Vec<(Range<usize>, Range<usize>)>,
}

impl Canonicaliser {
    /// Reads the value at `input[start..]` (white space before it is passed
    /// over), appends it to `out` and returns where it ended in the input;
    /// `None` when nothing but white space is left. `input` must be UTF-8: see
    /// [`valid_utf8`].
    pub fn read(
        &mut self,
        input: &[u8],
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, JsonError> {
        self.members.clear();
        self.top.clear();
        let mut reader = Reader {
            input,
            at: start,
            members: &mut self.members,
            scratch: &mut self.scratch,
            top: &mut self.top,
        };
        reader.white_space();
        if reader.at == input.len() {
            return Ok(None);
        }
        reader.value(out, 0)?;
        Ok(Some(reader.at))
    }

    /// The members of the last value read, when it was an object: the ranges
    /// of key (without quotes) and value in `out`.
    pub fn top_members(&self) -> &[(Range<usize>, Range<usize>)] {
        &self.top
    }
}

/// The input as UTF-8, every byte that is not replaced by U+FFFD as Go's JSON
/// reader does.
pub fn valid_utf8(input: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(input).is_ok() {
        return Cow::Borrowed(input);
    }
    let mut out = Vec::with_capacity(input.len() + 64);
    let mut rest = input;
    while !rest.is_empty() {
        match std::str::from_utf8(rest) {
            Ok(_) => {
                out.extend_from_slice(rest);
                break;
            }
            Err(error) => {
                let (good, bad) = rest.split_at(error.valid_up_to());
                out.extend_from_slice(good);
                out.extend_from_slice("\u{fffd}".as_bytes());
                rest = &bad[1..];
            }
        }
    }
    Cow::Owned(out)
}

/// The text of a canonical JSON string (given without its quotes).
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\') {
        return String::from_utf8_lossy(raw);
    }
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    // The reader wrote this text, so it always parses.
    Cow::Owned(serde_json::from_slice(&quoted).unwrap_or_default())
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    members: &'a mut Vec<Member>,
    scratch: &'a mut Vec<u8>,
    top: &'a mut Vec<(Range<usize>, Range<usize>)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, JsonError> {
        Err(JsonError {
            offset: self.at.min(self.input.len()),
            message: message.into(),
        })
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, JsonError> {
        match self.peek() {
            None => self.error(format!("the text ends where {wanted} should stand")),
            Some(byte) => self.error(format!(
                "{:?} stands where {wanted} should",
                char::from(byte)
            )),
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => self.object(out, depth),
            Some(b'[') => self.array(out, depth),
            Some(b'"') => self.string(out),
            Some(b'-' | b'0'..=b'9') => self.number(out),
            Some(b't') => self.word(b"true", out),
            Some(b'f') => self.word(b"false", out),
            Some(b'n') => self.word(b"null", out),
            _ => self.unexpected("a JSON value"),
        }
    }

    fn word(&mut self, word: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
        if !self.input[self.at..].starts_with(word) {
            return self.unexpected("true, false or null");
        }
        self.at += word.len();
        out.extend_from_slice(word);
        Ok(())
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), JsonError> {
        if depth >= MAX_DEPTH {
            return self.error(format!("values nest deeper than {MAX_DEPTH} levels"));
        }
        self.at += 1;
        out.push(b'[');
        self.white_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            out.push(b']');
            return Ok(());
        }
        loop {
            self.value(out, depth + 1)?;
            self.white_space();
            match self.peek() {
                Some(b',') => out.push(b','),
                Some(b']') => {
                    self.at += 1;
                    out.push(b']');
                    return Ok(());
                }
                _ => return self.unexpected("',' or ']'"),
            }
            self.at += 1;
            self.white_space();
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), JsonError> {
        if depth >= MAX_DEPTH {
            return self.error(format!("values nest deeper than {MAX_DEPTH} levels"));
        }
        self.at += 1;
        let first = self.members.len();
        let start = out.len();
        let mut sorted = true;
        out.push(b'{');
        self.white_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            out.push(b'}');
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.unexpected("a key in quotes");
            }
            let key = out.len();
            self.string(out)?;
            let key_end = out.len();
            if let Some(last) = self.members.get(first..).and_then(<[Member]>::last) {
                let (last, this) = (inner(out, last), &out[key + 1..key_end - 1]);
                sorted &= compare_keys(last, this) == Ordering::Less;
            }
            self.white_space();
            if self.peek() != Some(b':') {
                return self.unexpected("':' behind a key");
            }
            self.at += 1;
            out.push(b':');
            self.white_space();
            self.value(out, depth + 1)?;
            let end = out.len();
            self.members.push(Member { key, key_end, end });
            self.white_space();
            match self.peek() {
                Some(b',') => out.push(b','),
                Some(b'}') => {
                    self.at += 1;
                    out.push(b'}');
                    break;
                }
                _ => return self.unexpected("',' or '}'"),
            }
            self.at += 1;
            self.white_space();
        }
        if !sorted {
            self.sort(start, first, out);
        }
        if depth == 0 {
            self.top.extend(
                self.members[first..]
                    .iter()
                    .map(|m| (m.key + 1..m.key_end - 1, m.key_end + 1..m.end)),
            );
        }
        self.members.truncate(first);
        Ok(())
    }

    /// Puts the members of the object at `out[start..]` in order and drops all
    /// but the last of equal keys.
    fn sort(&mut self, start: usize, first: usize, out: &mut Vec<u8>) {
        let members = &mut self.members[first..];
        // A stable sort: of equal keys, the last read stays last.
        members.sort_by(|a, b| compare_keys(inner(out, a), inner(out, b)));
        self.scratch.clear();
        let mut kept = 0;
        for i in 0..members.len() {
            let member = members[i];
            if members
                .get(i + 1)
                .is_some_and(|next| compare_keys(inner(out, &member), inner(out, next)).is_eq())
            {
                continue;
            }
            if kept > 0 {
                self.scratch.push(b',');
            }
            let at = start + 1 + self.scratch.len();
            self.scratch.extend_from_slice(&out[member.key..member.end]);
            members[kept] = Member {
                key: at,
                key_end: at + (member.key_end - member.key),
                end: at + (member.end - member.key),
            };
            kept += 1;
        }
        self.scratch.push(b'}');
        // `members` was read through `i` and written through `kept <= i`; the
        // comparisons above only look forward, so nothing moved is read again.
        out.truncate(start + 1);
        out.extend_from_slice(self.scratch);
        self.members.truncate(first + kept);
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while let Some(b'0'..=b'9') = reader.peek() {
                reader.at += 1;
            }
            reader.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading = self.peek();
        let whole = digits(self);
        if whole == 0 {
            return self.unexpected("a digit");
        }
        if leading == Some(b'0') && whole > 1 {
            self.at = start;
            return self.error("a number may not start with 0");
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            integer = false;
            if digits(self) == 0 {
                return self.unexpected("a digit");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            integer = false;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if digits(self) == 0 {
                return self.unexpected("a digit");
            }
        }
        let text = &self.input[start..self.at];
        // Up to 15 digits every integer is a float64 and is printed as it is.
        if integer && whole <= 15 {
            out.extend_from_slice(text);
            return Ok(());
        }
        let written = std::str::from_utf8(text)
            .ok()
            .and_then(|text| write_number(out, text).ok());
        if written.is_none() {
            self.at = start;
            return self.error("the number is out of the range of a float64");
        }
        Ok(())
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        out.push(b'"');
        self.at += 1;
        loop {
            let run = plain_run(&self.input[self.at..]);
            out.extend_from_slice(&self.input[self.at..self.at + run]);
            self.at += run;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    out.push(b'"');
                    return Ok(());
                }
                Some(b'\\') => self.escape(out)?,
                Some(0xe2) => {
                    // U+2028 and U+2029 are E2 80 A8 and E2 80 A9.
                    match self.input.get(self.at + 1..self.at + 3) {
                        Some([0x80, 0xa8]) => {
                            out.extend_from_slice(b"\\u2028");
                            self.at += 3;
                        }
                        Some([0x80, 0xa9]) => {
                            out.extend_from_slice(b"\\u2029");
                            self.at += 3;
                        }
                        _ => {
                            out.push(0xe2);
                            self.at += 1;
                        }
                    }
                }
                Some(_) => {
                    return self.error("a control character stands unescaped in a string");
                }
                None => return self.error("the text ends inside a string"),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let Some(kind) = self.input.get(self.at + 1) else {
            return self.error("the text ends inside a string");
        };
        match kind {
            b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f' => {
                out.extend_from_slice(&[b'\\', *kind]);
                self.at += 2;
            }
            b'/' => {
                out.push(b'/');
                self.at += 2;
            }
            b'u' => {
                let Some(unit) = self.hex(self.at + 2) else {
                    return self.error("\\u takes four hexadecimal digits");
                };
                self.at += 6;
                let mut code = unit;
                if (0xd800..0xdc00).contains(&unit) {
                    // A high surrogate counts only together with a low one.
                    let low = (self.input.get(self.at..self.at + 2) == Some(b"\\u"))
                        .then(|| self.hex(self.at + 2))
                        .flatten()
                        .filter(|low| (0xdc00..0xe000).contains(low));
                    if let Some(low) = low {
                        self.at += 6;
                        code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                let character = char::from_u32(code).unwrap_or('\u{fffd}');
                write_string_part(out, character.encode_utf8(&mut [0; 4]));
            }
            _ => return self.error("no such escape in a string"),
        }
        Ok(())
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.input.get(at..at + 4)?;
        digits.iter().try_fold(0, |code, digit| {
            Some(code << 4 | char::from(*digit).to_digit(16)?)
        })
    }
}

fn inner<'a>(out: &'a [u8], member: &Member) -> &'a [u8] {
    &out[member.key + 1..member.key_end - 1]
}

/// Compares two keys as the texts that they stand for.
fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    if a.contains(&b'\\') || b.contains(&b'\\') {
        unescape(a).as_bytes().cmp(unescape(b).as_bytes())
    } else {
        a.cmp(b)
    }
}

/// How many bytes from the start can be copied as they are: none of `"`, `\`,
/// a control character, or E2 (which may begin U+2028). Eight bytes at a time.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The classic test for a zero byte; for the first hit, which is all that
    // is looked for here, borrows between bytes do no harm.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        let hits = zero(word ^ (ONES * 0x22))
            | zero(word ^ (ONES * 0x5c))
            | zero(word ^ (ONES * 0xe2))
            | (word.wrapping_sub(ONES * 0x20) & !word & HIGH);
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes[at..]
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0xe2 | 0..0x20));
    at + rest.unwrap_or(bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(input: &str) -> Result<String, JsonError> {
        let mut out = Vec::new();
        let mut reader = Canonicaliser::default();
        let input = valid_utf8(input.as_bytes());
        let end = reader.read(&input, 0, &mut out)?;
        assert_eq!(end, Some(input.len()), "{input:?}");
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn objects_come_out_sorted_at_every_level_and_the_last_of_equal_keys_wins() {
        for (input, wanted) in [
            ("{}", "{}"),
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
            (r#"{ "b" : 2 , "a" : [ ] }"#, r#"{"a":[],"b":2}"#),
            (
                r#"{"b":{"z":1,"y":{"d":1,"c":2}},"a":1}"#,
                r#"{"a":1,"b":{"y":{"c":2,"d":1},"z":1}}"#,
            ),
            (r#"{"a":1,"a":2,"a":3}"#, r#"{"a":3}"#),
            (
                r#"{"b":1,"a":2,"b":3,"c":0,"a":9}"#,
                r#"{"a":9,"b":3,"c":0}"#,
            ),
            (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#),
            // '"' (0x22) sorts before '#' although its escape does not.
            (r##"{"#":1,"\"":2}"##, r##"{"\"":2,"#":1}"##),
        ] {
            assert_eq!(canonical(input).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn numbers_come_out_as_a_float64_round_trip_prints_them() {
        for (input, wanted) in [
            ("0", "0"),
            ("-0", "-0"),
            ("1.0", "1"),
            ("1e3", "1000"),
            ("1.50", "1.5"),
            ("1e21", "1e+21"),
            ("123456789012345", "123456789012345"),
            // No float64 holds these: kept exactly.
            ("9007199254740993", "9007199254740993"),
            ("12345678901234567890", "12345678901234567890"),
            ("1e-7", "1e-7"),
        ] {
            assert_eq!(canonical(input).as_deref(), Ok(wanted));
        }
        assert!(canonical("1e999").is_err());
        assert!(canonical("01").is_err());
        assert!(canonical("1.").is_err());
    }

    #[test]
    fn strings_keep_only_the_escapes_they_need() {
        for (input, wanted) in [
            (r#""\u003c\/\u0041""#, "\"</A\""),
            (r#""\u0000\u001f\n\b""#, r#""\u0000\u001f\n\b""#),
            (
                "\"\u{2028}\u{2029}\u{2027}é\"",
                "\"\\u2028\\u2029\u{2027}é\"",
            ),
            (r#""\ud83d\ude00""#, "\"😀\""),
            (r#""\ud83dx""#, "\"\u{fffd}x\""),
            (
                r#""a long text with a quote \" far behind""#,
                r#""a long text with a quote \" far behind""#,
            ),
        ] {
            assert_eq!(canonical(input).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn an_error_names_the_place() {
        for (input, offset) in [
            ("{\"a\" 1}", 5),
            ("[1 2]", 3),
            ("{\"a\":tru}", 5),
            ("\"ab", 3),
            ("\"a\nb\"", 2),
            ("\"\\x\"", 1),
        ] {
            let error = Canonicaliser::default()
                .read(input.as_bytes(), 0, &mut Vec::new())
                .unwrap_err();
            assert_eq!(error.offset, offset, "{input}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(100_000);
        let error = Canonicaliser::default()
            .read(deep.as_bytes(), 0, &mut Vec::new())
            .unwrap_err();
        assert!(error.message.contains("deeper"), "{error}");
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        assert_eq!(valid_utf8(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b".as_bytes());
    }

    proptest::proptest! {
        #[test]
        fn any_value_means_the_same_afterwards_and_canonical_text_stays(bytes in ".{0,200}", json in json_value(4)) {
            let _ = Canonicaliser::default().read(bytes.as_bytes(), 0, &mut Vec::new());
            let text = serde_json::to_string_pretty(&json).unwrap();
            let once = canonical(&text).unwrap();
            proptest::prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&once).unwrap(), &json);
            proptest::prop_assert_eq!(canonical(&once).unwrap(), once);
        }
    }

    fn json_value(depth: u32) -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            // Beyond these, a float64 round trip prints other digits.
            (-(1_i64 << 53)..1 << 53).prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(depth, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::vec((any::<String>(), inner), 0..8)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        })
    }
}
