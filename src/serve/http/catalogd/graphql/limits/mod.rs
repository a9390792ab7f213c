//! The limits of a query, checked before it runs.
//!
//! The limits are catalogd's, and so is the way of counting: a fragment counts
//! once for fields and aliases however often it is spread, and every fragment is
//! a level. Further limits keep a short text from causing much work.
//! Introspection has a depth limit of its own: the query that tools send to load
//! the schema is deeper than the limit for others.

use std::collections::HashMap;

use async_graphql::parser::parse_query;
use async_graphql::parser::types::{
    DocumentOperations, ExecutableDocument, FragmentDefinition, Selection, SelectionSet,
};
use async_graphql::{Name, Pos, Positioned};

/// How long a query may be, in bytes.
pub(super) const MAX_QUERY: usize = 100_000;
/// How deep selections may nest.
const MAX_DEPTH: usize = 10;
/// How deep they may nest below `__schema` and `__type`. The queries of tools
/// nest 14 deep, and deeper with fragments.
const MAX_INTROSPECTION_DEPTH: usize = 25;
/// How many aliases there may be.
const MAX_ALIASES: usize = 50;
/// How many fields there may be.
const MAX_FIELDS: usize = 500;
/// How many fields and fragments there may be if each fragment counts as often
/// as it is spread.
const MAX_SPREAD: usize = 5_000;
/// How many fragments there may be.
const MAX_FRAGMENTS: usize = 500;
/// How many operations there may be.
const MAX_OPERATIONS: usize = 50;
/// How many variables, arguments and directives there may be.
const MAX_ARGUMENTS: usize = 2_000;
/// How long a name may be, in bytes: errors suggest similar names.
const MAX_NAME: usize = 250;
/// How deep brackets of any kind may nest in the text.
const MAX_BRACKETS: usize = 60;

/// Why a query is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("query parse error: {message}")]
    Parse {
        message: String,
        positions: Vec<Pos>,
    },
    #[error("query exceeds maximum depth of {MAX_DEPTH}")]
    Depth,
    #[error("query exceeds maximum introspection depth of {MAX_INTROSPECTION_DEPTH}")]
    IntrospectionDepth,
    #[error("query exceeds maximum alias count of {MAX_ALIASES}")]
    Aliases,
    #[error("query exceeds maximum field count of {MAX_FIELDS}")]
    Fields,
    #[error("query exceeds maximum field count of {MAX_SPREAD} where fragments are spread")]
    Spread,
    #[error("query exceeds maximum fragment count of {MAX_FRAGMENTS}")]
    Fragments,
    #[error("query exceeds maximum operation count of {MAX_OPERATIONS}")]
    Operations,
    #[error("query exceeds maximum count of {MAX_ARGUMENTS} variables, arguments and directives")]
    Arguments,
    #[error("query exceeds maximum name length of {MAX_NAME}")]
    Name,
    #[error("query exceeds maximum nesting of {MAX_BRACKETS} brackets")]
    Brackets,
    #[error("fragment {0:?} spreads itself")]
    Cycle(String),
}

/// Parses a query and checks the limits.
pub(super) fn parse(query: &str) -> Result<ExecutableDocument, QueryError> {
    check_text(query)?;
    let document = parse_query(query).map_err(|error| QueryError::Parse {
        positions: error.positions().collect(),
        message: error.to_string(),
    })?;
    check(&document)?;
    Ok(document)
}

/// Checks the text before the parser, which recurses: the nesting of brackets,
/// and the length of names.
fn check_text(query: &str) -> Result<(), QueryError> {
    let mut rest = query.as_bytes();
    let (mut depth, mut name) = (0_usize, 0);
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        name = match byte {
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name + 1,
            _ => 0,
        };
        if name > MAX_NAME {
            return Err(QueryError::Name);
        }
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            b'#' => {
                let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                rest = &rest[end.unwrap_or(rest.len())..];
            }
            b'"' => rest = behind_string(rest),
            _ => {}
        }
        if depth > MAX_BRACKETS {
            return Err(QueryError::Brackets);
        }
    }
    Ok(())
}

