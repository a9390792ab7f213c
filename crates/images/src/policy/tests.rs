//! Scopes of the policy, and what of it is supported.

use std::path::PathBuf;

use serde_json::json;

use crate::config_files::FileError;
use crate::policy::{Admission, PolicyError, PolicyFiles, PolicyRejection, PolicySubject};

fn read(text: &str, image: &str) -> Result<Result<Admission, PolicyRejection>, FileError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.json");
    std::fs::write(&path, text).unwrap();
    let files = PolicyFiles {
        named: Some(path),
        usual: Vec::new(),
    };
    match Admission::read(&files, &PolicySubject::Registry(image.parse().unwrap())) {
        Ok(admission) => Ok(Ok(admission)),
        Err(PolicyError::Rejected(rejection)) => Ok(Err(rejection)),
        Err(PolicyError::File(error)) => Err(error),
    }
}

#[test]
fn the_longest_scope_applies() {
    let accept = json!([{"type": "insecureAcceptAnything"}]);
    let reject = json!([{"type": "reject"}]);
    let policy = |default: &serde_json::Value| {
        json!({"default": default, "transports": {
            "docker-daemon": {"": accept},
            "docker": {
                "quay.io": accept,
                "quay.io/a": reject,
                "quay.io/a/b": accept,
                "quay.io/a/b:bad": reject,
                "*.example.com": accept,
                "x.example.com": reject,
                "*.port.example": reject,
                "*.port.example:5000": accept,
            },
        }})
        .to_string()
    };
    for (image, scope) in [
        ("quay.io/c:v1", None),
        ("quay.io/a/c:v1", Some("quay.io/a")),
        ("quay.io/ab:v1", None),
        ("quay.io/a/b:v1", None),
        ("quay.io/a/b:bad", Some("quay.io/a/b:bad")),
        ("y.x.example.com/a:v1", None),
        ("x.example.com/a:v1", Some("x.example.com")),
        // Domains are written without a port.
        ("x.port.example:5000/a:v1", Some("*.port.example")),
        ("example.com/a:v1", Some("everything by default")),
    ] {
        let admission = read(&policy(&reject), image).unwrap();
        let refused = admission.err().map(|refusal| match refusal {
            PolicyRejection::Rejected { scope, .. } => scope,
            other => panic!("{other}"),
        });
        assert_eq!(refused.as_deref(), scope, "{image}");
    }
    assert!(read(&policy(&accept), "example.com/a").unwrap().is_ok());
}

#[test]
fn a_policy_with_anything_unknown_admits_nothing() {
    let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
    for text in [
        String::new(),
        "[]".into(),
        "{}".into(),
        r#"{"default":[]}"#.into(),
        r#"{"default":[{"type":"acceptEverything"}]}"#.into(),
        r#"{"default":[{}]}"#.into(),
        r#"{"default":[{"type":"reject","more":1}]}"#.into(),
        format!(r#"{{"default":{accept},"default":{accept}}}"#),
        format!(r#"{{"default":{accept},"extra":1}}"#),
        format!(
            r#"{{"default":{accept},"transports":{{"docker":{{"a":{accept},"a":{accept}}}}}}}"#
        ),
        // In another scope as well.
        format!(r#"{{"default":{accept},"transports":{{"docker":{{"a.b":[{{"type":"new"}}]}}}}}}"#),
        r#"{"default":[{"type":"sigstoreSigned"}]}"#.into(),
        r#"{"default":[{"type":"sigstoreSigned","keyPath":"a","keyData":"b"}]}"#.into(),
        r#"{"default":[{"type":"sigstoreSigned","keyPaths":[]}]}"#.into(),
        r#"{"default":[{"type":"sigstoreSigned","keyData":"%"}]}"#.into(),
        r#"{"default":[{"type":"sigstoreSigned","keyPath":"missing"}]}"#.into(),
        r#"{"default":[{"type":"sigstoreSigned","keyPath":"a","signedIdentity":{"type":"x"}}]}"#
            .into(),
    ] {
        let error = read(&text, "quay.io/a").unwrap_err();
        assert_eq!(error.reason(), "policy", "{text}");
    }
}

#[test]
fn unsupported_requirements_are_rejected_by_name() {
    for (requirement, what) in [
        (
            json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": "x"}),
            "signedBy",
        ),
        (
            json!({"type": "sigstoreSigned", "fulcio": {"caPath": "x"}}),
            "fulcio",
        ),
        (json!({"type": "sigstoreSigned", "pki": {}}), "pki"),
        (
            json!({"type": "sigstoreSigned", "keyPath": "x", "rekorPublicKeyPath": "y"}),
            "Rekor",
        ),
    ] {
        let policy = json!({
            "default": [{"type": "insecureAcceptAnything"}],
            "transports": {"docker": {"quay.io/a": [requirement]}},
        });
        let refusal = read(&policy.to_string(), "quay.io/a").unwrap().unwrap_err();
        let text = refusal.to_string();
        assert!(text.contains(what) && text.contains("quay.io/a"), "{text}");
        assert!(read(&policy.to_string(), "quay.io/b").unwrap().is_ok());
    }
}

#[test]
fn without_a_policy_everything_is_admitted_unless_one_is_named() {
    let missing = PathBuf::from("does/not/exist.json");
    let reference = PolicySubject::Registry("quay.io/a".parse().unwrap());
    let usual = PolicyFiles {
        named: None,
        usual: vec![missing.clone()],
    };
    let admission = Admission::read(&usual, &reference).unwrap();
    assert!(admission.required_signatures().is_empty());
    let named = PolicyFiles {
        named: Some(missing),
        usual: Vec::new(),
    };
    assert!(Admission::read(&named, &reference).is_err());
    // A missing key is an error too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.json");
    let requirement = json!({"type": "sigstoreSigned", "keyPath": "/missing.pub"});
    std::fs::write(&path, json!({"default": [requirement]}).to_string()).unwrap();
    let usual = PolicyFiles {
        named: None,
        usual: vec![path],
    };
    assert!(Admission::read(&usual, &reference).is_err());
    // A folder exists, but is no policy.
    let folder = tempfile::tempdir().unwrap();
    let odd = PolicyFiles {
        named: None,
        usual: vec![folder.path().to_owned()],
    };
    assert!(Admission::read(&odd, &reference).is_err());
}
