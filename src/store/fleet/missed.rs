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
    /// When the database does not answer. An outline that cannot be fetched is left out: what
    /// clients see has to be what a start serves, whether the bucket answers or not.
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
        let mut past = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            // One of a newer version that this one cannot read.
            let Ok(published) = serde_json::from_str(row.get("published")) else {
                continue;
            };
            let one = PastRevision {
                id: RevisionId(row.get("revision")),
                published,
            };
            self.fetch_outline(store, row, &one).await?;
            past.push(one);
        }
        if !past.is_empty() {
            store.add_past(catalog, &past).await?;
        }
        Ok(())
    }

    async fn fetch_outline(
        &self,
        store: &Store,
        row: &PgRow,
        past: &PastRevision,
    ) -> Result<(), FleetError> {
        if row.get::<Option<&[u8]>, _>("digest").is_none() {
            return Ok(());
        }
        let wanted = wanted(row)?;
        let bytes = match self.whole_object(store, &wanted).await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(
                    revision = %past.id, %error,
                    "the history has no outline of this revision, so its changes are not told"
                );
                return Ok(());
            }
        };
        let (own, content) = (store.clone(), past.published.content);
        let kept = blocking("write in", store.folder.to_path_buf(), move |_| {
            own.keep_outline(&content, &bytes)
        });
        Ok(kept.await?)
    }
}
