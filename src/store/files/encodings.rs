//! All lines of a revision in other encodings: one file per encoding, made
//! after the revision is published, or never. Clients get the lines as they are until
//! then.
//!
//! A file gets its name once it is complete and synced, then its sums are
//! recorded. Without them it is rebuilt. Its ends are verified against the
//! revision's lines, and it is removed with the revision's folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use bytes::Bytes;
use zstd::stream::write::Encoder as ZstdEncoder;
use zstd::zstd_safe;

use crate::store::file_io::{DiskError, protect, sync_folder};
use crate::store::files::checked;
use crate::store::files::groups::{GROUPS, GroupedGzip, Groups};
use crate::store::files::revision_files::METAS;
use crate::store::files::segments::{self, KnownSegments, SEGMENTS};
use crate::store::files::summing::{Summed, Summing};
use crate::store::{Damage, FileSum, Revision, RevisionId, Store, StoreError};

/// An encoding of all lines of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A gzip member (RFC 1952).
    Gzip,
    /// A Zstandard frame (RFC 8878).
    Zstd,
    /// A deflate segment of each line, for selections as gzip.
    Segments,
}

/// The decoded form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Its length in bytes.
    pub length: u64,
    /// Its CRC-32.
    pub crc: u32,
}

/// The level of zstd: half the size that gzip gets to, in a tenth of the time.
const ZSTD: i32 = 3;
/// Bytes between two checks whether to continue.
const PIECE: usize = 1 << 20;
/// Bytes per write.
const OUTPUT: usize = 256 << 10;

/// The lines of a revision, to encode.
pub struct Plain {
    /// All lines one by one, for segments.
    pub lines: Vec<Bytes>,
    /// All lines in groups that are compressed together, for the whole.
    pub groups: Vec<Bytes>,
    /// Length and CRC-32 of all lines.
    pub decoded: Decoded,
    /// Groups that may be copied.
    pub known: Option<Groups>,
    /// Segments that may be copied.
    pub known_segments: Option<KnownSegments>,
}

impl Plain {
    /// Without lines, yet.
    pub fn new(decoded: Decoded) -> Self {
        Self {
            lines: Vec::new(),
            groups: Vec::new(),
            decoded,
            known: None,
            known_segments: None,
        }
    }
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Segments, Self::Zstd, Self::Gzip];
    /// Those of all lines as a whole, the fastest first.
    pub const WHOLE: [Self; 2] = [Self::Zstd, Self::Gzip];

    /// Its name in labels. That of a whole encoding is the one in HTTP (RFC 9110,
    /// section 8.4.1), too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Segments => "segments",
        }
    }

    /// The name of its file in the folder of a revision.
    pub fn file(self) -> &'static str {
        match self {
            Self::Gzip => "all.gz",
            Self::Zstd => "all.zst",
            Self::Segments => SEGMENTS,
        }
    }

    /// The names of all files that are made and removed with it.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::Gzip => &["all.gz", GROUPS],
            Self::Zstd => &["all.zst"],
            Self::Segments => &[SEGMENTS],
        }
    }

    /// The encoding that a file of this name belongs to.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|encoding| encoding.files().contains(&name))
    }

    /// Whether the ends of a file show that it is complete and decodes to this.
    fn is_whole(self, file: &[u8], decoded: Decoded) -> bool {
        match self {
            Self::Gzip => {
                // CRC, then the length modulo 2^32 (RFC 1952).
                let end = [
                    decoded.crc.to_le_bytes(),
                    low_half(decoded.length.to_le_bytes()),
                ];
                file.starts_with(&[0x1f, 0x8b]) && file.ends_with(&end.concat())
            }
            Self::Zstd => {
                zstd_safe::find_frame_compressed_size(file).ok() == Some(file.len())
                    && matches!(
                        zstd_safe::get_frame_content_size(file),
                        Ok(Some(length)) if length == decoded.length
                    )
            }
            Self::Segments => segments::are_of(file, decoded.length),
        }
    }
}

impl Store {
    /// Opens the file of an encoding. `None` when it does not exist, has no sums,
    /// or is incomplete.
    pub fn encoded(
        &self,
        revision: &Revision,
        encoding: Encoding,
        decoded: Decoded,
    ) -> Option<EncodedFile> {
        let sum = revision.files.get(encoding.file())?;
        let bytes = self.map(revision.id, encoding.file()).ok()?;
        if sum.length == bytes.len() as u64 && encoding.is_whole(&bytes, decoded) {
            let sum = sum.clone();
            return Some(EncodedFile { bytes, sum });
        }
        let path = self.revision_folder(revision.id).join(encoding.file());
        tracing::warn!(path = %path.display(), "an encoded file is damaged and is ignored");
        None
    }

