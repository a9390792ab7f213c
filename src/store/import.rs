//! Commits revisions of another store, with what it knows of those before them.

use std::time::SystemTime;

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

impl Store {
    /// Imports all revisions, or none if anything fails. They become the current
    /// revisions of their catalogs.
    pub async fn import(&self, imports: Vec<Import<'_>>) -> Result<Vec<Revision>, StoreError> {
        self.sync_contents().await?;
        let mut pending = Vec::with_capacity(imports.len());
        let mut pins = Vec::new();
        for mut import in imports {
            let dates = Dates {
                modified: seconds(import.modified),
                committed: seconds(import.committed),
            };
            let parts: Vec<Digest> = import.image.parts().map(|part| part.digest).collect();
            pins.push(self.pins(&parts));
            let catalog = import.new.catalog;
            let past = self.prepare_past(catalog, import.past).await?;
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
}
