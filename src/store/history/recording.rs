//! Adds revisions to the history.

use std::path::Path;

use sqlx::{Row as _, Sqlite, SqliteExecutor, Transaction};

use crate::answers::changes::{changes, counts};
use crate::answers::outline::Outline;
use crate::name::CatalogName;
use crate::store::disk::{DiskError, blocking};
use crate::store::history::{MAX_CHANGES, OUTLINES, RecordedChanges, outline_file, outline_path};
use crate::store::record::Record;
use crate::store::revision::RevisionId;
use crate::store::sql::{self, signed};
use crate::store::{Store, StoreError};

/// An outline that is ready to be committed.
pub(in crate::store) struct PreparedOutline {
    /// The content of its file.
    file: Vec<u8>,
    changes: Option<RecordedChanges>,
}

impl Store {
    /// Encodes an outline, and compares it with the catalog's last one.
    pub(in crate::store) async fn prepare_outline(
        &self,
        catalog: &CatalogName,
        outline: Outline,
    ) -> Result<PreparedOutline, StoreError> {
        let history = self.history();
        let last = history.newest(catalog).await?;
        let path = history.folder.to_path_buf();
        let prepared = blocking("write in", path, move |folder| {
            let previous = last.and_then(|last| outline_file::read(&history.path(&last.content)));
            let encoded = outline_file::encode(&outline);
            let encoded = encoded.map_err(DiskError::at("write in", folder))?;
            let changes = previous.map(|previous| {
                let mut first = changes(&previous, &outline);
                let counts = counts(&first);
                first.truncate(MAX_CHANGES);
                RecordedChanges { counts, first }
            });
            Ok(PreparedOutline {
                file: encoded,
                changes,
            })
        });
        Ok(prepared.await?)
    }

    /// Writes the file and the row of an outline. A revision that was only rebuilt
    /// takes the place of the one before.
    pub(in crate::store) async fn insert_history(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        id: RevisionId,
        record: &Record<'_>,
        prepared: PreparedOutline,
    ) -> Result<(), StoreError> {
        let path = self.history().path(&record.content);
        let PreparedOutline { file, changes } = prepared;
        blocking("write", path, move |path| outline_file::write(path, &file)).await?;
        let catalog = record.catalog.as_str();
        let query = sqlx::query(
            "SELECT revision, source, digest, content FROM history
             WHERE catalog = ? ORDER BY revision DESC LIMIT 1",
        );
        let last = sql::first(
            &mut **transaction,
            "look up the history",
            query.bind(catalog),
        );
        let last = last.await?;
        if let Some(last) = &last
            && last.get::<&str, _>("source") == record.identity.source
            && last.get::<&str, _>("digest") == record.digest.to_string()
            && last.get::<&str, _>("content") == record.content.to_string()
        {
            let statement = sqlx::query("UPDATE history SET revision = ? WHERE revision = ?")
                .bind(id.0)
                .bind(last.get::<i64, _>("revision"));
            return sql::execute(&mut **transaction, "record the history", statement).await;
        }
        let before: Option<i64> = last.map(|last| last.get("revision"));
        insert_row(transaction, id, record, before, changes.as_ref()).await
    }
}

/// Adds a revision that was found without a database, if its outline is kept, so that
/// the changes of the next one can be told.
pub(in crate::store) async fn insert_rebuilt(
    transaction: &mut Transaction<'_, Sqlite>,
    data: &Path,
    id: RevisionId,
    record: &Record<'_>,
) -> Result<(), StoreError> {
    if outline_path(&data.join(OUTLINES), &record.content).exists() {
        insert_row(transaction, id, record, None, None).await?;
    }
    Ok(())
}

async fn insert_row(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    record: &Record<'_>,
    before: Option<i64>,
    update: Option<&RecordedChanges>,
) -> Result<(), StoreError> {
    let total = update.map(|one| signed(one.total() as u64));
    let json = update.map(serde_json::to_string).transpose();
    let counts = &record.counts;
    let statement = sqlx::query(
        "INSERT INTO history (revision, catalog, source, digest, content, before,
           committed, packages, channels, entries, bundles, quarantined, changed, changes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id.0)
    .bind(record.catalog.as_str())
    .bind(&record.identity.source)
    .bind(record.digest.to_string())
    .bind(record.content.to_string())
    .bind(before)
    .bind(record.committed)
    .bind(signed(counts.packages))
    .bind(signed(counts.channels))
    .bind(signed(counts.entries))
    .bind(signed(counts.bundles))
    .bind(signed(counts.quarantined))
    .bind(total)
    .bind(json.map_err(StoreError::encode("changes"))?);
    sql::execute(&mut **transaction, "record the history", statement).await
}

/// Whether a number is new in the history, and above those of its catalog.
pub(in crate::store) async fn is_new(
    database: impl SqliteExecutor<'_>,
    catalog: &CatalogName,
    id: RevisionId,
) -> Result<bool, StoreError> {
    let query = sqlx::query(
        "SELECT 1 FROM history WHERE revision = ?1 OR (catalog = ?2 AND revision > ?1) LIMIT 1",
    );
    let query = query.bind(id.0).bind(catalog.as_str());
    let known = sql::first(database, "look up the history", query).await?;
    Ok(known.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An imported revision keeps its number, unless clients have seen it, or a later
    /// one, with other content.
    #[tokio::test]
    async fn a_number_is_new_above_those_of_its_catalog_and_unknown_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        for statement in [
            "INSERT INTO catalogs (name) VALUES ('a'), ('b')",
            "INSERT INTO history (revision, catalog, source, digest, content, committed,
               packages, channels, entries, bundles, quarantined)
             VALUES (5, 'a', '', '', '', 0, 0, 0, 0, 0, 0), (9, 'b', '', '', '', 0, 0, 0, 0, 0, 0)",
        ] {
            let statement = sqlx::query(statement);
            sql::execute(&store.pool, "test", statement).await.unwrap();
        }
        for (catalog, id, expected) in [
            ("a", 4, false),
            ("a", 5, false),
            ("a", 6, true),
            ("a", 9, false),
            ("a", 10, true),
            ("b", 6, false),
            ("c", 1, true),
            ("c", 5, false),
        ] {
            let catalog = catalog.parse().unwrap();
            let found = is_new(&store.pool, &catalog, RevisionId(id)).await.unwrap();
            assert_eq!(found, expected, "{catalog} {id}");
        }
    }
}
