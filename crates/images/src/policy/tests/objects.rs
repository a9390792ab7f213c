//! Image policies of OpenShift besides `policy.json`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::config_files::AwaitedFile;
use crate::policy::{Admission, PolicyError, PolicyFiles, PolicySubject};

const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
";

/// An object with one scope and this trust, or another one.
fn object(kind: &str, namespace: &str, scope: &str, trust: &serde_json::Value) -> String {
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": kind,
        "metadata": {"name": "trial", "namespace": namespace},
        "spec": {"scopes": [scope], "policy": {
            "rootOfTrust": trust,
            "signedIdentity": {"matchPolicy": "MatchRepository"},
        }},
        "status": {"anything": 1},
    })
    .to_string()
}

fn public_key() -> serde_json::Value {
    json!({"policyType": "PublicKey", "publicKey": {"keyData": BASE64_STANDARD.encode(KEY)}})
}

/// How many signatures an image needs with some objects.
fn with_objects(
    objects: &[String],
    namespace: Option<&str>,
    policy: Option<&str>,
    image: &str,
) -> Result<usize, PolicyError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name)
    };
    let files = PolicyFiles {
        named: policy.map(|text| write("policy", text)),
        objects: vec![write("objects.yaml", &objects.join("\n---\n"))],
        namespace: namespace.map(str::to_owned),
        ..PolicyFiles::default()
    };
    let admission = Admission::read(&files, &PolicySubject::Registry(image.parse().unwrap()))?;
    Ok(admission.required_signatures().count())
}

#[test]
fn the_policies_of_a_cluster_are_added_up() {
    let one = object("ClusterImagePolicy", "", "quay.io/a", &public_key());
    let count = |objects: &[String], policy, image| {
        with_objects(objects, None, policy, image).map_err(|error| error.reason())
    };
    let single = std::slice::from_ref(&one);
    assert_eq!(count(single, None, "quay.io/a/b:v1"), Ok(1));
    assert_eq!(count(single, None, "quay.io/b:v1"), Ok(0));
    // Case 46: each asks for a signature of its own.
    let twice = [one.clone(), one.clone()];
    assert_eq!(count(&twice, None, "quay.io/a/b:v1"), Ok(2));
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{one},{{"kind":"Pod"}}]}}"#);
    assert_eq!(count(&[list], None, "quay.io/a/b:v1"), Ok(1));
    // A policy file keeps its requirements.
    let policy = |scope: &str, kind: &str| {
        json!({"default": [{"type": "reject"}],
            "transports": {"docker": {(scope): [{"type": kind}]}}})
        .to_string()
    };
    let reject = policy("quay.io/a", "reject");
    assert_eq!(count(single, Some(&reject), "quay.io/a:v1"), Err("policy"));
    let accept = policy("quay.io/a", "insecureAcceptAnything");
    assert_eq!(count(single, Some(&accept), "quay.io/a:v1"), Ok(1));
    assert_eq!(count(single, Some(&accept), "quay.io/b:v1"), Err("policy"));
}

#[test]
fn a_folder_without_a_policy_lets_in_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let image = PolicySubject::Registry("quay.io/a:v1".parse().unwrap());
    let files = PolicyFiles {
        objects: vec![folder.path().to_owned()],
        ..PolicyFiles::default()
    };
    let judge = || Admission::read(&files, &image).map_err(|error| error.to_string());
    let nothing = "contains no ClusterImagePolicy";
    assert!(judge().unwrap_err().contains(nothing));
    let one = object("ClusterImagePolicy", "", "quay.io/b", &public_key());
    let mistyped = one.replace("ClusterImagePolicy", "ClusterImagePolcy");
    std::fs::write(folder.path().join("a.json"), mistyped).unwrap();
    assert!(judge().unwrap_err().contains(nothing));
    std::fs::write(folder.path().join("b.json"), one).unwrap();
    assert!(judge().is_ok());
}

#[test]
fn a_file_that_is_awaited_lets_in_nothing_before_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.json");
    let files = PolicyFiles {
        awaited: Some(AwaitedFile {
            path: path.clone(),
            unknown: "nothing is known yet".to_owned(),
        }),
        ..PolicyFiles::default()
    };
    let judge = || {
        let image = PolicySubject::Registry("quay.io/a:v1".parse().unwrap());
        let admission = Admission::read(&files, &image)?;
        Ok::<_, PolicyError>(admission.required_signatures().count())
    };
    let error = judge().unwrap_err().to_string();
    assert!(
        error.ends_with("objects.json cannot be used: nothing is known yet"),
        "{error}"
    );
    std::fs::write(&path, r#"{"apiVersion":"v1","kind":"List","items":[]}"#).unwrap();
    assert_eq!(judge().unwrap(), 0);
    let one = object("ClusterImagePolicy", "", "quay.io/a", &public_key());
    std::fs::write(&path, one).unwrap();
    assert_eq!(judge().unwrap(), 1);
}

