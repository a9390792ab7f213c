//! Files: replaced while somebody reads them, mapped, and the folder of the project.

use std::fs::{self, File};
use std::path::Path;

use bytes::Bytes;

/// Puts a file in the place of the one before, at once: nobody reads a part.
pub(crate) fn replace(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    let mut beside = path.as_os_str().to_owned();
    beside.push(".next");
    fs::write(&beside, content).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// Maps a file of the test, which nobody changes after it was written. Some are
/// larger than a test should hold in memory.
#[expect(
    unsafe_code,
    reason = "a map is sound only while its file does not change"
)]
pub(crate) fn map(path: &Path) -> Bytes {
    let file = File::open(path).unwrap();
    // SAFETY: the test has written the file and does not change it any more.
    unsafe { almanac::map::map_file(&file) }.unwrap()
}

/// The folder of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
