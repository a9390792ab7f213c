//! Images are pulled as Debian's skopeo pulls them: from the same places in the
//! same order, with the same credentials, and with the same refusals.
//!
//! Cases are made by chance from fixed seeds. Each wanted difference is a row
//! of a table in docs/reference/registries.md, and a rule in `differences` or a
//! test in `single_cases`.
//!
//! Debian has skopeo 1.9.3, whose library (containers/image 5.22) is older than
//! the one of today's podman and CRI-O. What the trial meets of that: it asks
//! for version 1 of the protocol where nobody answers, its `inspect --raw` does
//! not compare digests, and it takes no file but `registries.conf` from a flag.

mod auth_cases;
mod auth_rewrites;
mod case;
mod certificate_cases;
mod certificate_rewrites;
mod conf_cases;
mod conf_rewrites;
mod differences;
mod mirror_set_cases;
mod network;
mod operator;
mod pki;
mod policies;
mod programs;
mod random_policies;
mod registry;
mod signed_policies;
mod sigstore_policies;
mod single_cases;

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Case, Outcome};
use differences::{DIFFERENCES, explain};
use network::Network;
use programs::Worker;
use single_cases::SINGLE;
use tempfile::TempDir;

use crate::support::needs::skip_without;

/// How many cases run at the same time.
const LANES: usize = 2;
/// The most unexplained differences that a failure shows.
const SHOWN: usize = 8;

/// A case with what both programs did.
struct Compared {
    case: Case,
    ours: Outcome,
    theirs: Outcome,
    /// The rows of the table that explain a difference.
    rows: Option<Vec<usize>>,
}

/// Runs all cases with both programs.
fn run(seeds: u64, case: fn(u64) -> Case) -> Vec<Compared> {
    let cases: Vec<Case> = (0..seeds).map(case).collect();
    let next = AtomicUsize::new(0);
    let compared = Mutex::new(Vec::new());
    let helpers = credential_helpers();
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let network = Network::start();
                let mut worker = Worker::start(&network, helpers.path());
                let local = network.local.port().to_string();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let skopeo = |case: &Case| {
                        let (placed, _folder) = case.placed(&local);
                        programs::skopeo(&placed, &network, helpers.path())
                    };
                    let theirs = skopeo(case);
                    let (placed, folder) = case.placed(&local);
                    let config = folder.path().join("almanac.toml");
                    let ours = worker.pull(&placed, &network, &config);
                    let rows = if ours.same(&theirs) {
                        Some(Vec::new())
                    } else {
                        explain(case, &ours, skopeo)
                    };
                    let case = case.clone();
                    compared.lock().unwrap().push(Compared {
                        case,
                        ours,
                        theirs,
                        rows,
                    });
                }
            });
        }
    });
    let mut compared = compared.into_inner().unwrap();
    compared.sort_by(|one, other| one.case.name.cmp(&other.case.name));
    compared
}

/// A folder with a credential helper whose password names the server, and one
/// that fails.
fn credential_helpers() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let answering = "read -r server\n\
        printf '{\"ServerURL\":\"%s\",\"Username\":\"helper\",\"Secret\":\"for %s\"}' \
        \"$server\" \"$server\"";
    for (name, script) in [("trial", answering), ("failing", "exit 1")] {
        let path = folder.path().join(format!("docker-credential-{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Fails where a difference is in no row of the table.
fn check(compared: &[Compared]) {
    let mut counts = vec![0; DIFFERENCES.len()];
    let (mut equal, mut unexplained, mut text) = (0, 0, String::new());
    for Compared {
        case,
        ours,
        theirs,
        rows,
    } in compared
    {
        match rows.as_deref() {
            Some([]) => equal += 1,
            Some(rows) => rows.iter().for_each(|row| counts[*row] += 1),
            None => {
                unexplained += 1;
                if unexplained <= SHOWN {
                    write!(text, "{case}  almanac:\n{ours}  skopeo:\n{theirs}\n").unwrap();
                }
            }
        }
    }
    let all = compared.len();
    let pulled = compared.iter().filter(|each| each.theirs.verdict.is_ok());
    let pulled = pulled.count();
    eprintln!("{all} cases: skopeo pulls {pulled}, {equal} are equal");
    for (row, count) in DIFFERENCES.iter().zip(&counts) {
        if *count > 0 {
            eprintln!("{count:5} {}", row.name);
        }
    }
    assert!(pulled * 8 > all, "skopeo pulls {pulled} of {all} images");
    assert_eq!(
        unexplained, 0,
        "differences in no row of the table:\n{text}"
    );
    // A row that no case meets may be true no more.
    for (row, count) in DIFFERENCES.iter().zip(counts) {
        let is_met = !compared[0].case.name.starts_with(row.met_by) || count > 0;
        assert!(is_met, "no case meets the row {:?}", row.name);
    }
}

#[test]
fn registries_conf_leads_to_the_places_that_skopeo_asks() {
    if skip_without("skopeo") {
        return;
    }
    check(&run(320, conf_cases::case));
}

#[test]
fn credentials_are_those_that_skopeo_sends() {
    if skip_without("skopeo") {
        return;
    }
    check(&run(120, auth_cases::case));
}

#[test]
fn certificates_are_those_that_skopeo_trusts_and_shows() {
    if skip_without("skopeo") {
        return;
    }
    check(&run(50, certificate_cases::case));
}

#[test]
fn mirror_sets_lead_to_the_places_that_the_operator_writes() {
    if skip_without("skopeo") {
        return;
    }
    check(&run(70, mirror_set_cases::case));
}

#[test]
fn each_difference_is_a_row_of_the_table_and_each_row_has_a_test() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/registries.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Differences from podman\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = cells.map(|line| line.split(" | ").next().unwrap());
    // Behind the heads of the columns.
    let mut rows: Vec<&str> = cells.skip(1).collect();
    let tested = DIFFERENCES.iter().map(|row| row.name);
    let single = SINGLE.iter().map(|(name, _)| *name);
    let mut tested: Vec<&str> = tested.chain(single).collect();
    rows.sort_unstable();
    tested.sort_unstable();
    assert_eq!(rows, tested);
}
