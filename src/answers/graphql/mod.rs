//! The names and types of a catalog's schemas and fields in the GraphQL API.
//!
//! Names follow catalogd's rules, which keep only letters and digits, so two
//! names may become one. catalogd then refuses the whole catalog. Here the first
//! keeps the name; the other is left out and reported.

mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

pub use crate::answers::graphql::names::{field_name, query_name, type_name};
use fbc::document::OLM_SCHEMAS;
use fbc::fields::{Field, Fields, Kind, Leaf, Scalar, SchemaFields};
use fbc::problem::{Code, Problem, Severity};
use fbc::text::json::unescape;

/// The type that queries start from.
pub const QUERY: &str = "Query";
/// The type of the field [`SUMMARY_FIELD`].
pub const SUMMARY: &str = "CatalogSummary";
/// The type of the summary of a schema.
pub const SCHEMA_SUMMARY: &str = "SchemaSummary";
/// The field of [`QUERY`] that summarises the catalog. The field of a schema
/// never has this name.
pub const SUMMARY_FIELD: &str = "summary";

/// Names of types that no schema may have.
const RESERVED: [&str; 8] = [
    QUERY,
    SUMMARY,
    SCHEMA_SUMMARY,
    "String",
    "Int",
    "Float",
    "Boolean",
    "ID",
];

/// The number of problems of one catalog that are listed.
const MAX_PROBLEMS: usize = 100;

/// The type of the blobs of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobType {
    /// The schema.
    pub schema: Box<str>,
    /// The field of [`QUERY`] that gives its blobs.
    pub query: String,
    /// The type's name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<NamedField<FieldType>>,
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedField<T> {
    /// Its name.
    pub name: String,
    /// Its keys, escaped as in canonical JSON. The first that an object has gives
    /// the value.
    pub keys: Vec<Box<str>>,
    /// Its type.
    pub kind: T,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A value, or a list of values.
    Leaf(Leaf),
    /// A list of objects.
    Objects {
        /// The name of their type.
        name: String,
        /// Its fields.
        fields: Vec<NamedField<Leaf>>,
    },
}

/// The types of a catalog's schemas. Their order does not depend on that of the
/// files.
pub fn types(schemas: &[SchemaFields]) -> Vec<BlobType> {
    Namer::default().types(schemas)
}

/// Problems of schemas and fields that are left out, because their names are
/// taken or there are too many.
pub fn problems(fields: &Fields) -> Vec<Problem> {
    let mut namer = Namer::default();
    namer.types(&fields.schemas);
    let omitted = fields.omitted.iter().map(|schema| {
        let (schema, what) = match schema {
            Some(schema) => (&**schema, format!("the schema {schema:?} has fields")),
            None => ("", "there are schemas".to_owned()),
        };
        problem(
            Code::GraphqlOmitted,
            schema,
            format!(
                "{what} that the GraphQL API leaves out, since there are too many or their names \
                 are too long; ask for them over metas, or make them fewer or shorter"
            ),
        )
    });
    let mut problems: Vec<_> = namer.problems.into_iter().chain(omitted).collect();
    if problems.len() > MAX_PROBLEMS {
        let rest = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        let message = format!(
            "{rest} more names of the GraphQL API are taken or left out; correct the listed ones first"
        );
        problems.push(problem(Code::ProblemsOmitted, "", message));
    }
    problems
}

/// Assigns names, each once.
#[derive(Default)]
struct Namer {
    problems: Vec<Problem>,
    /// The schema of each field of the query.
    queries: BTreeMap<String, Box<str>>,
    /// The schema of each type, including the types of nested objects.
    types: BTreeMap<String, Box<str>>,
}

impl Namer {
    fn types(&mut self, schemas: &[SchemaFields]) -> Vec<BlobType> {
        let mut sorted: Vec<&SchemaFields> = schemas
            .iter()
            .filter(|schema| !schema.fields.is_empty())
            .collect();
        // OLM's own schemas take their names first.
        sorted.sort_by_key(|schema| (!OLM_SCHEMAS.contains(&&*schema.schema), &schema.schema));
        let named: Vec<_> = sorted
            .into_iter()
            .filter_map(|schema| Some((schema, self.names(&schema.schema)?)))
            .collect();
        // The types of blobs take their names before those of nested objects.
        named
            .into_iter()
            .map(|(schema, (query, name))| BlobType {
                fields: self.fields(schema, &name),
                schema: schema.schema.clone(),
                query,
                name,
            })
            .collect()
    }

