//! Valid and invalid references.

use crate::reference::{Reference, ReferenceError};

fn parse(text: &str) -> Result<Reference, ReferenceError> {
    text.parse()
}

#[test]
fn a_reference_has_its_parts() {
    let hex = "ab".repeat(32);
    for (text, registry, repository, version) in [
        ("quay.io/a/b:v1", "quay.io", "a/b", ":v1"),
        ("quay.io/a", "quay.io", "a", ":latest"),
        ("Quay.IO/a", "quay.io", "a", ":latest"),
        ("localhost/a:1", "localhost", "a", ":1"),
        (
            "registry:5000/a/b__c/d--e",
            "registry:5000",
            "a/b__c/d--e",
            ":latest",
        ),
        ("127.0.0.1:80/x:_y.z-", "127.0.0.1:80", "x", ":_y.z-"),
        ("[::1]:5000/x", "[::1]:5000", "x", ":latest"),
        ("[2001:db8::1]/x", "[2001:db8::1]", "x", ":latest"),
        ("docker.io/library/x", "docker.io", "library/x", ":latest"),
        ("docker.io/x:1", "docker.io", "library/x", ":1"),
        ("Index.docker.io/x", "docker.io", "library/x", ":latest"),
        ("index.docker.io/a/x", "docker.io", "a/x", ":latest"),
    ] {
        let reference = parse(text).unwrap();
        assert_eq!(reference.registry(), registry, "{text}");
        assert_eq!(reference.repository(), repository, "{text}");
        assert_eq!(
            reference.to_string(),
            format!("{registry}/{repository}{version}")
        );
    }
    let pinned = parse(&format!("quay.io/a@sha256:{hex}")).unwrap();
    assert_eq!(pinned.tag(), None);
    assert_eq!(pinned.digest().unwrap().hex(), hex);
}

#[test]
fn an_error_shows_no_password() {
    for text in ["me:s3cret@host.example/a/b:v1", "https://me:s3cret@a.b/c"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn a_short_name_is_rejected_with_the_reason() {
    for text in ["foo", "library/foo", "foo:latest", "", "team/app:latest"] {
        let error = parse(text).unwrap_err();
        assert!(
            matches!(error, ReferenceError::NotQualified(_)),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_tag_with_a_digest_is_rejected() {
    let digest = format!("sha256:{}", "0".repeat(64));
    for name in ["quay.io/a", "quay.io:5000/a/b"] {
        let error = parse(&format!("{name}:v1@{digest}")).unwrap_err();
        assert!(matches!(error, ReferenceError::TagAndDigest(_)));
        let remedy = format!("drop the tag and write {name}@{digest}");
        assert!(error.to_string().ends_with(&remedy), "{error}");
    }
}

#[test]
fn a_transport_before_a_reference_is_refused_with_a_reference_that_is_taken() {
    let digest = format!("sha256:{}", "0".repeat(64));
    for scheme in ["docker", "https", "oci"] {
        for (rest, dropped, remedy) in [
            ("quay.io/a:v1", "", "quay.io/a:v1".to_owned()),
            (
                &*format!("quay.io/a:v1@{digest}"),
                " and the tag,",
                format!("quay.io/a@{digest}"),
            ),
        ] {
            let error = parse(&format!("{scheme}://{rest}")).unwrap_err();
            assert!(matches!(error, ReferenceError::Scheme { .. }));
            let said = format!("drop {scheme}://{dropped} and write {remedy}");
            assert!(error.to_string().ends_with(&said), "{error}");
            parse(&remedy).unwrap();
        }
        for rest in ["", "busybox", "quay.io/A"] {
            let error = parse(&format!("{scheme}://{rest}")).unwrap_err();
            assert!(error.to_string().ends_with("://: drop that"), "{error}");
        }
    }
}

#[test]
fn texts_outside_the_grammar_are_rejected() {
    let long_tag = format!("quay.io/a:{}", "t".repeat(129));
    let long_repository = format!("quay.io/{}", "r".repeat(256));
    let very_long = format!("quay.io/{}", "r".repeat(100_000));
    for text in [
        "quay.io/",
        "quay.io/A",
        "quay.io/a//b",
        "quay.io/a/../b",
        "quay.io/a..b",
        "quay.io/a___b",
        "quay.io/-a",
        "quay.io/a-",
        "quay.io/a:",
        "quay.io/a:.b",
        "quay.io/a:b:c",
        "quay.io/a:b/c",
        "quay.io/a@",
        "quay.io/a@sha256:abc",
        "quay.io/a?b=c",
        "quay.io/a#b",
        "quay.io/a b",
        "quay.io/é",
        "quay..io/a",
        ".quay.io/a",
        "quay.io:0/a",
        "quay.io:99999/a",
        "quay.io:+80/a",
        "quay.io:/a",
        "user@quay.io/a",
        "https://quay.io/a",
        "[::1/a",
        "[::1]x/a",
        "[::zz]:1/a",
        &long_tag,
        &long_repository,
        &very_long,
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().len() < 1000, "{error}");
    }
}

#[test]
fn a_reference_is_a_string_to_serde() {
    let reference = parse("quay.io/a:b").unwrap();
    let json = serde_json::to_string(&reference).unwrap();
    assert_eq!(json, r#""quay.io/a:b""#);
    assert_eq!(serde_json::from_str::<Reference>(&json).unwrap(), reference);
    assert!(serde_json::from_str::<Reference>(r#""a""#).is_err());
}

proptest::proptest! {
    #[test]
    fn what_parses_prints_as_something_that_parses_to_the_same(
        text in "[a-zA-Z0-9.:-]{1,12}/[a-z0-9._/-]{1,20}(:[a-zA-Z0-9._-]{1,10})?"
    ) {
        if let Ok(reference) = parse(&text) {
            proptest::prop_assert_eq!(parse(&reference.to_string()).unwrap(), reference);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,80}") {
        let _ = parse(&text);
    }
}
