//! Scopes of the policy, and what of it is supported.

mod objects;

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
        ..PolicyFiles::default()
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

const ACCEPT: &str = r#"[{"type":"insecureAcceptAnything"}]"#;

/// Whether a file with this requirement in some scope is refused as a whole.
fn is_refused(requirement: &str) -> bool {
    let policy =
        format!(r#"{{"default":{ACCEPT},"transports":{{"docker":{{"a.b":[{requirement}]}}}}}}"#);
    let admission = read(&policy, "quay.io/a");
    if let Err(error) = &admission {
        assert_eq!(error.reason(), "policy");
    }
    admission.is_err()
}

#[test]
fn a_policy_with_anything_unknown_admits_nothing() {
    for text in [
        String::new(),
        "[]".into(),
        "{}".into(),
        "null".into(),
        r#"{"default":null}"#.into(),
        r#"{"default":[]}"#.into(),
        r#"{"default":[null]}"#.into(),
        r#"{"default":{}}"#.into(),
        format!(r#"{{"Default":{ACCEPT}}}"#),
        format!(r#"{{"default":{ACCEPT}}} "#) + "{}",
        format!(r#"{{"default":{ACCEPT},"transports":null}}"#),
        format!(r#"{{"default":{ACCEPT},"transports":[]}}"#),
        format!(r#"{{"default":{ACCEPT},"transports":{{"docker":null}}}}"#),
        format!(r#"{{"default":{ACCEPT},"transports":{{"docker":{{"a":null}}}}}}"#),
        format!(r#"{{"default":{ACCEPT},"default":{ACCEPT}}}"#),
        format!(r#"{{"default":{ACCEPT},"extra":1}}"#),
        format!(
            r#"{{"default":{ACCEPT},"transports":{{"docker":{{"a":{ACCEPT},"a":{ACCEPT}}}}}}}"#
        ),
        // Of an unknown transport as well.
        format!(r#"{{"default":{ACCEPT},"transports":{{"new":{{"a":[{{"type":"new"}}]}}}}}}"#),
    ] {
        let error = read(&text, "quay.io/a").unwrap_err();
        assert_eq!(error.reason(), "policy", "{text}");
    }
    let transports =
        format!(r#"{{"new":{{"a":{ACCEPT}}},"docker":{{"a*":{ACCEPT},"a/":{ACCEPT}}}}}"#);
    let policy = format!(r#"{{"default":{ACCEPT},"transports":{transports}}}"#);
    assert!(read(&policy, "quay.io/a").unwrap().is_ok());
}

#[test]
fn a_misspelt_member_of_a_requirement_is_named() {
    for (requirement, problem) in [
        (
            json!({"type": "sigstoreSigned", "keypath": "/k"}),
            "the key \"keypath\" is unknown; did you mean \"keyPath\"?",
        ),
        (
            json!({"type": "signedBy", "keyType": "GPGKeys", "keyPahts": ["/k"]}),
            "the key \"keyPahts\" is unknown; did you mean \"keyPaths\"?",
        ),
        (
            json!({"type": "signedBy", "keyTyp": "GPGKeys", "keyPath": "/k"}),
            "did you mean \"keyType\"?",
        ),
        (
            json!({"type": "sigstoreSigned", "keyPath": "/k", "anything": "/k"}),
            "the key \"anything\" is unknown",
        ),
    ] {
        let text = json!({"default": [requirement]}).to_string();
        let error = read(&text, "quay.io/a:v1").unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_requirement_has_exactly_its_fields_whatever_its_scope() {
    let signed = |fields: &str| format!(r#"{{"type":"sigstoreSigned",{fields}}}"#);
    let gpg = |fields: &str| format!(r#"{{"type":"signedBy",{fields}}}"#);
    let rekor = r#""rekorPublicKeyData":"eA==""#;
    let fulcio = |fields: &str| signed(&format!(r#""fulcio":{{{fields}}},{rekor}"#));
    let pki = |fields: &str| signed(&format!(r#""pki":{{{fields}}}"#));
    let identity =
        |fields: &str| signed(&format!(r#""keyPath":"a","signedIdentity":{{{fields}}}"#));
    let (ca, mail) = (r#""caPath":"x""#, r#""subjectEmail":"a@b""#);
    let issuer = r#""oidcIssuer":"i""#;
    for good in [
        ACCEPT.trim_matches(['[', ']']).into(),
        r#"{"type":"reject"}"#.into(),
        r#"{"type":"signedBaseLayer","baseLayerIdentity":{"type":"matchExact"}}"#.into(),
        gpg(r#""keyType":"GPGKeys","keyPath":"a""#),
        gpg(r#""keyType":"GPGKeys","keyPaths":[]"#),
        gpg(r#""keyType":"signedByGPGKeys","keyData":"""#),
        gpg(r#""keyType":"X509Certificates","keyPaths":["a","b"]"#),
        gpg(
            r#""keyType":"signedByX509CAs","keyData":"e\nA==","signedIdentity":{"type":"matchExact"}"#,
        ),
        signed(r#""keyPath":"missing""#),
        signed(r#""keyPaths":["a"]"#),
        signed(r#""keyData":"e\r\nA==""#),
        signed(r#""keyDatas":["eA==",""]"#),
        signed(&format!(r#""keyPath":"a",{rekor}"#)),
        signed(r#""keyPath":"a","rekorPublicKeyPaths":["a"]"#),
        fulcio(&format!("{ca},{issuer},{mail}")),
        fulcio(&format!(r#""caData":"eA==",{issuer},{mail}"#)),
        pki(&format!(r#""caRootsPath":"a",{mail}"#)),
        pki(r#""caRootsData":"eA==","caIntermediatesPath":"a","subjectHostname":"a.b""#),
        identity(r#""type":"matchRepository""#),
        identity(r#""type":"exactReference","dockerReference":"a/b:v1""#),
        identity(r#""type":"exactRepository","dockerRepository":"a/b""#),
        identity(r#""type":"remapIdentity","prefix":"a.b","signedPrefix":"c.d/e""#),
    ] {
        assert!(!is_refused(&good), "{good}");
    }
    for bad in [
        "{}".into(),
        "1".into(),
        r#"{"type":null}"#.into(),
        r#"{"type":"acceptEverything"}"#.into(),
        r#"{"type":"reject","more":1}"#.into(),
        r#"{"type":"reject","type":"reject"}"#.into(),
        r#"{"type":"reject","Type":"reject"}"#.into(),
        r#"{"type":"signedBaseLayer"}"#.into(),
        r#"{"type":"signedBaseLayer","baseLayerIdentity":{}}"#.into(),
        gpg(r#""keyPath":"a""#),
        gpg(r#""keyType":"gpgKeys","keyPath":"a""#),
        gpg(r#""keyType":"GPGKeys""#),
        gpg(r#""keyType":"GPGKeys","keyPath":"""#),
        gpg(r#""keyType":"GPGKeys","keyPath":null"#),
        gpg(r#""keyType":"GPGKeys","keyPath":"a","keyData":"eA==""#),
        gpg(r#""keyType":"GPGKeys","keyPaths":"a""#),
        gpg(r#""keyType":"GPGKeys","keyDatas":["eA=="]"#),
        gpg(r#""keyType":"GPGKeys","keyData":"eA""#),
        gpg(r#""keyType":"GPGKeys","keyPath":"a","signedIdentity":null"#),
        r#"{"type":"sigstoreSigned"}"#.into(),
        signed(r#""keyPath":"a","keyData":"eA==""#),
        signed(r#""keyPath":"""#),
        signed(r#""keyPath":1"#),
        signed(r#""keyPaths":[]"#),
        signed(r#""keyPaths":[null]"#),
        signed(r#""keyDatas":[]"#),
        signed(r#""keyData":"%""#),
        signed(r#""keyPath":"a","keyPaths":["b"]"#),
        signed(r#""keyPath":"a","rekorPublicKeyPath":"""#),
        signed(r#""keyPath":"a","rekorPublicKeyPath":null"#),
        signed(r#""keyPath":"a","rekorPublicKeyPaths":[]"#),
        signed(&format!(
            r#""keyPath":"a","rekorPublicKeyPath":"b",{rekor}"#
        )),
        signed(r#""fulcio":null,"keyPath":"a""#),
        signed(r#""pki":null,"keyPath":"a""#),
        signed(&format!(r#""fulcio":{{{ca},{issuer},{mail}}}"#)),
        fulcio(&format!("{issuer},{mail}")),
        fulcio(&format!("{ca},{mail}")),
        fulcio(&format!("{ca},{issuer}")),
        fulcio(&format!(r#"{ca},{issuer},"subjectEmail":"""#)),
        fulcio(&format!(r#"{ca},"caData":"eA==",{issuer},{mail}"#)),
        fulcio(&format!(r#"{ca},{issuer},{mail},"more":1"#)),
        signed(&format!(r#""pki":{{"caRootsPath":"a",{mail}}},{rekor}"#)),
        pki(r#""caRootsPath":"a""#),
        pki(mail),
        pki(&format!(r#""caRootsPath":"a","caRootsData":"eA==",{mail}"#)),
        pki(&format!(
            r#""caRootsPath":"a","caIntermediatesPath":"b","caIntermediatesData":"eA==",{mail}"#
        )),
        identity(""),
        identity(r#""type":"x""#),
        identity(r#""type":"matchExact","dockerReference":"a/b:v1""#),
        identity(r#""type":"exactReference","dockerReference":"a/b""#),
        identity(r#""type":"exactReference""#),
        identity(r#""type":"exactRepository","dockerRepository":"A""#),
        identity(r#""type":"remapIdentity","prefix":"a.b""#),
        identity(r#""type":"remapIdentity","prefix":"a.b/c:v1","signedPrefix":"c.d""#),
    ] {
        assert!(is_refused(&bad), "{bad}");
    }
}

#[test]
fn a_name_in_a_policy_may_have_a_digest_of_any_algorithm_of_images() {
    let refused = |digest: &str| {
        is_refused(&format!(
            r#"{{"type":"sigstoreSigned","keyPath":"a","signedIdentity":
                {{"type":"exactReference","dockerReference":"a/b@{digest}"}}}}"#
        ))
    };
    for (algorithm, digits) in [("sha256", 64), ("sha384", 96), ("sha512", 128)] {
        let digest = |digits| format!("{algorithm}:{}", "a".repeat(digits));
        assert!(!refused(&digest(digits)), "{algorithm}");
        assert!(refused(&digest(digits - 1)), "{algorithm}");
    }
    assert!(refused(&format!("md5:{}", "a".repeat(32))));
}

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn each_transport_has_its_own_scopes() {
    for (transport, scope, good) in [
        ("dir", "/a/b", true),
        ("dir", "", true),
        ("dir", "a", false),
        ("oci", "/a/../b", false),
        ("oci-archive", "/a/", false),
        ("sif", "/a//b", false),
        ("docker-archive", "", true),
        ("docker-archive", "/a", false),
        ("tarball", "a", false),
        ("atomic", "h:5000/ns/stream:tag", true),
        ("atomic", "h/ns:tag", false),
        ("atomic", "h/ns/stream/more", false),
        ("containers-storage", "[/a]", true),
        ("containers-storage", "[overlay@/a]name:tag", true),
        ("containers-storage", "[/a]name@ID", false),
        ("containers-storage", "[overlay@]", false),
        ("containers-storage", "[@/a]", false),
        ("containers-storage", "[a]", false),
        ("containers-storage", "foo", false),
        ("docker-daemon", "name:tag", true),
        ("docker-daemon", "sha256:ab", true),
        ("docker-daemon", DIGEST, false),
        ("docker", "h/", true),
        ("new", "a", true),
    ] {
        let policy = format!(
            r#"{{"default":{ACCEPT},"transports":{{"{transport}":{{"{scope}":{ACCEPT}}}}}}}"#
        );
        let admission = read(&policy, "quay.io/a");
        assert_eq!(admission.is_ok(), good, "{transport} {scope:?}");
    }
}

#[test]
fn unsupported_requirements_are_rejected_by_name() {
    for (requirement, what) in [
        (
            json!({"type": "signedBy", "keyType": "X509Certificates", "keyPath": "x"}),
            "signedBy with the keyType X509Certificates",
        ),
        (
            json!({"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchExact"}}),
            "signedBaseLayer",
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
fn an_unusable_key_rejects_the_images_of_its_scope() {
    for (key, problem) in [
        (json!({"keyPath": "missing"}), "missing cannot be read"),
        (json!({"keyPaths": ["missing"]}), "missing cannot be read"),
        (json!({"keyData": "eA=="}), "the key keyData cannot be used"),
        (json!({"keyDatas": [""]}), "the key keyDatas cannot be used"),
    ] {
        let mut requirement = key;
        requirement["type"] = json!("sigstoreSigned");
        let policy = json!({
            "default": [{"type": "insecureAcceptAnything"}],
            "transports": {"docker": {"quay.io/a": [requirement]}},
        });
        let refusal = read(&policy.to_string(), "quay.io/a").unwrap().unwrap_err();
        assert_eq!(refusal.reason(), "policy");
        assert!(refusal.to_string().contains(problem), "{refusal}");
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
        ..PolicyFiles::default()
    };
    let admission = Admission::read(&usual, &reference).unwrap();
    assert!(!admission.needs_signature());
    let named = PolicyFiles {
        named: Some(missing),
        ..PolicyFiles::default()
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
        ..PolicyFiles::default()
    };
    assert!(Admission::read(&usual, &reference).is_err());
    // A folder exists, but is no policy.
    let folder = tempfile::tempdir().unwrap();
    let odd = PolicyFiles {
        named: None,
        usual: vec![folder.path().to_owned()],
        ..PolicyFiles::default()
    };
    assert!(Admission::read(&odd, &reference).is_err());
}

#[test]
fn a_host_in_capitals_is_the_same_host() {
    let policy = json!({
        "default": [{"type": "insecureAcceptAnything"}],
        "transports": {"docker": {
            "Quay.IO/a": [{"type": "reject"}],
            "*.Example.com": [{"type": "reject"}],
            "QUAY.io/b": [{"type": "insecureAcceptAnything"}],
            "quay.io/b": [{"type": "reject"}],
        }},
    });
    let admission = |image| read(&policy.to_string(), image).unwrap();
    for image in [
        "quay.io/a:v1",
        "QUAY.IO/a:v1",
        "x.EXAMPLE.com/a:v1",
        "quay.io/b:v1",
    ] {
        assert!(admission(image).is_err(), "{image}");
    }
    assert!(admission("quay.io/c:v1").is_ok());
}
