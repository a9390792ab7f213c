//! The program compared with opm and catalogd on the same catalogs.
//!
//! The small cases and the recorded answers on the sample catalog are part of
//! the project (`tests/fixtures`). The large real catalogs lie beside it
//! (`../shared`): without them their tests report that they are skipped.

mod cases;
mod corpus;
mod curated;
mod grpc_answers;
mod http_answers;
mod updates;

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use almanac::ingest::{self, LoadOptions, Source};
use fbc::problem::{Code, Problem, Severity};

/// The sample catalog of the project.
fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog")
}

/// Result of reading a folder.
struct Checked {
    /// The problems, or why it could not be read at all.
    result: Result<Vec<Problem>, String>,
}

/// Reads a catalog folder as `almanac check` does.
async fn check(folder: &Path) -> Checked {
    let source = Source::File(folder.into());
    let loaded = ingest::load(&source, &LoadOptions::default()).await;
    let problems = loaded.map(|loaded| {
        let Ok(reading) = loaded.read(|_, _, _| Ok::<_, Infallible>(()));
        reading.problems
    });
    Checked {
        result: problems.map_err(|error| error.to_string()),
    }
}

impl Checked {
    /// Whether nothing is left out of what is served.
    fn is_accepted(&self) -> bool {
        self.worst() < Some(Severity::Error)
    }

    /// Whether a revision is made of it.
    fn is_stored(&self) -> bool {
        self.worst() < Some(Severity::Fatal)
    }

    fn worst(&self) -> Option<Severity> {
        match &self.result {
            Ok(problems) => problems.iter().map(|problem| problem.severity).max(),
            Err(_) => Some(Severity::Fatal),
        }
    }

    /// The problems as they are wherever the catalog lies, a line each and in
    /// order of their words.
    fn without_places(&self) -> Result<Vec<String>, String> {
        let problems = self.result.clone()?.into_iter();
        // What is rendered has each key once.
        let problems = problems.filter(|one| one.code != Code::DocumentRepeatedKey);
        let problems = problems.map(|problem| {
            Problem {
                position: None,
                ..problem
            }
            .to_string()
        });
        let mut lines: Vec<String> = problems.collect();
        lines.sort_unstable();
        Ok(lines)
    }

    /// The problems, or why there are none, a line each.
    fn shown(&self) -> String {
        match &self.result {
            Ok(problems) => {
                let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
                lines.join("\n")
            }
            Err(error) => error.clone(),
        }
    }
}
