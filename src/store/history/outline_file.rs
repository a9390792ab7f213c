//! Files of outlines.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::answers::outline::Outline;
use crate::store::Damage;
use crate::store::file_io::{DiskError, protect, sync_folder};

/// The largest outline that is read, in bytes.
const MAX_OUTLINE: u64 = 256 << 20;

/// The content of the file for an outline.
pub(super) fn encode(outline: &Outline) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3)?;
    encoder.include_checksum(true)?;
    serde_json::to_writer(&mut encoder, outline)?;
    encoder.finish()
}

/// Writes the file of an outline, with its folder.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(DiskError::at("create", folder))?;
    let written = tempfile::Builder::new()
        .prefix("new-")
        .tempfile_in(folder)
        .and_then(|mut file| {
            file.write_all(content)?;
            protect(file.as_file())?;
            file.as_file().sync_data()?;
            // An existing file gets a new date, so that no sweep removes it.
            file.persist(path).map_err(|error| error.error)
        });
    written.map_err(DiskError::at("write", path))?;
    sync_folder(folder)
}

/// The outline of a file's content.
pub(super) fn decode(content: impl io::Read) -> io::Result<Outline> {
    let mut json = Vec::new();
    let decoder = zstd::Decoder::new(content)?;
    decoder.take(MAX_OUTLINE).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Reads an outline. `None` when there is none, or a damaged one.
pub(super) fn read(path: &Path) -> Option<Outline> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        file => file,
    };
    file.and_then(decode)
        .inspect_err(|error| {
            let damage = Damage {
                path: path.to_owned(),
                reason: error.to_string(),
            };
            tracing::warn!(%damage, "an outline cannot be read and is not compared");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_read_as_it_was_written_and_not_when_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outlines/a.zst");
        let outline = Outline {
            quarantined: ["a".into()].into(),
            ..Outline::default()
        };
        let mut encoded = encode(&outline).unwrap();
        write(&path, &encoded).unwrap();
        assert_eq!(read(&path), Some(outline));
        *encoded.last_mut().unwrap() ^= 1;
        write(&path, &encoded).unwrap();
        assert_eq!(read(&path), None);
        assert_eq!(read(&folder.path().join("none")), None);
    }
}
