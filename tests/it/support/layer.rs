//! Layers of images for tests: archives of files, links and whiteouts, also
//! of such as no honest builder writes.

use std::io::Write as _;

use flate2::write::GzEncoder;

use super::catalog::{Catalog, Format};

/// A layer: files in an order, written as an archive.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    content: Content,
    pub compression: Compression,
}

#[derive(Clone, Debug)]
enum Content {
    Entries(Vec<(String, Entry)>),
    /// Bytes that are taken for the archive, whatever they are.
    Raw(Vec<u8>),
}

/// The entry at a path of a layer.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    File(Vec<u8>),
    Folder,
    /// A symbolic link to the target.
    Symlink(String),
    /// Another name of the target.
    HardLink(String),
    /// A named pipe: something that is no file.
    Pipe,
}

/// How a layer's archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Plain,
    Gzip,
    Zstd,
}

impl Layer {
    /// A layer of nothing, compressed with gzip as most are.
    pub(crate) fn new() -> Self {
        Self {
            content: Content::Entries(Vec::new()),
            compression: Compression::Gzip,
        }
    }

    /// A layer of the files of a catalog, under `folder`.
    pub(crate) fn of_catalog(catalog: &Catalog, format: Format, folder: &str) -> Self {
        catalog
            .files(format)
            .into_iter()
            .fold(Self::new().folder(folder), |layer, (path, bytes)| {
                layer.file(&format!("{folder}/{path}"), bytes)
            })
    }

    /// A layer whose archive is `bytes`, which need not be one.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            content: Content::Raw(bytes.into()),
            compression: Compression::Gzip,
        }
    }

    /// Sets the compression.
    pub(crate) fn compressed(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Adds a file.
    pub(crate) fn file(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.entry(path, Entry::File(bytes.into()))
    }

    /// Adds a folder.
    pub(crate) fn folder(self, path: &str) -> Self {
        self.entry(path, Entry::Folder)
    }

    /// Adds a symbolic link.
    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(path, Entry::Symlink(target.into()))
    }

    /// Adds another name of a file.
    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(path, Entry::HardLink(target.into()))
    }

    /// Takes away what lower layers have at `path`.
    pub(crate) fn whiteout(self, path: &str) -> Self {
        let whiteout = match path.rsplit_once('/') {
            Some((folder, name)) => format!("{folder}/.wh.{name}"),
            None => format!(".wh.{path}"),
        };
        self.file(&whiteout, "")
    }

    /// Takes away all that lower layers have in a folder.
    pub(crate) fn opaque(self, folder: &str) -> Self {
        self.file(&format!("{folder}/.wh..wh..opq"), "")
    }

    /// Adds any entry. The path is written as it is: `../x` and `/x` too.
    pub(crate) fn entry(mut self, path: &str, entry: Entry) -> Self {
        match &mut self.content {
            Content::Entries(entries) => entries.push((path.into(), entry)),
            Content::Raw(_) => panic!("a raw layer has no entries"),
        }
        self
    }

    /// The archive before compression.
    pub(crate) fn archive(&self) -> Vec<u8> {
        let entries = match &self.content {
            Content::Entries(entries) => entries,
            Content::Raw(bytes) => return bytes.clone(),
        };
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in entries {
            append(&mut archive, path, entry);
        }
        archive.into_inner().unwrap()
    }

    /// The archive as it is stored.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let archive = self.archive();
        match self.compression {
            Compression::Plain => archive,
            Compression::Gzip => {
                let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
                gzip.write_all(&archive).unwrap();
                gzip.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(&archive[..], 0).unwrap(),
        }
    }
}

/// Appends one entry, in the GNU format where a name is too long for a header.
fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, entry: &Entry) {
    let (kind, data, link) = match entry {
        Entry::File(bytes) => (tar::EntryType::Regular, &bytes[..], None),
        Entry::Folder => (tar::EntryType::Directory, &[][..], None),
        Entry::Symlink(target) => (tar::EntryType::Symlink, &[][..], Some(target)),
        Entry::HardLink(target) => (tar::EntryType::Link, &[][..], Some(target)),
        Entry::Pipe => (tar::EntryType::Fifo, &[][..], None),
    };
    let mut header = header(kind, data.len());
    if name_fits(archive, path, tar::EntryType::GNULongName) {
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    }
    if let Some(target) = link
        && name_fits(archive, target, tar::EntryType::GNULongLink)
    {
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    }
    header.set_cksum();
    archive.append(&header, data).unwrap();
}

/// Whether a name fits into a header; otherwise it is written before it.
fn name_fits(archive: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType) -> bool {
    if name.len() <= 100 {
        return true;
    }
    let data = format!("{name}\0");
    let mut header = header(kind, data.len());
    header.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
    header.set_cksum();
    archive.append(&header, data.as_bytes()).unwrap();
    false
}

fn header(kind: tar::EntryType, size: usize) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind == tar::EntryType::Directory {
        0o755
    } else {
        0o644
    });
    header.set_size(size as u64);
    header
}

mod checks {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_layer_is_an_archive_of_its_entries() {
        let long = "folder/".repeat(40) + "file";
        let layer = Layer::new()
            .folder("configs")
            .file("configs/a.json", "{}")
            .symlink("configs/b.json", "../../etc/passwd")
            .hard_link("configs/c.json", "configs/a.json")
            .whiteout("configs/d.json")
            .opaque("configs/e")
            .file("../out", "x")
            .file(&long, "y")
            .entry("pipe", Entry::Pipe);
        let bytes = layer.bytes();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let link = entry
                .link_name_bytes()
                .map(|link| String::from_utf8(link.into_owned()).unwrap());
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            seen.push((path, link.unwrap_or_default(), text));
        }
        let expected = [
            ("configs", "", ""),
            ("configs/a.json", "", "{}"),
            ("configs/b.json", "../../etc/passwd", ""),
            ("configs/c.json", "configs/a.json", ""),
            ("configs/.wh.d.json", "", ""),
            ("configs/e/.wh..wh..opq", "", ""),
            ("../out", "", "x"),
            (&long, "", "y"),
            ("pipe", "", ""),
        ];
        let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(seen, expected);

        let plain = layer.clone().compressed(Compression::Plain).bytes();
        let zstd = layer.compressed(Compression::Zstd).bytes();
        assert_eq!(zstd::decode_all(&zstd[..]).unwrap(), plain);
    }
}
