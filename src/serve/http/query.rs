//! The query of `metas`, and the escapes of all queries.

use std::borrow::Cow;

use crate::serve::http::rejection::HttpRejection;
use crate::snapshot::Query;

/// Reads the query of `metas` as catalogd does. The first value of a key
/// counts, and an empty value counts as absent. Unknown keys are rejected.
pub(super) fn parse_query(query: &str) -> Result<Query<'_>, HttpRejection> {
    let mut parsed = Query::default();
    let mut seen = [false; 3];
    let plain = memchr::memchr2(b'+', b'%', query.as_bytes()).is_none();
    let unescape = |text| {
        if plain {
            Ok(Cow::Borrowed(text))
        } else {
            unescape(text)
        }
    };
    let mut rest = query;
    while !rest.is_empty() {
        let (pair, behind) = cut(rest, b'&');
        rest = behind;
        if pair.is_empty() {
            continue;
        }
        let (key, value) = cut(pair, b'=');
        let key = unescape(key)?;
        let (number, field) = match &*key {
            "schema" => (0, &mut parsed.schema),
            "package" => (1, &mut parsed.package),
            "name" => (2, &mut parsed.name),
            _ => return Err(HttpRejection::Query),
        };
        let value = unescape(value)?;
        if !std::mem::replace(&mut seen[number], true) {
            *field = Some(value).filter(|value| !value.is_empty());
        }
    }
    Ok(parsed)
}

/// The text before and after the first occurrence of an ASCII character.
fn cut(text: &str, at: u8) -> (&str, &str) {
    match memchr::memchr(at, text.as_bytes()) {
        Some(found) => (&text[..found], &text[found + 1..]),
        None => (text, ""),
    }
}

/// Decodes the escapes of a query.
pub(super) fn unescape(text: &str) -> Result<Cow<'_, str>, HttpRejection> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (code, behind) = rest.split_at_checked(2).ok_or(HttpRejection::Query)?;
                rest = behind;
                let digit = |byte: u8| hex_digit(byte).ok_or(HttpRejection::Query);
                digit(code[0])? << 4 | digit(code[1])?
            }
            other => other,
        });
    }
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| HttpRejection::Query)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_takes_three_keys_and_no_other() {
        fn query(text: &str) -> Option<Query<'_>> {
            parse_query(text).ok()
        }
        let some = |text| Some(Cow::Borrowed(text));
        assert_eq!(query(""), Some(Query::default()));
        assert_eq!(
            query("schema=olm.bundle&package=a%2Db&name=x+y&schema=later"),
            Some(Query {
                schema: some("olm.bundle"),
                package: some("a-b"),
                name: some("x y"),
            })
        );
        assert_eq!(query("schema=&name"), Some(Query::default()));
        for bad in [
            "bogus=1",
            "schema=a&bogus",
            "schema=%",
            "schema=%zz",
            "schema=%+1",
            "schema=%ff",
        ] {
            assert_eq!(query(bad), None, "{bad}");
        }
    }
}