#[test]
fn the_policy_of_a_namespace_applies_where_it_is_named() {
    let ours = object("ImagePolicy", "ours", "quay.io/a", &public_key());
    // Case 47: ignoring it would let everything in.
    let error = with_objects(std::slice::from_ref(&ours), None, None, "quay.io/b:v1");
    let error = error.unwrap_err().to_string();
    let named = "an ImagePolicy of ours, and no image policy namespace is set";
    assert!(error.contains(named), "{error}");
    let count = |objects: &[String], namespace, image| {
        with_objects(objects, Some(namespace), None, image).unwrap()
    };
    assert_eq!(
        count(std::slice::from_ref(&ours), "ours", "quay.io/a:v1"),
        1
    );
    let other = object("ImagePolicy", "other", "quay.io/b", &public_key());
    let both = [ours.clone(), other];
    assert_eq!(count(&both, "other", "quay.io/a:v1"), 0);
    assert_eq!(count(&both, "other", "quay.io/b:v1"), 1);
    // The cluster has the last word about its scopes, also about one tag in them.
    let cluster = object("ClusterImagePolicy", "", "quay.io/team/app", &public_key());
    let tag = object("ImagePolicy", "ours", "quay.io/team/app:v1", &public_key());
    let tag_alone = count(std::slice::from_ref(&tag), "ours", "quay.io/team/app:v1");
    let both = count(&[cluster, tag], "ours", "quay.io/team/app:v1");
    assert_eq!((tag_alone, both), (1, 1));
    for (scope, expected) in [("quay.io", 1), ("quay.io/a", 1), ("quay.io/a/b", 2)] {
        let cluster = object("ClusterImagePolicy", "", scope, &public_key());
        let both = [cluster, ours.clone()];
        let image = if scope == "quay.io/a/b" {
            "quay.io/a:v1"
        } else {
            "quay.io/a/b:v1"
        };
        let expected = if scope == "quay.io/a/b" { 1 } else { expected };
        assert_eq!(count(&both, "ours", image), expected, "{scope}");
    }
}

#[test]
fn a_namespace_that_no_image_policy_has_lets_in_nothing() {
    let of = |namespace: &str| object("ImagePolicy", namespace, "quay.io/a", &public_key());
    let count = |objects: &[String]| {
        with_objects(objects, Some("oms"), None, "quay.io/b:v1").map_err(|error| error.to_string())
    };
    let error = count(&[of("olm"), of("a\nb")]).unwrap_err();
    let named = "no ImagePolicy is of the image policy namespace oms: they are of a\\nb, olm";
    assert!(error.ends_with(named), "{error}");
    let many: Vec<String> = (1..=7).map(|number| of(&format!("n{number}"))).collect();
    let error = count(&many).unwrap_err();
    assert!(error.ends_with("n1, n2, n3, n4, n5, 2 more"), "{error}");
    // The whole cluster may have policies, and the namespace none.
    let cluster = object("ClusterImagePolicy", "", "quay.io/a", &public_key());
    assert_eq!(count(std::slice::from_ref(&cluster)), Ok(0));
    assert!(count(&[cluster, of("olm")]).is_err());
    assert_eq!(count(&[of("oms"), of("olm")]), Ok(0));
}

#[test]
fn an_image_policy_lets_in_nothing_that_the_file_keeps_out() {
    let signed = json!({"type": "signedBy", "keyType": "GPGKeys", "keyData": ""});
    let file = |default: &str| {
        json!({"default": [{"type": default}], "transports": {"docker": {
            "quay.io/team": [{"type": "insecureAcceptAnything"}],
            "quay.io/bad": [{"type": "reject"}],
            "*.bad.example": [{"type": "reject"}],
            "quay.io/gpg": [signed],
        }}})
        .to_string()
    };
    let (accept, reject) = ("insecureAcceptAnything", "reject");
    // How many signatures, or the scope of the rejection.
    for (kind, namespace) in [("ClusterImagePolicy", None), ("ImagePolicy", Some("ours"))] {
        for (default, scope, image, expected) in [
            (
                accept,
                "quay.io/bad/app",
                "quay.io/bad/app:v1",
                Err("rejects quay.io/bad"),
            ),
            (
                accept,
                "quay.io/bad:v1",
                "quay.io/bad:v1",
                Err("rejects quay.io/bad"),
            ),
            (
                accept,
                "quay.io/bad",
                "quay.io/bad/app:v1",
                Err("rejects quay.io/bad"),
            ),
            (
                accept,
                "a.bad.example:5000/x",
                "a.bad.example:5000/x:v1",
                Err("rejects *.bad"),
            ),
            (
                reject,
                "quay.io/other",
                "quay.io/other:v1",
                Err("rejects everything"),
            ),
            (reject, "quay.io/team/app", "quay.io/team/app:v1", Ok(1)),
            (reject, "quay.io/team", "quay.io/team/app:v1", Ok(1)),
            (accept, "quay.io", "quay.io/other:v1", Ok(1)),
            // A longer scope of the file applies, as on a node.
            (accept, "quay.io", "quay.io/team/app:v1", Ok(0)),
            (
                accept,
                "quay.io",
                "quay.io/bad/app:v1",
                Err("rejects quay.io/bad"),
            ),
            // A keyring without a key.
            (
                accept,
                "quay.io/gpg/app",
                "quay.io/gpg/app:v1",
                Err("requires signedBy"),
            ),
        ] {
            let object = object(kind, "ours", scope, &public_key());
            let count = with_objects(&[object], namespace, Some(&file(default)), image);
            let count = count.map_err(|error| error.to_string());
            match (&count, expected) {
                (Ok(count), Ok(expected)) => assert_eq!(*count, expected, "{scope} {image}"),
                (Err(error), Err(problem)) => assert!(error.contains(problem), "{scope}: {error}"),
                _ => panic!("{kind} {scope} {image}: {count:?}"),
            }
        }
    }
}

