//! Writing an archive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::NamedTempFile;

use crate::ingest::archive::scan::read_metadata;
use crate::ingest::archive::{
    ArchiveError, BLOBS, CarriedRevision, FORMAT, INDEX, LAYOUT, MARKER, Marker, Metadata,
    Progress, There,
};
use crate::name::CatalogName;
use crate::store::{Image, ImageBlob, RevisionId, Store};
use ::images::digest::{Digest, Hasher};
use ::images::manifest::{Index, IndexEntry, REFERENCE_NAME};
use ::images::{Descriptor, Manifest, document};

/// How often a store that changes meanwhile is looked at again.
const LOOKS: usize = 5;

/// What to export.
#[derive(Clone, Debug)]
pub struct Export {
    /// The data folder.
    pub data: PathBuf,
    /// The catalogs; all that are configured when there are none.
    pub catalogs: Vec<CatalogName>,
    /// The catalogs that are configured; all when there are none.
    pub configured: Vec<CatalogName>,
    /// What the other side has.
    pub since: Option<Since>,
    /// Whether signatures and other attachments of mirrored images come along.
    pub signatures: bool,
    /// The file to write.
    pub output: PathBuf,
}

/// What the other side has.
#[derive(Clone, Debug)]
pub enum Since {
    /// All that is there once an archive was imported: what is in it, and what
    /// it left out of catalogs that are not in it.
    Archive(PathBuf),
    /// All up to a revision of the same store.
    Revision(RevisionId),
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The catalogs, each with its revision.
    pub catalogs: Vec<(CatalogName, RevisionId)>,
    /// Catalogs that are stored, but not configured, and so left out.
    pub others: Vec<CatalogName>,
    /// Catalogs that are configured, but of which nothing is stored.
    pub missing: Vec<CatalogName>,
    /// How many of them are not in the archive that the other side has. All,
    /// if it has none.
    pub new: usize,
    /// Blobs in the archive.
    pub blobs: usize,
    /// Blobs that the other side has.
    pub held: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The blobs of the archive, open, so that they stay when others are done with
/// them.
type Open = BTreeMap<Digest, (File, ImageBlob, CatalogName)>;

/// Writes an archive, whole or not at all. An almanac may run on the data
/// folder meanwhile.
pub async fn export(asked: &Export, progress: &Progress) -> Result<Exported, ArchiveError> {
    let no_store = || ArchiveError::NoStore {
        path: asked.data.clone(),
    };
    let asked = &Export {
        output: output(asked)?,
        ..asked.clone()
    };
    let folder = folder_of(&asked.output);
    if !folder.is_dir() {
        return Err(ArchiveError::NoFolder {
            path: folder.to_owned(),
        });
    }
    let store = Store::open_beside(&asked.data)
        .await?
        .ok_or_else(no_store)?;
    let there = match &asked.since {
        Some(Since::Archive(path)) => read_metadata(path, progress)?.there(),
        _ => BTreeMap::new(),
    };
    let mut looks = 0;
    let gathered = loop {
        looks += 1;
        match gather(&store, asked, there.clone()).await {
            // A revision was replaced while it was looked at.
            Err(ArchiveError::StoredBlob { .. } | ArchiveError::NoImage { .. })
                if looks < LOOKS =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            gathered => break gathered?,
        }
    };
    store.close().await;
    if gathered.metadata.catalogs.is_empty() && asked.since.is_none() {
        return Err(no_store());
    }
    let is_new = |carried: &&CarriedRevision| {
        let before = there.get(&carried.catalog);
        before != Some(&There::new(carried.id, &carried.image))
    };
    let new = gathered.metadata.catalogs.iter().filter(is_new).count();
    let (asked, progress) = (asked.clone(), progress.clone());
    let writing = tokio::task::spawn_blocking(move || write(&asked, gathered, &progress));
    let written = writing.await;
    let failed = |error| ArchiveError::io("write", Path::new("an archive"))(error);
    let written = written.map_err(|error| failed(error.into()))??;
    Ok(Exported { new, ..written })
}

/// What to carry.
struct Gathered {
    metadata: Metadata,
    open: Open,
    /// How many blobs the other side has.
    held: usize,
    others: Vec<CatalogName>,
    missing: Vec<CatalogName>,
}

/// Finds out what to carry, and opens its blobs. `there` is what the other side
/// has of each catalog.
async fn gather(
    store: &Store,
    asked: &Export,
    mut there: BTreeMap<CatalogName, There>,
) -> Result<Gathered, ArchiveError> {
    let known = store.catalogs().await?;
    if let Some(name) = asked.catalogs.iter().find(|name| !known.contains(name)) {
        return Err(ArchiveError::UnknownCatalog {
            name: name.clone(),
            known: joined(&known),
        });
    }
    if let Some(Since::Revision(since)) = &asked.since {
        check(store, &known, *since).await?;
    }
    let (mut others, mut missing) = (Vec::new(), Vec::new());
    let wanted: Vec<CatalogName> = if !asked.catalogs.is_empty() {
        let wanted = known.iter().filter(|name| asked.catalogs.contains(name));
        wanted.cloned().collect()
    } else if asked.configured.is_empty() {
        known
    } else {
        let of_config = |name: &CatalogName| asked.configured.contains(name);
        let (wanted, rest): (Vec<_>, Vec<_>) = known.into_iter().partition(of_config);
        let gone = asked
            .configured
            .iter()
            .filter(|name| !wanted.contains(name));
        missing.extend(gone.cloned());
        others = rest;
        wanted
    };
    if wanted.is_empty() && !others.is_empty() {
        return Err(ArchiveError::NoneConfigured {
            known: joined(&others),
        });
    }
    let mut catalogs = Vec::new();
    for name in wanted {
        let Some(revision) = store.current(&name).await? else {
            continue;
        };
        let image = store.image(revision.id).await?;
        let image = image.ok_or_else(|| ArchiveError::NoImage {
            catalog: name.clone(),
        })?;
        let image = if asked.signatures {
            image
        } else {
            without_attached(store, image, &name)?
        };
        if let Some(Since::Revision(since)) = &asked.since
            && revision.id <= *since
        {
            there.insert(name, There::new(revision.id, &image));
            continue;
        }
        catalogs.push(CarriedRevision {
            catalog: name,
            id: revision.id,
            source: revision.identity,
            digest: revision.digest,
            content: revision.content,
            modified: seconds(revision.modified),
            committed: seconds(revision.committed),
            counts: revision.counts,
            problems: store.problems(revision.id).await?,
            image,
        });
    }
    let held = there.values().flat_map(|catalog| &catalog.blobs);
    let held: BTreeSet<Digest> = held.copied().collect();
    let mut open = Open::new();
    for carried in &catalogs {
        for part in carried.image.parts() {
            if held.contains(&part.digest) || open.contains_key(&part.digest) {
                continue;
            }
            let missing = || ArchiveError::StoredBlob {
                digest: part.digest,
                catalog: carried.catalog.clone(),
            };
            let path = store.contents().blob(&part.digest).ok_or_else(missing)?;
            let file = File::open(path).map_err(|_| missing())?;
            open.insert(part.digest, (file, part, carried.catalog.clone()));
        }
    }
    let mut left_out = there;
    left_out.retain(|name, _| catalogs.iter().all(|carried| carried.catalog != *name));
    Ok(Gathered {
        metadata: Metadata { catalogs, left_out },
        open,
        held: held.len(),
        others,
        missing,
    })
}

/// The file to write, behind links: it is replaced by the archive, which no
/// device is to be, nor what the next export may still need.
fn output(asked: &Export) -> Result<PathBuf, ArchiveError> {
    let path = &asked.output;
    let refused = |problem| {
        Err(ArchiveError::Output {
            path: path.clone(),
            problem,
        })
    };
    let Ok(output) = path.canonicalize() else {
        if path.is_symlink() {
            return refused("a link to what is no file; name the file itself");
        }
        return Ok(path.clone());
    };
    if !output.is_file() {
        return refused("there already and no file; name a file");
    }
    if let Some(Since::Archive(since)) = &asked.since
        && since.canonicalize().is_ok_and(|since| since == output)
    {
        return refused("the archive of --since, which would be lost; name another file");
    }
    Ok(output)
}

/// The folder of a file that is to be written.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn joined(names: &[CatalogName]) -> String {
    let names: Vec<&str> = names.iter().map(CatalogName::as_str).collect();
    names.join(", ")
}

