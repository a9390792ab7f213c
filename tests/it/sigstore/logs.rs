//! Keys with a transparency log: the cases 22 to 25.

use std::cell::Cell;

use serde_json::json;

use super::material::{Log, entry};
use super::trial::{Case, SKOPEO, Trial};
use crate::support::cosign::Signer;
use crate::support::needs::skip_without;

#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn cases(trial: &Trial) -> Vec<Case> {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let (log, other_log) = (Log::new(), Log::new());
    let requirement = json!({
        "type": "sigstoreSigned",
        "keyData": signer.key_data(),
        "rekorPublicKeyData": log.key_data(),
        "signedIdentity": {"type": "matchRepository"},
    });
    let next = Cell::new(0);
    let case = |fact, problem, annotation: &dyn Fn(&_) -> Option<String>| {
        let number = next.replace(next.get() + 1);
        let name = format!("{}/catalogs/{number}", trial.upstream.host());
        let mut signed = signer.sign(&trial.digest(), &name);
        if let Some(annotation) = annotation(&signed) {
            signed.annotate("bundle", &annotation);
        }
        let requirement = requirement.clone();
        Case {
            fact,
            requirement,
            signed,
            problem,
        }
    };
    let key = signer.public_key();
    let with = |change: &'static dyn Fn(&mut serde_json::Value)| {
        let (log, key) = (&log, &key);
        move |signed: &_| {
            let mut entry = entry(signed, key);
            change(&mut entry);
            Some(log.annotation(&entry, 1_700_000_000))
        }
    };
    let mut cases = vec![
        case("an entry of the log lets an image in", None, &with(&|_| ())),
        case("an entry is needed", Some("no log entry"), &|_| None),
        case("of a log of the policy", Some("not by a log"), &|signed| {
            Some(other_log.annotation(&entry(signed, &key), 1_700_000_000))
        }),
        case("for this payload", Some("another payload"), &|signed| {
            let mut entry = entry(signed, &key);
            entry["spec"]["data"]["hash"]["value"] = json!("0".repeat(64));
            Some(log.annotation(&entry, 1_700_000_000))
        }),
        case(
            "for this signature",
            Some("another signature"),
            &with(&|entry| {
                entry["spec"]["signature"]["content"] = json!("AAAA");
            }),
        ),
        case("for this key", Some("names another key"), &|signed| {
            let entry = entry(signed, &stranger.public_key());
            Some(log.annotation(&entry, 1_700_000_000))
        }),
        case("another name of the log does not matter", None, &|signed| {
            let text = log.annotation(&entry(signed, &key), 1_700_000_000);
            assert!(text.contains("c0ffee"));
            Some(text)
        }),
        case(
            "another kind is no entry",
            Some("not a hashedrekord"),
            &with(&|entry| {
                entry["kind"] = json!("dsse");
            }),
        ),
        case(
            "another hash is no entry",
            Some("another payload"),
            &with(&|entry| {
                entry["spec"]["data"]["hash"]["algorithm"] = json!("sha512");
            }),
        ),
        case(
            "more members of an entry do not matter",
            None,
            &with(&|entry| {
                entry["more"] = json!(1);
                entry["spec"]["data"]["more"] = json!(1);
            }),
        ),
        case(
            "more members beside the entry are refused",
            Some("unknown field"),
            &|signed| {
                let text = log.annotation(&entry(signed, &key), 1_700_000_000);
                Some(text.replacen('{', "{\"more\":1,", 1))
            },
        ),
        case(
            "nothing follows the key of an entry",
            Some("something follows"),
            &|signed| {
                let entry = entry(signed, &(key.clone() + "more"));
                Some(log.annotation(&entry, 1_700_000_000))
            },
        ),
        case(
            "a changed time is not signed",
            Some("not by a log"),
            &|signed| {
                let text = log.annotation(&entry(signed, &key), 1_700_000_000);
                Some(text.replace("1700000000", "1700000001"))
            },
        ),
        case(
            "what is no JSON is no entry",
            Some("cannot be read"),
            &|_| Some("{".to_owned()),
        ),
    ];
    let many = case("one of several logs will do", None, &with(&|_| ()));
    cases.push(with_logs(many, &[&other_log, &log]));
    cases
}

/// The same case with several logs in the policy.
fn with_logs(mut case: Case, logs: &[&Log]) -> Case {
    let keys: Vec<String> = logs.iter().map(|log| log.key_data()).collect();
    let requirement = case.requirement.as_object_mut().unwrap();
    requirement.remove("rekorPublicKeyData");
    requirement.insert("rekorPublicKeyDatas".into(), json!(keys));
    case
}

#[test]
fn a_key_with_a_log_needs_an_entry_for_this_very_signature() {
    let trial = Trial::new();
    trial.judge(cases(&trial), false);
}

#[test]
fn skopeo_judges_entries_of_logs_alike() {
    if skip_without(SKOPEO) {
        return;
    }
    let trial = Trial::new();
    trial.judge(cases(&trial), true);
}

#[test]
fn a_key_of_a_log_is_for_ecdsa() {
    let trial = Trial::new();
    let name = trial.repository("catalogs/0");
    let edwards = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let requirement = json!({
        "type": "sigstoreSigned",
        "keyData": Signer::new().key_data(),
        "rekorPublicKeyData": Signer::of(edwards).key_data(),
    });
    let error = trial
        .almanac(&requirement, &format!("{name}:v1"), &[])
        .unwrap_err();
    assert!(error.contains("not for ECDSA"), "{error}");
}
