//! Building archives in memory, valid and invalid ones.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};

use tar::{EntryType, Header};

use crate::layers::{Layer, Limits, UnpackError, UnpackedFile, unpack};

/// A tar archive that is being written.
#[derive(Clone, Default)]
pub(super) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    pub(super) fn file(self, path: &str, contents: &str) -> Self {
        self.entry(
            EntryType::Regular,
            path.as_bytes(),
            b"",
            contents.as_bytes(),
        )
    }

    pub(super) fn folder(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path.as_bytes(), b"", b"")
    }

    pub(super) fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path.as_bytes(), target.as_bytes(), b"")
    }

    pub(super) fn hardlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path.as_bytes(), target.as_bytes(), b"")
    }

    /// An entry of any type, its path written as it is.
    pub(super) fn entry(
        mut self,
        entry_type: EntryType,
        path: &[u8],
        link: &[u8],
        contents: &[u8],
    ) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(entry_type);
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
        self.raw(contents)
    }

    /// A PAX header for the entry after it.
    pub(super) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut contents = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (1..9).find(|n| (rest + n).to_string().len() == *n).unwrap() + rest;
            write!(contents, "{length} {key}=").unwrap();
            contents.extend_from_slice(value);
            contents.push(b'\n');
        }
        self.entry(EntryType::XHeader, b"PaxHeaders/x", b"", &contents)
    }

    /// Bytes, padded to a block.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// The archive with its end marker.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }

    /// The archive without it.
    pub(super) fn cut(self) -> Vec<u8> {
        self.bytes
    }
}

pub(super) fn tar() -> Tar {
    Tar::default()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 3).unwrap()
}

/// Unpacks layers named `layer-0`, `layer-1`, ... with the limits of a test.
pub(super) fn run(layers: &[Vec<u8>], folder: &str) -> Result<Vec<(String, String)>, UnpackError> {
    run_with(layers, folder, &Limits::for_testing())
}

/// The paths and contents of the files under `folder`, in order.
pub(super) fn run_with(
    layers: &[Vec<u8>],
    folder: &str,
    limits: &Limits,
) -> Result<Vec<(String, String)>, UnpackError> {
    let mut spool = tempfile::tempfile().unwrap();
    let unpacked = run_into(layers, folder, limits, &mut spool);
    // Whatever happens, no more is written than was allowed.
    assert!(spool.metadata().unwrap().len() <= limits.folder_bytes);
    Ok(listed(&unpacked?, &mut spool))
}

/// The same, of the layers from a number on.
pub(super) fn files_of(
    layers: &[Tar],
    first: usize,
    folder: &str,
) -> Result<Vec<(String, String)>, UnpackError> {
    let mut spool = tempfile::tempfile().unwrap();
    let open = |index: usize| {
        Ok(Layer {
            name: format!("layer-{index}"),
            reader: Cursor::new(layers[index].clone().end()),
        })
    };
    let limits = Limits::for_testing();
    let files = unpack(first..layers.len(), open, folder, &limits, &mut spool)?;
    Ok(listed(&files, &mut spool))
}

fn listed(files: &[UnpackedFile], spool: &mut std::fs::File) -> Vec<(String, String)> {
    let files = files.iter().map(|file| {
        let mut contents = vec![0; usize::try_from(file.size).unwrap()];
        spool.seek(SeekFrom::Start(file.offset)).unwrap();
        spool.read_exact(&mut contents).unwrap();
        (
            file.path.clone(),
            String::from_utf8_lossy(&contents).into_owned(),
        )
    });
    files.collect()
}

pub(super) fn run_into(
    layers: &[Vec<u8>],
    folder: &str,
    limits: &Limits,
    spool: &mut std::fs::File,
) -> Result<Vec<UnpackedFile>, UnpackError> {
    let open = |index: usize| {
        Ok(Layer {
            name: format!("layer-{index}"),
            reader: Cursor::new(&layers[index]),
        })
    };
    unpack(0..layers.len(), open, folder, limits, spool)
}
