//! The files of a layout, in a folder or an archive.

use std::fs::File;
use std::io::{Read, Take};
use std::path::{Path, PathBuf};

use oci_spec::image::OciLayout;

use crate::digest::Digest;
use crate::layout::docker_archive::DockerImages;
use crate::layout::error::LayoutError;
use crate::layout::files::{open_file, read_document};
use crate::layout::tar_files::TarFiles;
use crate::manifest::{Index, Manifest, ManifestError};

/// The file that marks a layout.
pub(super) const MARKER: &str = "oci-layout";

/// Where the files of a layout are.
#[derive(Clone, Debug)]
pub(super) enum LayoutStorage {
    Folder(PathBuf),
    Archive(TarFiles),
    Docker(TarFiles, DockerImages),
}

impl LayoutStorage {
    /// The path of the folder or archive.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Archive(archive) | Self::Docker(archive, _) => archive.path(),
        }
    }

    /// Reads `oci-layout` and `index.json`.
    pub(super) fn index(&self) -> Result<Index, LayoutError> {
        let (path, file, size) = self.file(MARKER)?;
        let marker = read_document(path.clone(), file, size)?;
        let marker: Option<OciLayout> = serde_json::from_slice(&marker).ok();
        if !marker.is_some_and(|marker| marker.image_layout_version().starts_with("1.")) {
            return Err(LayoutError::Version { path });
        }
        let (path, file, size) = self.file("index.json")?;
        let index = read_document(path.clone(), file, size)?;
        match Manifest::parse(&index, None) {
            Ok(Manifest::Index(index)) => Ok(index),
            Ok(Manifest::Image(_)) => {
                let source = ManifestError::Shape;
                Err(LayoutError::Index { path, source })
            }
            Err(source) => Err(LayoutError::Index { path, source }),
        }
    }

    /// The file of a blob, with its path for messages and its size.
    pub(super) fn blob(&self, digest: &Digest) -> Result<(PathBuf, Take<File>, u64), LayoutError> {
        if let Self::Docker(archive, images) = self {
            let unknown = || LayoutError::Missing {
                path: archive.path().into(),
                name: digest.to_string(),
            };
            let name = images.blobs.get(digest).ok_or_else(unknown)?;
            return self.file(name);
        }
        self.file(&format!("blobs/sha256/{}", digest.hex()))
    }

    fn file(&self, name: &str) -> Result<(PathBuf, Take<File>, u64), LayoutError> {
        let path = self.path().join(name);
        let (file, size) = match self {
            Self::Folder(_) => {
                let (file, size) = open_file(&path)?;
                (file.take(size), size)
            }
            Self::Archive(archive) | Self::Docker(archive, _) => archive.file(name)?,
        };
        Ok((path, file, size))
    }
}
