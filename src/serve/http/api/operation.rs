//! The declaration of operations. A handler reads the parameters that its operation
//! declares, and the description of the API is made from all operations.

use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::queries::schema::TypeSchema;

/// An operation: a method of a route.
pub(crate) struct Operation {
    /// Its ID, from which client generators make the name of a function.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    /// The parameters of the query of the URL, in their order. The parameters of the path
    /// come from the path of the route.
    pub(crate) parameters: &'static [Parameter],
    pub(crate) answer: Answer,
}

/// The answer of an operation.
pub(crate) enum Answer {
    /// That of a query, with the statuses that all queries have.
    Query(QueryAnswer),
    /// That of an operation of catalogd, with its own statuses.
    Catalogd(CatalogdAnswer),
    /// The description itself.
    Description,
}

/// The answer of a query.
pub(crate) struct QueryAnswer {
    /// The record, or the list of records.
    pub(crate) json: Option<Json>,
    /// Further media types.
    pub(crate) others: &'static [Content],
    /// What identifies its state.
    pub(crate) validators: Validators,
}

/// Headers that identify the state of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validators {
    None,
    Tag,
    /// An entity tag, and the date of the content of the catalog.
    TagAndDate,
}

/// The answer of an operation of catalogd.
pub(crate) struct CatalogdAnswer {
    pub(crate) is_post: bool,
    /// The body of the request.
    pub(crate) body: Option<TypeSchema>,
    pub(crate) statuses: &'static [(u16, Status)],
}

/// A status of an operation of catalogd.
pub(crate) enum Status {
    /// A response that several operations have.
    Shared(&'static str),
    /// A response of its own.
    Own {
        description: &'static str,
        headers: &'static [&'static str],
        contents: &'static [Content],
    },
}

/// A record, or a list of records.
#[derive(Clone, Copy)]
pub(crate) enum Json {
    Object(TypeSchema),
    List {
        /// The name of the list's schema.
        name: &'static str,
        item: TypeSchema,
        /// Another record that items may be.
        or: Option<TypeSchema>,
        /// The members of `response::Notes` that it may have.
        notes: &'static [&'static str],
    },
}

/// A body of a media type.
pub(crate) enum Content {
    Json(TypeSchema),
    /// Problem details.
    Problem,
    Text(&'static str),
    /// A body whose schema is not described.
    Any(&'static str),
    /// Bytes that are no text.
    Bytes(&'static str),
}

/// A parameter of the query of a URL.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) is_required: bool,
    /// Whether the description of the API declares it once for all operations.
    pub(crate) is_shared: bool,
    kind: ParameterKind,
    default: Option<&'static str>,
    longest: Option<usize>,
    example: Option<&'static str>,
}

/// The values of a parameter.
enum ParameterKind {
    Text,
    Flag,
    /// A number from 1 on.
    Number {
        most: usize,
        default: usize,
    },
    /// A day, or nothing.
    Day,
    /// One of these values.
    Choice(&'static [&'static str]),
    /// One of the values of an enum.
    Enum(TypeSchema),
    /// Texts with commas between them.
    List,
    /// A text that may be given several times.
    Repeated,
}

/// The default size of a page, and the greatest.
pub(crate) const DEFAULT_LIMIT: usize = 100;
pub(crate) const MAX_LIMIT: usize = 500;

/// The number of items of a page.
pub(crate) const LIMIT: Parameter = Parameter {
    kind: ParameterKind::Number {
        most: MAX_LIMIT,
        default: DEFAULT_LIMIT,
    },
    is_shared: true,
    ..Parameter::text("limit", "How many items a page has at most.")
};
/// The place in a list.
pub(crate) const CONTINUE: Parameter = Parameter {
    is_shared: true,
    ..Parameter::text(
        "continue",
        "The `continue` of the page before, as it stands there. When the catalog, or one of \
         them, has changed meanwhile, the answer is 410.",
    )
};
/// The selected fields.
pub(crate) const FIELDS: Parameter = Parameter {
    kind: ParameterKind::List,
    is_shared: true,
    ..Parameter::text(
        "fields",
        "The fields that are wanted, of the items of a list or of the object; all when absent.",
    )
};

impl Parameter {
    /// A text.
    pub(crate) const fn text(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            is_required: false,
            is_shared: false,
            kind: ParameterKind::Text,
            default: None,
            longest: None,
            example: None,
        }
    }

    /// `true` or `false`.
    pub(crate) const fn flag(name: &'static str, description: &'static str) -> Self {
        Self {
            kind: ParameterKind::Flag,
            ..Self::text(name, description)
        }
    }

    /// A day.
    pub(crate) const fn day(name: &'static str, description: &'static str) -> Self {
        Self {
            kind: ParameterKind::Day,
            ..Self::text(name, description)
        }
    }

    /// One of some values.
    pub(crate) const fn choice(
        name: &'static str,
        description: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        Self {
            kind: ParameterKind::Choice(values),
            ..Self::text(name, description)
        }
    }

