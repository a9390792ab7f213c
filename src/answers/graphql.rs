//! What the GraphQL API of a catalog calls its schemas and fields.
//!
//! Names follow the peer's rules (catalogd), which keep letters and digits
//! only, so two of them may become one. There that costs the whole catalog;
//! here the first one has the name, and the other is left out and reported.

use std::collections::{BTreeMap, HashSet};

use fbc::fields::{Field, Fields, Kind, Leaf, Scalar, SchemaFields};
use fbc::problem::{Code, Problem, Severity, Subject};
use fbc::text::json::unescape;

/// The type that queries start from.
pub const QUERY: &str = "Query";
/// The type of the field [`SUMMARY_FIELD`].
pub const SUMMARY: &str = "CatalogSummary";
/// The type of what a summary tells of a schema.
pub const SCHEMA_SUMMARY: &str = "SchemaSummary";
/// The field of [`QUERY`] that tells how much a catalog holds. No schema has
/// it: those of schemas end in `s`.
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

/// Schemas that OLM defines: they have their names before any other.
const KNOWN: [&str; 4] = [
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.deprecations",
];

/// How many problems of one catalog are listed.
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
    /// The keys that it stands for, escaped as in canonical JSON: the first
    /// that an object has gives the value.
    pub keys: Vec<Box<str>>,
    /// What it holds.
    pub kind: T,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A value, or a list of such.
    Leaf(Leaf),
    /// A list of objects.
    Objects {
        /// The name of their type.
        name: String,
        /// Its fields.
        fields: Vec<NamedField<Leaf>>,
    },
}

/// The types of a catalog's schemas, in an order that does not depend on that
/// of its files.
pub fn types(schemas: &[SchemaFields]) -> Vec<BlobType> {
    Namer::default().types(schemas)
}

/// What in a catalog cannot be asked for, since its name is taken or since
/// there is too much of it.
pub fn problems(fields: &Fields) -> Vec<Problem> {
    let mut namer = Namer::default();
    namer.types(fields.schemas());
    let omitted = fields.omitted().iter().map(|schema| {
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

/// The name of the field of [`QUERY`] that gives the blobs of a schema.
pub fn query_name(schema: &str) -> String {
    let mut name: String = schema
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    name.push('s');
    beginning_with_letter(name)
}

/// The name of the type of a schema's blobs.
pub fn type_name(schema: &str) -> String {
    let name: String = schema
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .map(capitalized)
        .collect();
    let name = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if name.is_empty() {
        return "Unknown".to_owned();
    }
    // Digits were before the first word: what is left may begin small.
    capital(name)
}

/// The name of the field for a key.
pub fn field_name(key: &str) -> String {
    if key.is_empty() {
        return "value".to_owned();
    }
    let mut words = key
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let mut name = if first.bytes().any(|letter| letter.is_ascii_lowercase()) {
        let (head, rest) = first.split_at(1);
        head.to_ascii_lowercase() + rest
    } else {
        first.to_ascii_lowercase()
    };
    name.extend(words.map(capitalized));
    beginning_with_letter(name)
}

fn beginning_with_letter(name: String) -> String {
    if name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return name;
    }
    format!("field_{name}")
}

/// A word with its first letter large and the others small.
fn capitalized(word: &str) -> String {
    capital(&word.to_ascii_lowercase())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_ascii_uppercase(), letters.as_str())
    })
}

/// Gives out names, each once.
#[derive(Default)]
struct Namer {
    problems: Vec<Problem>,
    /// Which schema has a field of the query.
    queries: BTreeMap<String, Box<str>>,
    /// Which schema has a type, also as part of its own.
    types: BTreeMap<String, Box<str>>,
}

