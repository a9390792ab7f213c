use super::names::*;
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
        reader.read(&piece, bytes, 0, &mut out, &mut ());
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
        assert_eq!(written(&types(&fields.schemas)), wanted);
        assert_eq!(problems(&fields), []);
    }
}

#[test]
fn ten_elements_of_a_list_are_looked_at() {
    let mut elements: Vec<String> = (0..10).map(|n| format!("{{\"f{n}\":1}}")).collect();
    elements.push("{\"more\":1}".to_owned());
    let content = format!("{{\"schema\":\"a\",\"list\":[{}]}}", elements.join(","));
    let [_, objects] = &written(&types(&found(&content, 100).schemas))[..] else {
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
        written(&types(&fields.schemas)),
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
    let found = types(&found(content, 100).schemas);
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
    let types = types(&fields.schemas);
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
            let fields: Vec<String> = (0..30).map(|f| format!("\"f{f}\":[{{\"x\":1}}]")).collect();
            format!("{{\"schema\":\"s.{n}\",{}}}\n", fields.join(","))
        })
        .collect();
    let content = content.concat();
    for piece in [10_000, 1 << 30] {
        let fields = found(&content, piece);
        let sum: usize = fields
            .schemas
            .iter()
            .flat_map(|schema| &schema.fields)
            .map(|field| match &field.kind {
                Kind::Leaf(_) => 1,
                Kind::Objects(fields) => 1 + fields.len(),
            })
            .sum();
        assert!(sum <= 20_000 && fields.schemas.len() == 1000, "{sum}");
        let problems = problems(&fields);
        assert_eq!(problems.len(), 101);
        assert_eq!(problems[100].code, Code::ProblemsOmitted);
        types(&fields.schemas);
    }
}
