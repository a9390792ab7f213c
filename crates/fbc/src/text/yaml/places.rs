//! Places in a document that was converted: of a value, and of keys that stand twice.
//! Both need a second pass over the events, which only messages are worth.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{EventData, Mark};

use crate::text::json::unescape;
use crate::text::repeated::{MAX_KEYS, RepeatedKey};
use crate::text::yaml::input;
use crate::text::yaml::scalar::Raw;

/// A step on the way from a document to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// The item of a list with this number, from 0.
    Item(usize),
}

/// The line and column, from 1, of a value in the first document of a text. Of a value
/// that does not stand there itself, the innermost one around it.
pub fn place_of(document: &[u8], path: &[Step]) -> Option<(usize, usize)> {
    let mut walk = PlaceWalk {
        path,
        matched: 0,
        found: None,
        left: false,
    };
    read(document, &mut walk);
    walk.found.map(position)
}

/// The keys that stand twice in a mapping of the first document of a text: at most
/// `most` of them, by their second places.
pub fn repeated_keys(document: &[u8], most: usize) -> Vec<RepeatedKey> {
    let mut walk = RepeatWalk {
        seen: Vec::new(),
        keys: 0,
        found: Vec::new(),
        most,
    };
    read(document, &mut walk);
    walk.found
}

/// Sees the nodes of a document.
trait Walk {
    /// Whether the rest of the document matters.
    fn wants_more(&self) -> bool;
    /// A mapping or list begins, or ends.
    fn enter(&mut self);
    fn leave(&mut self);
    /// A key, as the text of canonical JSON, in the innermost mapping.
    fn key(&mut self, key: &str, mark: Mark);
    /// A value at this depth, from 0, behind this step.
    fn value(&mut self, depth: usize, step: Option<&Step>, mark: Mark);
}

/// A mapping or list that is not complete.
enum Open {
    /// The key of the next value; none before a key.
    Mapping(Option<Step>),
    /// The number of the next item.
    List(usize),
}

/// Shows the first document to a walk, as far as it can be read.
fn read(document: &[u8], walk: &mut impl Walk) {
    let Ok(text) = input::checked(document) else {
        return;
    };
    // See the caller of the builder: the parser can panic.
    let _ = catch_unwind(AssertUnwindSafe(|| read_events(text, walk)));
}

fn read_events(text: &str, walk: &mut impl Walk) {
    let mut parser = input::parser(text);
    let mut open: Vec<Open> = Vec::new();
    while walk.wants_more() {
        let Ok(event) = parser.parse() else {
            return;
        };
        let mark = event.start_mark;
        match &event.data {
            EventData::StreamStart { .. } | EventData::DocumentStart { .. } => continue,
            EventData::StreamEnd | EventData::DocumentEnd { .. } => return,
            EventData::SequenceEnd | EventData::MappingEnd => {
                open.pop();
                walk.leave();
                continue;
            }
            EventData::Scalar {
                value,
                tag,
                plain_implicit,
                ..
            } if matches!(open.last(), Some(Open::Mapping(None))) => {
                let raw = Raw {
                    value,
                    tag: tag.as_deref(),
                    plain: *plain_implicit,
                };
                let Some(key) = key_text(raw) else {
                    return;
                };
                if !raw.is_merge() {
                    walk.key(&key, mark);
                }
                if let Some(Open::Mapping(next)) = open.last_mut() {
                    *next = Some(Step::Key(key));
                }
                continue;
            }
            _ => {}
        }
        let step = match open.last_mut() {
            None => None,
            Some(Open::List(number)) => {
                *number += 1;
                Some(Step::Item(*number - 1))
            }
            // An alias may be a key.
            Some(Open::Mapping(next)) => {
                let step = next.take();
                if step.is_none() {
                    *next = Some(Step::Key(String::new()));
                    continue;
                }
                step
            }
        };
        walk.value(open.len(), step.as_ref(), mark);
        match event.data {
            EventData::MappingStart { .. } => open.push(Open::Mapping(None)),
            EventData::SequenceStart { .. } => open.push(Open::List(0)),
            _ => continue,
        }
        walk.enter();
    }
}

/// A key as the text that canonical JSON has for it.
fn key_text(raw: Raw<'_>) -> Option<String> {
    let mut key = Vec::new();
    raw.typed().ok()?.write_key(&mut key).ok()?;
    let inner = key.get(1..key.len().saturating_sub(1))?;
    Some(unescape(inner).into_owned())
}

fn position(mark: Mark) -> (usize, usize) {
    let from_one = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).saturating_add(1);
    (from_one(mark.line), from_one(mark.column))
}

struct PlaceWalk<'a> {
    path: &'a [Step],
    /// The number of steps that lead to the last match.
    matched: usize,
    found: Option<Mark>,
    /// Whether the last match is complete.
    left: bool,
}

