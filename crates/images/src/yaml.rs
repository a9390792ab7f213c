//! The YAML of configuration files: objects, lists, and scalars, which are all strings.
//! Aliases are rejected.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{Encoding, EventData, Parser};
use serde_json::Value;

use crate::display::clip;

/// The deepest nesting.
const MAX_DEPTH: usize = 32;
/// The most values of one file.
const MAX_VALUES: usize = 200_000;
/// The longest key that an error repeats, in characters.
const MAX_SHOWN: usize = 100;

/// A value with the line of its start.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: u64,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Null,
    Text(String),
    List(Vec<Node>),
    Object(BTreeMap<String, Member>),
}

/// A member of an object.
#[derive(Debug)]
pub(crate) struct Member {
    /// The line of its key.
    pub(crate) line: u64,
    pub(crate) value: Node,
}

impl Member {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value.content, Content::Null)
    }
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node.content {
            Content::Null => Self::Null,
            Content::Text(text) => Self::String(text),
            Content::List(items) => items.into_iter().map(Self::from).collect(),
            Content::Object(members) => {
                let members = members.into_iter();
                Self::Object(members.map(|(key, one)| (key, one.value.into())).collect())
            }
        }
    }
}

/// The documents of a text, without empty ones. An object that repeats a key is an error.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let documents = located_documents(text)?;
    Ok(documents.into_iter().map(Value::from).collect())
}

/// The same documents, with their lines.
pub(crate) fn located_documents(text: &str) -> Result<Vec<Node>, String> {
    // The parser needs a newline at the end, and no CRLF.
    let text = text.replace("\r\n", "\n") + "\n";
    // The line of the last event.
    let mut line = 1;
    // The parser can panic on invalid YAML.
    catch_unwind(AssertUnwindSafe(|| parse(&text, &mut line)))
        .unwrap_or_else(|_| Err(format!("line {line} or below: it is not valid YAML")))
}

/// The items of a Kubernetes list of objects. An API server leaves kind and version out of
/// the items of a list for one kind; `kind` is empty for other lists.
pub(crate) fn items(list: Node, kind: &str) -> Vec<Node> {
    let version = list.text("apiVersion").to_owned();
    let Content::Object(mut list) = list.content else {
        return Vec::new();
    };
    let items = list.remove("items").map(|items| items.value.content);
    let Some(Content::List(mut items)) = items else {
        return Vec::new();
    };
    if !kind.is_empty() {
        for item in &mut items {
            item.set_missing("kind", kind);
            item.set_missing("apiVersion", &version);
        }
    }
    items
}

impl Node {
    /// The text of a member; empty without one.
    pub(crate) fn text(&self, key: &str) -> &str {
        match self.member(key).map(|value| &value.content) {
            Some(Content::Text(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn member(&self, key: &str) -> Option<&Self> {
        let Content::Object(members) = &self.content else {
            return None;
        };
        members.get(key).map(|member| &member.value)
    }

    fn set_missing(&mut self, key: &str, text: &str) {
        let line = self.line;
        let Content::Object(members) = &mut self.content else {
            return;
        };
        members.entry(key.to_owned()).or_insert_with(|| Member {
            line,
            value: Self {
                line,
                content: Content::Text(text.to_owned()),
            },
        });
    }
}

/// An unfinished collection: its items, and of an object the next key with its line.
enum Open {
    List(Vec<Node>),
    Object(BTreeMap<String, Member>, Option<(String, u64)>),
}

fn parse(text: &str, last: &mut u64) -> Result<Vec<Node>, String> {
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(text.as_bytes());
    let mut documents = Vec::new();
    // With the lines of their starts.
    let mut open: Vec<(Open, u64)> = Vec::new();
    let mut values = 0;
    loop {
        let event = parser.parse().map_err(|error| {
            let line = error.problem_mark().map(|mark| mark.line + 1);
            match line {
                Some(line) => format!("line {line}: it is not valid YAML"),
                None => "it is not valid YAML".to_owned(),
            }
        })?;
        let line = event.start_mark.line + 1;
        *last = line;
        let node = match event.data {
            EventData::StreamEnd => return Ok(documents),
            EventData::StreamStart { .. }
            | EventData::DocumentStart { .. }
            | EventData::DocumentEnd { .. } => continue,
            EventData::Alias { .. } => {
                return Err(format!("line {line}: aliases are not supported"));
            }
            EventData::SequenceStart { .. } | EventData::MappingStart { .. }
                if open.len() == MAX_DEPTH =>
            {
                return Err(format!(
                    "line {line}: it is nested deeper than {MAX_DEPTH} times"
                ));
            }
            EventData::SequenceStart { .. } => {
                open.push((Open::List(Vec::new()), line));
                continue;
            }
            EventData::MappingStart { .. } => {
                open.push((Open::Object(BTreeMap::new(), None), line));
                continue;
            }
            EventData::SequenceEnd | EventData::MappingEnd => match open.pop() {
                Some((open, line)) => open.closed(line),
                None => continue,
            },
            EventData::Scalar {
                value,
                plain_implicit,
                ..
            } => scalar(value, plain_implicit, line),
        };
        values += 1;
        if values > MAX_VALUES {
            return Err(format!("it contains more than {MAX_VALUES} values"));
        }
        match open.last_mut() {
            Some((open, _)) => open.add(node)?,
            None if matches!(node.content, Content::Null) => {}
            None => documents.push(node),
        }
    }
}

impl Open {
    fn closed(self, line: u64) -> Node {
        let content = match self {
            Self::List(items) => Content::List(items),
            Self::Object(members, _) => Content::Object(members),
        };
        Node { line, content }
    }

    /// Adds an item, a key, or the value of the last key.
    fn add(&mut self, node: Node) -> Result<(), String> {
        let (members, next) = match self {
            Self::List(items) => {
                items.push(node);
                return Ok(());
            }
            Self::Object(members, next) => (members, next),
        };
        let Some((key, line)) = next.take() else {
            let Content::Text(key) = node.content else {
                return Err(format!("line {}: a key is not a string", node.line));
            };
            if members.contains_key(&key) {
                let shown = clip(&key, MAX_SHOWN);
                return Err(format!("line {}: the key {shown:?} is repeated", node.line));
            }
            *next = Some((key, node.line));
            return Ok(());
        };
        members.insert(key, Member { line, value: node });
        Ok(())
    }
}

fn scalar(value: String, is_plain: bool, line: u64) -> Node {
    let content = if is_plain && matches!(value.as_str(), "" | "~" | "null") {
        Content::Null
    } else {
        Content::Text(value)
    };
    Node { line, content }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_and_lists_of_strings_are_read() {
        let text =
            "# Mirrors\na: yes\r\nb: [x, \"y\", 'null', ~]\nc:\n- d: 010\n---\n---\n{\"e\": {}}";
        let expected = [
            json!({"a": "yes", "b": ["x", "y", "null", null], "c": [{"d": "010"}]}),
            json!({"e": {}}),
        ];
        assert_eq!(documents(text).unwrap(), expected);
        assert!(documents("").unwrap().is_empty());
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_line() {
        for (text, problem) in [
            ("a: b\nc: [", "line"),
            ("a: &b c\nd: *b", "line 2: aliases"),
            ("? [a]\n: b", "line 1: a key is not a string"),
            ("a: {b: 1}\nc: 2\na: 3", "line 3: the key \"a\" is repeated"),
            (&"[".repeat(100), "nested deeper than 32"),
            (
                "a: b\nc: [d, !a, b]",
                "line 2 or below: it is not valid YAML",
            ),
        ] {
            let error = documents(text).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }
}
