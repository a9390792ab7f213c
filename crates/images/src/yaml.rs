//! The YAML of configuration files: objects, lists, and scalars, which are all strings.
//! Aliases are rejected.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{Encoding, EventData, Parser};
use serde_json::{Map, Value};

/// The deepest nesting.
const MAX_DEPTH: usize = 32;
/// The most values of one file.
const MAX_VALUES: usize = 200_000;

/// The documents of a text, without empty ones.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    read(text, false)
}

/// The documents of a text, in which no object repeats a key.
pub(crate) fn unique_documents(text: &str) -> Result<Vec<Value>, String> {
    read(text, true)
}

/// The items of a Kubernetes list of objects. An API server leaves kind and version out of
/// the items of a list for one kind; `kind` is empty for other lists.
pub(crate) fn items(list: Value, kind: &str) -> Vec<Value> {
    let Value::Object(mut list) = list else {
        return Vec::new();
    };
    let version = list.remove("apiVersion").unwrap_or_default();
    let Some(Value::Array(mut items)) = list.remove("items") else {
        return Vec::new();
    };
    if !kind.is_empty() {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.entry("kind").or_insert_with(|| kind.into());
            item.entry("apiVersion").or_insert_with(|| version.clone());
        }
    }
    items
}

fn read(text: &str, unique: bool) -> Result<Vec<Value>, String> {
    // The parser needs a newline at the end, and no CRLF.
    let text = text.replace("\r\n", "\n") + "\n";
    // The line of the last event.
    let mut line = 1;
    // The parser can panic on invalid YAML.
    catch_unwind(AssertUnwindSafe(|| parse(&text, unique, &mut line)))
        .unwrap_or_else(|_| Err(format!("line {line} or below: it is not valid YAML")))
}

/// An unfinished collection: its items, and of an object the key of the next
/// value.
enum Open {
    List(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

fn parse(text: &str, unique: bool, last: &mut u64) -> Result<Vec<Value>, String> {
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(text.as_bytes());
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
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
        let value = match event.data {
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
                open.push(Open::List(Vec::new()));
                continue;
            }
            EventData::MappingStart { .. } => {
                open.push(Open::Object(Map::new(), None));
                continue;
            }
            EventData::SequenceEnd | EventData::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Object(members, _)) => Value::Object(members),
                None => continue,
            },
            EventData::Scalar {
                value,
                plain_implicit,
                ..
            } => {
                if plain_implicit && matches!(value.as_str(), "" | "~" | "null") {
                    Value::Null
                } else {
                    Value::String(value)
                }
            }
        };
        values += 1;
        if values > MAX_VALUES {
            return Err(format!("it contains more than {MAX_VALUES} values"));
        }
        match open.last_mut() {
            None if value.is_null() => {}
            None => documents.push(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Object(members, key)) => match (key.take(), value) {
                (Some(key), _) if unique && members.contains_key(&key) => {
                    let shown: String = key.chars().take(100).collect();
                    return Err(format!("line {line}: the key {shown:?} is repeated"));
                }
                (Some(key), value) => {
                    members.insert(key, value);
                }
                (None, Value::String(text)) => *key = Some(text),
                (None, _) => return Err(format!("line {line}: a key is not a string")),
            },
        }
    }
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
