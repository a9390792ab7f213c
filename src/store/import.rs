//! Commits revisions of another store, with what it knows of those before them.

use std::time::SystemTime;

use crate::name::CatalogName;
use crate::store::commit::{Dates, NewRevision, Pending, make_current};
use crate::store::images::Image;
use crate::store::revision::{PastRevision, Revision, RevisionId};
use crate::store::sql::{seconds, whole};
use crate::store::writer::Finished;
use crate::store::{Store, StoreError};
use ::images::digest::Digest;

/// A revision of another store, to import.
pub struct Import<'a> {
    /// Its files.
    pub finished: Finished,
    /// Its description.
    pub new: NewRevision<'a>,
    /// The number that it had. It keeps it unless another revision has or had it
    /// here, or a later one of the catalog is known.
    pub id: RevisionId,
    /// When its content first became a revision.
    pub modified: SystemTime,
    /// When it was committed.
    pub committed: SystemTime,
    /// Its image. The blobs are in the store, and pinned.
    pub image: &'a Image,
    /// The revisions before it, in the order of their numbers. Their outlines are kept.
    pub past: &'a [PastRevision],
}

/// The last revision that is known of a catalog.
struct Last {
    content: Digest,
    modified: i64,
    committed: i64,
}

impl Import<'_> {
    /// The dates of the other store, unless this catalog goes back: then it is published
    /// now. Clients that compare nothing but the date notice each other content.
    fn dates(&self, last: Option<Last>) -> Dates {
        let (modified, committed) = (seconds(self.modified), seconds(self.committed));
        let Some(last) = last else {
            return Dates {
                modified,
                committed,
            };
        };
        let now = seconds(SystemTime::now()).max(last.committed);
        let goes_back = committed < last.committed;
        let earliest = if last.content == self.finished.content {
            last.modified
        } else if goes_back {
            now.max(last.modified.saturating_add(1))
        } else {
            last.modified.saturating_add(1)
        };
        Dates {
            modified: modified.max(earliest),
            committed: if goes_back { now } else { committed },
        }
    }
}

impl Store {
    /// Imports all revisions, or none if anything fails. They become the current
    /// revisions of their catalogs.
    pub async fn import(&self, imports: Vec<Import<'_>>) -> Result<Vec<Revision>, StoreError> {
        self.sync_contents().await?;
        let mut pending = Vec::with_capacity(imports.len());
        let mut pins = Vec::new();
        for mut import in imports {
            let dates = import.dates(self.last_of(import.new.catalog).await?);
            let parts: Vec<Digest> = import.image.parts().map(|part| part.digest).collect();
            pins.push(self.pins(&parts));
            let catalog = import.new.catalog;
            let past = self
                .past_after(catalog, import.past, dates.committed)
                .await?;
            let past = self.prepare_past(catalog, &past).await?;
            let last = past.last().map(|(past, _)| past.published.content);
            let outline = self.outline(&mut import.finished, catalog, last).await?;
            pending.push(Pending {
                outline,
                past,
                wanted: Some(import.id),
                image: Some(import.image.clone()),
                ..Pending::new(import.finished, import.new, dates)
            });
        }
        let store = self.clone();
        whole(async move {
            let mut revisions = Vec::with_capacity(pending.len());
            let mut transaction = store.begin().await?;
            for one in pending {
                let revision = store.insert_revision(&mut transaction, one).await?;
                make_current(&mut transaction, &revision.catalog, revision.id).await?;
                revisions.push(revision);
            }
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))?;
            drop(pins);
            Ok(revisions)
        })
        .await
    }

    /// The revisions of another store that come after those known here. One with an earlier
    /// date was not served at that time: it counts as published with the next one.
    async fn past_after(
        &self,
        catalog: &CatalogName,
        past: &[PastRevision],
        committed: i64,
    ) -> Result<Vec<PastRevision>, StoreError> {
        let history = self.history().list(catalog).await?;
        let Some(last) = history.first() else {
            return Ok(past.to_vec());
        };
        let (known, published) = (last.revision, seconds(last.committed));
        let new = past.iter().filter(|one| one.id > known);
        let mut new: Vec<PastRevision> = new.cloned().collect();
        let mut next = committed;
        for one in new.iter_mut().rev() {
            if one.published.committed < published {
                one.published.committed = next;
            }
            next = one.published.committed;
        }
        Ok(new)
    }

    /// The last known revision of a catalog. Its files may be lost, or of another version.
    async fn last_of(&self, catalog: &CatalogName) -> Result<Option<Last>, StoreError> {
        if let Some(current) = self.current(catalog).await? {
            return Ok(Some(Last {
                content: current.content,
                modified: seconds(current.modified),
                committed: seconds(current.committed),
            }));
        }
        let last = self.history().latest(catalog, 1).await?;
        Ok(last.first().map(|last| Last {
            content: last.content,
            // No content is older than its publication.
            modified: seconds(last.committed),
            committed: seconds(last.committed),
        }))
    }
}
