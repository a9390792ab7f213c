//! The answers that are streams of messages, ready to send.

use crate::answers::catalog::{EncodedCatalog, LineOf};
use crate::answers::chunks::ChunkWriter;
use crate::answers::grpc::bundle_message::Manifests;
use crate::answers::grpc::framing::{prefix, put_frame};
use crate::answers::grpc::message;
use crate::answers::grpc::message::{CSV_JSON, put_entry};
use crate::answers::grpc::structs::Struct;
use crate::answers::index::{BundleIndex, CustomSchemas, PackageIndex};
use crate::answers::sizes::Listing;
use crate::answers::span::{Region, Span};
use fbc::graph::{Channel, Entry, Package};

/// An entry of the bundle list.
pub(super) struct ListedEntry<'a> {
    pub(super) channel: &'a Channel,
    pub(super) package: &'a Package,
    pub(super) entry: &'a Entry,
}

/// Writes the answers about metas of other schemas. `metas` are the numbers of
/// schema, package and meta, sorted.
pub(super) fn put_custom_schemas<E>(
    metas: &[[u32; 3]],
    lines: &LineOf<'_>,
    out: &mut ChunkWriter<'_, E>,
) -> Result<Vec<CustomSchemas>, E> {
    let same = |[a, b, _]: &[u32; 3], [c, d, _]: &[u32; 3]| (a, b) == (c, d);
    let mut answers = Vec::new();
    for metas in metas.chunk_by(same) {
        let start = out.position();
        for [.., meta] in metas {
            // A meta that is too large for a message is left out.
            if let Some(message) = Struct::of(lines(*meta)) {
                out.part(&prefix(message.length()))?;
                message.write(|part| out.part(part))?;
            }
        }
        let [schema, package, _] = metas[0];
        answers.push(CustomSchemas {
            schema,
            package,
            answer: out.since(start),
        });
    }
    Ok(answers)
}

/// Writes the answer to `ListPackages`.
pub(super) fn put_package_names<E>(
    packages: &[Package],
    out: &mut ChunkWriter<'_, E>,
) -> Result<Region, E> {
    let start = out.position();
    for package in packages {
        put_frame(out, |out| message::put_package_name(out, &package.name))?;
    }
    Ok(out.since(start))
}

/// Writes the answer to `ListBundles` in opm's order: by channel, package and
/// bundle. `messages` has the encoded parts of bundles.
pub(super) fn put_bundle_list<E>(
    catalog: &EncodedCatalog,
    mut listed: Vec<ListedEntry<'_>>,
    messages: &[u8],
    out: &mut ChunkWriter<'_, E>,
) -> Result<Region, E> {
    listed.sort_by(|a, b| {
        (&a.channel.name, &a.package.name, &a.entry.name).cmp(&(
            &b.channel.name,
            &b.package.name,
            &b.entry.name,
        ))
    });
    let start = out.position();
    for ListedEntry {
        channel,
        package,
        entry,
    } in listed
    {
        let has_image = catalog.blobs.bundles[entry.bundle].blob.has_image;
        let message = &catalog.messages[entry.bundle];
        let (listing, _) = Listing::measured(has_image, message, package, channel, entry);
        if listing == Listing::Not {
            continue;
        }
        put_frame(out, |out| {
            out.extend_from_slice(&messages[message.common.range()]);
            put_entry(out, package, channel, entry);
            if !has_image && listing == Listing::Whole {
                put_manifests(out, &message.manifests, messages);
            }
        })?;
    }
    Ok(out.since(start))
}

/// Appends the manifests of a bundle without an image.
fn put_manifests(out: &mut Vec<u8>, manifests: &Manifests, messages: &[u8]) {
    match manifests {
        // A bundle without an image is only valid with objects.
        Manifests::None | Manifests::Made { .. } => {}
        Manifests::Objects { objects, csv } => {
            if let Some(csv) = csv {
                message::put_field(out, CSV_JSON, &messages[csv.range()]);
            }
            out.extend_from_slice(&messages[objects.range()]);
        }
    }
}

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