    /// One of the values of an enum.
    pub(crate) const fn one_of<T: ToSchema>(name: &'static str, description: &'static str) -> Self {
        Self {
            kind: ParameterKind::Enum(TypeSchema::new::<T>()),
            ..Self::text(name, description)
        }
    }

    /// A text that may be given several times.
    pub(crate) const fn repeated(name: &'static str, description: &'static str) -> Self {
        Self {
            kind: ParameterKind::Repeated,
            ..Self::text(name, description)
        }
    }

    pub(crate) const fn required(self) -> Self {
        Self {
            is_required: true,
            ..self
        }
    }

    /// The value that counts when it is absent.
    pub(crate) const fn default(self, value: &'static str) -> Self {
        Self {
            default: Some(value),
            ..self
        }
    }

    /// Its greatest length in characters.
    pub(crate) const fn longest(self, characters: usize) -> Self {
        Self {
            longest: Some(characters),
            ..self
        }
    }

    pub(crate) const fn example(self, value: &'static str) -> Self {
        Self {
            example: Some(value),
            ..self
        }
    }

    /// Whether it may be given several times.
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self.kind, ParameterKind::Repeated)
    }

    /// The enum of its values.
    pub(crate) fn values(&self) -> Option<TypeSchema> {
        match self.kind {
            ParameterKind::Enum(values) => Some(values),
            _ => None,
        }
    }

    /// Its description in the description of the API.
    pub(crate) fn describe(&self) -> Value {
        let mut schema = match self.kind {
            ParameterKind::Text => json!({"type": "string"}),
            ParameterKind::Flag => json!({"type": "boolean"}),
            ParameterKind::Number { most, default } => {
                json!({"type": "integer", "minimum": 1, "maximum": most, "default": default})
            }
            ParameterKind::Day => {
                json!({"type": "string", "anyOf": [{"format": "date"}, {"maxLength": 0}]})
            }
            ParameterKind::Choice(values) => json!({"type": "string", "enum": values}),
            ParameterKind::Enum(values) => {
                json!({"$ref": format!("#/components/schemas/{}", values.name())})
            }
            ParameterKind::List | ParameterKind::Repeated => {
                json!({"type": "array", "items": {"type": "string"}})
            }
        };
        if self.is_required {
            let least = if self.is_repeated() {
                "minItems"
            } else {
                "minLength"
            };
            schema[least] = 1.into();
        }
        if let Some(longest) = self.longest {
            schema["maxLength"] = longest.into();
        }
        if let Some(default) = self.default {
            schema["default"] = match self.kind {
                ParameterKind::Flag => (default == "true").into(),
                _ => default.into(),
            };
        }
        let mut parameter = json!({
            "name": self.name,
            "in": "query",
            "description": self.description,
            "schema": schema,
        });
        if self.is_required {
            parameter["required"] = true.into();
        }
        if matches!(self.kind, ParameterKind::List | ParameterKind::Repeated) {
            parameter["style"] = "form".into();
            parameter["explode"] = self.is_repeated().into();
        }
        if let Some(example) = self.example {
            parameter["example"] = match self.kind {
                ParameterKind::Repeated => json!([example]),
                _ => example.into(),
            };
        }
        parameter
    }
}

impl QueryAnswer {
    const fn new(json: Option<Json>) -> Self {
        Self {
            json,
            others: &[],
            validators: Validators::TagAndDate,
        }
    }

    /// A record.
    pub(crate) const fn object<T: ToSchema>() -> Self {
        Self::new(Some(Json::Object(TypeSchema::new::<T>())))
    }

    /// A list of records.
    pub(crate) const fn list<T: ToSchema>(
        name: &'static str,
        notes: &'static [&'static str],
    ) -> Self {
        Self::new(Some(Json::List {
            name,
            item: TypeSchema::new::<T>(),
            or: None,
            notes,
        }))
    }

    /// A list of records of two types.
    pub(crate) const fn list_of_either<T: ToSchema, U: ToSchema>(
        name: &'static str,
        notes: &'static [&'static str],
    ) -> Self {
        Self::new(Some(Json::List {
            name,
            item: TypeSchema::new::<T>(),
            or: Some(TypeSchema::new::<U>()),
            notes,
        }))
    }

    /// Only bodies of other media types than JSON.
    pub(crate) const fn contents(others: &'static [Content]) -> Self {
        Self::new(None).or(others)
    }

    /// Further media types.
    pub(crate) const fn or(self, others: &'static [Content]) -> Self {
        Self { others, ..self }
    }

    /// The same without a date: the answer changes with more than one content.
    pub(crate) const fn undated(self) -> Self {
        Self {
            validators: Validators::Tag,
            ..self
        }
    }

    /// The same without an entity tag.
    pub(crate) const fn untagged(self) -> Self {
        Self {
            validators: Validators::None,
            ..self
        }
    }
}
