//! Why a pass failed.

use std::fmt;
use std::time::Duration;

use crate::answers::rest::packages::EncodeError;
use crate::error_chain::error_chain;
use crate::fleet::FleetError;
use crate::ingest::curation::CurateError;
use crate::ingest::files_error::FilesError;
use crate::snapshot::AttemptFailure;
use crate::store::{DiskError, StoreError};
use ::images::LayoutError;
use ::images::layers::UnpackError;
use ::images::policy::{PolicyError, PolicyRejection};
use fbc::problem::{Problem, Severity};

/// The stages of a pass. Functions, spans and metric labels use the same verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Image reference ─► digest.
    Resolve,
    /// Digest ─► verified blobs.
    Pull,
    /// Layers ─► files.
    Unpack,
    /// Files ─► metas.
    Read,
    /// Metas ─► catalog and answers.
    Build,
    /// Catalog ─► revision.
    Commit,
    /// Revision ─► all replicas of a fleet.
    Share,
    /// Revision ─► snapshot.
    Publish,
}

impl Stage {
    /// The verb.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Pull => "pull",
            Self::Unpack => "unpack",
            Self::Read => "read",
            Self::Build => "build",
            Self::Commit => "commit",
            Self::Share => "share",
            Self::Publish => "publish",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pass that failed: where and why.
#[derive(Debug)]
pub struct PassError {
    /// The stage that failed.
    pub stage: Stage,
    /// Why.
    pub cause: Cause,
}

/// Why a stage failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The registry, or its response.
    #[error(transparent)]
    Oci(#[from] images::Error),
    /// The policy, or its rejection of a layout.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The layout, or its content.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A document of the layout that is no supported manifest.
    #[error("manifest {digest} refused")]
    LayoutDocument {
        /// The document.
        digest: ::images::digest::Digest,
        /// Why.
        source: images::ManifestError,
    },
    /// A blob of the layout that cannot be read, or is damaged.
    #[error("cannot read the blob {digest}: {source}")]
    LayoutBlob {
        /// The blob.
        digest: ::images::digest::Digest,
        /// Why.
        source: std::io::Error,
    },
    /// The catalog's files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The files of an image.
    #[error("{image}: {error}")]
    Image {
        /// The image.
        image: String,
        /// Their problems.
        #[source]
        error: Box<FilesError>,
    },
    /// The selection of a curated catalog.
    #[error(transparent)]
    Curate(Box<CurateError>),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The fleet.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A temporary folder cannot be made.
    #[error("cannot make a temporary folder: {0}")]
    Temporary(std::io::Error),
    /// An image of a catalog cannot be written.
    #[error("cannot write the image of the catalog: {0}")]
    WriteImage(std::io::Error),
    /// An image of a catalog in the store cannot be read.
    #[error("cannot read the image of the catalog: {0}")]
    ReadImage(std::io::Error),
    /// An image that is not mirrored.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// A catalog with problems that forbid serving it.
    #[error("{}", refusal(.0))]
    Refused(Vec<Problem>),
    /// The pass took too long.
    #[error("the pass was given up after {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// A defect of almanac.
    #[error("almanac failed on this catalog: {0}")]
    Panicked(String),
}

/// Why an image is not mirrored.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The source is no image.
    #[error(
        "only an image can be mirrored, and the source of this catalog is none; \
         set mirror = \"slim\""
    )]
    NoImage,
    /// More manifests and blobs than the limit.
    #[error("the image and its attachments have more than {limit} manifests and blobs")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// More bytes than the limit.
    #[error("the image and its attachments are larger than {times} times limits.bytes")]
    TooLarge {
        /// The limit, as a multiple of the limit of one image.
        times: u64,
    },
}

impl MirrorError {
    /// A short label for metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::NoImage => "no_image",
            Self::TooMany { .. } | Self::TooLarge { .. } => "limit",
        }
    }
}

/// An answer that cannot be encoded is a defect of almanac.
impl From<EncodeError> for Cause {
    fn from(error: EncodeError) -> Self {
        Self::Panicked(error.to_string())
    }
}

impl From<CurateError> for Cause {
    fn from(error: CurateError) -> Self {
        Self::Curate(Box::new(error))
    }
}

/// The first of the worst problems, and the number of the others.
fn refusal(problems: &[Problem]) -> String {
    let worst = problems.iter().map(|problem| problem.severity).max();
    let mut first = problems
        .iter()
        .filter(|problem| Some(problem.severity) == worst && problem.severity > Severity::Warning);
    match (first.next(), first.count()) {
        (None, _) => "the catalog is refused".into(),
        (Some(problem), 0) => format!("the catalog is refused: {problem}"),
        (Some(problem), more) => format!("the catalog is refused: {problem} (and {more} more)"),
    }
}

impl From<DiskError> for Cause {
    fn from(error: DiskError) -> Self {
        Self::Store(error.into())
    }
}

impl PassError {
    /// The rejection by the policy, if it is one.
    pub fn rejection(&self) -> Option<&PolicyRejection> {
        match &self.cause {
            Cause::Oci(images::Error::Rejected { source, .. })
            | Cause::Policy(PolicyError::Rejected(source)) => Some(source),
            _ => None,
        }
    }

    /// Whether the image or its content was refused. All other errors are failures.
    pub fn is_refusal(&self) -> bool {
        match &self.cause {
            Cause::Refused(_) => true,
            Cause::Files(error) => error.is_refusal(),
            Cause::Image { error, .. } => error.is_refusal(),
            Cause::Curate(error) => matches!(**error, CurateError::Select(_)),
            _ => self.rejection().is_some(),
        }
    }