/// The text after a string or block string whose first quote was passed.
fn behind_string(text: &[u8]) -> &[u8] {
    let (end, mut at) = match text {
        [b'"', b'"', ..] => (&b"\"\"\""[..], 2),
        _ => (&b"\""[..], 0),
    };
    while at < text.len() {
        if text[at..].starts_with(end) {
            at += end.len();
            break;
        }
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    text.get(at..).unwrap_or_default()
}

fn check(document: &ExecutableDocument) -> Result<(), QueryError> {
    if document.fragments.len() > MAX_FRAGMENTS {
        return Err(QueryError::Fragments);
    }
    if let DocumentOperations::Multiple(operations) = &document.operations
        && operations.len() > MAX_OPERATIONS
    {
        return Err(QueryError::Operations);
    }
    let mut count = Count::default();
    let mut measures = Measures {
        fragments: &document.fragments,
        known: HashMap::new(),
    };
    let mut spread = 0_usize;
    for (_, operation) in document.operations.iter() {
        let operation = &operation.node;
        count.arguments += operation.variable_definitions.len() + operation.directives.len();
        count.selections(&operation.selection_set.node)?;
        let measure = measures.of(&operation.selection_set.node, 1)?;
        spread = spread.saturating_add(measure.spread);
        if measure.depth > MAX_DEPTH {
            return Err(QueryError::Depth);
        }
        if measure.introspection > MAX_INTROSPECTION_DEPTH {
            return Err(QueryError::IntrospectionDepth);
        }
    }
    for fragment in document.fragments.values() {
        count.arguments += fragment.node.directives.len();
        count.selections(&fragment.node.selection_set.node)?;
        // Validation also visits fragments that are spread nowhere.
        measures.of(&fragment.node.selection_set.node, 1)?;
    }
    if spread > MAX_SPREAD {
        return Err(QueryError::Spread);
    }
    Ok(())
}

/// The counts of a document, each fragment once.
#[derive(Default)]
struct Count {
    fields: usize,
    aliases: usize,
    /// Variables, arguments, directives.
    arguments: usize,
}

impl Count {
    /// The parser bounds this recursion.
    fn selections(&mut self, set: &SelectionSet) -> Result<(), QueryError> {
        for selection in &set.items {
            let inner = match &selection.node {
                Selection::Field(field) => {
                    self.fields += 1;
                    self.aliases += usize::from(field.node.alias.is_some());
                    self.arguments += field.node.arguments.len();
                    Some(&field.node.selection_set)
                }
                Selection::InlineFragment(fragment) => Some(&fragment.node.selection_set),
                Selection::FragmentSpread(_) => None,
            };
            for directive in selection.node.directives() {
                self.arguments += 1 + directive.node.arguments.len();
            }
            if self.fields > MAX_FIELDS {
                return Err(QueryError::Fields);
            }
            if self.aliases > MAX_ALIASES {
                return Err(QueryError::Aliases);
            }
            if self.arguments > MAX_ARGUMENTS {
                return Err(QueryError::Arguments);
            }
            if let Some(inner) = inner {
                self.selections(&inner.node)?;
            }
        }
        Ok(())
    }
}

/// The size of a selection with its fragments spread.
#[derive(Clone, Copy, Default)]
struct Measure {
    /// Its depth without introspection.
    depth: usize,
    /// Its depth to the end of introspection; 0 without any.
    introspection: usize,
    /// The number of fields and fragments.
    spread: usize,
}

/// Measures selections, each fragment once.
struct Measures<'a> {
    fragments: &'a HashMap<Name, Positioned<FragmentDefinition>>,
    /// `None` for a fragment that is being measured.
    known: HashMap<&'a str, Option<Measure>>,
}

impl<'a> Measures<'a> {
    fn of(&mut self, set: &'a SelectionSet, level: usize) -> Result<Measure, QueryError> {
        if set.items.is_empty() {
            return Ok(Measure::default());
        }
        // Nested fragments could recurse as deep as their number.
        if level > MAX_DEPTH + MAX_INTROSPECTION_DEPTH {
            return Err(QueryError::Depth);
        }
        let mut measure = Measure {
            depth: 1,
            ..Measure::default()
        };
        for selection in &set.items {
            let inner = match &selection.node {
                Selection::Field(field) => {
                    let inner = self.of(&field.node.selection_set.node, level + 1)?;
                    match field.node.name.node.as_str() {
                        "__schema" | "__type" => Measure {
                            depth: 0,
                            introspection: inner.depth.max(inner.introspection),
                            ..inner
                        },
                        _ => inner,
                    }
                }
                Selection::InlineFragment(fragment) => {
                    self.of(&fragment.node.selection_set.node, level + 1)?
                }
                Selection::FragmentSpread(spread) => {
                    self.fragment(&spread.node.fragment_name.node, level + 1)?
                }
            };
            measure.depth = measure.depth.max(inner.depth + 1);
            if inner.introspection > 0 {
                measure.introspection = measure.introspection.max(inner.introspection + 1);
            }
            measure.spread = measure.spread.saturating_add(inner.spread + 1);
        }
        Ok(measure)
    }

    fn fragment(&mut self, name: &'a str, level: usize) -> Result<Measure, QueryError> {
        // Validation reports unknown fragments.
        let Some(fragment) = self.fragments.get(name) else {
            return Ok(Measure::default());
        };
        match self.known.get(name) {
            Some(Some(measure)) => return Ok(*measure),
            Some(None) => return Err(QueryError::Cycle(name.to_owned())),
            None => {}
        }
        self.known.insert(name, None);
        let measure = self.of(&fragment.node.selection_set.node, level)?;
        self.known.insert(name, Some(measure));
        Ok(measure)
    }
}

#[cfg(test)]
mod tests;
