//! What sigstore's services make: bundles and attachments with certificates of Fulcio and
//! entries of Rekor, by sigstore's own mocks of both. sigstore's verifier judges the same
//! bundles.

use std::process::{Command, Stdio};
use std::slice;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::bundles::put_in;
use super::trial::{SKOPEO, Trial};
use crate::support::cosign::Signer;
use crate::support::needs::{node_scripts, on_path, skip_without};

const NODE: &str = "node:@sigstore/mock";
/// The repository whose name a bundle claims.
const NAMED: &str = "catalogs/named";

/// Material of the services for the image of a trial.
fn material(trial: &Trial) -> Value {
    let name = format!("{}/{NAMED}:v1", trial.upstream.host());
    let output = Command::new("node")
        .arg("mock.cjs")
        .args([trial.digest().hex(), name])
        .current_dir(node_scripts())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn data(pem: &Value) -> String {
    BASE64_STANDARD.encode(pem.as_str().unwrap())
}

fn keyed(material: &Value) -> Value {
    json!({"type": "sigstoreSigned", "keyData": data(&material["key"]),
        "signedIdentity": {"type": "matchRepository"}})
}

fn by_identity(material: &Value, email: &Value) -> Value {
    json!({
        "type": "sigstoreSigned",
        "fulcio": {
            "caData": data(&material["root"]),
            "oidcIssuer": material["issuer"],
            "subjectEmail": email,
        },
        "rekorPublicKeyData": data(&material["log"]),
        "signedIdentity": {"type": "matchRepository"},
    })
}

/// Each bundle: whether sigstore's verifier takes it, and why almanac does not, if it
/// does not.
const BUNDLES: [(&str, bool, Option<&str>); 14] = [
    ("key", true, None),
    ("logged key", true, None),
    ("identity", true, None),
    ("named image", true, None),
    // The verifier judges who signed. The rest is the policy's.
    ("identity as URI", true, Some("not for the email")),
    ("list of packages", true, Some("not a signature but")),
    ("other image", true, Some("signs another digest")),
    ("other payload", false, Some("for another payload")),
    ("other time", false, Some("not by a log of the policy")),
    ("other index", false, Some("not by a log of the policy")),
    ("other signature", false, Some("names another key")),
    ("other certificate", false, Some("names another key")),
    ("other entry", false, Some("names another key")),
    ("no entry", false, Some("no log entry")),
];

#[test]
fn bundles_of_sigstores_services_are_judged_as_by_its_verifier() {
    if skip_without(NODE) {
        return;
    }
    let trial = Trial::new();
    let material = material(&trial);
    assert_eq!(
        material["bundles"].as_object().unwrap().len(),
        BUNDLES.len()
    );
    for (number, (fact, is_valid, problem)) in BUNDLES.into_iter().enumerate() {
        let made = &material["bundles"][fact];
        let refusal = &made["refusal"];
        assert_eq!(refusal.is_null(), is_valid, "{fact}: {refusal}");
        let repository = match fact {
            "named image" => NAMED.to_owned(),
            _ => format!("catalogs/{number}"),
        };
        let name = trial.repository(&repository);
        put_in(&trial, &repository, &made["bundle"], false);
        let mut requirement = match fact {
            "key" | "logged key" => keyed(&material),
            _ => by_identity(&material, &material["email"]),
        };
        if fact == "logged key" {
            requirement["rekorPublicKeyData"] = json!(data(&material["log"]));
        }
        let scopes = match fact {
            "named image" => &[][..],
            _ => slice::from_ref(&name),
        };
        let judged = trial.almanac(&requirement, &format!("{name}:v1"), scopes);
        match (&judged, problem) {
            (Ok(()), None) => {}
            (Err(error), Some(problem)) if error.contains(problem) => {}
            _ => panic!("{fact}: {judged:?}"),
        }
    }
}

#[test]
fn an_attachment_of_sigstores_services_lets_in_the_image_of_its_holder() {
    if skip_without(NODE) {
        return;
    }
    let trial = Trial::new();
    let material = material(&trial);
    let attachment = &material["attachment"];
    let payload = attachment["payload"].as_str().unwrap();
    let mut signed = Signer::new().sign_bytes(payload.as_bytes().to_vec());
    signed.manifest["layers"][0]["annotations"]["dev.cosignproject.cosign/signature"] =
        attachment["signature"].clone();
    signed.annotate("certificate", attachment["certificate"].as_str().unwrap());
    signed.annotate("chain", material["root"].as_str().unwrap());
    signed.annotate("bundle", &attachment["entry"].to_string());
    let image = format!("{}:v1", trial.repository(NAMED));
    signed.put_tag(&trial.upstream, NAMED, &trial.digest());
    for (email, problem) in [
        (material["email"].clone(), None),
        (json!("other@example.com"), Some("not for the email")),
    ] {
        let mut requirement = by_identity(&material, &email);
        // The attachment names the tag.
        requirement["signedIdentity"] = json!({"type": "matchExact"});
        let judged = trial.almanac(&requirement, &image, &[]);
        match (&judged, problem) {
            (Ok(()), None) => {}
            (Err(error), Some(problem)) if error.contains(problem) => {}
            _ => panic!("{email}: {judged:?}"),
        }
        if on_path(SKOPEO) {
            let theirs = trial.skopeo(&requirement, &image);
            assert_eq!(theirs.is_ok(), problem.is_none(), "{email}: {theirs:?}");
        }
    }
}
