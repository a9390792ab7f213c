//! Adds revisions to the history.

use std::path::{Path, PathBuf};

use sqlx::{Row as _, Sqlite, SqliteExecutor, Transaction};

use crate::answers::changes::{changes, counts};
use crate::answers::outline::Outline;
use crate::name::CatalogName;
use crate::store::file_io::{DiskError, blocking};
use crate::store::history::{
    MAX_CHANGES, OUTLINES, RecordedChanges, existing, outline_file, place,
};
use crate::store::record::Record;
use crate::store::revision::{OutlineName, PastRevision, Published, RevisionId};
use crate::store::revisions::record_catalog;
use crate::store::sql::{self, signed, whole};
use crate::store::{Store, StoreError};

/// What a revision adds to the history, ready to be committed.
pub(crate) struct PreparedOutline {
    /// The outline's file and its content, unless that is written already.
    file: Option<(PathBuf, Vec<u8>)>,
    changes: Option<RecordedChanges>,
}

impl Store {
    /// Encodes an outline under its name, and compares it with another one, or that of the
    /// catalog's last revision.
    pub(crate) async fn prepare_outline(
        &self,
        catalog: &CatalogName,
        name: OutlineName,
        outline: Outline,
        previous: Option<OutlineName>,
    ) -> Result<PreparedOutline, StoreError> {
        let history = self.history();
        let previous = match previous {
            Some(name) => Some(name),
            None => history.newest(catalog).await?.map(|last| last.outline()),
        };
        let path = history.folder.to_path_buf();
        let prepared = blocking("write in", path, move |folder| {
            let previous = previous.and_then(|name| history.outline(&name));
            let outline = history.completed(&name, outline);
            let encoded = outline_file::encode(&outline);
            let encoded = encoded.map_err(DiskError::at("write in", folder))?;
            Ok(PreparedOutline {
                file: Some((place(folder, &name, &outline), encoded)),
                changes: previous.map(|previous| compared(&previous, &outline)),
            })
        });
        Ok(prepared.await?)
    }

    /// Compares revisions of another store, whose outlines are kept already, each with the
    /// one before. They are of one catalog, in the order of their numbers; those whose
    /// numbers are known here are left out.
    pub(crate) async fn prepare_past(
        &self,
        catalog: &CatalogName,
        past: &[PastRevision],
    ) -> Result<Vec<(PastRevision, PreparedOutline)>, StoreError> {
        let history = self.history();
        let mut previous = history.newest(catalog).await?.map(|last| last.outline());
        let mut prepared = Vec::new();
        for one in past {
            if !is_new(&self.pool, catalog, one.id).await? {
                continue;
            }
            let (reading, name) = (history.clone(), one.published.outline());
            let before = previous.replace(name);
            // Two outlines at a time: those of a large catalog are large.
            let changes = blocking("read", history.folder.to_path_buf(), move |_| {
                let before = before.and_then(|name| reading.outline(&name));
                let now = reading.outline(&name);
                Ok(before.zip(now).map(|(before, now)| compared(&before, &now)))
            });
            let changes = changes.await?;
            let outline = PreparedOutline {
                file: None,
                changes,
            };
            prepared.push((one.clone(), outline));
        }
        Ok(prepared)
    }

    /// Adds revisions that the fleet has published while this replica was away.
    pub async fn add_past(
        &self,
        catalog: &CatalogName,
        past: &[PastRevision],
    ) -> Result<(), StoreError> {
        let prepared = self.prepare_past(catalog, past).await?;
        let (store, catalog) = (self.clone(), catalog.clone());
        whole(async move {
            let mut transaction = store.begin().await?;
            store
                .insert_past(&mut transaction, &catalog, prepared)
                .await?;
            let committed = transaction.commit().await;
            committed.map_err(StoreError::sql("commit"))
        })
        .await
    }

