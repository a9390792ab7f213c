//! Commits revisions of another store, with what it knows of those before them.

use std::collections::BTreeSet;
use std::time::SystemTime;

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::history::is_new;
use crate::store::images::records::Image;
use crate::store::revision::{PastRevision, Revision, RevisionId};
use crate::store::revisions::commit::{Dates, NewRevision, Pending, make_current};
use crate::store::revisions::revision_exists;
use crate::store::revisions::writer::Finished;
use crate::store::sql::{self, seconds, whole};
use crate::store::{HistoryEntry, Store, StoreError};
use ::images::digest::Digest;

/// A revision of another store, to import.
pub struct Import<'a> {
    /// Its files.
    pub finished: Finished,
    /// Its description.
    pub new: NewRevision<'a>,
    /// The number that it had. It keeps it unless another revision has or had it
    /// here, or a later one of the catalog is known. So do those before it.
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
        let mut next = self.next_number().await?;
        let mut taken = BTreeSet::new();
        for mut import in imports {
            let dates = import.dates(self.last_of(import.new.catalog).await?);
            let parts: Vec<Digest> = import.image.parts().map(|part| part.digest).collect();
            pins.push(self.pins(&parts));
            let catalog = import.new.catalog;
            let mut past = self.past_after(catalog, import.past).await?;
            let ids = past.iter_mut().map(|one| &mut one.id);
            let mut ids: Vec<&mut RevisionId> = ids.chain([&mut import.id]).collect();
            self.number(catalog, &mut ids, &mut next, &mut taken)
                .await?;
            let past = self.prepare_past(catalog, &past).await?;
            let last = past.last().map(|(past, _)| past.published.outline());
            let source = import.new.digest;
            let outline = self.outline(&mut import.finished, catalog, source, last);
            let outline = outline.await?;
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
                let untold = sqlx::query("INSERT INTO untold (revision) VALUES (?)");
                let untold = untold.bind(revision.id.0);
                sql::execute(&mut *transaction, "record the import", untold).await?;
                revisions.push(revision);
            }
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))?;
            drop(pins);
            Ok(revisions)
        })
        .await
    }

    /// Whether webhooks are to be told of the import of a revision. Each gets this answer once.
    pub async fn claim_import(&self, id: RevisionId) -> Result<bool, StoreError> {
        let query = sqlx::query("DELETE FROM untold WHERE revision = ? RETURNING revision");
        let row = sql::first(&self.pool, "record the event", query.bind(id.0)).await?;
        Ok(row.is_some())
    }

    /// The revisions of another store that come after the last one known here.
    async fn past_after(
        &self,
        catalog: &CatalogName,
        past: &[PastRevision],
    ) -> Result<Vec<PastRevision>, StoreError> {
        let last = self.history().latest(catalog, 1).await?;
        let Some(last) = last.first().map(HistoryEntry::past) else {
            return Ok(past.to_vec());
        };
        if let Some(at) = past.iter().rposition(|one| one.published == last.published) {
            return Ok(past[at + 1..].to_vec());
        }
        // Numbers are of the other store, and dates have whole seconds.
        let order = |one: &PastRevision| (one.published.committed, one.id);
        let new = past.iter().filter(|one| order(one) > order(&last));
        Ok(new.cloned().collect())
    }

    /// The first number that no revision has or had.
    async fn next_number(&self) -> Result<RevisionId, StoreError> {
        let query = sqlx::query(
            "SELECT 1 + max(
               (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'revisions'),
               (SELECT coalesce(max(revision), 0) FROM history))",
        );
        let row = sql::first(&self.pool, "look up the last number", query).await?;
        Ok(RevisionId(row.map_or(1, |row| row.get(0))))
    }

    /// Gives revisions of another store numbers of this one, in their order. They keep theirs
    /// if no revision has or had them, and none of the catalog a larger one.
    async fn number(
        &self,
        catalog: &CatalogName,
        ids: &mut [&mut RevisionId],
        next: &mut RevisionId,
        taken: &mut BTreeSet<RevisionId>,
    ) -> Result<(), StoreError> {
        let mut last = None;
        for id in ids {
            let wanted = **id;
            let is_free = wanted.is_sound()
                && last < Some(wanted)
                && !taken.contains(&wanted)
                && !revision_exists(&self.pool, wanted).await?
                && is_new(&self.pool, catalog, wanted).await?;
            if !is_free {
                **id = last.map_or(*next, |last: RevisionId| last.next().max(*next));
            }
            taken.insert(**id);
            *next = (*next).max(id.next());
            last = Some(**id);
        }
        Ok(())
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
