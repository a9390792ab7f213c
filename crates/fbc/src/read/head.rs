//! The strings that every document is identified by.

use std::borrow::Cow;

use crate::object::Object;
use crate::problem::Code;
use crate::text::json::unescape;

/// The advice for a document that is not part of a catalog.
pub(crate) const CORRECT: &str =
    "correct it, or list a file that is not part of the catalog in .indexignore";

/// Schema, package and name of a document; empty without one.
pub(crate) struct Head<'a> {
    pub(crate) schema: Cow<'a, str>,
    pub(crate) package: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

/// Reads the head of a document. The case of keys does not matter. Two keys that
/// differ only in case are refused, as in opm.
pub(crate) fn read_head<'a>(object: &Object<'a>) -> Result<Head<'a>, (Code, String)> {
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
            // Quoted as written: in YAML, 4.20 and 4.2 are the same number.
            let advice = match value[0] {
                b'{' | b'[' | b'n' => "write one",
                b't' | b'f' => {
                    "this is a boolean, as y, n, yes, no, on and off are in YAML: quote it as it is \
                     written, as in \"y\""
                }
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
