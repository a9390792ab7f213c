//! The rows of each table. A column that is NULL counts as an empty text where
//! opm reads it so.

use std::collections::{BTreeMap, HashMap};

use sqlx::Row as _;

use crate::store::sqlite_index::database::{Database, LegacyError, sql};
use fbc::sqlite::{EdgeRow, LegacyEntry, LegacyPackage, entries};

/// A row of a bundle, without its manifests.
pub(super) struct BundleRow {
    pub(super) row: i64,
    pub(super) version: String,
    pub(super) image: String,
    skip_range: String,
}

/// Values by the name of their bundle.
pub(super) type ByBundle<T> = HashMap<String, Vec<T>>;

/// The heads of channels, by package and channel.
pub(super) type Heads = HashMap<(String, String), String>;

impl Database {
    /// Bundles by name. Ones without a version or image are stubs of what was
    /// deprecated, and count as not there.
    pub(super) async fn bundles(&mut self) -> Result<HashMap<String, BundleRow>, LegacyError> {
        let mut bundles = HashMap::new();
        let query = "SELECT CAST(name AS TEXT), CAST(version AS TEXT), CAST(bundlepath AS TEXT),
                       CAST(skiprange AS TEXT), rowid
                     FROM operatorbundle";
        self.rows("operatorbundle", query, 4, |mut texts, row| {
            let mut take = |at: usize| std::mem::take(&mut texts[at]);
            let (Some(name), Some(version), Some(image)) = (take(0), take(1), take(2)) else {
                return Ok(());
            };
            bundles.entry(name).or_insert(BundleRow {
                row: row.try_get(4)?,
                version,
                image,
                skip_range: take(3).unwrap_or_default(),
            });
            Ok(())
        })
        .await?;
        Ok(bundles)
    }

    /// Types and values of properties or dependencies.
    pub(super) async fn pairs(
        &mut self,
        table: &'static str,
    ) -> Result<ByBundle<(String, String)>, LegacyError> {
        let mut pairs: ByBundle<(String, String)> = HashMap::new();
        let query = format!(
            "SELECT CAST(operatorbundle_name AS TEXT), CAST(type AS TEXT), CAST(value AS TEXT)
             FROM {table}"
        );
        self.rows(table, &query, 3, |texts, _| {
            if let Ok([Some(bundle), Some(kind), Some(value)]) = <[_; 3]>::try_from(texts) {
                pairs.entry(bundle).or_default().push((kind, value));
            }
            Ok(())
        })
        .await?;
        Ok(pairs)
    }

    pub(super) async fn images(&mut self) -> Result<ByBundle<String>, LegacyError> {
        let mut images: ByBundle<String> = HashMap::new();
        let query =
            "SELECT CAST(operatorbundle_name AS TEXT), CAST(image AS TEXT) FROM related_image";
        self.rows("related_image", query, 2, |texts, _| {
            if let Ok([Some(bundle), Some(image)]) = <[_; 2]>::try_from(texts) {
                images.entry(bundle).or_default().push(image);
            }
            Ok(())
        })
        .await?;
        Ok(images)
    }

    /// The packages by name, and the heads of their channels.
    pub(super) async fn packages(
        &mut self,
        bundles: &HashMap<String, BundleRow>,
    ) -> Result<(BTreeMap<String, LegacyPackage>, Heads), LegacyError> {
        let mut packages = BTreeMap::new();
        let query = "SELECT CAST(name AS TEXT), CAST(default_channel AS TEXT) FROM package";
        self.rows("package", query, 2, |texts, _| {
            if let Ok([Some(name), default]) = <[_; 2]>::try_from(texts) {
                let package = LegacyPackage {
                    name: name.clone(),
                    default_channel: default.unwrap_or_default(),
                    channels: BTreeMap::new(),
                };
                packages.entry(name).or_insert(package);
            }
            Ok(())
        })
        .await?;
        let mut heads = Heads::new();
        let query = "SELECT CAST(package_name AS TEXT), CAST(name AS TEXT),
                       CAST(head_operatorbundle_name AS TEXT) FROM channel";
        self.rows("channel", query, 3, |texts, _| {
            if let Ok([Some(package), Some(channel), head]) = <[_; 3]>::try_from(texts)
                && let Some(found) = packages.get_mut(&package)
            {
                found.channels.entry(channel.clone()).or_default();
                if let Some(head) = head {
                    heads.insert((package, channel), head);
                }
            }
            Ok(())
        })
        .await?;
        let rows = self.edges().await?;
        for ((package, channel), found) in entries(&rows) {
            let package = packages.get_mut(package);
            let Some(channel) = package.and_then(|package| package.channels.get_mut(channel))
            else {
                continue;
            };
            channel.extend(found.into_iter().filter_map(|(name, edges)| {
                Some(LegacyEntry {
                    name: name.to_owned(),
                    edges,
                    skip_range: bundles.get(name)?.skip_range.clone(),
                })
            }));
        }
        Ok((packages, heads))
    }

    async fn edges(&mut self) -> Result<Vec<EdgeRow>, LegacyError> {
        let mut edges = Vec::new();
        let query = "SELECT CAST(package_name AS TEXT), CAST(channel_name AS TEXT),
                       CAST(operatorbundle_name AS TEXT), CAST(entry_id AS INTEGER),
                       CAST(replaces AS INTEGER), CAST(depth AS INTEGER)
                     FROM channel_entry";
        self.rows("channel_entry", query, 3, |texts, row| {
            if let Ok([Some(package), Some(channel), Some(name)]) = <[_; 3]>::try_from(texts)
                && let Some(id) = row.try_get(3)?
            {
                edges.push(EdgeRow {
                    id,
                    of: (package, channel, name),
                    replaces: row.try_get(4)?,
                    depth: row.try_get(5)?,
                });
            }
            Ok(())
        })
        .await?;
        Ok(edges)
    }

    pub(super) async fn manifests(&mut self, row: i64) -> Result<String, LegacyError> {
        let text: Option<Option<String>> =
            sqlx::query_scalar("SELECT CAST(bundle AS TEXT) FROM operatorbundle WHERE rowid = ?")
                .bind(row)
                .fetch_optional(&mut self.connection)
                .await
                .map_err(sql("reading manifests"))?;
        Ok(text.flatten().unwrap_or_default())
    }
}
