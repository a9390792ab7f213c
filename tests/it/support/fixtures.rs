//! Recorded files of the project.

use std::path::{Path, PathBuf};

/// The path of a file or folder below `tests/fixtures`.
pub(crate) fn path(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(name)
}

/// The values of a file with one JSON value a line.
pub(crate) fn json_lines<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
    let text = std::fs::read(path(name)).unwrap();
    let values = serde_json::Deserializer::from_slice(&text).into_iter();
    values.collect::<Result<_, _>>().unwrap()
}
