//! Catalogs that nobody follows any more: what they take on the disk, and their
//! removal.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::file_io::{DiskError, blocking};
use crate::store::revision::RevisionId;
use crate::store::{Store, StoreError, sql};
use ::images::digest::Digest;

/// Disk usage of a stored catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The catalog.
    pub catalog: CatalogName,
    /// The bytes of the files of its revisions.
    pub files: u64,
    /// The bytes of the blobs that no other catalog needs, without those of the
    /// catalogs before it in the list.
    pub blobs: u64,
}

impl Store {
    /// Disk space that each of these catalogs would free, one after the other.
    pub async fn footprints(&self, names: &[CatalogName]) -> Result<Vec<Footprint>, StoreError> {
        let mut counted = HashSet::new();
        let mut footprints = Vec::with_capacity(names.len());
        for name in names {
            let (mut files, mut blobs) = (0, 0);
            for id in self.revisions_of(name).await? {
                let folder = self.revision_folder(id);
                files += blocking("read", folder, |folder| Ok(size_of_files(folder))).await?;
            }
            for digest in self.blobs_of_only(names, name).await? {
                if counted.insert(digest) {
                    let path = self.contents.folder().join(digest.hex());
                    blobs += blocking("read", path, |path| Ok(size_of(path))).await?;
                }
            }
            footprints.push(Footprint {
                catalog: name.clone(),
                files,
                blobs,
            });
        }
        Ok(footprints)
    }

    /// Removes a catalog with its revisions, its history and the blobs that no other
    /// one needs. A removal that is interrupted is finished by the next start.
    pub async fn forget(&self, name: &CatalogName) -> Result<(), StoreError> {
        let revisions = self.revisions_of(name).await?;
        let mut blobs = Vec::new();
        for id in &revisions {
            blobs.extend(self.blobs_of(*id).await?);
        }
        let earlier = self.earlier_image(name).await?;
        let parts = earlier.iter().flat_map(|earlier| earlier.image.parts());
        blobs.extend(parts.map(|part| part.digest));
        let outlines = self.outlines_of(name).await?;
        // Its revisions, passes and words go with it.
        let statement = sqlx::query("DELETE FROM catalogs WHERE name = ?").bind(name.as_str());
        sql::execute(&self.pool, "remove the catalog", statement).await?;
        for id in revisions {
            let store = self.clone();
            let removed = blocking("remove", self.revision_folder(id), move |folder| {
                let _alone = store.folders.lock();
                match fs::remove_dir_all(folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed.map_err(DiskError::at("remove", folder)),
                }
            });
            removed.await?;
        }
        self.remove_outlines(outlines, Duration::ZERO).await?;
        self.release_blobs(&blobs).await
    }

    async fn revisions_of(&self, name: &CatalogName) -> Result<Vec<RevisionId>, StoreError> {
        let query = sqlx::query("SELECT id FROM revisions WHERE catalog = ?").bind(name.as_str());
        let rows = sql::all(&self.pool, "list the revisions", query).await?;
        Ok(rows.iter().map(|row| RevisionId(row.get(0))).collect())
    }

    /// The blobs of a catalog that only the catalogs in the list need.
    async fn blobs_of_only(
        &self,
        names: &[CatalogName],
        name: &CatalogName,
    ) -> Result<Vec<Digest>, StoreError> {
        let query = sqlx::query(
            "SELECT DISTINCT revisions.catalog, revision_blobs.digest FROM revision_blobs
             JOIN revisions ON revisions.id = revision_blobs.revision",
        );
        let rows = sql::all(&self.pool, "list the blobs", query).await?;
        let of_revisions = rows.iter().filter_map(|row| {
            let digest = row.get::<&str, _>(1).parse().ok()?;
            Some((row.get::<&str, _>(0).parse().ok()?, digest))
        });
        let of_images = self.blobs_of_earlier_images().await?;
        let (mut own, mut needed) = (HashSet::new(), HashSet::new());
        for (catalog, digest) in of_revisions.chain(of_images) {
            if catalog == *name {
                own.insert(digest);
            } else if !names.contains(&catalog) {
                needed.insert(digest);
            }
        }
        Ok(own.difference(&needed).copied().collect())
    }
}

/// The bytes of the files in a folder; none if it is missing.
fn size_of_files(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let entries = entries.flatten().map(|entry| size_of(&entry.path()));
    entries.sum()
}

fn size_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
