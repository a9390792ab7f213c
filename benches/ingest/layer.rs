//! A catalog as the layer of an image, its versions, and the floor.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use images::digest::{Digest, Hasher};
use images::layers::walk_order;
use serde_json::json;

use crate::made_up;

/// The files of a catalog, each the path of a package's file and its content.
#[derive(Clone)]
pub(crate) struct Catalog(Vec<(String, String)>);

/// A layer with a catalog under `configs/`.
pub(crate) struct Layer {
    pub(crate) compressed: Vec<u8>,
    pub(crate) digest: Digest,
    pub(crate) unpacked: u64,
}

impl Catalog {
    /// The catalog in a folder of packages, or one that is made up.
    pub(crate) fn of(folder: Option<&Path>) -> Self {
        let Some(folder) = folder else {
            let package = |number| {
                let path = format!("made-up-{number:03}/catalog.json");
                (path, made_up::package(number))
            };
            return Self((0..300).map(package).collect());
        };
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                    let content = std::fs::read_to_string(&path).unwrap();
                    files.push((name.to_owned(), content));
                }
            }
        }
        // As builders of images walk a folder.
        files.sort_by(|(a, _), (b, _)| walk_order(a, b));
        Self(files)
    }

    /// The number of files.
    pub(crate) fn files(&self) -> usize {
        self.0.len()
    }

    /// Another version: each of the first `count` files has one document more.
    pub(crate) fn changed(&self, count: usize, version: usize) -> Self {
        let mut changed = self.clone();
        for (path, content) in changed.0.iter_mut().take(count) {
            let package = path.split('/').next().unwrap_or_default();
            let document = json!({
                "schema": "example.version",
                "package": package,
                "name": format!("version {version}"),
            });
            let is_yaml = !content.trim_start().starts_with('{');
            content.push_str(if is_yaml { "\n---\n" } else { "\n" });
            content.push_str(&document.to_string());
            content.push('\n');
        }
        changed
    }

    /// Writes the files that differ from those of another version, each at once.
    pub(crate) fn write(&self, folder: &Path, before: Option<&Self>) {
        for (number, (path, content)) in self.0.iter().enumerate() {
            if before.is_some_and(|before| before.0[number].1 == *content) {
                continue;
            }
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let beside = folder.with_extension("new");
            std::fs::write(&beside, content).unwrap();
            std::fs::rename(&beside, &path).unwrap();
        }
    }

    /// The catalog as a layer.
    pub(crate) fn layer(&self) -> Layer {
        let encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        let mut archive = tar::Builder::new(encoder);
        for (path, content) in &self.0 {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            let path = format!("configs/{path}");
            archive
                .append_data(&mut header, path, content.as_bytes())
                .unwrap();
        }
        let compressed = archive.into_inner().unwrap().finish().unwrap();
        let unpacked = std::io::copy(&mut GzDecoder::new(&compressed[..]), &mut std::io::sink());
        Layer {
            digest: Digest::of(&compressed),
            unpacked: unpacked.unwrap(),
            compressed,
        }
    }
}

/// One stream over the layer: hash, gunzip, walk.
pub(crate) fn floor(layer: &Layer) -> Duration {
    struct Hashing<'a> {
        bytes: &'a [u8],
        hasher: Hasher,
    }
    impl Read for Hashing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.bytes.read(buffer)?;
            self.hasher.update(&buffer[..length]);
            Ok(length)
        }
    }
    let started = Instant::now();
    let mut hashing = Hashing {
        bytes: &layer.compressed,
        hasher: Hasher::default(),
    };
    let mut buffer = vec![0; 256 << 10];
    let reader = std::io::BufReader::with_capacity(256 << 10, &mut hashing);
    let mut archive = tar::Archive::new(flate2::bufread::GzDecoder::new(reader));
    let mut total = 0;
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        loop {
            let length = entry.read(&mut buffer).unwrap();
            if length == 0 {
                break;
            }
            total += length as u64;
        }
    }
    assert_eq!(hashing.hasher.finish(), layer.digest);
    assert!(total > 0);
    started.elapsed()
}
