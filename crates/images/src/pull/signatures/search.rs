//! The search for the required signatures of an image: which requirement holds
//! by which signature, and what was found where.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinError;

use crate::digest::Digest;
use crate::error::{Error, causes};
use crate::policy::{Admission, Outcome, SearchedPlace, Verdict};
use crate::reference::Reference;
use crate::signatures::{RequiredSignature, Signature, SignatureKind};

/// The most problems of a requirement that are told.
const MAX_PROBLEMS: usize = 4;
/// The most places that are told.
const MAX_PLACES: usize = 32;

/// The search for the required signatures of an image.
pub(super) struct Search<'a> {
    requested: &'a Reference,
    /// Whether a bundle may name no image.
    pub(super) digest_suffices: bool,
    state: Mutex<State>,
}

struct State {
    verdict: Verdict,
    missing: Vec<Missing>,
    failure: Option<Error>,
}

/// The number of a requirement, and the signer or the problem of the signature.
type Checked = (usize, Result<String, String>);

/// A requirement that no signature meets yet.
struct Missing {
    /// Its number in the verdict.
    number: usize,
    required: Arc<RequiredSignature>,
    /// The problems of the signatures of its kind.
    problems: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        requested: &'a Reference,
        admission: &Admission,
        digest_suffices: bool,
    ) -> Self {
        let missing = admission
            .required_signatures()
            .map(|(number, required)| Missing {
                number,
                required: Arc::clone(required),
                problems: Vec::new(),
            });
        Self {
            requested,
            digest_suffices,
            state: Mutex::new(State {
                verdict: admission.verdict(),
                missing: missing.collect(),
                failure: None,
            }),
        }
    }

    /// The image as it was asked for.
    pub(super) fn requested(&self) -> &Reference {
        self.requested
    }

    /// Whether each requirement of a signature holds.
    pub(super) fn is_done(&self) -> bool {
        self.state.lock().missing.is_empty()
    }

    /// Whether a signature of this kind is missing.
    pub(super) fn needs(&self, kind: SignatureKind) -> bool {
        let state = self.state.lock();
        state.missing.iter().any(|one| one.required.kind() == kind)
    }

    /// Notes what a place has.
    pub(super) fn searched(&self, place: String, found: impl Into<String>) {
        let places = &mut self.state.lock().verdict.searched;
        if places.len() < MAX_PLACES {
            let found = found.into();
            places.push(SearchedPlace { place, found });
        }
    }

    /// Notes something in the place of signatures of a kind that is none.
    pub(super) fn wrong(&self, kind: SignatureKind, problem: impl Into<String>) {
        let problem = problem.into();
        for missing in &mut self.state.lock().missing {
            if missing.required.kind() == kind {
                missing.wrong(problem.clone());
            }
        }
    }

    /// Notes that a location failed.
    pub(super) fn failed(&self, error: Error) {
        self.state.lock().failure.get_or_insert(error);
    }

    /// Verifies one signature for all requirements that do not hold yet.
    pub(super) async fn check(&self, signature: Signature, digest: &Digest) {
        let open: Vec<_> = {
            let state = self.state.lock();
            let open = state.missing.iter();
            open.map(|one| (one.number, Arc::clone(&one.required)))
                .collect()
        };
        let (image, digest) = (self.requested.clone(), *digest);
        let checking = tokio::task::spawn_blocking(move || {
            let checked = open.into_iter().filter_map(|(number, required)| {
                Some((number, required.check(&signature, &image, &digest)?))
            });
            checked.collect::<Vec<_>>()
        });
        self.checked(checking.await);
    }

    /// Notes the results of the requirements for a signature.
    fn checked(&self, results: Result<Vec<Checked>, JoinError>) {
        let state = &mut *self.state.lock();
        let Ok(results) = results else {
            for missing in &mut state.missing {
                missing.wrong("the check of a signature ended unexpectedly".into());
            }
            return;
        };
        for (number, result) in results {
            match result {
                Ok(by) => {
                    state.missing.retain(|one| one.number != number);
                    state.verdict.requirements[number].outcome = Outcome::Holds(by);
                }
                Err(problem) => {
                    let mut missing = state.missing.iter_mut();
                    if let Some(one) = missing.find(|one| one.number == number) {
                        one.wrong(problem);
                    }
                }
            }
        }
    }

    /// Results of the requirements, and the first failure of a location.
    pub(super) fn finish(self) -> (Verdict, Option<Error>) {
        let State {
            mut verdict,
            missing,
            failure,
        } = self.state.into_inner();
        for one in missing {
            let outcome = &mut verdict.requirements[one.number].outcome;
            if let Some(error) = &failure {
                *outcome = Outcome::Unknown(causes(error));
            } else if !one.problems.is_empty() {
                *outcome = Outcome::Fails(one.problems.join("; "));
            }
        }
        (verdict, failure)
    }
}

impl Missing {
    fn wrong(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// A count of signatures, for people.
pub(super) fn count(found: usize) -> String {
    match found {
        0 => "no signature".into(),
        1 => "1 signature".into(),
        _ => format!("{found} signatures"),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use rcgen::KeyPair;

    use super::*;
    use crate::policy::{PolicyFiles, PolicySubject};

    #[tokio::test]
    async fn a_check_of_a_signature_that_panics_is_the_reason_of_the_refusal() {
        let key = KeyPair::generate().unwrap().public_key_pem();
        let key = BASE64_STANDARD.encode(key);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        let required = format!(r#"[{{"type":"sigstoreSigned","keyData":"{key}"}}]"#);
        std::fs::write(&path, format!(r#"{{"default":{required}}}"#)).unwrap();
        let files = PolicyFiles {
            named: Some(path),
            ..PolicyFiles::default()
        };
        let image: Reference = "quay.io/a/b:v1".parse().unwrap();
        let subject = PolicySubject::Registry(image.clone());
        let admission = Admission::unjudged(&files, &subject).unwrap();
        let search = Search::new(&image, &admission, false);
        let checking = tokio::task::spawn_blocking(|| panic!("as a hostile signature may cause"));
        search.checked(checking.await);
        assert!(!search.is_done());
        let (verdict, failure) = search.finish();
        assert!(failure.is_none() && !verdict.admits());
        let problem = verdict.problem().unwrap();
        let wanted = "the check of a signature ended unexpectedly";
        assert!(problem.contains(wanted), "{problem}");
    }
}
