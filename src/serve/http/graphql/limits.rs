//! What a query may look like, found out before anything is looked up.
//!
//! The limits are the peer's, and so is what counts: a fragment counts once for
//! fields and aliases however often it is spread, and every fragment on the way
//! is a level. Further bounds keep a small text from becoming much work.
//! Introspection has a depth of its own: the query that tools send to learn a
//! schema nests deeper than others may.

use std::collections::HashMap;

use async_graphql::parser::types::{
    DocumentOperations, ExecutableDocument, FragmentDefinition, Selection, SelectionSet,
};
use async_graphql::parser::{self, parse_query};
use async_graphql::{Name, Pos, Positioned};

/// How long a query may be, in bytes.
pub(super) const MAX_QUERY: usize = 100_000;
/// How deep selections may nest.
const MAX_DEPTH: usize = 10;
/// How deep they may nest below `__schema` and `__type`. What tools send comes
/// to 14, and some more with fragments.
const MAX_INTROSPECTION_DEPTH: usize = 25;
/// How many aliases there may be.
const MAX_ALIASES: usize = 50;
/// How many fields there may be.
const MAX_FIELDS: usize = 500;
/// How many fields and fragments there may be when each fragment counts as
/// often as it is spread.
const MAX_SPREAD: usize = 5_000;
/// How many fragments there may be.
const MAX_FRAGMENTS: usize = 500;
/// How many operations there may be.
const MAX_OPERATIONS: usize = 50;
/// How many variables, arguments and directives there may be.
const MAX_ARGUMENTS: usize = 2_000;
/// How long a name may be, in bytes: near names are proposed for wrong ones.
const MAX_NAME: usize = 250;
/// How deep brackets of any kind may nest in the text.
const MAX_BRACKETS: usize = 60;

/// Why a query is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("query parse error: {message}")]
    Parse { message: String, places: Vec<Pos> },
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

/// Parses a query and holds it against the limits.
pub(super) fn parse(query: &str) -> Result<ExecutableDocument, QueryError> {
    check_text(query)?;
    let document = parse_query(query).map_err(|error| QueryError::Parse {
        places: places(&error),
        message: error.to_string(),
    })?;
    check(&document)?;
    Ok(document)
}

fn places(error: &parser::Error) -> Vec<Pos> {
    error.positions().collect()
}

/// The parser recurses, so brackets are counted before it runs, and names
/// measured by the way.
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

/// What follows a string, or a block string, whose first quote was passed.
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
        // Also those that are nowhere spread are validated.
        measures.of(&fragment.node.selection_set.node, 1)?;
    }
    if spread > MAX_SPREAD {
        return Err(QueryError::Spread);
    }
    Ok(())
}

/// What there is in a document, each fragment once.
#[derive(Default)]
struct Count {
    fields: usize,
    aliases: usize,
    /// Variables, arguments, directives.
    arguments: usize,
}

impl Count {
    /// Recursion is bounded by the parser.
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

/// How large a selection is with all that is spread in it.
#[derive(Clone, Copy, Default)]
struct Measure {
    /// How deep it nests, introspection aside.
    depth: usize,
    /// How deep it nests to the end of introspection; 0 without any.
    introspection: usize,
    /// How many fields and fragments it has.
    spread: usize,
}

/// Measures, each fragment once.
struct Measures<'a> {
    fragments: &'a HashMap<Name, Positioned<FragmentDefinition>>,
    /// Nothing for a fragment that is being measured.
    known: HashMap<&'a str, Option<Measure>>,
}

