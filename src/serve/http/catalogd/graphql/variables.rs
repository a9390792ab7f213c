//! Checks the values of variables against their types (GraphQL specification,
//! section 6.1.2).

use async_graphql::parser::types::{
    BaseType, DocumentOperations, ExecutableDocument, OperationDefinition, Type,
};
use async_graphql::{Name, ServerError};
use serde_json::{Map, Value};

/// The errors in the variables of the selected operation. Without such an
/// operation there are none: running the query reports that.
pub(super) fn check(
    document: &ExecutableDocument,
    operation: Option<&str>,
    values: &Map<String, Value>,
) -> Vec<ServerError> {
    let Some(operation) = selected(document, operation) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for definition in &operation.variable_definitions {
        let (name, ty) = (&definition.node.name.node, &definition.node.var_type.node);
        let wrong = match values.get(name.as_str()) {
            None if definition.node.default_value.is_some() || ty.nullable => continue,
            None => "was not provided",
            Some(value) if fits(value, ty) => continue,
            Some(Value::Null) => "must not be null",
            Some(_) => "got a value of another type",
        };
        errors.push(ServerError::new(
            format!("Variable \"${name}\" of type \"{ty}\" {wrong}"),
            Some(definition.pos),
        ));
    }
    errors
}

fn selected<'a>(
    document: &'a ExecutableDocument,
    operation: Option<&str>,
) -> Option<&'a OperationDefinition> {
    let operation = match (&document.operations, operation) {
        (DocumentOperations::Single(operation), _) => operation,
        (DocumentOperations::Multiple(all), Some(name)) => all.get(&Name::new(name))?,
        (DocumentOperations::Multiple(all), None) if all.len() == 1 => all.values().next()?,
        (DocumentOperations::Multiple(_), None) => return None,
    };
    Some(&operation.node)
}

/// Whether a value has a type. The schema's input types are all built in, and
/// validation reports unknown types. The parser bounds the nesting of types, and
/// so this recursion.
fn fits(value: &Value, ty: &Type) -> bool {
    if value.is_null() {
        return ty.nullable;
    }
    match (&ty.base, value) {
        (BaseType::List(inner), Value::Array(values)) => {
            values.iter().all(|value| fits(value, inner))
        }
        // A single value is coerced to a list of one.
        (BaseType::List(inner), value) => fits(value, inner),
        (BaseType::Named(name), value) => match name.as_str() {
            "Int" => value
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            "Float" => value.is_number(),
            "String" => value.is_string(),
            "Boolean" => value.is_boolean(),
            "ID" => value.is_string() || value.is_i64() || value.is_u64(),
            _ => true,
        },
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_must_be_of_the_types_of_their_variables() {
        for (definitions, values, wanted) in [
            ("$a: Int", json!({}), None),
            ("$a: Int", json!({"a": null}), None),
            ("$a: Int", json!({"a": 5, "b": "more"}), None),
            ("$a: Int = 3", json!({"a": null}), None),
            ("$a: Int! = 3", json!({}), None),
            ("$a: [Int!]", json!({"a": [1, 2]}), None),
            ("$a: [Int!]", json!({"a": 1}), None),
            ("$a: Float", json!({"a": 1}), None),
            ("$a: ID!", json!({"a": 1}), None),
            ("$a: Boolean!", json!({}), Some("was not provided")),
            ("$a: Boolean!", json!({"a": null}), Some("must not be null")),
            (
                "$a: Boolean!",
                json!({"a": "true"}),
                Some("of another type"),
            ),
            ("$a: Int", json!({"a": "5"}), Some("of another type")),
            ("$a: Int", json!({"a": 1.5}), Some("of another type")),
            (
                "$a: Int",
                json!({"a": 2_147_483_648_i64}),
                Some("of another type"),
            ),
            (
                "$a: [Int!]",
                json!({"a": [1, null]}),
                Some("of another type"),
            ),
            (
                "$a: String",
                json!({"a": {"b": 1}}),
                Some("of another type"),
            ),
        ] {
            let document = parse_query(format!("query({definitions}) {{ x }}")).unwrap();
            let errors = check(&document, None, values.as_object().unwrap());
            match wanted {
                None => assert!(errors.is_empty(), "{definitions} {values}: {errors:?}"),
                Some(wanted) => {
                    assert_eq!(errors.len(), 1, "{definitions} {values}");
                    let message = &errors[0].message;
                    assert!(message.contains(wanted), "{message}");
                    assert!(message.starts_with("Variable \"$a\" of type"), "{message}");
                }
            }
        }
    }

    #[test]
    fn only_the_selected_operation_is_checked() {
        let document = parse_query("query A($a: Int!) { x } query B { x }").unwrap();
        let errors = |name| check(&document, name, &Map::new()).len();
        assert_eq!(errors(Some("A")), 1);
        assert_eq!(errors(Some("B")), 0);
        assert_eq!(errors(Some("C")), 0);
        assert_eq!(errors(None), 0);
    }
}
