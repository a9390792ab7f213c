//! The verdict of the policy about one image, requirement by requirement.

use std::path::PathBuf;

/// The verdict of the policy about one image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The file; none without a policy, which admits everything.
    pub policy: Option<PathBuf>,
    /// The matching scope.
    pub scope: String,
    /// The requirements of the scope, in order. All of them have to hold.
    pub requirements: Vec<RequirementVerdict>,
    /// The searched places, in order.
    pub searched: Vec<SearchedPlace>,
}

/// The outcome of one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementVerdict {
    /// The requirement with its keys, as a phrase.
    pub requirement: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Whether a requirement holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds, and by what.
    Holds(String),
    /// It does not hold, and why.
    Fails(String),
    /// It is not known, because a place could not be asked.
    Unknown(String),
}

/// A searched place of signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedPlace {
    /// A tag, referrers, a folder or an address.
    pub place: String,
    /// Its content: a count, or a problem.
    pub found: String,
}

/// The kinds of requirements; no kind is the beginning of an earlier one.
const KINDS: [&str; 5] = [
    "insecureAcceptAnything",
    "reject",
    "signedBaseLayer",
    "signedBy",
    "sigstoreSigned",
];

/// The kind of a requirement, of a small fixed set.
pub(super) fn kind(requirement: &str) -> &'static str {
    let mut kinds = KINDS.into_iter();
    kinds
        .find(|kind| requirement.starts_with(kind))
        .unwrap_or("other")
}

impl RequirementVerdict {
    /// The kind of the requirement, of a small fixed set.
    pub fn kind(&self) -> &'static str {
        kind(&self.requirement)
    }
}

impl Verdict {
    /// By what the image came in; none without a policy.
    pub fn admitted_by(&self) -> Option<String> {
        self.policy.as_ref()?;
        let requirements = self.requirements.iter().map(|one| match &one.outcome {
            Outcome::Holds(by) => format!("{}: {by}", one.requirement),
            Outcome::Fails(problem) | Outcome::Unknown(problem) => {
                format!("{}: {problem}", one.requirement)
            }
        });
        let requirements: Vec<String> = requirements.collect();
        Some(format!("{}: {}", self.scope, requirements.join("; ")))
    }

    /// Whether all requirements hold.
    pub fn admits(&self) -> bool {
        let mut outcomes = self.requirements.iter().map(|one| &one.outcome);
        outcomes.all(|outcome| matches!(outcome, Outcome::Holds(_)))
    }

    /// The first requirement that does not hold, with its problem.
    pub fn problem(&self) -> Option<String> {
        self.requirements.iter().find_map(|one| match &one.outcome {
            Outcome::Holds(_) => None,
            Outcome::Fails(problem) | Outcome::Unknown(problem) => {
                Some(format!("{}: {problem}", one.requirement))
            }
        })
    }
}