impl<'a> Measures<'a> {
    fn of(&mut self, set: &'a SelectionSet, level: usize) -> Result<Measure, QueryError> {
        if set.items.is_empty() {
            return Ok(Measure::default());
        }
        // Fragments in fragments could nest as deep as there are any.
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
        // One that is not there is found by the validation.
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
mod tests {
    use super::*;

    fn error(query: &str) -> String {
        parse(query).map_or_else(|error| error.to_string(), |_| "none".to_owned())
    }

    fn nested(depth: usize) -> String {
        format!("{}{{a}}{}", "{a".repeat(depth - 1), "}".repeat(depth - 1))
    }

    #[test]
    fn depth_aliases_and_fields_are_counted_as_the_peer_does() {
        assert_eq!(error(&nested(10)), "none");
        assert_eq!(error(&nested(11)), "query exceeds maximum depth of 10");
        let inline = "{...{a".repeat(5) + &"}}".repeat(5);
        assert_eq!(error(&inline), "none");
        let inline = format!("{{a{inline}}}");
        assert_eq!(error(&inline), "query exceeds maximum depth of 10");
        let chain = |count: usize| {
            let links = (1..count).map(|n| format!("fragment f{n} on T{{...f{}}}", n + 1));
            let links: Vec<String> = links.collect();
            let links = links.concat();
            format!("{{...f1}}{links}fragment f{count} on T{{a}}")
        };
        assert_eq!(error(&chain(9)), "none");
        assert_eq!(error(&chain(10)), "query exceeds maximum depth of 10");
        assert_eq!(error(&chain(400)), "query exceeds maximum depth of 10");

        let aliases = |count: usize| {
            let fields: Vec<String> = (0..count).map(|n| format!("a{n}:b")).collect();
            format!("{{{}}}", fields.join(" "))
        };
        assert_eq!(error(&aliases(50)), "none");
        assert_eq!(
            error(&aliases(51)),
            "query exceeds maximum alias count of 50"
        );

        let fields = |count: usize| format!("{{{}}}", "a ".repeat(count));
        assert_eq!(error(&fields(500)), "none");
        assert_eq!(
            error(&fields(501)),
            "query exceeds maximum field count of 500"
        );
        let fragment = |spreads: usize| {
            format!(
                "{{{}}} fragment f on T {{{}}}",
                "...f ".repeat(spreads),
                "a ".repeat(480)
            )
        };
        assert_eq!(error(&fragment(10)), "none");
        assert_eq!(
            error(&fragment(11)),
            "query exceeds maximum field count of 5000 where fragments are spread"
        );
    }

    #[test]
    fn introspection_may_nest_deeper_but_not_without_end() {
        let below = |depth: usize| format!("{{__schema{}}}", nested(depth));
        assert_eq!(error(&below(24)), "none");
        assert_eq!(
            error(&below(25)),
            "query exceeds maximum introspection depth of 25"
        );
        let by_fragment = format!(
            "{{...f}} fragment f on Query {{__type(name:\"a\"){}}}",
            nested(15)
        );
        assert_eq!(error(&by_fragment), "none");
        // What stands beside it counts as ever.
        let beside = format!("{{__schema{} a{}}}", nested(15), nested(10));
        assert_eq!(error(&beside), "query exceeds maximum depth of 10");
    }

    #[test]
    fn a_small_text_does_not_become_much_work() {
        let doubling: Vec<String> = (0..9)
            .map(|n| format!("fragment f{n} on T{{...f{0} ...f{0}}}", n + 1))
            .collect();
        let doubling = doubling.concat();
        let bomb = format!("{{...f0}} {doubling} fragment f9 on T{{a b c d e f g h i j}}");
        assert!(
            error(&bomb).ends_with("where fragments are spread") || error(&bomb).contains("depth")
        );
        assert_eq!(
            error("{...a} fragment a on T{...b} fragment b on T{...a}"),
            "fragment \"a\" spreads itself"
        );
        assert_eq!(
            error("{a} fragment a on T{b{...a}}"),
            "fragment \"a\" spreads itself"
        );
        let brackets = "query exceeds maximum nesting of 60 brackets";
        for open in ["{", "[", "(", "{a", "{a(b:[", "query($a:["] {
            assert_eq!(error(&open.repeat(20_000)), brackets, "{open}");
        }
        let name = "a".repeat(300);
        let too_long = "query exceeds maximum name length of 250";
        assert_eq!(error(&format!("{{{name}}}")), too_long);
        let directives = "@include(if:true)".repeat(1_500);
        let arguments = "query exceeds maximum count of 2000 variables, arguments and directives";
        assert_eq!(error(&format!("{{a {directives}}}")), arguments);
        let fragments: Vec<String> = (0..501)
            .map(|n| format!("fragment f{n} on T{{a}}"))
            .collect();
        let many = "query exceeds maximum fragment count of 500";
        assert_eq!(error(&format!("{{a}}{}", fragments.concat())), many);
        let operations: Vec<String> = (0..51).map(|n| format!("query q{n}{{a}}")).collect();
        let many = "query exceeds maximum operation count of 50";
        assert_eq!(error(&operations.concat()), many);
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not_count() {
        let many = "{[(".repeat(100);
        for query in [
            format!("{{a(b:\"{many}\")}}"),
            format!("{{a(b:\"\\\"{many}\")}}"),
            format!("{{a(b:\"\"\"{many}\\\"\"\"{many}\"\"\")}}"),
            format!("{{a #{many}\n b}}"),
        ] {
            assert_eq!(error(&query), "none", "{query}");
        }
        assert_eq!(error("{a(b:\"\")c}"), "none");
    }

    #[test]
    fn what_is_no_query_is_said_with_its_place() {
        for (query, places) in [
            ("{ ", vec![(1, 3)]),
            ("{a}}", vec![(1, 4)]),
            ("nope", vec![(1, 1)]),
            ("{a}\n{b}", vec![(2, 1), (1, 1)]),
            ("fragment a on T{b}", vec![]),
            ("{a(b:\"", vec![(1, 6)]),
            ("\u{0}", vec![(1, 1)]),
        ] {
            let Err(QueryError::Parse { places: found, .. }) = parse(query) else {
                panic!("{query:?}");
            };
            let found: Vec<_> = found
                .iter()
                .map(|place| (place.line, place.column))
                .collect();
            assert_eq!(found, places, "{query:?}");
            assert!(error(query).starts_with("query parse error: "));
        }
    }
}