    /// The groups of a revision's lines in its `all.gz`, if there is a list of them.
    pub fn groups(&self, revision: RevisionId, lines: Bytes, packed: Bytes) -> Option<Groups> {
        let list = self.map(revision, GROUPS).ok()?;
        Some(Groups {
            lines,
            packed,
            list,
        })
    }

    /// Makes the files of an encoding, opens the encoded one and returns the sums of
    /// all, which the caller records. This takes a second per hundred megabytes; `go_on` is called
    /// meanwhile. `None` when it returned `false`, when the revision was removed, or
    /// when there are no lines: an empty file gains nothing.
    ///
    /// # Errors
    /// When the lines are not the `decoded` ones, or the file cannot be written.
    pub fn encode(
        &self,
        revision: &Revision,
        encoding: Encoding,
        plain: Plain,
        go_on: impl Fn() -> bool,
    ) -> Result<Option<Encoded>, StoreError> {
        if plain.decoded.length == 0 {
            return Ok(None);
        }
        let decoded = plain.decoded;
        let parent = self.revisions_folder();
        // After a crash, the next start removes it.
        let temporary = tempfile::Builder::new()
            .prefix("new-")
            .tempdir_in(&parent)
            .map_err(DiskError::at("write in", &parent))?;
        let unfinished = temporary.path().join(encoding.file());
        let written = write(encoding, plain, &unfinished, go_on)
            .map_err(DiskError::at("write", &unfinished))?;
        let Some(Written { sum, crc, list }) = written else {
            return Ok(None);
        };
        let folder = self.revision_folder(revision.id);
        if crc != decoded.crc {
            let reason = "its lines differ from those that were written".into();
            let path = folder.join(METAS);
            return Err(Damage { path, reason }.into());
        }
        let _kept = self.folders.lock();
        if !folder.is_dir() {
            return Ok(None);
        }
        let mut sums = vec![(encoding.file(), sum.clone())];
        if let Some(list) = list {
            let unfinished = temporary.path().join(GROUPS);
            match replace(&unfinished, &folder.join(GROUPS), &list) {
                Ok(sum) => sums.push((GROUPS, sum)),
                // Without the list, the next revision compresses everything.
                Err(error) => {
                    tracing::warn!(%error, "the list of compressed groups could not be written");
                }
            }
        }
        let path = folder.join(encoding.file());
        fs::rename(&unfinished, &path).map_err(DiskError::at("create", &path))?;
        sync_folder(&folder)?;
        let bytes = self.map(revision.id, encoding.file());
        let bytes = bytes.map_err(DiskError::at("open", &path))?;
        let file = EncodedFile { bytes, sum };
        Ok(Some(Encoded { file, sums }))
    }
}

/// An encoded file that is open.
#[derive(Clone, Debug)]
pub struct EncodedFile {
    /// Its bytes.
    pub bytes: Bytes,
    /// The sums of the written bytes.
    pub sum: FileSum,
}

impl EncodedFile {
    /// Whether its bytes are those that were written. This blocks.
    pub fn is_undamaged(&self) -> bool {
        Summing::of(&self.bytes) == self.sum
    }

    /// The same of bytes that are to be sent: damage is repaired at once.
    pub fn is_sendable(&self) -> bool {
        let is_undamaged = self.is_undamaged();
        if !is_undamaged {
            // Another form is sent instead.
            checked::wake();
        }
        is_undamaged
    }
}

