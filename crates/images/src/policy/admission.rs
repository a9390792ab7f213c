//! The requirements of the policy for one image.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::config_files::{self, FileError, FileKind};
use crate::policy::key::PublicKey;
use crate::policy::policy_json::{Policy, Requirement, SigstoreSigned};
use crate::policy::signature::RequiredSignature;
use crate::policy::subject::PolicySubject;

/// The largest policy, in bytes.
const MAX_POLICY: u64 = 4 << 20;
/// The largest public key, in bytes.
const MAX_KEY: u64 = 64 << 10;

/// Why the policy does not admit an image.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The policy, or a key that it names, cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The policy rejects the image.
    #[error(transparent)]
    Rejected(#[from] PolicyRejection),
}

impl PolicyError {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::File(error) => error.reason(),
            Self::Rejected(rejection) => rejection.reason(),
        }
    }
}

/// Why the policy rejects an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRejection {
    /// The policy rejects it, with or without a signature.
    #[error("the policy {} rejects {scope}", policy.display())]
    Rejected {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
    },
    /// The policy requires something unsupported.
    #[error("the policy {} requires {what} for {scope}, which is not supported", policy.display())]
    Unsupported {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
        /// The unsupported requirement.
        what: String,
    },
    /// No signature meets the requirements.
    #[error("the policy {} requires a signature for {scope}: {problem}", policy.display())]
    Unsigned {
        /// The file.
        policy: PathBuf,
        /// The matching scope.
        scope: String,
        /// The problem of the signatures.
        problem: String,
    },
}

impl PolicyRejection {
    /// A short label for metrics, of a small fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unsigned { .. } => "signature",
            Self::Rejected { .. } | Self::Unsupported { .. } => "policy",
        }
    }
}

/// Where the policy is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFiles {
    /// A file from the settings. It must exist.
    pub named: Option<PathBuf>,
    /// The usual files, of which the first that exists applies. Without any of
    /// them every image is admitted.
    pub usual: Vec<PathBuf>,
}

/// The requirements for one image. The default has none.
#[derive(Debug, Default)]
pub struct Admission {
    policy: PathBuf,
    scope: String,
    /// Each of them needs a signature of its own.
    required: Vec<RequiredSignature>,
}

impl Admission {
    /// Reads the policy and finds the requirements for an image. Layouts and
    /// archives hold no signatures, so that a required one rejects them. It
    /// blocks.
    pub fn read(files: &PolicyFiles, image: &PolicySubject) -> Result<Self, PolicyError> {
        let found = match &files.named {
            Some(path) => Some((
                path.as_path(),
                config_files::read(FileKind::Policy, path, MAX_POLICY)?,
            )),
            None => config_files::first(FileKind::Policy, &files.usual, MAX_POLICY)?,
        };
        let Some((path, bytes)) = found else {
            return Ok(Self::default());
        };
        let policy: Policy = serde_json::from_slice(&bytes)
            .map_err(|error| FileError::content(FileKind::Policy, path, error))?;
        policy
            .check_scopes()
            .map_err(|problem| FileError::content(FileKind::Policy, path, problem))?;
        let (scope, requirements) = policy.of(image);
        let admission = Self::new(path, scope, requirements)?;
        if matches!(image, PolicySubject::Layout(..)) && !admission.required.is_empty() {
            let problem = "a layout or archive holds none".to_owned();
            return Err(admission.unsigned(problem).into());
        }
        Ok(admission)
    }

    /// The signatures that the image needs. Without any, it is admitted.
    pub fn required_signatures(&self) -> &[RequiredSignature] {
        &self.required
    }

    /// The rejection of an image without the required signatures.
    pub(crate) fn unsigned(&self, problem: String) -> PolicyRejection {
        PolicyRejection::Unsigned {
            policy: self.policy.clone(),
            scope: self.scope.clone(),
            problem,
        }
    }

    fn new(
        path: &Path,
        scope: String,
        requirements: Vec<Requirement>,
    ) -> Result<Self, PolicyError> {
        let mut required = Vec::new();
        for requirement in requirements {
            let unsupported = |what: &str| {
                Err(PolicyError::Rejected(PolicyRejection::Unsupported {
                    policy: path.to_owned(),
                    scope: scope.clone(),
                    what: what.to_owned(),
                }))
            };
            let sigstore = match requirement {
                Requirement::InsecureAcceptAnything {} => continue,
                Requirement::Reject {} => {
                    let policy = path.to_owned();
                    return Err(PolicyRejection::Rejected { policy, scope }.into());
                }
                Requirement::SignedBy(_) => return unsupported("signedBy (GPG signatures)"),
                Requirement::SignedBaseLayer(_) => return unsupported("signedBaseLayer"),
                Requirement::SigstoreSigned(sigstore) => sigstore,
            };
            if sigstore.fulcio.is_some() {
                return unsupported("sigstoreSigned with fulcio");
            }
            if sigstore.pki.is_some() {
                return unsupported("sigstoreSigned with pki");
            }
            if sigstore.has_rekor() {
                return unsupported("sigstoreSigned with a key of Rekor");
            }
            required.push(read_keys(*sigstore, path)?);
        }
        Ok(Self {
            policy: path.to_owned(),
            scope,
            required,
        })
    }
}

/// Reads the keys of a `sigstoreSigned` requirement.
fn read_keys(sigstore: SigstoreSigned, policy: &Path) -> Result<RequiredSignature, FileError> {
    let mut keys = Vec::new();
    let paths = sigstore.key_paths.into_iter().flatten();
    for path in sigstore.key_path.into_iter().chain(paths) {
        let pem = config_files::read(FileKind::Key, &path, MAX_KEY)?;
        let key = PublicKey::parse(&pem);
        keys.push(key.map_err(|problem| FileError::content(FileKind::Key, &path, problem))?);
    }
    let texts = sigstore.key_datas.into_iter().flatten();
    for text in sigstore.key_data.into_iter().chain(texts) {
        let pem = BASE64_STANDARD.decode(text.trim());
        let key = pem
            .map_err(|_| "it is no base64")
            .and_then(|pem| PublicKey::parse(&pem));
        keys.push(key.map_err(|problem| {
            FileError::content(FileKind::Policy, policy, format!("keyData: {problem}"))
        })?);
    }
    Ok(RequiredSignature {
        keys,
        identity: sigstore.signed_identity,
    })
}
