//! Problems as a SARIF 2.1.0 log, which code scanning reads.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::input::Input;
use crate::ingest::Source;
use fbc::problem::{Code, DocumentPosition, Problem, Severity};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// The base of the paths of a catalog in an absolute folder.
const BASE: &str = "CATALOG";

/// The log.
pub(super) fn log(input: &Input, problems: &[Problem]) -> Value {
    let rules = Code::ALL.iter().map(|code| {
        json!({
            "id": code,
            "shortDescription": { "text": code.title() },
        })
    });
    let root = absolute_root(input);
    let results = problems.iter();
    let results = results.map(|problem| result(input, problem, root.is_some()));
    let mut run = json!({
        "tool": {
            "driver": {
                "name": "almanac",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            },
        },
        "columnKind": "unicodeCodePoints",
        "results": results.collect::<Vec<_>>(),
    });
    if let Some(root) = root {
        let uri = format!("file://{}/", encoded(&root).trim_end_matches('/'));
        run["originalUriBaseIds"] = json!({ BASE: { "uri": uri } });
    }
    json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] })
}

fn result(input: &Input, problem: &Problem, below_root: bool) -> Value {
    let rule_index = Code::ALL.iter().position(|code| *code == problem.code);
    let level = match problem.severity {
        Severity::Warning => "warning",
        Severity::Error | Severity::Fatal => "error",
    };
    let positions = problem.position.iter();
    let locations = positions.map(|position| location(input, position, below_root));
    // Properties without a field in SARIF.
    let mut properties = json!(problem.subject);
    properties["severity"] = json!(problem.severity);
    if let Some(position) = &problem.position {
        properties["document"] = json!(position.document);
    }
    json!({
        "ruleId": problem.code,
        "ruleIndex": rule_index,
        "level": level,
        "message": { "text": problem.message },
        "locations": locations.collect::<Vec<_>>(),
        "properties": properties,
    })
}

/// The folder of a catalog with an absolute path.
fn absolute_root(input: &Input) -> Option<PathBuf> {
    match input.source() {
        Some(Source::File(root)) if root.is_absolute() => {
            let folder = if root.is_dir() {
                Some(&**root)
            } else {
                root.parent()
            };
            folder.map(Path::to_owned)
        }
        _ => None,
    }
}

/// The location of a problem. A relative path stays relative to the working
/// directory, which is the repository for code scanning.
fn location(input: &Input, position: &DocumentPosition, below_root: bool) -> Value {
    let uri = match input {
        Input::Server(_) => position.file.clone(),
        _ if below_root => encoded(Path::new(&position.file)),
        _ => encoded(&input.path(position)),
    };
    let mut artifact = json!({ "uri": uri });
    if below_root {
        artifact["uriBaseId"] = json!(BASE);
    }
    let mut region = json!({ "startLine": position.line.max(1) });
    if let Some(column) = position.column {
        region["startColumn"] = json!(column);
    }
    json!({
        "physicalLocation": { "artifactLocation": artifact, "region": region },
    })
}

/// A path as a URI, escaped and without `.` segments.
fn encoded(path: &Path) -> String {
    let mut uri = String::new();
    let steps = path
        .components()
        .filter(|step| !matches!(step, Component::CurDir));
    for step in steps {
        if !uri.is_empty() && !uri.ends_with('/') {
            uri.push('/');
        }
        for &byte in step.as_os_str().as_encoded_bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
                uri.push(byte.into());
            } else {
                // Writing to a String cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use fbc::problem::Subject;

    use super::*;

    fn found(source: &str) -> serde_json::Value {
        let problems = [
            Problem {
                code: Code::ChannelMultipleHeads,
                severity: Severity::Fatal,
                subject: Subject {
                    package: "etcd".into(),
                    ..Subject::default()
                },
                position: Some(DocumentPosition {
                    file: "a b/c:d.yaml".into(),
                    document: 2,
                    line: 7,
                    column: Some(5),
                }),
                message: "has two heads".into(),
            },
            Problem {
                code: Code::ProblemsOmitted,
                severity: Severity::Warning,
                subject: Subject::default(),
                position: None,
                message: "more".into(),
            },
        ];
        log(&source.parse().unwrap(), &problems)
    }

    #[test]
    fn a_log_has_rules_and_results() {
        let log = found("quay.io/a/b");
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert_eq!(run["tool"]["driver"]["name"], "almanac");
        let result = &run["results"][0];
        assert_eq!(result["ruleId"], "channel-multiple-heads");
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        let rule = &run["tool"]["driver"]["rules"][index];
        assert_eq!(rule["id"], "channel-multiple-heads");
        assert_eq!(
            rule["shortDescription"]["text"],
            Code::ChannelMultipleHeads.title()
        );
        assert_eq!(result["level"], "error");
        assert_eq!(result["message"]["text"], "has two heads");
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "a%20b/c%3Ad.yaml");
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        let region = serde_json::json!({"startLine": 7, "startColumn": 5});
        assert_eq!(location["region"], region);
        assert_eq!(result["properties"]["package"], "etcd");
        assert_eq!(run["results"][1]["level"], "warning");
        assert_eq!(run["results"][1]["locations"], serde_json::json!([]));
    }

    #[test]
    fn paths_count_from_where_they_were_typed() {
        let uri = |log: &serde_json::Value| {
            log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
                .clone()
        };
        let folder = tempfile::tempdir().unwrap();
        let log = found(folder.path().to_str().unwrap());
        assert_eq!(uri(&log)["uri"], "a%20b/c%3Ad.yaml");
        assert_eq!(uri(&log)["uriBaseId"], "CATALOG");
        let base = &log["runs"][0]["originalUriBaseIds"]["CATALOG"]["uri"];
        let base = base.as_str().unwrap();
        assert!(
            base.starts_with("file:///") && base.ends_with('/'),
            "{base}"
        );
        // This crate's folder is where its tests run.
        let log = found("./src");
        assert_eq!(uri(&log)["uri"], "src/a%20b/c%3Ad.yaml");
        assert_eq!(
            log["runs"][0]["originalUriBaseIds"],
            serde_json::Value::Null
        );
        assert_eq!(encoded(Path::new("<stdin>")), "%3Cstdin%3E");
    }
}
