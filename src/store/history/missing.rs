//! Outlines that came after the rows of their revisions, and the changes that are told then.

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::file_io::blocking;
use crate::store::history::of_source;
use crate::store::history::recording::{columns_of, compared};
use crate::store::revision::{OutlineName, RevisionId};
use crate::store::sql;
use crate::store::{Store, StoreError};
use ::images::digest::Digest;

impl Store {
    /// Whether an outline with problems of files is kept.
    pub async fn has_outline(&self, name: &OutlineName) -> Result<bool, StoreError> {
        let (folder, name) = (self.history().folder.to_path_buf(), *name);
        let found = blocking("read", folder, move |folder| {
            Ok(of_source(folder, &name).exists())
        });
        Ok(found.await?)
    }

    /// The revisions of a catalog's history without an outline.
    pub async fn without_outline(
        &self,
        catalog: &CatalogName,
    ) -> Result<Vec<RevisionId>, StoreError> {
        let history = self.history();
        let entries = history.list(catalog).await?;
        let folder = history.folder.to_path_buf();
        let missing = blocking("read", folder, move |_| {
            let missing = entries.iter();
            let missing = missing.filter(|entry| !history.path(&entry.outline()).exists());
            Ok(missing.map(|entry| entry.revision).collect())
        });
        Ok(missing.await?)
    }

    /// Records changes that could not be told before, because an outline was missing.
    pub async fn tell_missed_changes(&self, catalog: &CatalogName) -> Result<(), StoreError> {
        let query = sqlx::query(
            "SELECT h.revision, h.content, h.digest, b.content AS content_before,
               b.digest AS digest_before
             FROM history h JOIN history b ON b.revision = h.before
             WHERE h.catalog = ? AND h.changed IS NULL",
        );
        let query = query.bind(catalog.as_str());
        for row in sql::all(&self.pool, "read the history", query).await? {
            let digest = |column| row.get::<&str, _>(column).parse::<Digest>().ok();
            let name = |content, source| {
                let (content, source) = (digest(content)?, digest(source)?);
                Some(OutlineName { content, source })
            };
            let names = (
                name("content_before", "digest_before"),
                name("content", "digest"),
            );
            let (Some(before), Some(now)) = names else {
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
            let (total, json) = columns_of(&changes)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::outline::Outline;
    use crate::store::history::encode_outline;

    /// Outlines may come in any order, also with a revision that has the same content.
    #[tokio::test]
    async fn changes_are_told_once_both_outlines_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let catalog: CatalogName = "a".parse().unwrap();
        let contents = [Digest::of(b"1"), Digest::of(b"2")];
        let statement = sqlx::query("INSERT INTO catalogs (name) VALUES ('a')");
        sql::execute(&store.pool, "test", statement).await.unwrap();
        for (revision, content) in (1_i64..).zip(&contents) {
            let statement = sqlx::query(
                "INSERT INTO history (revision, catalog, source, digest, content, before,
                   committed, packages, channels, entries, bundles, quarantined)
                 VALUES (?1, 'a', '', ?2, ?2, nullif(?1 - 1, 0), 0, 0, 0, 0, 0, 0)",
            );
            let statement = statement.bind(revision).bind(content.to_string());
            sql::execute(&store.pool, "test", statement).await.unwrap();
        }
        let outlines = [Outline::default(), {
            let quarantined = ["etcd".to_owned()].into();
            Outline {
                quarantined,
                ..Outline::default()
            }
        }];
        let mut missing = 2;
        for (content, outline) in contents.iter().zip(&outlines) {
            let found = store.without_outline(&catalog).await.unwrap();
            assert_eq!(found.len(), missing);
            store.tell_missed_changes(&catalog).await.unwrap();
            let history = store.history().list(&catalog).await.unwrap();
            assert_eq!(history[0].changed, None);
            let file = encode_outline(outline).unwrap();
            let name = OutlineName {
                content: *content,
                source: *content,
            };
            store.keep_outline(&name, &file).unwrap();
            missing -= 1;
        }
        store.tell_missed_changes(&catalog).await.unwrap();
        let history = store.history().list(&catalog).await.unwrap();
        let told: Vec<_> = history.iter().map(|entry| entry.changed).collect();
        assert_eq!(told, [Some(1), None]);
    }
}
