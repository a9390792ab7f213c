//! Revisions whose files another version has shared, in a format that this one does not
//! open: their lines, from which this version makes its own files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use sqlx::{Connection as _, Row as _};

use crate::map::UnnamedFile;
use crate::store::disk::DiskError;
use crate::store::fleet::error::FleetError;
use crate::store::fleet::fetch::{Wanted, decoder, wanted, whole};
use crate::store::fleet::file_limit::FileLimit;
use crate::store::fleet::leases::format;
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::publication_rows::{insert_files, touch};
use crate::store::fleet::session::limited;
use crate::store::fleet::upload::Shared;
use crate::store::record::{self, RECORD};
use crate::store::revision_files::METAS;
use crate::store::{Encoding, Published, Revision, RevisionId, Store, time_of_unix};
use fbc::problem::Problem;

/// A revision without files of this version's format.
pub struct OtherFormat {
    /// What it is.
    pub published: Published,
    /// The variant of its source.
    pub variant: Option<String>,
    /// When its content first became a revision.
    pub modified: SystemTime,
    /// Its canonical lines.
    pub lines: Bytes,
    /// Its problems, if its record can be read. They name the files of the source.
    pub problems: Option<Vec<Problem>>,
}

/// What of a record counts for other versions.
#[derive(serde::Deserialize)]
struct Problems {
    problems: Vec<Problem>,
}

impl Fleet {
    /// What any version can make its own files of.
    ///
    /// # Errors
    /// With [`FleetError::OtherFormat`] when the version that shared it left too little, and
    /// when it is longer than the limit.
    pub async fn lines(
        &self,
        store: &Store,
        limit: FileLimit,
        id: RevisionId,
    ) -> Result<OtherFormat, FleetError> {
        let query = sqlx::query("SELECT published, variant, modified FROM revisions WHERE id = $1");
        let row = self.find("look up a revision", query.bind(id.0)).await?;
        let row = row.ok_or(FleetError::Row("revisions"))?;
        let published: Option<&str> = row.get("published");
        let published = published.and_then(|json| serde_json::from_str(json).ok());
        let published = published.ok_or(FleetError::OtherFormat(id))?;
        let modified = u64::try_from(row.get::<i64, _>("modified")).unwrap_or(0);
        let of = (id, limit);
        let record = self.any_file(store, of, RECORD, whole).await?;
        let record = record.and_then(record::parse::<Problems>);
        // A catalog without lines has no such file.
        let folder = store.temporary();
        let lines = self.any_file(store, of, Encoding::Zstd.file(), move |wanted, spool| {
            decoded(&folder, wanted, spool, of)
        });
        let lines = lines.await?.unwrap_or_default();
        Ok(OtherFormat {
            published,
            variant: row.get("variant"),
            modified: time_of_unix(modified),
            lines,
            problems: record.map(|record| record.problems),
        })
    }

    /// A file of a revision in any format, verified, as it is read by `read`.
    async fn any_file<T: Send + 'static>(
        &self,
        store: &Store,
        (id, limit): (RevisionId, FileLimit),
        name: &str,
        read: impl Fn(&Wanted, &File) -> Result<T, FleetError> + Send + Sync + 'static,
    ) -> Result<Option<T>, FleetError> {
        let query = sqlx::query(
            "SELECT f.name, f.digest, f.incarnation, o.coding, o.size
             FROM files f JOIN objects o USING (digest, incarnation)
             WHERE f.revision = $1 AND f.name = $2 ORDER BY f.format DESC LIMIT 1",
        );
        let query = query.bind(id.0).bind(name);
        let row = self.find("list the files of a revision", query).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let wanted = wanted(&row)?;
        limit.check(id, name, wanted.size)?;
        self.object(store, &wanted, read).await.map(Some)
    }

    /// Shares the files of a revision in the format of this version, beside those of others.
    /// Whether nobody had done so before. Nothing is shared while it is not known whether the
    /// bucket is the fleet's, as for a command that only reads.
    pub async fn share_format(
        &self,
        store: &Store,
        revision: &Revision,
    ) -> Result<bool, FleetError> {
        if !self.owns_bucket() {
            return Ok(false);
        }
        let action = "share a format";
        let files = self.share_revision(store, None, revision).await?;
        limited(self.insert_format(action, revision, &files)).await
    }

    async fn insert_format(
        &self,
        action: &'static str,
        revision: &Revision,
        files: &Shared,
    ) -> Result<bool, FleetError> {
        let mut session = self.session(action).await?;
        let begun = session.begin().await;
        let mut transaction = begun.map_err(FleetError::sql(action))?;
        // One replica at a time, so that all files are of one.
        let query = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM files WHERE revision = $1 AND format = $2) AS known
             FROM revisions WHERE id = $1 FOR UPDATE",
        );
        let row = query.bind(revision.id.0).bind(format());
        let row = row.fetch_optional(&mut *transaction).await;
        let row = row.map_err(FleetError::sql(action))?;
        if row.is_none_or(|row| row.get("known")) {
            return Ok(false);
        }
        touch(&mut transaction, files.0.iter()).await?;
        insert_files(&mut transaction, revision.id, files).await?;
        let committed = transaction.commit().await;
        committed.map_err(FleetError::sql(action))?;
        session.release();
        Ok(true)
    }
}

/// Decodes lines into a file without a name.
fn decoded(
    folder: &Path,
    wanted: &Wanted,
    spool: &File,
    (revision, limit): (RevisionId, FileLimit),
) -> Result<Bytes, FleetError> {
    let mut encoded = UnnamedFile::new_in(folder).map_err(DiskError::at("write in", folder))?;
    let mut content = decoder(wanted, spool)?;
    let copied = io::copy(&mut content, &mut encoded);
    content.finish(wanted, copied.map_err(DiskError::at("write in", folder)))?;
    let write = || {
        let encoded = encoded.map()?;
        let lines = zstd::Decoder::new(&encoded[..])?;
        let mut file = UnnamedFile::new_in(folder)?;
        // A few bytes may decode to very many.
        let longest = limit.bytes().saturating_add(1);
        let length = io::copy(&mut lines.take(longest), &mut file)?;
        Ok::<_, io::Error>((length, file))
    };
    let (length, file) = write().map_err(DiskError::at("write in", folder))?;
    limit.check(revision, METAS, length)?;
    Ok(file.map().map_err(DiskError::at("write in", folder))?)
}
