//! A catalog to follow, and which stored revisions belong to it.

use std::time::Duration;

use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::folder::listing::FolderOptions;
use crate::ingest::images::options::ImageOptions;
use crate::ingest::source::Source;
use crate::name::CatalogName;
use crate::store::{Revision, SourceIdentity};
use ::images::Platform;
use fbc::problem::{Problem, Severity};

/// Treatment of a catalog that has invalid packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnInvalid {
    /// Leave those packages out of the gRPC answers and serve the rest.
    #[default]
    Quarantine,
    /// Refuse the catalog and keep the current revision.
    Reject,
}

impl OnInvalid {
    /// Fails when a catalog with these problems is not to be served.
    pub(super) fn refuse(self, problems: &[Problem]) -> Result<(), PassError> {
        let worst = match self {
            Self::Quarantine => Severity::Fatal,
            Self::Reject => Severity::Error,
        };
        if problems.iter().any(|problem| problem.severity >= worst) {
            return Err(PassError {
                stage: Stage::Build,
                cause: Cause::Refused(problems.to_vec()),
            });
        }
        Ok(())
    }
}

/// A catalog to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its name.
    pub name: CatalogName,
    /// Its source.
    pub source: Source,
    /// The time between two passes; `None` means a single one.
    pub poll: Option<Duration>,
    /// The platform to choose from an image index.
    pub platform: Platform,
    /// Treatment of invalid packages.
    pub on_invalid: OnInvalid,
    /// How a folder is read.
    pub folder: FolderOptions,
    /// How its images are made.
    pub image: ImageOptions,
}

impl Followed {
    /// The source of a revision made now.
    pub fn identity(&self) -> SourceIdentity {
        let variant = match &self.source {
            Source::File(_) => None,
            Source::Curated(curation) => Some(curation.digest().to_string()),
            Source::Image(_) | Source::Layout(_) => Some(self.platform.to_string()),
        };
        SourceIdentity {
            source: self.source.to_string(),
            variant,
        }
    }

    /// Whether a stored revision is of this very source and variant.
    pub fn is_source_of(&self, revision: &Revision) -> bool {
        revision.identity == self.identity()
    }

    /// Whether a stored revision may be served until the first pass. It must be
    /// from the same repository or path; its tag and platform may differ.
    pub fn may_serve(&self, revision: &Revision) -> bool {
        self.has_origin_of(&revision.identity)
    }

    fn has_origin_of(&self, stored: &SourceIdentity) -> bool {
        has_origin_of(&self.source, stored)
    }
}

/// Whether a revision with this identity may be served for a source until the first
/// pass.
pub fn has_origin_of(source: &Source, stored: &SourceIdentity) -> bool {
    if let Source::Curated(_) = source {
        return stored.source == source.without_version();
    }
    match stored.source.parse::<Source>() {
        Ok(stored) => stored.without_version() == source.without_version(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(source: &str) -> Followed {
        Followed {
            name: "a".parse().unwrap(),
            source: source.parse().unwrap(),
            poll: None,
            platform: Platform::default(),
            on_invalid: OnInvalid::default(),
            folder: FolderOptions::default(),
            image: ImageOptions::default(),
        }
    }

    #[test]
    fn a_stored_revision_is_served_for_its_own_repository_or_path_only() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let places = [
            vec![
                "quay.io/a/b:v1".to_owned(),
                "quay.io/a/b:v2".to_owned(),
                format!("quay.io/a/b@{digest}"),
            ],
            vec!["quay.io/a/c:v1".to_owned()],
            vec!["file:/a/my".to_owned()],
            vec!["file:/a/my catalogs/x".to_owned()],
            vec!["file:/a/my catalogs/x linux/amd64".to_owned()],
            vec!["oci:/a/my".to_owned(), "oci:/a/my:v1".to_owned()],
            vec![
                "oci:/a/my layouts/x:v1".to_owned(),
                "oci:/a/my layouts/x:v2".to_owned(),
                format!("oci:/a/my layouts/x@{digest}"),
            ],
            vec![
                "oci:/a/two:quay.io/one/catalog:v1".to_owned(),
                "oci:/a/two:quay.io/one/catalog:v9".to_owned(),
            ],
            vec!["oci:/a/two:quay.io/two/catalog:v9".to_owned()],
            vec!["oci:/a/two:v9".to_owned()],
            vec!["oci-archive:/a/two:v9".to_owned()],
        ];
        for (number, one) in places.iter().enumerate() {
            for (other, stored) in places.iter().enumerate() {
                for (source, stored) in one.iter().flat_map(|s| stored.iter().map(move |t| (s, t)))
                {
                    let stored_text = followed(stored).identity().to_string();
                    let stored_identity = SourceIdentity::from_text(&stored_text);
                    assert_eq!(stored_identity, followed(stored).identity());
                    let served = followed(source).has_origin_of(&stored_identity);
                    assert_eq!(served, number == other, "{source} of {stored}");
                }
            }
        }
        let curated = Followed {
            source: Source::default(),
            ..followed("quay.io/a/b:v1")
        };
        assert!(curated.has_origin_of(&curated.identity()));
        for other in places.iter().flatten().map(|source| followed(source)) {
            assert!(!curated.has_origin_of(&other.identity()));
            assert!(!other.has_origin_of(&curated.identity()));
        }
    }
}
