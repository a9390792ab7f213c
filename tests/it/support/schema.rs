//! The part of JSON Schema that the served description uses for answers. A
//! keyword that is not understood here fails, so that nothing goes unchecked.

use serde_json::Value;

/// Contradictions of the schema, each with its place. Besides, an
/// object has no members but the described ones, and, when the answer is
/// `whole`, those that `x-always` names.
pub(crate) fn check(document: &Value, schema: &Value, value: &Value, whole: bool) -> Vec<String> {
    let mut checker = Checker {
        document,
        whole,
        found: Vec::new(),
    };
    checker.check(schema, value, "$");
    checker.found
}

struct Checker<'a> {
    document: &'a Value,
    whole: bool,
    found: Vec<String>,
}

impl Checker<'_> {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        for (keyword, argument) in schema.as_object().expect("a schema is an object") {
            match keyword.as_str() {
                "$ref" => {
                    let pointer = argument.as_str().unwrap().trim_start_matches('#');
                    let target = self.document.pointer(pointer).unwrap().clone();
                    self.check(&target, value, at);
                }
                "type" => self.kinds(argument, value, at),
                "properties" => self.members(argument, value, at),
                "required" => self.required(argument, value, at),
                "x-always" if self.whole => self.required(argument, value, at),
                "x-always" | "description" | "format" => {}
                "items" => {
                    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(argument, item, &format!("{at}[{place}]"));
                    }
                }
                "oneOf" => {
                    let all = argument.as_array().unwrap().iter();
                    let fits =
                        |one: &&Value| check(self.document, one, value, self.whole).is_empty();
                    let fitting = all.filter(fits).count();
                    if fitting != 1 {
                        self.say(at, &format!("{fitting} of them fit"));
                    }
                }
                "additionalProperties" if argument.is_object() => {
                    for (key, member) in value.as_object().into_iter().flatten() {
                        self.check(argument, member, &format!("{at}.{key}"));
                    }
                }
                "uniqueItems" => {
                    let items = value.as_array().unwrap();
                    let repeated = items
                        .iter()
                        .enumerate()
                        .any(|(place, item)| items[..place].contains(item));
                    if repeated {
                        self.say(at, "an item stands twice");
                    }
                }
                "anyOf" => {
                    let all = argument.as_array().unwrap().iter();
                    let found = all.map(|one| check(self.document, one, value, self.whole));
                    let found: Vec<_> = found.collect();
                    if !found.iter().any(Vec::is_empty) {
                        self.say(at, &format!("not one of them fits: {found:?}"));
                    }
                }
                "enum" => {
                    if !argument.as_array().unwrap().contains(value) {
                        self.say(at, &format!("{value} is not among {argument}"));
                    }
                }
                "minimum" => {
                    if value.as_i64() < argument.as_i64() {
                        self.say(at, &format!("{value} is below {argument}"));
                    }
                }
                "maximum" => {
                    if value.as_i64() > argument.as_i64() {
                        self.say(at, &format!("{value} is above {argument}"));
                    }
                }
                other => panic!("{at}: the keyword {other} is not understood"),
            }
        }
    }

    fn kinds(&mut self, kinds: &Value, value: &Value, at: &str) {
        let fits = match kinds {
            Value::Array(all) => all
                .iter()
                .any(|kind| Self::is_of(kind.as_str().unwrap(), value, at)),
            kind => Self::is_of(kind.as_str().unwrap(), value, at),
        };
        if !fits {
            self.say(at, &format!("{value} is no {kinds}"));
        }
    }

    fn is_of(kind: &str, value: &Value, at: &str) -> bool {
        match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "null" => value.is_null(),
            other => panic!("{at}: the type {other} is not understood"),
        }
    }

    fn members(&mut self, properties: &Value, value: &Value, at: &str) {
        for (key, member) in value.as_object().into_iter().flatten() {
            match properties.get(key) {
                Some(schema) => self.check(schema, member, &format!("{at}.{key}")),
                None => self.say(at, &format!("{key} is not described")),
            }
        }
    }

    fn required(&mut self, keys: &Value, value: &Value, at: &str) {
        for key in keys.as_array().unwrap() {
            if value.get(key.as_str().unwrap()).is_none() {
                self.say(at, &format!("{key} is missing"));
            }
        }
    }

    fn say(&mut self, at: &str, what: &str) {
        self.found.push(format!("{at}: {what}"));
    }
}

mod checks {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_found() {
        let document = json!({"components": {"schemas": {"A": {
            "type": "object",
            "x-always": ["a"],
            "properties": {
                "a": {"type": "integer", "minimum": 0, "maximum": 9},
                "b": {"type": "array", "items": {"$ref": "#/components/schemas/A"}},
                "c": {"type": "string", "enum": ["x"]},
            },
        }}}});
        let schema = json!({"$ref": "#/components/schemas/A"});
        let found = |value: Value| check(&document, &schema, &value, true).len();
        assert_eq!(found(json!({"a": 1, "b": [{"a": 2}], "c": "x"})), 0);
        for (bad, many) in [
            (json!([]), 2),
            (json!({}), 1),
            (json!({"a": 1, "d": 1}), 1),
            (json!({"a": -1}), 1),
            (json!({"a": 10}), 1),
            (json!({"a": "1"}), 2),
            (json!({"a": 1, "b": [{}, 1]}), 3),
            (json!({"a": 1, "c": "y"}), 1),
        ] {
            assert_eq!(found(bad.clone()), many, "{bad}");
        }
        assert!(check(&document, &schema, &json!({}), false).is_empty());
    }
}