impl Namer {
    fn types(&mut self, schemas: &[SchemaFields]) -> Vec<BlobType> {
        let mut sorted: Vec<&SchemaFields> = schemas
            .iter()
            .filter(|schema| !schema.fields.is_empty())
            .collect();
        sorted.sort_by_key(|schema| (!KNOWN.contains(&&*schema.schema), &schema.schema));
        let named: Vec<_> = sorted
            .into_iter()
            .filter_map(|schema| Some((schema, self.names(&schema.schema)?)))
            .collect();
        // Types of blobs have their names before those of objects in them.
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
        let mut fields = named(&schema.fields, merge);
        let mut named: Vec<NamedField<FieldType>> = Vec::with_capacity(fields.len());
        for field in fields.drain(..) {
            let kind = match field.kind {
                Kind::Leaf(leaf) => FieldType::Leaf(leaf),
                Kind::Objects(members) => {
                    self.objects(&schema.schema, type_name, &field.name, &members)
                }
            };
            named.push(NamedField {
                name: field.name,
                keys: field.keys,
                kind,
            });
        }
        named
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

/// Fields by name. Keys that have one name share a field: what was seen first
/// decides on it, as with the peer.
fn named<K: Clone>(fields: &[Field<K>], merge: impl Fn(&mut K, &K)) -> Vec<NamedField<K>> {
    let mut named: Vec<NamedField<K>> = Vec::with_capacity(fields.len());
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for Field { key, kind } in fields {
        let name = field_name(&unescape(key.as_bytes()));
        if let Some(field) = numbers.get(&name).and_then(|number| named.get_mut(*number)) {
            // The key that is the name has its value before others.
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

/// Takes the fields of objects from another kind.
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
    Problem {
        code,
        severity: Severity::Warning,
        subject: Subject {
            schema: schema.to_owned(),
            ..Subject::default()
        },
        place: None,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fbc::read::{Output, Reader, pieces};

    #[test]
    fn names_are_those_of_the_peer() {
        for (key, name) in [
            ("", "value"),
            ("name", "name"),
            ("UPPER", "upper"),
            ("ABc_DEf", "aBcDef"),
            ("foo_bar-baz.qux", "fooBarBazQux"),
            ("9lives", "field_9lives"),
            ("__a__b__", "aB"),
            ("_-._", "field_"),
            ("mediaType", "mediaType"),
            ("MediaType", "mediaType"),
            ("a1B2", "a1B2"),
            ("A1", "a1"),
            ("olm.csv.metadata", "olmCsvMetadata"),
            ("käse", "kSe"),
            ("日本", "field_"),
            ("a\"b\\c", "aBC"),
        ] {
            assert_eq!(field_name(key), name, "{key:?}");
        }
        for (schema, query, name) in [
            ("olm.bundle", "olmbundles", "OlmBundle"),
            ("olm.deprecations", "olmdeprecationss", "OlmDeprecations"),
            (
                "io.openshift.operators.lifecycles.v1",
                "ioopenshiftoperatorslifecyclesv1s",
                "IoOpenshiftOperatorsLifecyclesV1",
            ),
            ("fooBAR", "foobars", "Foobar"),
            ("9lives", "field_9livess", "Lives"),
            ("1.2.foo", "field_12foos", "Foo"),
            ("…", "s", "Unknown"),
            ("42", "field_42s", "Unknown"),
            ("a_b-c", "abcs", "ABC"),
        ] {
            assert_eq!(query_name(schema), query, "{schema:?}");
            assert_eq!(type_name(schema), name, "{schema:?}");
        }
    }

    fn found(content: &str, piece: usize) -> Fields {
        let mut fields = Fields::default();
        let mut reader = Reader::default();
        for piece in pieces(content.as_bytes(), piece) {
            let mut out = Output::default();
            let bytes = &content.as_bytes()[piece.range.clone()];
            reader.read(&piece, bytes, 0, &mut out);
            fields.append(out.fields);
        }
        fields
    }

    /// The types as GraphQL writes them, a line each.
    fn written(types: &[BlobType]) -> Vec<String> {
        fn leaf(leaf: Leaf) -> String {
            let name = format!("{:?}", leaf.scalar);
            if leaf.list { format!("[{name}]") } else { name }
        }
        let mut lines = Vec::new();
        for ty in types {
            let mut inner = Vec::new();
            let fields = ty.fields.iter().map(|field| {
                let kind = match &field.kind {
                    FieldType::Leaf(kind) => leaf(*kind),
                    FieldType::Objects { name, fields } => {
                        let fields = fields
                            .iter()
                            .map(|field| format!("{}:{}", field.name, leaf(field.kind)));
                        let fields: Vec<String> = fields.collect();
                        inner.push(format!("{name} {}", fields.join(" ")));
                        format!("[{name}]")
                    }
                };
                format!("{}:{kind}", field.name)
            });
            let fields: Vec<String> = fields.collect();
            lines.push(format!("{}: {} {}", ty.query, ty.name, fields.join(" ")));
            lines.extend(inner);
        }
        lines
    }

    #[test]
    fn the_first_blob_with_a_key_decides_on_its_kind_and_later_ones_add_fields() {
        let content = r#"{"schema":"a.b","text":"x","flag":true,"none":null,"whole":3,"part":1.5,"large":3000000000,"object":{"x":1},"texts":["a"],"mixed":["a",1],"numbers":[1,2.5],"nulls":[null],"empty":[],"late":[],"lists":[[1]],"things":[{"name":"a","more":{"x":1},"tags":["t"]}]}
{"schema":"a.b","text":5,"flag":"no","whole":1.5,"empty":[1],"late":[{"x":1}],"things":[{"size":1},{"name":7}],"new_one":[null,{"y":[1]}]}
"#;
        let wanted = [
            "abs: AB empty:[String] flag:Boolean large:Float late:[ABLate] lists:[String] \
             mixed:[String] none:String nulls:[String] numbers:[Float] object:String part:Float \
             schema:String text:String texts:[String] things:[ABThings] whole:Int \
             newOne:[ABNewone]",
            "ABLate x:Int",
            "ABThings more:String name:String tags:[String] size:Int",
            "ABNewone y:[Int]",
        ];
        // It does not matter how the file is cut.
        for piece in [1, 1 << 20] {
            let fields = found(content, piece);
            assert_eq!(written(&types(fields.schemas())), wanted);
            assert_eq!(problems(&fields), []);
        }
    }

    #[test]
    fn ten_elements_of_a_list_are_looked_at() {
        let mut elements: Vec<String> = (0..10).map(|n| format!("{{\"f{n}\":1}}")).collect();
        elements.push("{\"more\":1}".to_owned());
        let content = format!("{{\"schema\":\"a\",\"list\":[{}]}}", elements.join(","));
        let [_, objects] = &written(&types(found(&content, 100).schemas()))[..] else {
            panic!()
        };
        assert!(objects.ends_with("f9:Int"), "{objects}");
    }

    #[test]
    fn who_comes_second_to_a_name_is_left_out_and_named() {
        let content = r#"{"schema":"OLM-Bundle","x":1}
{"schema":"olm.bundle","name":"a"}
{"schema":"a.b","c":[{"x":1}]}
{"schema":"a.b.c","y":1}
{"schema":"ab","y":1}
{"schema":"catalog.summary"}
{"schema":"s","fooBar":[{"x":1}],"foo_bar":[{"z":1}]}
{"schema":"s","foobar":[{"y":1}]}
"#;
        let fields = found(content, 100);
        assert_eq!(
            written(&types(fields.schemas())),
            [
                "olmbundles: OlmBundle name:String schema:String",
                "abs: AB c:[String] schema:String",
                "abcs: ABC schema:String y:Int",
                "ss: S fooBar:[SFoobar] schema:String foobar:[String]",
                "SFoobar x:Int z:Int",
            ]
        );
        let found: Vec<_> = problems(&fields)
            .into_iter()
            .map(|problem| {
                assert_eq!(problem.code, Code::GraphqlNameTaken);
                assert_eq!(problem.severity, Severity::Warning);
                problem.subject.schema
            })
            .collect();
        assert_eq!(found, ["OLM-Bundle", "ab", "catalog.summary", "a.b", "s"]);
    }

    #[test]
    fn the_key_that_is_the_name_comes_before_others_of_that_name() {
        let content = r#"{"schema":"a","Foo":1,"foo_":2}
{"schema":"a","_foo":1,"foo":2}"#;
        let found = types(found(content, 100).schemas());
        let field = &found[0].fields[0];
        assert_eq!(field.name, "foo");
        let keys: Vec<&str> = field.keys.iter().map(|key| &**key).collect();
        assert_eq!(keys, ["foo", "Foo", "foo_", "_foo"]);
    }

    #[test]
    fn what_is_too_much_is_left_out_and_named() {
        let many: Vec<String> = (0..300).map(|n| format!("\"k{n}\":1")).collect();
        let long = "l".repeat(300);
        let content = format!(
            "{{\"schema\":\"many\",{}}}\n{{\"schema\":\"long\",\"{long}\":1}}\n{{\"schema\":\"{long}\"}}\n",
            many.join(",")
        );
        let fields = found(&content, 100);
        let types = types(fields.schemas());
        assert_eq!(types.len(), 2);
        assert_eq!((types[0].fields.len(), types[1].fields.len()), (1, 200));
        let codes: Vec<_> = problems(&fields)
            .into_iter()
            .map(|problem| (problem.code, problem.subject.schema))
            .collect();
        let omitted = |schema: &str| (Code::GraphqlOmitted, schema.to_owned());
        assert_eq!(codes, [omitted("many"), omitted("long"), omitted("")]);
    }

    #[test]
    fn a_catalog_of_schemas_without_end_keeps_within_bounds() {
        let content: Vec<String> = (0..3000)
            .map(|n| {
                let fields: Vec<String> =
                    (0..30).map(|f| format!("\"f{f}\":[{{\"x\":1}}]")).collect();
                format!("{{\"schema\":\"s.{n}\",{}}}\n", fields.join(","))
            })
            .collect();
        let content = content.concat();
        for piece in [10_000, 1 << 30] {
            let fields = found(&content, piece);
            let sum: usize = fields
                .schemas()
                .iter()
                .flat_map(|schema| &schema.fields)
                .map(|field| match &field.kind {
                    Kind::Leaf(_) => 1,
                    Kind::Objects(fields) => 1 + fields.len(),
                })
                .sum();
            assert!(sum <= 20_000 && fields.schemas().len() == 1000, "{sum}");
            let problems = problems(&fields);
            assert_eq!(problems.len(), 101);
            assert_eq!(problems[100].code, Code::ProblemsOmitted);
            types(fields.schemas());
        }
    }
}
