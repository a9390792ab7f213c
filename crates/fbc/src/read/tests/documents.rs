//! Tests of what documents say: keys, defects, schemas, and what a visitor sees.

use std::ops::Range;

use crate::document::{Defect, DeprecationBlob, EntryBlob};
use crate::read::tests::read;
use crate::read::*;
use crate::visit::{BundleParts, ManifestParts, PackageParts};

#[test]
fn keys_are_found_whatever_their_case() {
    let out = read(
        br#"{"Schema":"olm.package","Name":"a","DefaultChannel":"b"}"#,
        100,
    );
    assert_eq!(out.blobs.packages[0].blob.name, "a");
    assert_eq!(out.blobs.packages[0].blob.default_channel, "b");
    assert_eq!(out.metas[0].schema(), "olm.package");
}

#[test]
fn keys_within_a_blob_are_found_whatever_their_case() {
    let out = read(
        br#"{"schema":"olm.package","name":"a","icon":{"Base64Data":"%","mediaType":"b"}}
{"schema":"olm.channel","Entries":[{"Name":"a","REPLACES":"b","Skips":["c"],"skiprange":"<1.0.0"}]}
{"schema":"olm.deprecations","Entries":[{"Reference":{"Schema":"olm.bundle","Name":"a"},"Message":"m"}]}
{"schema":"olm.bundle","name":"a","package":"p","Image":"a/b","RelatedImages":[{"Image":"A@"}],
 "Properties":[{"Type":"olm.package","Value":{"PackageName":"p","Version":"1.0.0"}},
 {"TYPE":"olm.gvk","value":{"Group":"g","VERSION":"v1","Kind":"k"}}]}"#,
        1000,
    );
    let icon = &out.blobs.packages[0].blob.defects[0];
    assert_eq!(icon.code, Code::PackageIconInvalid);
    let entry = EntryBlob {
        name: "a".into(),
        replaces: "b".into(),
        skips: vec!["c".into()],
        skip_range: "<1.0.0".into(),
    };
    assert_eq!(out.blobs.channels[0].blob.entries, [entry]);
    let deprecation = DeprecationBlob {
        schema: "olm.bundle".into(),
        name: "a".into(),
        message: "m".into(),
    };
    assert_eq!(out.blobs.deprecations[0].blob.entries, [deprecation]);
    let bundle = &out.blobs.bundles[0].blob;
    assert!(bundle.has_image);
    assert_eq!(bundle.version, "1.0.0");
    assert_eq!(bundle.provides[0].group, "g");
    let defects: Vec<_> = bundle.defects.iter().map(|defect| defect.code).collect();
    assert_eq!(defects, [Code::ImageInvalid], "{:?}", bundle.defects);
}

#[test]
fn what_a_bundle_says_wrongly_of_itself_has_a_code_of_its_own() {
    let package = r#"{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}"#;
    let other = package.replace("\"p\"", "\"q\"");
    let object = r#"{"type":"olm.bundle.object","value":{"data":"!"}}"#;
    for (properties, wanted) in [
        (package.to_owned(), vec![]),
        (String::new(), vec![Code::PackagePropertyCount]),
        (
            format!("{package},{package}"),
            vec![Code::PackagePropertyCount],
        ),
        (other, vec![Code::PackagePropertyMismatch]),
        // As opm has it: a value may be `null`, and has to be there.
        (
            format!("{package},{{\"type\":\"x\",\"value\":null}}"),
            vec![],
        ),
        (format!("{package},{{\"value\":1}}"), vec![]),
        (
            format!("{package},{{\"type\":\"x\"}}"),
            vec![Code::PropertyInvalid],
        ),
        (
            format!("{package},{{}},null,{{\"type\":\"x\"}}"),
            vec![Code::PropertyInvalid],
        ),
        (
            format!("{package},{{\"type\":\"olm.csv.metadata\"}}"),
            vec![Code::PropertyInvalid],
        ),
        (
            "{\"type\":\"olm.package\"}".to_owned(),
            vec![Code::PropertyInvalid],
        ),
        (
            format!("{package},{object}"),
            vec![Code::BundleObjectInvalid],
        ),
    ] {
        let text = format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"a\",\
             \"image\":\"example.com/a:1\",\"properties\":[{properties}]}}"
        );
        let out = read(text.as_bytes(), 1000);
        let defects = &out.blobs.bundles[0].blob.defects;
        let codes: Vec<_> = defects.iter().map(|defect| defect.code).collect();
        assert_eq!(codes, wanted, "{properties}: {defects:?}");
    }
}

