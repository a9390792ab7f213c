//! The statement in a bundle (in-toto): what is claimed of which content.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::Digest;
use crate::display::clip;
use crate::manifest::object;

/// The accepted forms.
const FORMS: [&str; 2] = [
    "https://in-toto.io/Statement/v1",
    "https://in-toto.io/Statement/v0.1",
];
/// The claim of a signature. Others, such as lists of packages or the results of
/// scans, are signed by the same keys and do not approve an image.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// The most subjects.
const MAX_SUBJECTS: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatementJson {
    #[serde(rename = "_type")]
    form: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    name: String,
    digest: BTreeMap<String, String>,
}

/// Checks that a statement signs a digest. Returns the names under which it does:
/// none when it names no image.
pub(super) fn names_of(statement: &[u8], digest: &Digest) -> Result<Vec<String>, String> {
    let statement: StatementJson =
        object(statement).map_err(|error| format!("its statement cannot be read: {error}"))?;
    if !FORMS.contains(&statement.form.as_str()) {
        return Err("its statement has an unknown form".into());
    }
    if statement.predicate_type != SIGNED {
        let kind = clip(&statement.predicate_type, 100);
        return Err(format!("its statement is not a signature but {kind:?}"));
    }
    if statement.subject.len() > MAX_SUBJECTS {
        return Err("its statement has more than 1000 subjects".into());
    }
    let hex = digest.hex();
    let is_it = |subject: &Subject| subject.digest.get("sha256").is_some_and(|sum| *sum == hex);
    let mut subjects = statement.subject.into_iter().filter(is_it).peekable();
    if subjects.peek().is_none() {
        return Err("it signs another digest".into());
    }
    let names = subjects.map(|subject| subject.name);
    Ok(names.filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_statement_signs_its_subjects_only() {
        let digest = Digest::of(b"image");
        let good = json!({
            "_type": FORMS[0],
            "predicateType": SIGNED,
            "subject": [
                {"name": "other", "digest": {"sha256": Digest::of(b"other").hex()}},
                {"digest": {"sha256": digest.hex(), "sha1": "0"}},
                {"name": "quay.io/a", "digest": {"sha256": digest.hex()}},
            ],
            "predicate": {},
        });
        let names = |statement: &Value| names_of(statement.to_string().as_bytes(), &digest);
        assert_eq!(names(&good).unwrap(), ["quay.io/a"]);
        let with = |change: &dyn Fn(&mut Value)| {
            let mut statement = good.clone();
            change(&mut statement);
            names(&statement)
        };
        assert!(with(&|s| s["_type"] = json!(FORMS[1])).is_ok());
        for (change, problem) in [
            (json!({"_type": "x"}), "unknown form"),
            (
                json!({"predicateType": "https://spdx.dev/Document"}),
                "not a signature but",
            ),
            (json!({"subject": []}), "another digest"),
            (json!({"subject": null}), "cannot be read"),
        ] {
            let change = change.as_object().unwrap();
            let (key, value) = change.iter().next().unwrap();
            let error = with(&|s| s[key] = value.clone()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
