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
    /// When the database does not answer. Outlines that cannot be fetched are left to
    /// [`Fleet::complete_history`]: what clients see has to be what a start serves, whether
    /// the bucket answers or not.
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
        if let Err(error) = self.fetch_outlines(store, &rows).await {
            tracing::warn!(
                %error,
                "the history lacks outlines of revisions, so some changes are told later"
            );
        }
        let past: Vec<_> = rows.iter().rev().filter_map(past).collect();
        if !past.is_empty() {
            store.add_past(catalog, &past).await?;
        }
        Ok(())
    }

    /// Fetches outlines that a store lacks of the history of a catalog, and tells the changes
    /// that were not told without them.
    ///
    /// # Errors
    /// The first one. Changes between fetched outlines are told all the same.
    pub async fn complete_history(
        &self,
        store: &Store,
        catalog: &CatalogName,
    ) -> Result<(), FleetError> {
        let fetched = self.fetch_missing(store, catalog).await;
        // Always: an outline may have come with another revision of the same content.
        store.tell_missed_changes(catalog).await?;
        fetched
    }

    async fn fetch_missing(&self, store: &Store, catalog: &CatalogName) -> Result<(), FleetError> {
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
        let rows = self.rows("read the history", query).await?;
        self.fetch_outlines(store, &rows).await
    }

    /// Fetches the outlines of these rows that a store lacks. A bucket that is away is asked
    /// once.
    async fn fetch_outlines(&self, store: &Store, rows: &[PgRow]) -> Result<(), FleetError> {
        let mut failed = None;
        for row in rows {
            let Err(error) = self.fetch_outline(store, row).await else {
                continue;
            };
            let is_temporary = error.is_temporary();
            failed.get_or_insert(error);
            if is_temporary {
                break;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn fetch_outline(&self, store: &Store, row: &PgRow) -> Result<(), FleetError> {
        let Some(past) = past(row) else {
            return Ok(());
        };
        let name = past.published.outline();
        let has_object = row.get::<Option<&[u8]>, _>("digest").is_some();
        if !has_object || store.has_outline(&name).await? {
            return Ok(());
        }
        let bytes = self.whole_object(store, &wanted(row)?).await?;
        let own = store.clone();
        let kept = blocking("write in", store.folder.to_path_buf(), move |_| {
            own.keep_outline(&name, &bytes)
        });
        Ok(kept.await?)
    }
}

/// The revision of a row; `None` when a newer version has written it in a way that this one
/// cannot read.
fn past(row: &PgRow) -> Option<PastRevision> {
    Some(PastRevision {
        id: RevisionId(row.get("revision")),
        published: serde_json::from_str(row.get("published")).ok()?,
    })
}
