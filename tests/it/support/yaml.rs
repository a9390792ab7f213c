//! Values as YAML in block style, as catalog authors write it, and back.

use std::fmt::Write as _;

use fbc::text::yaml;
use serde_json::Value;

/// The documents of a text, as almanac reads them; empty ones are left out.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for document in yaml::documents(text.as_bytes()) {
        let mut json = Vec::new();
        if yaml::to_json(document.bytes, &yaml::Limits::default(), &mut json).unwrap() {
            found.push(serde_json::from_slice(&json).unwrap());
        }
    }
    found
}

/// One document, without the `---` before it.
pub(crate) fn document(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

/// Writes a value at the beginning of a line, or in a list after its `- `,
/// with `depth` steps of indentation for the lines that follow.
fn write(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    indent(text, depth);
                }
                write!(text, "{}:", scalar(name)).unwrap();
                below(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    indent(text, depth);
                }
                text.push_str("- ");
                write(text, item, depth + 1);
            }
        }
        Value::String(string) => writeln!(text, "{}", scalar(string)).unwrap(),
        other => writeln!(text, "{other}").unwrap(),
    }
}

/// Writes the value of a field: beside the name when it is short, below it
/// otherwise.
fn below(text: &mut String, value: &Value, depth: usize) {
    let empty = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if empty {
        text.push(' ');
        write(text, value, depth + 1);
    } else {
        text.push('\n');
        indent(text, depth + 1);
        write(text, value, depth + 1);
    }
}

fn indent(text: &mut String, depth: usize) {
    text.push_str(&"  ".repeat(depth));
}

/// A string as it is when that cannot be taken for anything else, and in
/// JSON's quotes otherwise, which are YAML's too.
fn scalar(string: &str) -> String {
    let plain = string.len() > 3
        && string.starts_with(|first: char| first.is_ascii_alphabetic())
        && string
            .chars()
            .all(|sign| sign.is_ascii_alphanumeric() || "./-@_".contains(sign))
        && !["true", "false", "null"].contains(&string.to_ascii_lowercase().as_str());
    if plain {
        string.to_owned()
    } else {
        Value::from(string).to_string()
    }
}

mod checks {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_written_in_block_style() {
        let value = json!({
            "entries": [{"name": "etcd.v1.0.0", "skips": ["a", "true"]}, [1, 2], {}],
            "schema": "olm.channel",
            "text": "two\nlines",
            "version": "1.10",
            "nothing": null,
        });
        assert_eq!(
            document(&value),
            "entries:\n  \
               - name: etcd.v1.0.0\n    \
                 skips:\n      - \"a\"\n      - \"true\"\n  \
               - - 1\n    - 2\n  \
               - {}\n\
             nothing: null\n\
             schema: olm.channel\n\
             text: \"two\\nlines\"\n\
             version: \"1.10\"\n"
        );
    }
}
