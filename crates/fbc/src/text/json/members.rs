//! Members of canonical objects and elements of canonical arrays, one by one,
//! for whoever reads stored lines without making a tree of them.

use std::ops::Range;

use crate::text::json::cursor::Walk;

/// A member of an object: where its key (without quotes) and its value lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The key, as it is escaped in the text.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// The next member of a canonical object. `at` is 0 for the first one and is
/// moved on; nothing comes at the end, and of what is no object.
pub fn next_member(object: &[u8], at: &mut usize) -> Option<Member> {
    if *at == 0 {
        if object.first() != Some(&b'{') {
            return None;
        }
        *at = 1;
    }
    let start = *at;
    let mut walk = Walk::new(object.get(start..)?);
    let key = walk.next_key();
    let Some(key) = key else {
        *at = object.len();
        return None;
    };
    // Behind the key stands a colon.
    let key_end = start + walk.position() - 1;
    let value = walk.skip().len();
    let end = start + walk.position();
    *at = end;
    Some(Member {
        key: key_end + 1 - key.len()..key_end - 1,
        value: end - value..end,
    })
}

/// The elements of a canonical array, as places in it; none of what is no
/// array.
pub fn elements(array: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut walk = Walk::new(array);
    let is_array = walk.peek() == Some(b'[');
    walk.step();
    std::iter::from_fn(move || {
        if !is_array || !walk.next_element() {
            return None;
        }
        let start = walk.position();
        walk.skip();
        Some(start..walk.position())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_one_by_one() {
        let object = br#"{"a":1,"b\"":{"x":"}"},"c":[1,{}],"d":""}"#;
        let mut at = 0;
        let mut found = Vec::new();
        while let Some(Member { key, value }) = next_member(object, &mut at) {
            let text = |range: Range<usize>| str::from_utf8(&object[range]).unwrap();
            found.push((text(key), text(value)));
        }
        assert_eq!(
            found,
            [
                ("a", "1"),
                ("b\\\"", r#"{"x":"}"}"#),
                ("c", "[1,{}]"),
                ("d", "\"\"")
            ]
        );
        assert_eq!(next_member(object, &mut at), None);
        for other in [&b"{}"[..], b"[1]", b"", b"\"a\"", b"null"] {
            assert_eq!(next_member(other, &mut 0), None);
        }
    }

    #[test]
    fn elements_come_one_by_one() {
        let array = br#"[1,"a,]",[2],{"k":[3]}]"#;
        let found: Vec<&[u8]> = elements(array).map(|at| &array[at]).collect();
        assert_eq!(found, [&b"1"[..], b"\"a,]\"", b"[2]", b"{\"k\":[3]}"]);
        for other in [&b"[]"[..], b"{}", b"", b"1"] {
            assert_eq!(elements(other).count(), 0);
        }
    }
}