impl Walk for PlaceWalk<'_> {
    fn wants_more(&self) -> bool {
        self.found.is_none() || (self.matched < self.path.len() && !self.left)
    }

    fn enter(&mut self) {}

    fn leave(&mut self) {}

    fn key(&mut self, _: &str, _: Mark) {}

    fn value(&mut self, depth: usize, step: Option<&Step>, mark: Mark) {
        self.left |= self.found.is_some() && depth <= self.matched;
        if self.left {
            return;
        }
        let is_next = match step {
            None => self.found.is_none(),
            Some(step) => depth == self.matched + 1 && self.path.get(depth - 1) == Some(step),
        };
        if is_next {
            (self.matched, self.found) = (depth, Some(mark));
        }
    }
}

struct RepeatWalk {
    /// The keys of each open mapping with their lines; a list has none.
    seen: Vec<HashMap<String, usize>>,
    /// The number of keys so far.
    keys: usize,
    found: Vec<RepeatedKey>,
    most: usize,
}

impl Walk for RepeatWalk {
    fn wants_more(&self) -> bool {
        self.found.len() < self.most && self.keys <= MAX_KEYS
    }

    fn enter(&mut self) {
        self.seen.push(HashMap::new());
    }

    fn leave(&mut self) {
        self.seen.pop();
    }

    fn key(&mut self, key: &str, mark: Mark) {
        self.keys += 1;
        let (line, column) = position(mark);
        let Some(seen) = self.seen.last_mut() else {
            return;
        };
        if let Some(first_line) = seen.insert(key.to_owned(), line) {
            self.found.push(RepeatedKey {
                key: key.to_owned(),
                first_line,
                line,
                column,
            });
        }
    }

    fn value(&mut self, _: usize, _: Option<&Step>, _: Mark) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, path: &[Step]) -> Option<(usize, usize)> {
        place_of(text.as_bytes(), path)
    }

    fn key(key: &str) -> Step {
        Step::Key(key.to_owned())
    }

    #[test]
    fn a_value_is_found_by_the_steps_that_lead_to_it() {
        let text = "# c\na: 1\nb:\n- x: [0, {z: é}]\n- x: z\n  'q': \"w\"\n";
        assert_eq!(place(text, &[]), Some((2, 1)));
        assert_eq!(place(text, &[key("a")]), Some((2, 4)));
        let deep = [key("b"), Step::Item(0), key("x"), Step::Item(1), key("z")];
        assert_eq!(place(text, &deep), Some((4, 14)));
        assert_eq!(
            place(text, &[key("b"), Step::Item(1), key("q")]),
            Some((6, 8))
        );
        // What is not there has the place of what is around it.
        assert_eq!(
            place(text, &[key("b"), Step::Item(1), key("n")]),
            Some((5, 3))
        );
        assert_eq!(place(text, &[key("n")]), Some((2, 1)));
        assert_eq!(
            place("a: &a {b: 1}\nc: *a\n", &[key("c"), key("b")]),
            Some((2, 4))
        );
        assert_eq!(
            place("a:\n  b:\n", &[key("a"), key("b")]).map(|at| at.0),
            Some(2)
        );
        // Not one that another value has.
        let steps = [key("b"), Step::Item(0)];
        assert_eq!(place("b:\nc:\n- x\n", &steps).map(|at| at.0), Some(1));
        assert_eq!(place("b: {}\nc: [x]\n", &steps), Some((1, 4)));
        assert_eq!(place("", &[key("a")]), None);
        assert_eq!(place("a: [", &[key("a")]), Some((1, 4)));
        // Only the first document counts.
        assert_eq!(place("a: 1\n---\nb: 2\n", &[key("b")]), Some((1, 1)));
    }

    #[test]
    fn a_key_that_stands_twice_is_found_at_its_second_place() {
        let found = |text: &str| -> Vec<(String, usize, usize, usize)> {
            let found = repeated_keys(text.as_bytes(), 3).into_iter();
            found
                .map(|one| (one.key, one.first_line, one.line, one.column))
                .collect()
        };
        assert_eq!(
            found("a:\n- b: 1\n  c: 2\n  b: 3\na: 4\n"),
            [("b".into(), 2, 4, 3), ("a".into(), 1, 5, 1)]
        );
        assert_eq!(
            found("{a: {b: 1}, c: {b: 2}, \"a\": 3}"),
            [("a".into(), 1, 1, 24)]
        );
        // Numbers and texts are one key in JSON.
        assert_eq!(found("1: a\n'1': b\n").len(), 1);
        assert_eq!(found("a: &a {x: 1}\nb:\n  <<: *a\n  x: 2\n"), []);
        assert_eq!(found("a: 1\na: 1\na: 1\na: 1\na: 1\n").len(), 3);
        assert_eq!(found("a: 1\n---\na: 2\n"), []);
        assert_eq!(found("? [a]\n: 1\n"), []);
    }
}
