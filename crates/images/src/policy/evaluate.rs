//! The requirements of the policy for one image.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config_files::{self, FileError, FileKind};
use crate::policy::files::PolicyFiles;
use crate::policy::objects;
use crate::policy::parse::{KeyType, Policy, Requirement, SignedBy};
use crate::policy::rejection::{PolicyError, PolicyRejection};
use crate::policy::sigstore_trust;
use crate::policy::subject::PolicySubject;
use crate::policy::verdict::{Outcome, RequirementVerdict, Verdict};
use crate::signatures::{FileOrData, RequiredSignature, SimpleRequirement};

/// The largest policy, in bytes.
const MAX_POLICY: u64 = 4 << 20;

/// The requirements for one image. The default has none.
#[derive(Debug, Default)]
pub struct Admission {
    policy: Option<PathBuf>,
    scope: String,
    requirements: Vec<Judged>,
}

/// A requirement, judged as far as possible without signatures.
#[derive(Debug)]
struct Judged {
    text: String,
    decision: Decision,
}

#[derive(Debug)]
enum Decision {
    Accept,
    /// `reject`.
    Reject,
    /// A kind that is not supported.
    Unsupported,
    /// A key that cannot be used.
    Unusable(String),
    /// A signature decides.
    Signature(Arc<RequiredSignature>),
}

impl Admission {
    /// Reads the policy and finds the requirements for an image. Fails when
    /// the image is rejected whatever its signatures. Layouts and archives
    /// hold none, so that a required one rejects them. It blocks.
    pub fn read(files: &PolicyFiles, image: &PolicySubject) -> Result<Self, PolicyError> {
        let admission = Self::unjudged(files, image)?;
        match admission.rejection() {
            Some(rejection) => Err(rejection.into()),
            None if matches!(image, PolicySubject::Layout(..)) => {
                let required = admission.required_signatures().next();
                match required.map(|(number, _)| &admission.requirements[number].text) {
                    Some(text) => Err(admission
                        .unsigned(format!("{text}: a layout or archive holds none"))
                        .into()),
                    None => Ok(admission),
                }
            }
            None => Ok(admission),
        }
    }

    /// Reads the policy and finds the requirements for an image, also for one
    /// that is rejected. It blocks.
    pub fn unjudged(files: &PolicyFiles, image: &PolicySubject) -> Result<Self, FileError> {
        let found = match &files.named {
            Some(path) => Some((
                path.as_path(),
                config_files::read(FileKind::Policy, path, MAX_POLICY)?,
            )),
            None => config_files::first(FileKind::Policy, &files.usual, MAX_POLICY)?,
        };
        let objects = objects::read(files)?;
        let awaited = files.awaited.iter().map(|file| &file.path);
        let of_objects = files.objects.iter().chain(awaited).next();
        let (path, mut policy) = match (found, of_objects) {
            (Some((path, bytes)), _) => {
                let policy = Policy::parse(&bytes)
                    .map_err(|problem| FileError::content(FileKind::Policy, path, problem))?;
                (path, policy)
            }
            (None, Some(path)) => (path.as_path(), Policy::accepting()),
            (None, None) => return Ok(Self::default()),
        };
        policy.add(&objects, files.namespace.as_deref());
        let found = policy.of(image);
        let deciding = of_objects.filter(|_| found.of_objects);
        Ok(Self {
            policy: Some(deciding.map_or(path, PathBuf::as_path).to_owned()),
            scope: found.scope,
            requirements: found.requirements.into_iter().map(Judged::new).collect(),
        })
    }

    /// Whether a signature is required.
    pub fn needs_signature(&self) -> bool {
        self.required_signatures().next().is_some()
    }

    /// The required signatures, each with the number of its requirement.
    pub(crate) fn required_signatures(
        &self,
    ) -> impl Iterator<Item = (usize, &Arc<RequiredSignature>)> {
        let numbered = self.requirements.iter().enumerate();
        numbered.filter_map(|(number, requirement)| match &requirement.decision {
            Decision::Signature(required) => Some((number, required)),
            _ => None,
        })
    }