#[test]
fn a_schema_of_olm_that_nobody_defines_is_warned_of() {
    for (schema, warned) in [
        ("olm.bundel", true),
        ("OLM.bundle", true),
        (" olm.bundle", true),
        ("example.com.x", false),
        ("olmé", false),
    ] {
        let text = format!("{{\"schema\":\"{schema}\",\"package\":\"p\"}}");
        let out = read(text.as_bytes(), 1000);
        let found: Vec<_> = out
            .problems
            .iter()
            .map(|(_, p)| (p.code, p.severity))
            .collect();
        let warning = (Code::SchemaUnknown, Severity::Warning);
        assert_eq!(found == [warning], warned, "{schema}: {found:?}");
    }
}

#[test]
fn what_clients_make_of_manifests_is_known() {
    let bundle = |properties: &str| {
        let text =
            format!("{{\"schema\":\"olm.bundle\",\"name\":\"a\",\"properties\":[{properties}]}}");
        let mut out = read(text.as_bytes(), 1000);
        out.blobs.bundles.remove(0).blob
    };
    let object = |json: &str| {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(json);
        bundle(&format!(
            "{{\"type\":\"olm.bundle.object\",\"value\":{{\"data\":\"{data}\"}}}}"
        ))
    };
    assert!(bundle(r#"{"type":"olm.csv.metadata","value":{}}"#).has_csv_metadata);
    // Here the value comes before its type.
    for (value, good) in [
        ("{\"keywords\":[\"a\"]}", true),
        ("{\"keywords\":1}", false),
    ] {
        let text = format!("{{\"type\":\"olm.csv.metadata\",\"Value\":{value}}}");
        let blob = bundle(&text);
        assert_eq!(blob.has_csv_metadata, good);
        let invalid = |defect: &Defect| defect.code == Code::PropertyInvalid;
        assert_eq!(blob.defects.iter().any(invalid), !good);
    }
    assert!(!bundle(r#"{"type":"olm.gvk","value":{}}"#).has_csv_metadata);
    for (crashes, kind, spec) in [
        (true, "ClusterServiceVersion", r#"{"relatedImages":[{}]}"#),
        (
            true,
            "ClusterServiceVersion",
            r#"{"install":{"strategy":"other"},"relatedImages":[{"image":"a"}]}"#,
        ),
        (
            false,
            "ClusterServiceVersion",
            r#"{"install":{"strategy":"deployment"},"relatedImages":[{"image":"a"}]}"#,
        ),
        (false, "ClusterServiceVersion", r#"{"relatedImages":[]}"#),
        (false, "ClusterServiceVersion", r#"{"relatedImages":"a"}"#),
        (false, "ClusterServiceVersion", "null"),
        (false, "Service", r#"{"relatedImages":[{}]}"#),
    ] {
        let blob = object(&format!("{{\"kind\":\"{kind}\",\"spec\":{spec}}}"));
        assert_eq!(blob.crashes_packageserver, crashes, "{kind} {spec}");
        assert!(blob.has_objects && !blob.has_csv_metadata);
    }
}

#[test]
fn a_visitor_sees_each_package_and_bundle_once_and_in_order() {
    #[derive(Default)]
    struct Seen(Vec<String>);
    impl Visitor for Seen {
        fn package(&mut self, package: &PackageParts<'_>) {
            let icon = package.icon.unwrap_or_default();
            self.0.push(format!(
                "{} {} {} {}",
                package.name, package.description, icon.data, icon.media_type
            ));
        }

        fn bundle(&mut self, bundle: &BundleParts<'_>) {
            let manifests = match &bundle.manifests {
                ManifestParts::None => "none".to_owned(),
                ManifestParts::Metadata { metadata, .. } => {
                    format!("metadata {}", metadata.get("keywords").is_some())
                }
                ManifestParts::Objects { objects, csv } => format!("{} {csv:?}", objects.len()),
            };
            let kinds: Vec<&str> = bundle.properties.iter().map(|one| &*one.kind).collect();
            self.0.push(format!(
                "{} {} {} {kinds:?} {:?} {manifests}",
                bundle.name, bundle.version, bundle.image, bundle.dependencies
            ));
        }
    }
    let text = r#"{"schema":"olm.bundle","name":"a.v1","image":7,"properties":[{"type":"olm.bundle.object","value":{"data":"e30="}},{"type":"olm.bundle.object","value":{"data":"!"}}]}
{"schema":"olm.package","name":"a","description":"d","icon":{"base64data":"AA==","mediatype":"m"}}
{"schema":"olm.channel","name":"c"}
{"schema":"olm.bundle","name":"a.v2","image":"i","properties":[{"type":"olm.csv.metadata","value":{"keywords":[]}},{"type":"olm.package","value":{"version":"2.0.0"}},{"type":"olm.package.required","value":{"packageName":"b","versionRange":">1"}}]}
{"schema":"olm.package"}
"#;
    let (mut out, mut seen) = (Output::default(), Seen::default());
    for piece in pieces(text.as_bytes(), 1) {
        let bytes = &text.as_bytes()[piece.range.clone()];
        Reader::default().read(&piece, bytes, 0, &mut out, &mut seen);
    }
    assert_eq!(
        seen.0,
        [
            r#"a.v1   ["olm.bundle.object", "olm.bundle.object"] [] 1 None"#,
            "a d AA== m",
            "a.v2 2.0.0 i [\"olm.csv.metadata\", \"olm.package\", \"olm.package.required\"] \
             [Package { name: \"b\", range: \">1\" }] metadata true",
            "   ",
        ]
    );
    assert_eq!((out.blobs.packages.len(), out.blobs.bundles.len()), (2, 2));
}

#[test]
fn a_place_in_the_lines_holds_the_text_of_its_field() {
    /// Places with their content.
    #[derive(Default)]
    struct Places(Vec<(Range<usize>, Vec<u8>)>);
    impl Visitor for Places {
        fn bundle(&mut self, bundle: &BundleParts<'_>) {
            let ManifestParts::Metadata {
                metadata,
                related_images,
            } = &bundle.manifests
            else {
                panic!("{} has no metadata", bundle.name);
            };
            let names = ["description", "displayName", "installModes", "keywords"];
            let fields = names.iter().filter_map(|name| metadata.get(name));
            for field in fields.chain(related_images) {
                let mut text = Vec::new();
                field.write(&mut text);
                self.0.push((field.unchanged().unwrap(), text));
            }
        }
    }
    // The lines have other offsets than the input: keys are sorted, blanks and
    // escapes fall away, and YAML becomes JSON.
    let json = r#"
  { "name" : "a.v1", "schema" : "olm.bundle", "relatedImages" : [ {"name":"a", "image":"b"} ],
    "properties" : [ { "value" : { "keywords" : [ "\u0061", "ä" ], "displayName" : "A" },
                       "type" : "olm.csv.metadata" } ] }
"#;
    let yaml = "
schema: olm.bundle
name: a.v1
properties:
- type: olm.csv.metadata
  value:
    installModes: [{type: AllNamespaces, supported: true}]
    description: |
      two
      lines
";
    let (mut out, mut places) = (Output::default(), Places::default());
    for text in [json, yaml, json] {
        for piece in pieces(text.as_bytes(), 1) {
            let bytes = &text.as_bytes()[piece.range.clone()];
            Reader::default().read(&piece, bytes, 0, &mut out, &mut places);
        }
    }
    assert_eq!(places.0.len(), 3 + 2 + 3);
    for (place, text) in places.0 {
        assert_eq!(out.lines[place], text);
    }
}
