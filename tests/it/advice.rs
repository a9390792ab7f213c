//! Every problem says what to do about it.

use std::fmt::Write as _;

use fbc::problem::Code;
use serde_json::Value;

use crate::support::program::Start;

/// A catalog without a problem.
const GOOD: &str = r#"{"schema":"olm.package","name":"foo","defaultChannel":"beta"}
{"schema":"olm.channel","package":"foo","name":"beta","entries":[{"name":"foo.v1"},{"name":"foo.v2","replaces":"foo.v1"}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"quay.io/x/foo:v1","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{}}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v2","image":"quay.io/x/foo:v2","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"2.0.0"}},{"type":"olm.csv.metadata","value":{}}]}
"#;

/// Advice in a sentence begins with one of these, behind a
/// colon or semicolon.
const IMPERATIVES: &[&str] = &[
    "add", "ask", "check", "correct", "encode", "give", "keep", "leave", "let", "make", "name",
    "put", "quote", "remove", "rename", "say", "set", "shorten", "use", "write",
];

fn says_what_to_do(message: &str) -> bool {
    let ends = message.match_indices([';', ':']);
    let mut clauses = ends.filter_map(|(end, _)| message[end + 1..].strip_prefix(' '));
    clauses.any(|clause| {
        let word = clause.split([' ', ',']).next().unwrap_or_default();
        IMPERATIVES.contains(&word)
    })
}

fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replace(from, to)
}

fn and(text: &str) -> String {
    format!("{GOOD}{text}\n")
}

fn and_channel(entries: &str) -> String {
    and(&format!(
        r#"{{"schema":"olm.channel","package":"foo","name":"x","entries":[{entries}]}}"#
    ))
}

fn and_deprecations(entries: &str) -> String {
    and(&format!(
        r#"{{"schema":"olm.deprecations","package":"foo","entries":[{entries}]}}"#
    ))
}

fn and_lifecycle(versions: &str) -> String {
    let schema = "io.openshift.operators.lifecycles.v1alpha1";
    and(&format!(
        r#"{{"schema":"{schema}","package":"foo","versions":[{versions}]}}"#
    ))
}

/// A catalog with the length of a text in a property of its bundles.
fn of_length(bytes: usize) -> String {
    let text = "a".repeat(bytes);
    let property = format!(r#"{{"type":"x","value":"{text}"}},{{"type":"olm.csv"#);
    with(r#"{"type":"olm.csv"#, &property)
}

/// A catalog that has this problem.
fn catalog(code: Code) -> String {
    let deprecation = r#"{"reference":{"schema":"olm.package"},"message":"m"}"#;
    let metadata = r#"{"type":"olm.csv.metadata","value":{}}"#;
    match code {
        Code::FileUnreadable => and("{"),
        Code::DocumentNotObject => "- a\n".to_owned(),
        Code::DocumentDuplicateKey => and(r#"{"schema":"a","Schema":"b"}"#),
        Code::DocumentRepeatedKey => with(r#""name":"beta""#, r#""name":"x","name":"beta""#),
        Code::CatalogEmpty => "schema: olm.template.basic\n".to_owned(),
        Code::DocumentKeyNotString => and(r#"{"schema":"a","name":4.20}"#),
        Code::DocumentIgnored => "schema: a\n...\nschema: b\n".to_owned(),
        Code::DocumentEmpty => "# a\n---\nschema: a\n".to_owned(),
        Code::SchemaMissing => and(r#"{"name":"a"}"#),
        Code::SchemaUnknown => and(r#"{"schema":"olm.bundel"}"#),
        Code::BlobMalformed => with(r#""beta"}"#, "4.20}"),
        Code::PackageNameMissing => and(r#"{"schema":"olm.package"}"#),
        Code::PackageNameInvalid => with(r#""foo""#, r#""Foo""#),
        Code::PackageDuplicate => and(GOOD.lines().next().unwrap()),
        Code::PackageIconInvalid => with(
            r#""default"#,
            r#""icon":{"base64data":"%","mediatype":"image/png"},"default"#,
        ),
        Code::PackageUnknown => and(r#"{"schema":"olm.channel","package":"bar","name":"a"}"#),
        Code::PackageWithoutChannels => and(r#"{"schema":"olm.package","name":"bar"}"#),
        Code::DefaultChannelMissing => with(r#","defaultChannel":"beta""#, ""),
        Code::DefaultChannelUnknown => with(r#""beta"}"#, r#""gone"}"#),
        Code::ChannelNameMissing => with(r#""name":"beta","#, ""),
        Code::ChannelDuplicate => and(GOOD.lines().nth(1).unwrap()),
        Code::ChannelEmpty => and_channel(""),
        Code::ChannelEntryDuplicate => and_channel(r#"{"name":"foo.v1"},{"name":"foo.v1"}"#),
        Code::ChannelEntryWithoutBundle => and_channel(r#"{"name":"gone"}"#),
        Code::ChannelNoHead => and_channel(r#"{"name":"foo.v1","replaces":"foo.v1"}"#),
        Code::ChannelMultipleHeads => with(r#","replaces":"foo.v1""#, ""),
        Code::ChannelCycle | Code::ChannelStranded => {
            and_channel(r#"{"name":"foo.v2"},{"name":"foo.v1","replaces":"foo.v1"}"#)
        }
        Code::ReplacesAbsent => and_channel(
            r#"{"name":"foo.v2","skips":["foo.v1"]},{"name":"foo.v1","replaces":"gone"}"#,
        ),
        Code::SkipRangeInvalid => and_channel(r#"{"name":"foo.v1","skipRange":"x"}"#),
        Code::BundleNameMissing => with(r#""name":"foo.v1","image""#, r#""image""#),
        Code::BundlePackageMissing => and(r#"{"schema":"olm.bundle","name":"a"}"#),
        Code::BundleDuplicate => and(GOOD.lines().nth(2).unwrap()),
        Code::BundleNotInChannel => with(r#",{"name":"foo.v2","replaces":"foo.v1"}"#, ""),
        Code::BundleImageMissing => with(r#""image":"quay.io/x/foo:v1","#, ""),
        Code::ImageInvalid => with("quay.io", "oci://quay.io"),
        Code::PropertyInvalid => with(metadata, r#"{"type":"olm.gvk","value":4}"#),
        Code::PackagePropertyCount => with(r#""olm.package","value""#, r#""x","value""#),
        Code::PackagePropertyMismatch => with(r#""packageName":"foo""#, r#""packageName":"bar""#),
        Code::VersionInvalid => with("1.0.0", "1.0"),
        Code::VersionDuplicate => with("1.0.0", "2.0.0"),
        Code::ReleaseNameMismatch => with(r#""1.0.0""#, r#""1.0.0","release":"1""#),
        Code::BundleObjectInvalid => with(
            metadata,
            r#"{"type":"olm.bundle.object","value":{"data":"!"}}"#,
        ),
        Code::BundleTooLarge => of_length(5 << 20),
        Code::BundleNearLimit => of_length(15 << 18),
        Code::BundleWithoutCsvMetadata => with(metadata, r#"{"type":"x","value":{}}"#),
        // {"kind":"ClusterServiceVersion","spec":{"relatedImages":[{}]}}
        Code::CsvCrashesPackageserver => with(
            metadata,
            r#"{"type":"olm.bundle.object","value":{"data":"eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwic3BlYyI6eyJyZWxhdGVkSW1hZ2VzIjpbe31dfX0="}}"#,
        ),
        Code::DeprecationInvalid => and_deprecations(r#"{"reference":{"schema":"olm.package"}}"#),
        Code::DeprecationUnknown => and_deprecations(
            r#"{"reference":{"schema":"olm.channel","name":"gone"},"message":"m"}"#,
        ),
        Code::DeprecationDuplicate => and_deprecations(&format!("{deprecation},{deprecation}")),
        Code::DeprecationWithoutEffect => and_deprecations(""),
        Code::LifecycleInvalid => and_lifecycle(r#"{"name":"1"}"#),
        Code::LifecycleDuplicate => and_lifecycle(r#"{"name":"1.0"},{"name":"1.0"}"#),
        Code::GraphqlNameTaken => and("{\"schema\":\"a.b\"}\n{\"schema\":\"ab\"}"),
        Code::GraphqlOmitted => {
            let mut text = String::from(r#"{"schema":"many""#);
            for number in 0..300 {
                write!(text, r#","field{number}":1"#).unwrap();
            }
            and(&(text + "}"))
        }
        Code::ProblemsOmitted => {
            let channel = r#"{"schema":"olm.channel","package":"foo","name":"x"}"#;
            and(&[channel].repeat(1_200).join("\n"))
        }
    }
}

fn problems(catalog: &str) -> Vec<Value> {
    let finished = Start::new(["check", "-", "--output=json"])
        .stdin(catalog)
        .run();
    let mut document: Value = serde_json::from_str(&finished.stdout).unwrap();
    serde_json::from_value(document["problems"].take()).unwrap()
}

#[test]
fn every_problem_says_what_to_do() {
    assert_eq!(problems(GOOD), [Value::Null; 0]);
    for code in Code::ALL {
        let problems = problems(&catalog(*code));
        assert!(
            problems.iter().any(|one| one["code"] == code.as_str()),
            "nothing is {code}: {problems:#?}"
        );
        for problem in problems {
            let message = problem["message"].as_str().unwrap();
            assert!(says_what_to_do(message), "{}: {message}", problem["code"]);
        }
    }
}

#[test]
fn what_is_missing_only_because_something_else_cannot_be_read_is_not_told() {
    let codes = |catalog: String| -> Vec<String> {
        let problems = problems(&catalog);
        let codes = problems.iter().map(|one| one["code"].as_str().unwrap());
        codes.map(str::to_owned).collect()
    };
    let without = |number: usize| {
        let lines = GOOD.lines().enumerate();
        let lines = lines.map(|(at, line)| if at == number { "{\"name\":4}" } else { line });
        lines.collect::<Vec<_>>().join("\n")
    };
    for number in 0..4 {
        assert_eq!(codes(without(number)), ["document-key-not-string"]);
    }
    let bundle = r#"{"schema":"olm.bundle","name":"a","image":"quay.io/x/a:v1","properties":[
        {"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}]}"#;
    for (catalog, code) in [
        (and(bundle), "bundle-package-missing"),
        (with(r#""beta"}"#, "4.20}"), "blob-malformed"),
        (
            with(r#"[{"name":"foo.v1"},"#, r#"["foo.v1","#),
            "blob-malformed",
        ),
        (
            with(r#""replaces":"foo.v1""#, r#""replaces":4"#),
            "blob-malformed",
        ),
        (
            with(r#""version":"1.0.0""#, r#""version":1"#),
            "property-invalid",
        ),
    ] {
        assert_eq!(codes(catalog), [code]);
    }
}

#[test]
fn each_wrong_item_of_a_list_is_named_with_its_key() {
    let entries = r#"{"name":"foo.v1","replaces":4},{"name":"foo.v2","skips":"foo"},"foo.v3""#;
    let found = problems(&and_channel(entries));
    let messages: Vec<&str> = (found.iter())
        .map(|one| one["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        messages,
        [
            "package \"foo\": channel \"x\" has a malformed \"entries[0].replaces\": invalid type: \
             integer `4`, expected a string; write it in quotes",
            "package \"foo\": channel \"x\" has a malformed \"entries[1].skips\": invalid type: \
             string \"foo\", expected a list; write a list",
            "package \"foo\": channel \"x\" has a malformed \"entries[2]\": invalid type: string \
             \"foo.v3\", expected an object; write an object",
        ]
    );
}
