//! Keys, names and payloads of cosign's signatures: the cases 1 to 14 and 16.

use std::collections::BTreeSet;
use std::fs;

use images::digest::Digest;
use serde_json::{Value, json};

use super::trial::{SKOPEO, Trial};
use crate::support::cosign::{Signed, Signer};
use crate::support::needs::skip_without;

/// An image with signatures, and what is required of it.
struct KeyCase {
    number: u8,
    by_digest: bool,
    /// A requirement, a list of them, or a whole policy.
    policy: Value,
    signed: Option<Signed>,
    /// Nothing when the image is let in, or else a part of the reason.
    problem: Option<&'static str>,
}

/// The name of the image of a case, without a tag.
fn name(trial: &Trial, number: u8) -> String {
    format!("{}/keys/{number}", trial.upstream.host())
}

#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn cases(trial: &Trial) -> Vec<KeyCase> {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let digest = trial.digest();
    let keyed = |signer: &Signer| json!({"type": "sigstoreSigned", "keyData": signer.key_data()});
    let key = keyed(&signer);
    let with_identity = |identity: Value| {
        let mut requirement = keyed(&signer);
        requirement["signedIdentity"] = identity;
        requirement
    };
    let sign = |name: &str| signer.sign(&digest, name);
    let own = |number| name(trial, number);
    let tagged = |number| own(number) + ":v1";
    let edited = |number, change: &dyn Fn(&mut Value)| {
        let signed = sign(&tagged(number));
        let mut payload = serde_json::from_slice(signed.payload()).unwrap();
        change(&mut payload);
        signer.sign_bytes(payload.to_string().into_bytes())
    };
    let key_file = trial.file("signer.pub");
    fs::write(&key_file, signer.public_key()).unwrap();
    let case = |number, policy: &Value, signed, problem| KeyCase {
        number,
        by_digest: false,
        policy: policy.clone(),
        signed,
        problem,
    };
    let by_digest = |case| KeyCase {
        by_digest: true,
        ..case
    };
    let accept = json!({"type": "insecureAcceptAnything"});
    let mut unread = sign("unread").and(sign("unread")).and(sign(&tagged(8)));
    unread.manifest["layers"][0]["annotations"] = json!({});
    unread.manifest["layers"][1]["annotations"] =
        json!({"dev.cosignproject.cosign/signature": "%"});
    vec![
        case(1, &key, Some(sign(&tagged(1))), None),
        case(2, &key, Some(sign(&own(2))), Some("it signs")),
        by_digest(case(3, &key, Some(sign(&own(3))), Some("it signs"))),
        by_digest(case(4, &key, Some(sign(&(own(4) + ":other"))), None)),
        case(
            5,
            &with_identity(json!({"type": "matchRepository"})),
            Some(sign(&own(5))),
            None,
        ),
        case(
            6,
            &with_identity(json!({"type": "remapIdentity",
                "prefix": own(6), "signedPrefix": "vendor.example/app"})),
            Some(sign("vendor.example/app")),
            Some("it signs vendor.example/app, not"),
        ),
        case(
            7,
            &key,
            Some(signer.sign(&Digest::of(b"another image"), &tagged(7))),
            Some("it signs sha256:"),
        ),
        case(8, &key, Some(unread), None),
        case(
            9,
            &key,
            Some(edited(9, &|payload| {
                payload["critical"]["until"] = json!(1);
            })),
            Some("not a simple signing document"),
        ),
        case(
            10,
            &key,
            Some(edited(10, &|payload| {
                payload["critical"]["type"] = json!("atomic container signature");
            })),
            Some("is no \"cosign container"),
        ),
        case(
            11,
            &json!([key, {"type": "reject"}]),
            Some(sign(&tagged(11))),
            Some("rejects"),
        ),
        case(
            12,
            &json!([key, accept]),
            None,
            Some("there is no signature"),
        ),
        case(
            13,
            &json!([key, keyed(&stranger)]),
            Some(sign(&tagged(13))),
            Some("not made with a key"),
        ),
        case(
            14,
            &json!({"type": "sigstoreSigned", "keyPaths": [key_file, trial.file("missing")]}),
            Some(sign(&tagged(14))),
            Some("missing cannot be read"),
        ),
        by_digest(case(
            16,
            &json!({"default": [accept], "transports": {"docker": {
                (tagged(16)): [{"type": "reject"}]}}}),
            None,
            None,
        )),
        // The same by tag.
        case(
            0,
            &json!({"default": [accept], "transports": {"docker": {
                (tagged(0)): [{"type": "reject"}]}}}),
            None,
            Some("rejects"),
        ),
    ]
}

fn judge(trial: &Trial, by_skopeo: bool) {
    let cases = cases(trial);
    let numbers: BTreeSet<u8> = cases.iter().map(|case| case.number).collect();
    let wanted = (0..=14).chain([16]).collect();
    assert_eq!(numbers, wanted);
    for case in cases {
        let name = name(trial, case.number);
        let repository = format!("keys/{}", case.number);
        trial.repository(&repository);
        if let Some(signed) = &case.signed {
            signed.put_tag(&trial.upstream, &repository, &trial.digest());
        }
        let image = if case.by_digest {
            format!("{name}@{}", trial.digest())
        } else {
            format!("{name}:v1")
        };
        let judged = if by_skopeo {
            trial.skopeo(&case.policy, &image)
        } else {
            trial.almanac(&case.policy, &image, &[])
        };
        match (&judged, case.problem) {
            (Ok(()), None) => {}
            (Err(error), Some(problem)) if by_skopeo || error.contains(problem) => {}
            _ => panic!("{}: {judged:?}", case.number),
        }
    }
}

#[test]
fn a_key_lets_in_what_it_signed_under_a_name_that_fits() {
    judge(&Trial::new(), false);
}

#[test]
fn skopeo_judges_keys_and_names_alike() {
    if skip_without(SKOPEO) {
        return;
    }
    judge(&Trial::new(), true);
}
