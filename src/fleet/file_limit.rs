//! How long the files of a revision and how large its image may be that a replica takes from
//! others: rows and records tell their lengths, and a damaged or forged one is no reason to
//! fill a disk.

use crate::fleet::error::FleetError;
use crate::store::{Image, Revision, RevisionId};
use ::images::layers::Limits;

/// A line may be so many times as long as the YAML that it is made of. Other files are no
/// longer than the lines, but for small ones.
const EXPANSION: u64 = 8;
/// What a file may have in any case, as a short document may become so long.
const SMALL: u64 = 1 << 20;
/// The most files of a revision; this version makes ten.
pub(super) const MAX_FILES: usize = 32;

/// The longest file of a revision, and its largest image.
#[derive(Clone, Copy, Debug)]
pub struct FileLimit {
    catalog_bytes: u64,
    image_bytes: u64,
}

impl FileLimit {
    /// For catalogs within these limits.
    pub fn of(limits: &Limits) -> Self {
        Self {
            catalog_bytes: limits.folder_bytes,
            image_bytes: limits.bytes.saturating_mul(Image::IMAGES),
        }
    }

    /// The same in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.catalog_bytes
            .saturating_mul(EXPANSION)
            .saturating_add(SMALL)
    }

    /// Refuses a file that is longer.
    pub(super) fn check(
        self,
        revision: RevisionId,
        file: &str,
        length: u64,
    ) -> Result<(), FleetError> {
        if length <= self.bytes() {
            return Ok(());
        }
        Err(FleetError::TooLong {
            revision,
            file: file.to_owned(),
            length,
            limit: self.bytes(),
        })
    }

    /// Refuses an image that is larger than a mirrored one may be.
    ///
    /// # Errors
    /// When it is.
    pub(super) fn check_image(self, revision: RevisionId, image: &Image) -> Result<(), FleetError> {
        if image.parts().count() > Image::MAX_PARTS {
            return Err(FleetError::Row("images"));
        }
        let sizes = image.parts().map(|part| part.size);
        let bytes = sizes.fold(0_u64, u64::saturating_add);
        if bytes <= self.image_bytes {
            return Ok(());
        }
        Err(FleetError::ImageTooLarge {
            revision,
            bytes,
            limit: self.image_bytes,
        })
    }

    /// Refuses a revision that other replicas with this limit would not take.
    ///
    /// # Errors
    /// When one of its files is longer.
    pub(super) fn check_revision(self, revision: &Revision) -> Result<(), FleetError> {
        let mut files = revision.files.iter();
        files.try_for_each(|(name, sum)| self.check(revision.id, name, sum.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_is_told_with_the_setting() {
        let limit = FileLimit {
            catalog_bytes: 100,
            image_bytes: 0,
        };
        let longest = 800 + SMALL;
        assert!(
            limit
                .check(RevisionId::from_number(7), "metas.jsonl", longest)
                .is_ok()
        );
        let refused = limit.check(RevisionId::from_number(7), "metas.jsonl", longest + 1);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "the file metas.jsonl of revision 7 has 1049377 bytes, more than the 1049376 that \
             catalog_bytes of [limits] allows here: raise it in the configuration of all replicas"
        );
        let unlimited = FileLimit {
            catalog_bytes: u64::MAX,
            image_bytes: 0,
        };
        assert!(
            unlimited
                .check(RevisionId::from_number(7), "a", u64::MAX)
                .is_ok()
        );
    }
}