/// An encoding that was made.
#[derive(Debug)]
pub struct Encoded {
    /// The encoded lines.
    pub file: EncodedFile,
    /// The sums of its files, by name.
    pub sums: Vec<(&'static str, FileSum)>,
}

/// A file that was written.
struct Written {
    sum: FileSum,
    /// CRC-32 of the lines.
    crc: u32,
    /// The list of its groups.
    list: Option<Vec<u8>>,
}

/// Writes and syncs the file; `None` when `go_on` ended it.
fn write(
    encoding: Encoding,
    plain: Plain,
    path: &Path,
    go_on: impl Fn() -> bool,
) -> io::Result<Option<Written>> {
    let file = Summed {
        inner: File::create_new(path)?,
        sums: Summing::default(),
    };
    let output = BufWriter::with_capacity(OUTPUT, file);
    let (written, crc, list) = match encoding {
        Encoding::Gzip => {
            let mut gzip = GroupedGzip::new(output, plain.known)?;
            for group in &plain.groups {
                if gzip.append(group, &go_on)?.is_none() {
                    return Ok(None);
                }
            }
            let crc = gzip.crc();
            let (written, list) = gzip.finish()?;
            (written, crc, Some(list))
        }
        Encoding::Segments => {
            let written = segments::write(output, &plain.lines, plain.known_segments, go_on)?;
            let Some((written, crc)) = written else {
                return Ok(None);
            };
            (written, crc, None)
        }
        Encoding::Zstd => {
            let mut crc = crc32fast::Hasher::new();
            let mut encoder = ZstdEncoder::new(output, ZSTD)?;
            encoder.set_pledged_src_size(Some(plain.decoded.length))?;
            encoder.include_checksum(true)?;
            for piece in plain.groups.iter().flat_map(|group| group.chunks(PIECE)) {
                if !go_on() {
                    return Ok(None);
                }
                crc.update(piece);
                encoder.write_all(piece)?;
            }
            (encoder.finish()?, crc.finalize(), None)
        }
    };
    let file = written
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    protect(&file.inner)?;
    file.inner.sync_data()?;
    let sum = file.sums.finish();
    Ok(Some(Written { sum, crc, list }))
}

/// Writes and syncs a file, then gives it its name.
fn replace(unfinished: &Path, path: &Path, content: &[u8]) -> Result<FileSum, DiskError> {
    let sum = File::create_new(unfinished)
        .and_then(|inner| {
            let sums = Summing::default();
            let mut file = Summed { inner, sums };
            file.write_all(content)?;
            protect(&file.inner)?;
            file.inner.sync_data()?;
            Ok(file.sums.finish())
        })
        .map_err(DiskError::at("write", unfinished))?;
    fs::rename(unfinished, path).map_err(DiskError::at("create", path))?;
    Ok(sum)
}

fn low_half([a, b, c, d, ..]: [u8; 8]) -> [u8; 4] {
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn lines() -> Vec<u8> {
        let line = |number: u32| format!("{{\"name\":\"{number}\",\"schema\":\"x\"}}\n");
        (0..100_000).map(line).collect::<String>().into_bytes()
    }

    fn plain(lines: &[u8]) -> Plain {
        Plain {
            lines: vec![Bytes::copy_from_slice(lines)],
            groups: lines.chunks(300_000).map(Bytes::copy_from_slice).collect(),
            decoded: Decoded {
                length: lines.len() as u64,
                crc: crc32fast::hash(lines),
            },
            known: None,
            known_segments: None,
        }
    }

    fn decode(encoding: Encoding, file: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match encoding {
            Encoding::Gzip => flate2::read::GzDecoder::new(file)
                .read_to_end(&mut plain)
                .map(drop),
            Encoding::Zstd => zstd::stream::copy_decode(file, &mut plain),
            // Of one line, the segment comes first.
            Encoding::Segments => {
                let end = file.len() - 24;
                let stream = [&file[..end], &[3, 0]].concat();
                flate2::read::DeflateDecoder::new(&stream[..])
                    .read_to_end(&mut plain)
                    .map(drop)
            }
        }
        .unwrap();
        plain
    }

    #[test]
    fn an_incomplete_file_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        for lines in [lines(), b"{}\n".to_vec()] {
            let decoded = plain(&lines).decoded;
            for encoding in Encoding::ALL {
                let path = folder
                    .path()
                    .join(format!("{}{}", encoding.file(), lines.len()));
                let written = write(encoding, plain(&lines), &path, || true)
                    .unwrap()
                    .unwrap();
                let file = fs::read(&path).unwrap();
                assert_eq!(
                    (written.sum, written.crc),
                    (Summing::of(&file), decoded.crc)
                );
                assert!(decode(encoding, &file) == lines);
                assert!(encoding.is_whole(&file, decoded));
                for length in [0, 1, file.len() / 2, file.len() - 1] {
                    assert!(!encoding.is_whole(&file[..length], decoded), "{length}");
                }
                assert!(!encoding.is_whole(&[&file[..], b"more"].concat(), decoded));
                let longer = Decoded {
                    length: decoded.length + 1,
                    ..decoded
                };
                assert!(!encoding.is_whole(&file, longer));
            }
        }
    }

    #[test]
    fn encoding_ends_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let lines = lines();
        for encoding in Encoding::ALL {
            let path = folder.path().join(encoding.file());
            let written = write(encoding, plain(&lines), &path, || false).unwrap();
            assert!(written.is_none());
        }
    }
}
