//! What a generation is: the revision and the image of a track that all replicas serve.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::store::RevisionId;
use crate::store::fleet::leases::TrackId;
use crate::store::fleet::sources::SourceRevision;

/// What clients see of a track at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its name.
    pub id: GenerationId,
    /// Its revision.
    pub revision: RevisionId,
    /// The digest of the revision's content: after a failover that lost commits, a
    /// number may be assigned a second time.
    pub content: String,
    /// The row of its image.
    pub image: Option<i64>,
    /// When all turn to it, in microseconds of the database's clock; `None` while they
    /// fetch it.
    pub flips: Option<i64>,
    /// When the pass began that found it at its source, likewise.
    pub resolved: Option<i64>,
    /// Whether webhooks have not been told of its revision.
    pub untold: bool,
    /// The date of its content, in seconds since 1970.
    pub modified: i64,
    /// What its track shows may not be older than this, likewise.
    pub not_before: Option<i64>,
}

impl Generation {
    /// Whether it shows this revision.
    pub fn shows(&self, source: &SourceRevision) -> bool {
        (self.revision, &*self.content) == (source.revision, &*source.content)
    }

    /// Whether another configuration of the catalog has shown something later.
    pub fn is_outdated(&self) -> bool {
        self.not_before.is_some_and(|date| self.modified < date)
    }

    /// Whether both are the same, whether or not their moment is set. After a failover, a
    /// number may mean another generation.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
            && self.revision == other.revision
            && self.content == other.content
            && self.image == other.image
    }
}

/// A generation of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationId {
    /// The track.
    pub track: TrackId,
    /// Its number, from 1.
    pub number: i64,
}

/// The generation of a row with all these columns.
pub(super) fn generation(row: &PgRow) -> Generation {
    Generation {
        id: GenerationId {
            track: TrackId(row.get("track")),
            number: row.get("number"),
        },
        revision: RevisionId(row.get("revision")),
        content: row.get("content"),
        image: row.get("image"),
        flips: row.get("flips"),
        resolved: row.get("resolved"),
        untold: row.get("untold"),
        modified: row.get("modified"),
        not_before: row.get("not_before"),
    }
}
