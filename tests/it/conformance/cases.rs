//! The hundred small catalogs, each made for one question, against what opm and
//! catalogd decided about them.

use std::path::{Path, PathBuf};

use fbc::problem::{Problem, Severity};
use serde::Deserialize;

use super::{Checked, check};
use crate::support::fixtures;
use crate::support::program::Start;
use crate::support::served::{Served, source};

/// The verdicts of opm and catalogd on a case.
#[derive(Deserialize)]
struct Case {
    #[serde(rename = "case")]
    name: String,
    opm_accepts: bool,
    catalogd_stores: bool,
    /// In the form of a log line: quotes and line ends are escaped.
    #[serde(default)]
    opm_message: String,
    catalogd_jsonl: Option<String>,
}

/// An aspect in which a verdict can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Whether every package is accepted.
    Accepts,
    /// Whether the catalog is stored.
    Stores,
    /// The canonical lines.
    Lines,
    /// The objects that the messages name.
    Names,
}

/// The wanted differences, with the reason. A row that no longer differs fails
/// the tests: remove it.
const DIFFERENCES: &[(&str, What, &str)] = &[
    ("no-schema", What::Stores, NO_SCHEMA),
    ("no-schema", What::Lines, NO_SCHEMA),
    ("empty-schema", What::Stores, NO_SCHEMA),
    ("empty-schema", What::Lines, NO_SCHEMA),
    ("json-numbers", What::Lines, EXACT_INTEGERS),
    ("yaml-types", What::Lines, EXACT_INTEGERS),
];

const NO_SCHEMA: &str = "a document without a schema belongs to no catalog and no client can ask \
     for it: opm refuses the catalog and so does almanac; catalogd stores it";
const EXACT_INTEGERS: &str = "almanac keeps an integer that no float64 holds as it was written; \
     opm and catalogd change its digits";

/// The folder of the cases, and the verdicts on each.
fn cases() -> (PathBuf, Vec<Case>) {
    let folder = fixtures::path("cases");
    let text = std::fs::read(folder.join("expected.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&text).unwrap();
    assert_eq!(cases.len(), 100);
    (folder, cases)
}

/// Collects what differs, against [`DIFFERENCES`].
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn note(&mut self, case: &Case, what: What, same: bool, detail: impl FnOnce() -> String) {
        let known = DIFFERENCES
            .iter()
            .find(|(name, known, _)| *name == case.name && *known == what);
        match (known, same) {
            (None, false) => self
                .0
                .push(format!("{}, {what:?}: {}", case.name, detail())),
            (Some((_, _, why)), true) => self.0.push(format!(
                "{}, {what:?}: no longer differs, remove it from the table: {why}",
                case.name
            )),
            (None, true) | (Some(_), false) => {}
        }
    }

    fn assert_none(&self) {
        assert!(
            self.0.is_empty(),
            "{} differ:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

#[tokio::test]
async fn catalogs_are_accepted_and_stored_as_the_peers_do() {
    let (folder, cases) = cases();
    let mut findings = Findings::default();
    for case in &cases {
        let checked = check(&folder.join(&case.name)).await;
        let detail = || format!("{}\n{}", case.opm_message, checked.shown());
        let accepted = checked.is_accepted() == case.opm_accepts;
        findings.note(case, What::Accepts, accepted, detail);
        let stored = checked.is_stored() == case.catalogd_stores;
        findings.note(case, What::Stores, stored, detail);
        let missing = missing_names(case, &checked);
        findings.note(case, What::Names, missing.is_empty(), || {
            format!("nothing names {missing:?}; {}", detail())
        });
    }
    findings.assert_none();
}

#[test]
fn what_is_served_is_what_catalogd_stores() {
    let (folder, cases) = cases();
    let sources = cases
        .iter()
        .map(|case| source(&case.name, &folder.join(&case.name)));
    let quiet = ["--poll", "never", "--log", "error,almanac::app=info"];
    let served = Served::start(sources.chain(quiet.map(str::to_owned)));
    let mut findings = Findings::default();
    for case in &cases {
        let reply = served.get(&format!("/catalogs/{}/api/v1/all", case.name));
        let lines = (reply.status == 200).then(|| reply.text());
        assert!([200, 503].contains(&reply.status), "{reply:?}");
        let wanted = case
            .catalogd_jsonl
            .as_ref()
            .filter(|_| case.catalogd_stores);
        findings.note(case, What::Lines, lines.as_ref() == wanted, || {
            format!("wanted\n{wanted:?}\nfound\n{lines:?}")
        });
    }
    findings.assert_none();
}

#[tokio::test]
async fn every_catalog_that_is_rendered_reads_back_to_the_same() {
    let (folder, cases) = cases();
    let mut rendered = 0;
    for case in &cases {
        let source = folder.join(&case.name);
        let first = check(&source).await;
        let render = |path: &Path, format: &str| {
            let path = format!("file:{}", path.display());
            Start::new(["render", &path, "--output", format]).run()
        };
        let lines = render(&source, "jsonl");
        if !first.is_stored() {
            assert_eq!(lines.status.code(), Some(3), "{}: {lines:?}", case.name);
            continue;
        }
        rendered += 1;
        let yaml = render(&source, "yaml");
        for text in [&lines.stdout, &yaml.stdout] {
            let again = tempfile::tempdir().unwrap();
            let file = again.path().join("catalog.yaml");
            std::fs::write(&file, text).unwrap();
            assert_eq!(
                check(again.path()).await.without_places(),
                first.without_places(),
                "{}",
                case.name
            );
            let second = render(again.path(), "jsonl");
            assert_eq!(second.stdout, lines.stdout, "{}: {second:?}", case.name);
        }
    }
    let stored = cases.iter().filter(|case| case.catalogd_stores).count();
    // Two of those have a document without a schema.
    assert_eq!(rendered, stored - 2);
}

/// The objects that opm's message names and no problem of ours does.
fn missing_names(case: &Case, checked: &Checked) -> Vec<(&'static str, String)> {
    let Ok(problems) = &checked.result else {
        return Vec::new();
    };
    let named = |(kind, name): &(&str, String)| {
        problems
            .iter()
            .filter(|problem| problem.severity >= Severity::Error)
            .any(|problem| names(problem, kind, name))
    };
    let mut missing = objects(&case.opm_message);
    missing.retain(|object| !named(object));
    missing
}

fn names(problem: &Problem, kind: &str, name: &str) -> bool {
    let subject = match kind {
        "package" => &problem.subject.package,
        "channel" => &problem.subject.channel,
        _ => &problem.subject.bundle,
    };
    subject == name || problem.message.contains(&format!("{name:?}"))
}

/// The objects that a message of opm names: `package "a"` and the like.
fn objects(message: &str) -> Vec<(&'static str, String)> {
    let message = message.replace("\\\"", "\"");
    let mut found = Vec::new();
    for kind in ["package", "channel", "bundle"] {
        for before in [format!("{kind} \""), format!("{kind} name \"")] {
            for (at, _) in message.match_indices(&before) {
                let name = message[at + before.len()..].split('"').next();
                let name = name.unwrap_or_default();
                if !name.is_empty() {
                    found.push((kind, name.to_owned()));
                }
            }
        }
    }
    found
}