    /// Writes the rows of revisions of another store.
    pub(crate) async fn insert_past(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        catalog: &CatalogName,
        prepared: Vec<(PastRevision, PreparedOutline)>,
    ) -> Result<(), StoreError> {
        if !prepared.is_empty() {
            record_catalog(&mut **transaction, catalog).await?;
        }
        for (past, outline) in prepared {
            let PastRevision { id, published } = past;
            self.insert_history(transaction, id, catalog, &published, outline)
                .await?;
        }
        Ok(())
    }

    /// Writes the file and the row of an outline. A revision that was only rebuilt
    /// takes the place of the one before.
    pub(crate) async fn insert_history(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        id: RevisionId,
        catalog: &CatalogName,
        published: &Published,
        prepared: PreparedOutline,
    ) -> Result<(), StoreError> {
        let PreparedOutline { file, changes } = prepared;
        if let Some((path, file)) = file {
            blocking("write", path, move |path| outline_file::write(path, &file)).await?;
        }
        let query = sqlx::query(
            "SELECT revision, source, digest, content FROM history
             WHERE catalog = ? ORDER BY revision DESC LIMIT 1",
        );
        let last = sql::first(
            &mut **transaction,
            "look up the history",
            query.bind(catalog.as_str()),
        );
        let last = last.await?;
        if let Some(last) = &last
            && last.get::<&str, _>("source") == published.source
            && last.get::<&str, _>("digest") == published.digest.to_string()
            && last.get::<&str, _>("content") == published.content.to_string()
        {
            let statement = sqlx::query("UPDATE history SET revision = ? WHERE revision = ?")
                .bind(id.0)
                .bind(last.get::<i64, _>("revision"));
            return sql::execute(&mut **transaction, "record the history", statement).await;
        }
        let before: Option<i64> = last.map(|last| last.get("revision"));
        insert_row(
            transaction,
            id,
            catalog,
            published,
            before,
            changes.as_ref(),
        )
        .await
    }
}

pub(super) fn compared(before: &Outline, now: &Outline) -> RecordedChanges {
    let mut first = changes(before, now);
    let counts = counts(&first);
    first.truncate(MAX_CHANGES);
    RecordedChanges { counts, first }
}

/// The columns `changed` and `changes` of a row.
pub(super) fn columns_of(changes: &RecordedChanges) -> Result<(i64, String), StoreError> {
    let json = serde_json::to_string(changes).map_err(StoreError::encode("changes"))?;
    Ok((signed(changes.total() as u64), json))
}

/// Adds a revision that was found without a database, if its outline is kept, so that
/// the changes of the next one can be told.
pub(crate) async fn insert_rebuilt(
    transaction: &mut Transaction<'_, Sqlite>,
    data: &Path,
    id: RevisionId,
    record: &Record<'_>,
) -> Result<(), StoreError> {
    let (catalog, published) = (&record.catalog, record.published());
    if existing(&data.join(OUTLINES), &published.outline()).exists() {
        insert_row(transaction, id, catalog, &published, None, None).await?;
    }
    Ok(())
}

async fn insert_row(
    transaction: &mut Transaction<'_, Sqlite>,
    id: RevisionId,
    catalog: &CatalogName,
    published: &Published,
    before: Option<i64>,
    update: Option<&RecordedChanges>,
) -> Result<(), StoreError> {
    let (total, json) = update.map(columns_of).transpose()?.unzip();
    let counts = &published.counts;
    let statement = sqlx::query(
        "INSERT INTO history (revision, catalog, source, digest, content, before,
           committed, packages, channels, entries, bundles, quarantined, changed, changes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id.0)
    .bind(catalog.as_str())
    .bind(&published.source)
    .bind(published.digest.to_string())
    .bind(published.content.to_string())
    .bind(before)
    .bind(published.committed)
    .bind(signed(counts.packages))
    .bind(signed(counts.channels))
    .bind(signed(counts.entries))
    .bind(signed(counts.bundles))
    .bind(signed(counts.quarantined))
    .bind(total)
    .bind(json);
    sql::execute(&mut **transaction, "record the history", statement).await
}

/// Whether a number is new in the history, and above those of its catalog.
pub(crate) async fn is_new(
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
