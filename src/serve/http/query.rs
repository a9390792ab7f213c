//! The query of `metas`, and the escapes of all queries.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

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

/// Decodes the escapes of a query. Malformed ones are rejected.
pub(super) fn unescape(text: &str) -> Result<Cow<'_, str>, HttpRejection> {
    let code = |at: usize| text.as_bytes().get(at + 1..at + 3);
    let good = |code: &[u8]| code.iter().all(u8::is_ascii_hexdigit);
    if !memchr::memchr_iter(b'%', text.as_bytes()).all(|at| code(at).is_some_and(good)) {
        return Err(HttpRejection::Query);
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map_or(Err(HttpRejection::Query), |text| {
        Ok(text.into_owned().into())
    })
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