#[test]
fn the_objects_in_a_list_of_an_api_server_need_no_kinds() {
    let object = object("ClusterImagePolicy", "", "quay.io/a", &public_key());
    let mut item: serde_json::Value = serde_json::from_str(&object).unwrap();
    for key in ["kind", "apiVersion"] {
        item.as_object_mut().unwrap().remove(key);
    }
    let list = json!({"kind": "ClusterImagePolicyList",
        "apiVersion": "config.openshift.io/v1", "items": [item]});
    let other = json!({"kind": "PodList", "apiVersion": "v1", "items": [item]});
    let objects = [list.to_string(), other.to_string()];
    let count = with_objects(&objects, None, None, "quay.io/a:v1").unwrap();
    assert_eq!(count, 1);
}

#[test]
fn a_scope_that_no_image_has_is_refused_in_an_image_policy() {
    let count = |scope: &str| {
        let object = object("ClusterImagePolicy", "", scope, &public_key());
        with_objects(&[object], None, None, "quay.io/a:v1")
    };
    for scope in [
        "quay.io",
        "QUAY.io/a",
        "localhost",
        "h.example:5000/a/b:v1",
        "*.quay.io",
    ] {
        assert!(count(scope).is_ok(), "{scope}");
    }
    for scope in [
        "",
        "quay",
        "quay.io/",
        "quay.io/A",
        "quay.io/a*",
        "*",
        "*.",
        "*.a/b",
        "a.*.b",
        "https://quay.io/a",
        "quay.io/a@sha256:00",
        "quay.io:0",
    ] {
        let error = count(scope).unwrap_err().to_string();
        assert!(error.contains("is neither"), "{scope}: {error}");
    }
}

#[test]
fn an_invalid_image_policy_is_named() {
    let good = object("ClusterImagePolicy", "", "quay.io/a", &public_key());
    let data = BASE64_STANDARD.encode(KEY);
    let pki = json!({"policyType": "PKI", "pki": {"caRootsData": data,
        "pkiCertificateSubject": {"hostname": "a.example"}}});
    let fulcio = json!({"policyType": "FulcioCAWithRekor", "fulcioCAWithRekor": {
        "fulcioCAData": data, "rekorKeyData": data,
        "fulcioSubject": {"oidcIssuer": "https://i.example", "signedEmail": "a@b.example"}}});
    for trust in [&pki, &fulcio] {
        let text = object("ClusterImagePolicy", "", "quay.io/a", trust);
        assert!(with_objects(&[text], None, None, "quay.io/b:v1").is_ok());
    }
    let large = BASE64_STANDARD.encode(vec![b'x'; 9000]);
    for (text, problem) in [
        (good.replace("keyData", "keyDate"), "keyDat"),
        (good.replace(&data, "%"), "not base64"),
        (good.replace(&data, &large), "more than 8192 bytes"),
        (
            good.replace(&data, "-----BEGIN PUBLIC KEY-----"),
            "write the base64 of the PEM file",
        ),
        (good.replace("PublicKey", "Other"), "policyType"),
        (good.replace("[\"quay.io/a\"]", "[]"), "no scopes"),
        (
            good.replace("MatchRepository", "MatchExact"),
            "matchPolicy \"MatchExact\" is neither",
        ),
        (
            good.replace("config.openshift.io", "example.com"),
            "apiVersion",
        ),
        (
            good.replace("\"scopes\"", "\"more\":1,\"scopes\""),
            "\"more\" is unknown",
        ),
        (
            good.replace("ClusterImagePolicy", "Pod"),
            "contains no ClusterImagePolicy",
        ),
        (
            object("ClusterImagePolicy", "", "quay.io/a", &pki).replace("hostname", "host"),
            "is unknown",
        ),
    ] {
        let error =
            with_objects(std::slice::from_ref(&text), None, None, "quay.io/b:v1").unwrap_err();
        assert_eq!(error.reason(), "policy");
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
}
