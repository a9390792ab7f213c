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
mod frame;
mod input;
mod limits;
mod object;
mod plain;
mod scalar;
mod split;
#[cfg(test)]
mod tests;
mod timestamp;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use builder::Built;
pub use emit::from_json;
pub use error::YamlError;
pub use limits::Limits;
use object::Entry;
use plain::Found;
pub use split::{Document, Documents, documents};

/// Where the members of the top-level object lie in an output: the ranges of
/// key (without quotes) and value, in the order of the keys.
pub type Members = Vec<(Range<usize>, Range<usize>)>;

/// The result of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Whether there was a value, which was appended.
    pub found: bool,
    /// The line within the document, from 1, of the first text that was not read: a
    /// YAML document had ended before it.
    pub rest: Option<usize>,
}

/// Appends one document (see [`documents`]) to `out` as compact, canonical
/// JSON. `Ok(false)` when there is nothing in it but comments, blanks or
/// null: then nothing is appended, and neither is on an error.
///
/// Of bytes that hold several YAML documents only the first one is read, as
/// opm and catalogd do; [`convert`] tells whether text is left.
/// Numbers and strings come out as Go's encoder writes them, except that an
/// integer that no float64 holds keeps its digits.
pub fn to_json(document: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<bool, YamlError> {
    convert(document, limits, out).map(|converted| converted.found)
}

/// Does the same as [`to_json`], and tells whether text is left.
pub fn convert(
    document: &[u8],
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<Converted, YamlError> {
    let members = &mut Members::new();
    match plain_to_json(document, limits, out, members) {
        // Text with more than one document is not plain.
        Some(found) => Ok(Converted { found, rest: None }),
        None => parse(document, limits, out, members),
    }
}

/// Does the same as [`to_json`] without the parser, and sets `members` to the ranges of
/// the object's members in `out`. `None` if the document needs the parser. Public for
/// comparisons of the two ways.
pub fn plain_to_json(
    document: &[u8],
    limits: &Limits,
    out: &mut Vec<u8>,
    members: &mut Members,
) -> Option<bool> {
    members.clear();
    let start = out.len();
    match plain::convert(document, limits, out)? {
        Found::Nothing => Some(false),
        Found::Value(entries) => {
            set_members(members, &entries, start);
            Some(true)
        }
    }
}

/// Does the same as [`plain_to_json`] with the parser. Public for comparisons of the two
/// ways.
pub fn parsed_to_json(
    document: &[u8],
    limits: &Limits,
    out: &mut Vec<u8>,
    members: &mut Members,
) -> Result<bool, YamlError> {
    parse(document, limits, out, members).map(|converted| converted.found)
}

fn parse(
    document: &[u8],
    limits: &Limits,
    out: &mut Vec<u8>,
    members: &mut Members,
) -> Result<Converted, YamlError> {
    members.clear();
    let start = out.len();
    // The parser asserts its invariants instead of returning errors. No input is
    // known to break one after `input` checked it.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let text = input::checked(document)?;
        builder::build(text, limits, out)
    }));
    let result =
        result.unwrap_or_else(|_| Err(YamlError::new("the parser cannot cope with this document")));
    if let Ok(Built {
        entries: Some(entries),
        ..
    }) = &result
    {
        set_members(members, entries, start);
    } else {
        out.truncate(start);
    }
    match result {
        Ok(Built { entries, rest }) => Ok(Converted {
            found: entries.is_some(),
            rest: rest.and_then(|line| usize::try_from(line).ok()?.checked_add(1)),
        }),
        Err(error) => Err(error.within(document)),
    }
}

fn set_members(members: &mut Members, entries: &[Entry], start: usize) {
    members.extend(entries.iter().map(|entry| entry.ranges(start)));
}