    /// For `map_err`: an error of a stage.
    pub(super) fn at<E: Into<Cause>>(stage: Stage) -> impl Fn(E) -> Self {
        move |cause| Self {
            stage,
            cause: cause.into(),
        }
    }

    /// The same, naming the image in an error of its files.
    pub(super) fn of_image(self, image: &impl fmt::Display) -> Self {
        let Self { stage, cause } = self;
        let cause = match cause {
            Cause::Files(error) => Cause::Image {
                image: image.to_string(),
                error: Box::new(error),
            },
            cause => cause,
        };
        Self { stage, cause }
    }

    /// Whether the source does not have the requested content.
    pub(super) fn is_absence(&self) -> bool {
        match &self.cause {
            Cause::Oci(error) => error.is_not_found(),
            Cause::Layout(error) => error.is_not_found(),
            _ => false,
        }
    }

    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match &self.cause {
            Cause::Oci(error) => error.reason(),
            Cause::Policy(error) => error.reason(),
            Cause::Layout(_) | Cause::LayoutDocument { .. } | Cause::LayoutBlob { .. } => "layout",
            Cause::Files(error) => error.reason(),
            Cause::Image { error, .. } => error.reason(),
            Cause::Curate(error) => error.reason(),
            Cause::Store(_) => "store",
            Cause::Fleet(error) => error.reason(),
            Cause::Temporary(_) | Cause::WriteImage(_) | Cause::ReadImage(_) => "io",
            Cause::Mirror(error) => error.reason(),
            Cause::Refused(_) => "refused",
            Cause::Timeout(_) => "timeout",
            Cause::Panicked(_) => "panic",
        }
    }

    /// Whether the cause is this machine, such as a full disk, not the catalog.
    pub fn is_local(&self) -> bool {
        let spool = |error: &FilesError| {
            matches!(
                error,
                FilesError::Spool { .. } | FilesError::Unpack(UnpackError::Spool(_))
            )
        };
        match &self.cause {
            Cause::Store(_)
            | Cause::Fleet(_)
            | Cause::Temporary(_)
            | Cause::WriteImage(_)
            | Cause::ReadImage(_) => true,
            Cause::Files(error) => spool(error),
            Cause::Image { error, .. } => spool(error),
            _ => false,
        }
    }

    /// Whether another replica of a fleet may do better: the cause is this machine, or its
    /// way to the bucket.
    pub(super) fn is_of_replica(&self) -> bool {
        match &self.cause {
            Cause::Curate(error) => matches!(**error, CurateError::Behind(_)),
            Cause::Fleet(error) => error.is_of_replica(),
            // With certificates or credentials.
            Cause::Oci(images::Error::File { .. }) => true,
            _ => self.is_local(),
        }
    }

    /// The error for those who compare it with an earlier one, without the stage.
    pub(super) fn lasting(&self) -> AttemptFailure {
        let text = match &self.cause {
            Cause::Oci(error) => error.lasting_text(),
            cause => error_chain(cause),
        };
        AttemptFailure {
            text: without_temporary_names(&text),
            reason: self.reason(),
            is_of_content: !matches!(self.stage, Stage::Resolve | Stage::Pull | Stage::Unpack),
        }
    }

    /// Whether a file or folder cannot be read or written.
    pub(super) fn is_io(&self) -> bool {
        match &self.cause {
            Cause::Files(error) => error.is_io(),
            Cause::Image { error, .. } => error.is_io(),
            Cause::Temporary(_) | Cause::WriteImage(_) | Cause::ReadImage(_) => true,
            _ => false,
        }
    }

    /// The time that the registry asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.cause {
            Cause::Oci(error) => error.retry_after(),
            _ => None,
        }
    }
}

/// A text without the random ends of names of temporary files.
fn without_temporary_names(text: &str) -> String {
    const NAME: &str = "/.tmp";
    let mut parts = text.split(NAME);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_random = |sign: char| sign.is_ascii_alphanumeric();
        plain.push_str(NAME);
        plain.push_str(part.trim_start_matches(is_random));
    }
    plain
}

/// The whole chain of causes in one line.
impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, error_chain(&self.cause))
    }
}

impl std::error::Error for PassError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_a_mirror_has_its_own_reason_and_text() {
        let error = PassError::at::<Cause>(Stage::Pull)(MirrorError::TooMany { limit: 7 }.into());
        assert_eq!((error.reason(), error.is_local()), ("limit", false));
        let text = "pull: the image and its attachments have more than 7 manifests and blobs";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_failure_that_lasts_has_one_text() {
        let at = |name: &str| {
            let path = format!("/data/{name}/a").into();
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            PassError::at(Stage::Unpack)(FilesError::Spool { path, source }).lasting()
        };
        assert_eq!(at(".tmpAbc123"), at(".tmpXyZ789"));
        assert!(at(".tmpAbc123").text.contains("/data/.tmp/a"));
        assert!(!at("").is_of_content);
        let refused = PassError::at(Stage::Build)(Cause::Refused(Vec::new())).lasting();
        assert!(refused.is_of_content);
        assert_eq!(refused.text, "the catalog is refused");
    }

    #[test]
    fn a_full_disk_is_no_fault_of_a_catalog() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let spool = FilesError::Spool {
            path: "/tmp".into(),
            source: full(),
        };
        let at = |cause: Cause| PassError::at(Stage::Unpack)(cause);
        assert!(at(spool.into()).is_local());
        assert!(at(FilesError::Unpack(UnpackError::Spool(full())).into()).is_local());
        assert!(at(Cause::Temporary(full())).is_local());
        assert!(at(Cause::WriteImage(full())).is_local());
        assert!(!at(FilesError::NoLabel.into()).is_local());
        assert!(!at(Cause::Refused(Vec::new())).is_local());
    }
}
