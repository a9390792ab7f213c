//! Outlines that came after the rows of their revisions, and the changes that are told then.

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::disk::blocking;
use crate::store::history::recording::{compared, told};
use crate::store::revision::RevisionId;
use crate::store::sql;
use crate::store::{Store, StoreError};
use ::images::digest::Digest;

impl Store {
    /// The revisions of a catalog's history without an outline.
    pub(in crate::store) async fn without_outline(
        &self,
        catalog: &CatalogName,
    ) -> Result<Vec<RevisionId>, StoreError> {
        let history = self.history();
        let entries = history.list(catalog).await?;
        let folder = history.folder.to_path_buf();
        let missing = blocking("read", folder, move |_| {
            let missing = entries.iter();
            let missing = missing.filter(|entry| !history.path(&entry.content).exists());
            Ok(missing.map(|entry| entry.revision).collect())
        });
        Ok(missing.await?)
    }

    /// Records changes that could not be told before, because an outline was missing.
    pub(in crate::store) async fn tell_missed_changes(
        &self,
        catalog: &CatalogName,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(
            "SELECT h.revision, h.content, b.content AS before
             FROM history h JOIN history b ON b.revision = h.before
             WHERE h.catalog = ? AND h.changed IS NULL",
        );
        let query = query.bind(catalog.as_str());
        for row in sql::all(&self.pool, "read the history", query).await? {
            let digest = |column| row.get::<&str, _>(column).parse::<Digest>();
            let (Ok(before), Ok(now)) = (digest("before"), digest("content")) else {
                continue;
            };
            let history = self.history();
            // Two outlines at a time: those of a large catalog are large.
            let changes = blocking("read", history.folder.to_path_buf(), move |_| {
                let outlines = history.outline(&before).zip(history.outline(&now));
                Ok(outlines.map(|(before, now)| compared(&before, &now)))
            });
            let Some(changes) = changes.await? else {
                continue;
            };
            let (total, json) = told(&changes)?;
            let statement = sqlx::query(
                "UPDATE history SET changed = ?, changes = ? WHERE revision = ? AND changed IS NULL",
            );
            let statement = statement.bind(total).bind(json);
            let statement = statement.bind(row.get::<i64, _>("revision"));
            sql::execute(&self.pool, "record the history", statement).await?;
        }
        Ok(())
    }
}
