//! Brings revisions of the history that were published in the absence of a replica.

use std::sync::Arc;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::fleet::error::FleetError;
use crate::fleet::fetch::Reader;
use crate::fleet::object::{Coding, OUTLINE, Object};
use crate::fleet::upload::blocking;
use crate::name::CatalogName;
use crate::store::{PastRevision, RevisionId, Store};
use ::images::digest::Digest;

/// A revision of the history, and its outline.
type Entry = (PastRevision, Option<Arc<Object>>);

impl Reader {
    /// Adds the revisions after the last known one and before another to the history of a
    /// store; of many, the last ones. Outlines that are missing are fetched, too.
    ///
    /// # Errors
    /// When the database does not answer. Outlines that cannot be fetched are left to the
    /// next call: what clients see has to be what a start serves, whether the bucket answers or
    /// not.
    pub async fn fetch_history(
        &self,
        store: &Store,
        catalog: &CatalogName,
        before: RevisionId,
        most: usize,
    ) -> Result<(), FleetError> {
        let newest = store.history().latest(catalog, 1).await?;
        let newest = newest.first().map_or(0, |entry| entry.revision.number());
        let missing = store.without_outline(catalog).await?;
        let missing: Vec<i64> = missing.iter().map(|id| id.number()).collect();
        let (name, most) = (catalog.to_string(), i64::try_from(most).unwrap_or(i64::MAX));
        let query = sqlx::query(
            "SELECT revision, published, outline, size FROM history
             WHERE catalog = $1 AND revision < $3 AND (revision > $2 OR revision = ANY($5))
             ORDER BY revision DESC LIMIT $4",
        );
        let query = query
            .bind(name)
            .bind(newest)
            .bind(before.number())
            .bind(most)
            .bind(missing);
        let session = self.fleet.session();
        let rows = session.rows(None, "read the history", query).await?;
        let entries: Vec<Entry> = rows.iter().filter_map(entry).collect();
        if let Err(error) = self.fetch_outlines(store, &entries).await {
            tracing::warn!(%error, "the history lacks outlines, which are fetched again later");
        }
        let past = entries.into_iter().rev().map(|(past, _)| past);
        let past: Vec<PastRevision> = past.filter(|past| past.id.number() > newest).collect();
        if !past.is_empty() {
            store.add_past(catalog, &past).await?;
        }
        Ok(store.tell_missed_changes(catalog).await?)
    }

    /// Fetches outlines that a store lacks. A bucket that is away is asked once.
    async fn fetch_outlines(&self, store: &Store, entries: &[Entry]) -> Result<(), FleetError> {
        let mut failed = None;
        for (past, outline) in entries {
            let Err(error) = self.fetch_outline(store, past, outline.as_ref()).await else {
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

    async fn fetch_outline(
        &self,
        store: &Store,
        past: &PastRevision,
        outline: Option<&Arc<Object>>,
    ) -> Result<(), FleetError> {
        let name = past.published.outline();
        let Some(outline) = outline else {
            return Ok(());
        };
        if store.has_outline(&name).await? {
            return Ok(());
        }
        let bytes = self.whole(store, outline).await?;
        let own = store.clone();
        blocking(move || Ok(own.keep_outline(&name, &bytes)?)).await
    }
}

/// The revision of a row; `None` when a newer version has written it in a way that this one
/// cannot read.
fn entry(row: &PgRow) -> Option<Entry> {
    let past = PastRevision {
        id: RevisionId::from_number(row.get("revision")),
        published: serde_json::from_str(row.get("published")).ok()?,
    };
    let outline: Option<&[u8]> = row.get("outline");
    let outline = outline.and_then(|bytes| {
        Some(Arc::new(Object {
            name: OUTLINE.to_owned(),
            digest: Digest::from_bytes(bytes.try_into().ok()?),
            size: row
                .get::<Option<i64>, _>("size")
                .filter(|size| *size >= 0)?,
            coding: Coding::Identity,
        }))
    });
    Some((past, outline))
}