    /// The names of the query's field and of the type, unless they are taken.
    fn names(&mut self, schema: &str) -> Option<(String, String)> {
        let (query, name) = (query_name(schema), type_name(schema));
        if RESERVED.contains(&&*name) {
            self.taken(
                schema,
                format!(
                    "the schema {schema:?} becomes the type {name:?} of the GraphQL API, which \
                     is built in; it cannot be asked for there, and catalogd would refuse the \
                     whole catalog: rename it"
                ),
            );
            return None;
        }
        let (what, other) = match (self.queries.get(&query), self.types.get(&name)) {
            (None, None) => {
                self.queries.insert(query.clone(), schema.into());
                self.types.insert(name.clone(), schema.into());
                return Some((query, name));
            }
            (Some(other), _) => (format!("field {query:?}"), other.clone()),
            (None, Some(other)) => (format!("type {name:?}"), other.clone()),
        };
        self.taken(
            schema,
            format!(
                "the schemas {other:?} and {schema:?} both become the {what} of the GraphQL API; \
                 only the first can be asked for there, and catalogd would refuse the whole \
                 catalog: rename one"
            ),
        );
        None
    }

    fn fields(&mut self, schema: &SchemaFields, type_name: &str) -> Vec<NamedField<FieldType>> {
        let fields = named(&schema.fields, merge).into_iter();
        fields
            .map(|NamedField { name, keys, kind }| {
                let kind = match kind {
                    Kind::Leaf(leaf) => FieldType::Leaf(leaf),
                    Kind::Objects(of) => self.objects(&schema.schema, type_name, &name, &of),
                };
                NamedField { name, keys, kind }
            })
            .collect()
    }

    fn objects(
        &mut self,
        schema: &str,
        blob_type: &str,
        field: &str,
        members: &[Field<Leaf>],
    ) -> FieldType {
        let as_text = FieldType::Leaf(Leaf {
            scalar: Scalar::String,
            list: true,
        });
        let name = format!("{blob_type}{}", type_name(field));
        if members.is_empty() {
            return as_text;
        }
        if let Some(other) = self.types.get(&name) {
            self.taken(
                schema,
                format!(
                    "the type {name:?} of the GraphQL API, for the objects in {field:?} of the \
                     schema {schema:?}, is already one of the schema {other:?}; there they are \
                     JSON texts, and catalogd would refuse the whole catalog: rename one"
                ),
            );
            return as_text;
        }
        if RESERVED.contains(&&*name) {
            self.taken(
                schema,
                format!(
                    "the type {name:?} of the GraphQL API, for the objects in {field:?} of the \
                     schema {schema:?}, is built in; there they are JSON texts, and catalogd \
                     would refuse the whole catalog: rename one"
                ),
            );
            return as_text;
        }
        self.types.insert(name.clone(), schema.into());
        FieldType::Objects {
            fields: named(members, |_, _| {}),
            name,
        }
    }

    fn taken(&mut self, schema: &str, message: String) {
        self.problems
            .push(problem(Code::GraphqlNameTaken, schema, message));
    }
}

/// Fields by name. Keys with the same name share a field, and the first decides
/// its type, as in catalogd.
fn named<K: Clone>(fields: &[Field<K>], merge: impl Fn(&mut K, &K)) -> Vec<NamedField<K>> {
    let mut named: Vec<NamedField<K>> = Vec::with_capacity(fields.len());
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for Field { key, kind } in fields {
        let name = field_name(&unescape(key.as_bytes()));
        if let Some(field) = numbers.get(&name).and_then(|number| named.get_mut(*number)) {
            // The key that equals the name has precedence.
            let at = if **key == *name { 0 } else { field.keys.len() };
            field.keys.insert(at, key.clone());
            merge(&mut field.kind, kind);
        } else {
            numbers.insert(name.clone(), named.len());
            named.push(NamedField {
                name,
                keys: vec![key.clone()],
                kind: kind.clone(),
            });
        }
    }
    named
}

/// Adds the fields of objects of another kind.
fn merge(kind: &mut Kind, other: &Kind) {
    match (kind, other) {
        (_, Kind::Leaf(_)) => {}
        (kind @ Kind::Leaf(_), Kind::Objects(_)) => *kind = other.clone(),
        (Kind::Objects(fields), Kind::Objects(others)) => {
            let known: HashSet<Box<str>> = fields.iter().map(|field| field.key.clone()).collect();
            let new = others.iter().filter(|field| !known.contains(&field.key));
            fields.extend(new.cloned());
        }
    }
}

fn problem(code: Code, schema: &str, message: String) -> Problem {
    let mut problem = Problem::new(code, Severity::Warning, message);
    schema.clone_into(&mut problem.subject.schema);
    problem
}
