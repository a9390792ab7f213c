//! YAML to canonical JSON, with the meaning that opm and catalogd give it.
//!
//! They read catalogs with Kubernetes' stream reader, which cuts a file at its
//! separator lines, and goyaml v2, which types scalars by the rules of YAML 1.1 and
//! some of its own. [`documents`] cuts and [`to_json`] converts one
//! document, straight from the parser's events into the output: the keys of
//! each object are sorted, of equal keys the last one counts, and aliases and
//! merge keys are expanded under a budget. Documents of plain block YAML, as
//! nearly all are, are read without the parser, with the same result: see
//! `plain`. [`from_json`] is the way back.
//!
//! The caller decides whether a document is an object with a schema.

mod aliases;
mod anchors;
mod builder;
mod emit;
mod error;
mod input;
mod limits;
mod object;
mod places;
mod plain;
mod scalar;
mod split;
#[cfg(test)]
mod tests;
mod timestamp;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use builder::Converted;
pub use emit::from_json;
pub use error::YamlError;
pub use limits::Limits;
pub use places::{Step, place_of, repeated_keys};
pub use plain::plain_to_json;
pub use split::{Document, Documents, documents};

/// Appends one document (see [`documents`]) to `out` as compact, canonical JSON.
/// Returns `Ok(false)` if it has only comments, blanks or null. In this case, and on an
/// error, it appends nothing.
///
/// Of several YAML documents only the first is read, as by opm and catalogd;
/// [`convert`] tells whether text is left. Numbers and strings become the text that
/// Go's encoder writes, except that an integer that no float64 holds keeps its digits.
pub fn to_json(document: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<bool, YamlError> {
    convert(document, limits, out).map(|converted| converted.found)
}

/// Does the same as [`to_json`], and tells whether text is left.
pub fn convert(
    document: &[u8],
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<Converted, YamlError> {
    match plain_to_json(document, limits, out) {
        // Text with more than one document, or with a repeated key, is not plain.
        Some(found) => Ok(Converted {
            found,
            ..Converted::default()
        }),
        None => parse(document, limits, out),
    }
}

/// Does the same as [`convert`], always with the parser. Public for comparisons with
/// [`plain_to_json`].
pub fn parse(document: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<Converted, YamlError> {
    let start = out.len();
    // The parser asserts its invariants instead of returning errors. No input is
    // known to break one after `input` checked it.
    let result = catch_unwind(AssertUnwindSafe(|| {
        builder::build(input::checked(document)?, limits, out)
    }));
    let result =
        result.unwrap_or_else(|_| Err(YamlError::new("the parser cannot cope with this document")));
    if !matches!(result, Ok(Converted { found: true, .. })) {
        out.truncate(start);
    }
    result.map_err(|error| error.within(document))
}