/// Whether a number can be that of a revision which this store had: those that
/// were replaced are gone.
async fn check(
    store: &Store,
    catalogs: &[CatalogName],
    revision: RevisionId,
) -> Result<(), ArchiveError> {
    let mut known = Vec::new();
    let mut newest = None;
    for name in catalogs {
        if let Some(current) = store.current(name).await? {
            known.push(format!("{name} at {}", current.id));
            newest = newest.max(Some(current.id));
        }
    }
    if newest.is_none_or(|newest| revision <= newest) {
        return Ok(());
    }
    Err(ArchiveError::UnknownRevision {
        revision,
        known: known.join(", "),
    })
}

/// The image without what is attached to it.
fn without_attached(
    store: &Store,
    mut image: Image,
    catalog: &CatalogName,
) -> Result<Image, ArchiveError> {
    image.manifests.retain(|manifest| !manifest.attached);
    let left: BTreeSet<Digest> = image.manifests.iter().map(|m| m.digest).collect();
    let mut named = BTreeSet::new();
    for digest in &left {
        let missing = || ArchiveError::StoredBlob {
            digest: *digest,
            catalog: catalog.clone(),
        };
        let path = store.contents().blob(digest).ok_or_else(missing)?;
        let bytes = std::fs::read(path).map_err(|_| missing())?;
        if let Ok(Manifest::Image(found)) = Manifest::parse(&bytes, None) {
            named.insert(found.config.digest);
            named.extend(found.layers.iter().map(|layer| layer.digest));
        }
    }
    image.blobs.retain(|blob| named.contains(&blob.digest));
    image.tags.retain(|_, digest| left.contains(digest));
    if let Some(origin) = &mut image.origin {
        origin.tags.retain(|_, digest| left.contains(digest));
    }
    Ok(image)
}

