//! The framed messages of channel entries.

use crate::answers::chunks::ChunkWriter;
use crate::answers::grpc::framing::put_frame;
use crate::answers::grpc::message;
use crate::answers::index::{BundleIndex, PackageIndex};
use crate::answers::span::Span;

/// The most bytes of channel entries. Each skipped bundle repeats the names of
/// package, channel and bundle, whose lengths nothing bounds. Catalogs with
/// ordinary names need a hundredth of this.
const MAX_ENTRIES: u64 = 1 << 30;
/// More bytes than a framed channel entry has beside its names.
const ENTRY_FRAME: usize = 32;

/// Writes the framed messages of all entries side by side, so that an answer
/// with neighbours is one piece. Entries beyond [`MAX_ENTRIES`] are in no answer.
pub(super) fn put_channel_entries<E>(
    packages: &mut [PackageIndex],
    bundles: &[BundleIndex],
    out: &mut ChunkWriter<'_, E>,
) -> Result<(), E> {
    let most = out.position() + MAX_ENTRIES;
    let mut left_out = 0;
    for PackageIndex { name, channels, .. } in packages {
        for channel in channels {
            for entry in &mut channel.entries {
                let bundle = &bundles[entry.bundle as usize].name;
                let names = ENTRY_FRAME + name.len() + channel.name.len() + bundle.len();
                let lengths = entry.targets().map(|target| (names + target.len()) as u64);
                let start = out.position();
                if start + lengths.sum::<u64>() > most {
                    left_out += 1;
                    continue;
                }
                for target in entry.targets() {
                    put_frame(out, |out| {
                        message::put_channel_entry(out, name, &channel.name, bundle, target);
                    })?;
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "there is room for less than MAX_ENTRIES bytes"
                )]
                let length = (out.position() - start) as u32;
                entry.frames = Span { start, length };
            }
        }
    }
    if left_out > 0 {
        tracing::warn!(
            entries = left_out,
            "channel entries with very long names are left out of answers about replacing or \
             providing entries"
        );
    }
    Ok(())
}
