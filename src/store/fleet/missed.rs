//! Tells a replica of revisions that were published in its absence.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::name::CatalogName;
use crate::store::disk::blocking;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::fetch::wanted;
use crate::store::fleet::pool::Fleet;
use crate::store::{PastRevision, RevisionId, Store};

impl Fleet {
    /// Adds the revisions after the last known one and before another to the history of a
    /// store; of many, the last ones.
    ///
    /// # Errors
    /// When the database does not answer. An outline that cannot be fetched is left to
    /// [`Fleet::fetch_missed_outlines`]: what clients see has to be what a start serves,
    /// whether the bucket answers or not.
    pub async fn fetch_history(
        &self,
        store: &Store,
        catalog: &CatalogName,
        before: RevisionId,
        most: usize,
    ) -> Result<(), FleetError> {
        let newest = store.history().latest(catalog, 1).await?;
        let newest = newest.first().map_or(0, |entry| entry.revision.0);
        let query = sqlx::query(
            "SELECT h.revision, h.published, h.digest, h.incarnation, o.coding, o.size, '' AS name
             FROM history h LEFT JOIN objects o USING (digest, incarnation)
             WHERE h.catalog = $1 AND h.revision > $2 AND h.revision < $3
             ORDER BY h.revision DESC LIMIT $4",
        );
        let query = query
            .bind(catalog.as_str())
            .bind(newest)
            .bind(before.0)
            .bind(i64::try_from(most).unwrap_or(i64::MAX));
        let rows = self.rows("read the history", query).await?;
        let mut missed = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            let Some(one) = past(row) else {
                continue;
            };
            if let Err(error) = self.fetch_outline(store, row, &one).await? {
                tracing::warn!(
                    revision = %one.id, %error,
                    "the history has no outline of this revision yet, so its changes are told later"
                );
            }
            missed.push(one);
        }
        if !missed.is_empty() {
            store.add_past(catalog, &missed).await?;
        }
        Ok(())
    }

    /// Fetches outlines that a store lacks of the history of a catalog, and tells the changes
    /// that were not told without them.
    ///
    /// # Errors
    /// The first one, after each outline was tried.
    pub async fn fetch_missed_outlines(
        &self,
        store: &Store,
        catalog: &CatalogName,
    ) -> Result<(), FleetError> {
        let missing = store.without_outline(catalog).await?;
        if missing.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(
            "SELECT h.revision, h.published, h.digest, h.incarnation, o.coding, o.size, '' AS name
             FROM history h JOIN objects o USING (digest, incarnation)
             WHERE h.catalog = $1 AND h.revision = ANY($2) ORDER BY h.revision DESC",
        );
        let query = query.bind(catalog.as_str());
        let query = query.bind(missing.iter().map(|id| id.0).collect::<Vec<_>>());
        let mut failed = None;
        for row in self.rows("read the history", query).await? {
            let Some(one) = past(&row) else {
                continue;
            };
            if let Err(error) = self.fetch_outline(store, &row, &one).await? {
                failed.get_or_insert(error);
            }
        }
        store.tell_missed_changes(catalog).await?;
        failed.map_or(Ok(()), Err)
    }

    /// Fetches the outline of a revision, if it has one. The inner error is the bucket's.
    async fn fetch_outline(
        &self,
        store: &Store,
        row: &PgRow,
        past: &PastRevision,
    ) -> Result<Result<(), FleetError>, FleetError> {
        if row.get::<Option<&[u8]>, _>("digest").is_none() {
            return Ok(Ok(()));
        }
        let wanted = wanted(row)?;
        let bytes = match self.whole_object(store, &wanted).await {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let (own, content) = (store.clone(), past.published.content);
        let kept = blocking("write in", store.folder.to_path_buf(), move |_| {
            own.keep_outline(&content, &bytes)
        });
        kept.await?;
        Ok(Ok(()))
    }
}

/// The revision of a row; `None` when a newer version has written it, in a way that this one
/// cannot read.
fn past(row: &PgRow) -> Option<PastRevision> {
    Some(PastRevision {
        id: RevisionId(row.get("revision")),
        published: serde_json::from_str(row.get("published")).ok()?,
    })
}