fn write(
    asked: &Export,
    gathered: Gathered,
    progress: &Progress,
) -> Result<Exported, ArchiveError> {
    let Gathered {
        metadata,
        open,
        held,
        others,
        missing,
    } = gathered;
    let path = &asked.output;
    let failed = |source: io::Error| ArchiveError::Io {
        action: "write",
        path: path.clone(),
        source,
    };
    // Removed when anything fails on the way.
    let file = NamedTempFile::new_in(folder_of(path)).map_err(failed)?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(1 << 20, file));
    let document = serde_json::to_vec(&metadata).map_err(|error| failed(error.into()))?;
    let digest = Digest::of(&document);
    let marker = Marker {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        metadata: digest,
    };
    let marker = serde_json::to_vec(&marker).map_err(|error| failed(error.into()))?;
    let index = document::image_index(&index(&metadata));
    let index = index.map_err(|error| failed(io::Error::other(error)))?;
    let layout = document::layout_marker();
    let layout = layout.map_err(|error| failed(io::Error::other(error)))?;
    put(&mut archive, LAYOUT, &layout).map_err(failed)?;
    put(&mut archive, MARKER, &marker).map_err(failed)?;
    put(&mut archive, INDEX, &index).map_err(failed)?;
    let name = format!("{BLOBS}{}", digest.hex());
    put(&mut archive, &name, &document).map_err(failed)?;
    let total: u64 = open.values().map(|(_, part, _)| part.size).sum();
    let mut done = 0;
    let blobs = open.len();
    for (digest, (file, part, catalog)) in open {
        let mut reader = Checked {
            inner: file,
            hasher: Hasher::default(),
            progress,
            done: &mut done,
            total,
            stopped: false,
        };
        let mut header = header(part.size);
        let name = format!("{BLOBS}{}", digest.hex());
        let appended = archive.append_data(&mut header, name, &mut reader);
        if reader.stopped {
            return Err(ArchiveError::Stopped);
        }
        appended.map_err(failed)?;
        // Rotten bytes must not be found out on the other side only.
        if reader.hasher.size() != part.size || reader.hasher.finish() != digest {
            return Err(ArchiveError::StoredBlob { digest, catalog });
        }
    }
    let mut output = archive.into_inner().map_err(failed)?;
    output.flush().map_err(failed)?;
    let file = output
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    let bytes = file.as_file().metadata().map_err(failed)?.len();
    progress.at("exporting", total, total)?;
    let file = file.persist(path).map_err(|error| failed(error.error))?;
    make_readable(&file).map_err(failed)?;
    Ok(Exported {
        catalogs: metadata
            .catalogs
            .iter()
            .map(|carried| (carried.catalog.clone(), carried.id))
            .collect(),
        others,
        missing,
        new: 0,
        blobs,
        held,
        bytes,
    })
}

/// The images of an archive, for other tools.
pub(super) fn index(metadata: &Metadata) -> Index {
    let mut entries = Vec::new();
    for carried in &metadata.catalogs {
        for (tag, digest) in &carried.image.tags {
            let mut found = carried.image.manifests.iter();
            let Some(manifest) = found.find(|manifest| manifest.digest == *digest) else {
                continue;
            };
            let name = format!("{}:{tag}", carried.catalog);
            entries.push(IndexEntry {
                descriptor: Descriptor {
                    media_type: manifest.media_type.clone(),
                    digest: *digest,
                    size: manifest.size,
                },
                platform: None,
                annotations: BTreeMap::from([(REFERENCE_NAME.to_owned(), name)]),
            });
        }
    }
    Index { entries }
}

fn put<W: io::Write>(archive: &mut tar::Builder<W>, name: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len() as u64), name, bytes)
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}

/// As other files that are written for somebody, not as temporary ones.
fn make_readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A blob on its way into the archive.
struct Checked<'a> {
    inner: File,
    hasher: Hasher,
    progress: &'a Progress,
    done: &'a mut u64,
    total: u64,
    stopped: bool,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        *self.done += read as u64;
        if self
            .progress
            .at("exporting", *self.done, self.total)
            .is_err()
        {
            self.stopped = true;
            return Err(io::Error::other("stopped"));
        }
        Ok(read)
    }
}