    /// The rejection of an image whatever its signatures.
    pub(crate) fn rejection(&self) -> Option<PolicyRejection> {
        let (policy, scope) = (self.path(), self.scope.clone());
        self.requirements
            .iter()
            .find_map(|requirement| match &requirement.decision {
                Decision::Accept | Decision::Signature(_) => None,
                Decision::Reject => Some(PolicyRejection::Rejected {
                    policy: policy.clone(),
                    scope: scope.clone(),
                }),
                Decision::Unsupported => Some(PolicyRejection::Unsupported {
                    policy: policy.clone(),
                    scope: scope.clone(),
                    what: requirement.text.clone(),
                }),
                Decision::Unusable(problem) => Some(PolicyRejection::Unusable {
                    policy: policy.clone(),
                    scope: scope.clone(),
                    what: requirement.text.clone(),
                    problem: problem.clone(),
                }),
            })
    }

    /// The rejection of an image without the required signatures.
    pub(crate) fn unsigned(&self, problem: String) -> PolicyRejection {
        PolicyRejection::Unsigned {
            policy: self.path(),
            scope: self.scope.clone(),
            problem,
        }
    }

    /// The judgement of the policy before any search for signatures.
    pub fn verdict(&self) -> Verdict {
        let requirements = self.requirements.iter().map(|requirement| {
            let outcome = match &requirement.decision {
                Decision::Accept => Outcome::Holds("it accepts everything".into()),
                Decision::Reject => Outcome::Fails("it rejects everything".into()),
                Decision::Unsupported => Outcome::Fails("it is not supported".into()),
                Decision::Unusable(problem) => Outcome::Fails(problem.clone()),
                Decision::Signature(_) => Outcome::Fails("there is no signature".into()),
            };
            RequirementVerdict {
                requirement: requirement.text.clone(),
                outcome,
            }
        });
        Verdict {
            policy: self.policy.clone(),
            scope: self.scope.clone(),
            requirements: requirements.collect(),
            searched: Vec::new(),
        }
    }

    fn path(&self) -> PathBuf {
        self.policy.clone().unwrap_or_default()
    }
}

impl Judged {
    /// Reads the keys of a requirement. It blocks.
    fn new(requirement: Requirement) -> Self {
        let (text, decision) = match requirement {
            Requirement::InsecureAcceptAnything => {
                ("insecureAcceptAnything".to_owned(), Decision::Accept)
            }
            Requirement::Reject => ("reject".to_owned(), Decision::Reject),
            Requirement::SignedBy(signed) => signed_by(signed),
            Requirement::SignedBaseLayer => ("signedBaseLayer".to_owned(), Decision::Unsupported),
            Requirement::SigstoreSigned(sigstore) => {
                let text = sigstore_trust::text(&sigstore);
                let decision = match sigstore_trust::read(*sigstore) {
                    Ok(required) => {
                        Decision::Signature(Arc::new(RequiredSignature::Sigstore(required)))
                    }
                    Err(problem) => Decision::Unusable(problem),
                };
                (text, decision)
            }
        };
        Self { text, decision }
    }
}

fn signed_by(signed: SignedBy) -> (String, Decision) {
    if signed.key_type != KeyType::GpgKeys {
        let text = format!("signedBy with the keyType {}", signed.key_type);
        return (text, Decision::Unsupported);
    }
    let text = format!("signedBy with {}", names(&signed.keys));
    let decision = match SimpleRequirement::read(&signed.keys, signed.identity) {
        Ok(required) => Decision::Signature(Arc::new(RequiredSignature::Simple(required))),
        Err(problem) => Decision::Unusable(problem),
    };
    (text, decision)
}

fn names(keys: &[FileOrData]) -> String {
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        return "no key".into();
    }
    names.join(", ")
}
