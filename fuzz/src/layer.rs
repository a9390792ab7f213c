//! Layers of images. The first byte says how the rest is taken:
//!
//! - its lowest two bits: the catalog folder,
//! - bit 2: the rest is two layers, cut at a block near its middle,
//! - bit 3: the checksums of headers are put right first, without which hardly
//!   any change of a header would get past them.

use std::io::Cursor;

use super::memory::{assert_in_proportion, most_memory};
use images::layers::{Layer, Limits, SearchBudget, covers, unpack, walk_order};

const BLOCK: usize = 512;
const FOLDERS: [&str; 4] = ["/configs", "configs/etcd/", "", "/a/../b"];

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((how, archive)) = bytes.split_first() else {
        return;
    };
    let mut archive = archive.to_vec();
    if how & 8 != 0 {
        repair(&mut archive);
    }
    let middle = archive.len() / 2 / BLOCK * BLOCK;
    let layers = match how & 4 {
        0 => vec![&archive[..]],
        _ => vec![&archive[..middle], &archive[middle..]],
    };
    let limits = Limits::for_testing();
    let mut spool = tempfile::tempfile().expect("a temporary file");
    let open = |index: usize| {
        Ok(Layer {
            name: format!("layer {index}"),
            reader: Cursor::new(layers[index]),
        })
    };
    let folder = FOLDERS[usize::from(how & 3)];
    let (files, most) = most_memory(|| unpack(0..layers.len(), open, folder, &limits, &mut spool));
    // What decompressors need, zstd's window for the most part.
    assert_in_proportion(archive.len(), most, 16, 16 << 20);
    for layer in (0..layers.len()).map(open) {
        let layer = layer.expect("a layer");
        let (_, most) =
            most_memory(|| covers(layer, folder, &limits, &mut SearchBudget::default()));
        assert_in_proportion(archive.len(), most, 16, 16 << 20);
    }
    let spooled = spool.metadata().expect("a length").len();
    assert!(spooled <= limits.folder_bytes, "{spooled}");
    let files = match files {
        Ok(files) => files,
        Err(error) => return assert!(error.to_string().len() < 1 << 14),
    };
    assert!(files.len() as u64 <= limits.files);
    assert!(files.is_sorted_by(|a, b| walk_order(&a.path, &b.path).is_lt()));
    let mut size = 0;
    for file in files {
        size += file.size;
        assert!(file.offset + file.size <= spooled, "{file:?}");
        let good = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        assert!(file.path.split('/').all(good), "{file:?}");
    }
    assert!(size <= limits.folder_bytes, "{size}");
}

/// Writes the right checksum into every block that is a header when the
/// archive is read from its start.
fn repair(archive: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = std::str::from_utf8(&header[124..135]).unwrap_or_default();
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).unwrap_or(0);
        let blocks = size.div_ceil(BLOCK).saturating_add(1);
        at = at.saturating_add(blocks.saturating_mul(BLOCK));
        if at > archive.len() {
            break;
        }
    }
}
