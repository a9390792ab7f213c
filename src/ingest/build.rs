//! Graph ─► the answers of the registry API and the serving index: the second
//! half of the stage `build`.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::answers::grpc::entry::{put_entry, put_entry_membership};
use crate::answers::grpc::framing::{prefix, put_framed};
use crate::answers::grpc::structs::Struct;
use crate::answers::sizes::Listing;
use crate::ingest::read::Catalog;
use crate::store::{
    BundleIndex, ChannelIndex, CustomSchemas, EntryIndex, Index, Lines, PackageIndex, Provider,
    Region, RevisionWriter, StoreError,
};
use fbc::document::{BundleBlob, Gvk};
use fbc::graph::{Channel, Entry, Package};
use fbc::message;
use fbc::message::{CSV_JSON, Ends, Manifests, Span};

/// How much is collected before it is written, in bytes.
const CHUNK: usize = 1 << 20;
/// How much is written of channel entries, in bytes. Each skipped bundle
/// repeats the names of package, channel and bundle, whose lengths nothing
/// bounds; catalogs with names as people give them need a hundredth of this.
const MAX_ENTRIES: u64 = 1 << 30;
/// More than a framed channel entry has beside its names, in bytes.
const ENTRY_FRAME: usize = 32;
/// The schemas that the registry API has calls for.
const KNOWN: [&str; 4] = [
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.deprecations",
];

/// Appends the answers to the revision and returns its index, but for the
/// metas, which the writer knows and whose lines these are.
pub(super) fn build(
    catalog: &Catalog,
    lines: &Lines,
    writer: &mut RevisionWriter,
) -> Result<Index, StoreError> {
    let parts = writer.messages()?;
    let custom = writer.metas_but_of(&KNOWN);
    let mut out = Messages::new(writer)?;
    let mut numbers = Numbers::default();
    let mut packages = Vec::with_capacity(catalog.graph.packages.len());
    let mut listed = Vec::new();
    for package in &catalog.graph.packages {
        packages.push(put_package(
            catalog,
            package,
            &mut numbers,
            &mut out,
            &mut listed,
        )?);
    }
    let bundles: Vec<_> = numbers
        .bundles
        .iter()
        .map(|bundle| {
            let blob = &catalog.blobs.bundles[*bundle].blob;
            BundleIndex {
                name: blob.name.as_str().into(),
                message: blob.message.clone(),
            }
        })
        .collect();
    put_channel_entries(&mut packages, &bundles, &mut out)?;
    let custom_schemas = put_custom_schemas(&custom, lines, &mut out)?;
    let package_names = put_package_names(&catalog.graph.packages, &mut out)?;
    let bundle_list = put_bundle_list(catalog, listed, &parts, &mut out)?;
    out.flush()?;
    Ok(Index {
        fields: catalog.fields.clone(),
        packages,
        providers: providers(catalog, &numbers.bundles),
        bundles,
        package_names,
        bundle_list,
        custom_schemas,
        ..Index::default()
    })
}

/// Bundles that are served, numbered as they come up in packages.
#[derive(Default)]
struct Numbers {
    /// Their numbers among the blobs.
    bundles: Vec<usize>,
    numbers: HashMap<usize, u32>,
}

impl Numbers {
    fn number(&mut self, bundle: usize) -> u32 {
        *self.numbers.entry(bundle).or_insert_with(|| {
            self.bundles.push(bundle);
            self.bundles.len() as u32 - 1
        })
    }
}

/// The end of the message file, written in chunks.
struct Messages<'a> {
    writer: &'a mut RevisionWriter,
    buffer: Vec<u8>,
    /// Where the buffer's first byte comes to lie.
    start: u64,
    scratch: Vec<u8>,
}

impl<'a> Messages<'a> {
    fn new(writer: &'a mut RevisionWriter) -> Result<Self, StoreError> {
        let start = writer.append_messages(&[])?;
        Ok(Self {
            writer,
            buffer: Vec::with_capacity(CHUNK),
            start,
            scratch: Vec::new(),
        })
    }

    fn position(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Appends what `put` writes and returns where it lies.
    fn span(&mut self, put: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> Result<Span, StoreError> {
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        let before = self.buffer.len();
        put(&mut self.buffer, &mut self.scratch);
        let mut span = Span::since(&self.buffer, before);
        span.shift(self.start);
        Ok(span)
    }

    /// Appends a message with its prefix.
    fn frame(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), StoreError> {
        self.span(|out, _| put_framed(out, put))?;
        Ok(())
    }

    /// Appends a part of a message that may be larger than all that is
    /// collected.
    fn part(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(())
    }

    /// What was appended since a position.
    fn since(&self, start: u64) -> Region {
        Region {
            start,
            length: self.position() - start,
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.writer.append_messages(&self.buffer)?;
        self.start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// An entry on its way into the bundle list.
struct Listed<'a> {
    channel: &'a Channel,
    package: &'a Package,
    entry: &'a Entry,
}

fn put_package<'a>(
    catalog: &'a Catalog,
    package: &'a Package,
    numbers: &mut Numbers,
    out: &mut Messages<'_>,
    listed: &mut Vec<Listed<'a>>,
) -> Result<PackageIndex, StoreError> {
    let default = package.channels.get(package.default_channel);
    let message = out.span(|out, scratch| {
        let default = default.map_or("", |channel| &channel.name);
        message::put_package(out, &package.name, default, package.deprecation.as_deref());
        for channel in &package.channels {
            let head = channel.entries.get(channel.head);
            message::put_package_channel(
                out,
                &channel.name,
                head.map_or("", |head| &head.name),
                channel.deprecation.as_deref(),
                scratch,
            );
        }
    })?;
    let mut channels = Vec::with_capacity(package.channels.len());
    for channel in &package.channels {
        let mut entries = Vec::with_capacity(channel.entries.len());
        for entry in &channel.entries {
            listed.push(Listed {
                channel,
                package,
                entry,
            });
            entries.push(EntryIndex {
                bundle: numbers.number(entry.bundle),
                membership: out
                    .span(|out, _| put_entry_membership(out, package, channel, entry))?,
                replaces: entry.replaces.as_str().into(),
                skips: entry
                    .skips
                    .iter()
                    .map(|skip| skip.as_str().into())
                    .collect(),
                frames: Span::default(),
            });
        }
        channels.push(ChannelIndex {
            name: channel.name.as_str().into(),
            head: channel.head as u32,
            entries,
        });
    }
    Ok(PackageIndex {
        name: package.name.as_str().into(),
        meta: package.meta,
        message,
        default_channel: package.default_channel as u32,
        ends: ends(catalog, package),
        channels,
    })
}

fn ends(catalog: &Catalog, package: &Package) -> Ends {
    catalog.ends.get(package.blob).copied().unwrap_or_default()
}

/// Writes what the answers about entries are made of, for all entries side by
/// side: answers that have neighbours are one piece. Entries that find no room
/// are in no answer.
fn put_channel_entries(
    packages: &mut [PackageIndex],
    bundles: &[BundleIndex],
    out: &mut Messages<'_>,
) -> Result<(), StoreError> {
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
                    out.frame(|out| {
                        message::put_channel_entry(out, name, &channel.name, bundle, target);
                    })?;
                }
                let length = (out.position() - start) as u32;
                entry.frames = Span { start, length };
            }
        }
    }
    if left_out > 0 {
        tracing::warn!(
            entries = left_out,
            "channel entries have so long names that they are left out of answers about who \
             replaces or provides something"
        );
    }
    Ok(())
}

/// Writes the answers about metas of other schemas. `metas` are the numbers of
/// schema, package and meta, sorted.
fn put_custom_schemas(
    metas: &[[u32; 3]],
    lines: &Lines,
    out: &mut Messages<'_>,
) -> Result<Vec<CustomSchemas>, StoreError> {
    let same = |[a, b, _]: &[u32; 3], [c, d, _]: &[u32; 3]| (a, b) == (c, d);
    let mut answers = Vec::new();
    for metas in metas.chunk_by(same) {
        let start = out.position();
        for [.., meta] in metas {
            // One that no message can hold is left out.
            if let Some(message) = Struct::of(lines.get(*meta)) {
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

fn put_package_names(packages: &[Package], out: &mut Messages<'_>) -> Result<Region, StoreError> {
    let start = out.position();
    for package in packages {
        out.frame(|out| message::put_package_name(out, &package.name))?;
    }
    Ok(out.since(start))
}

/// Writes the answer to `ListBundles`, in the peers' order: by channel,
/// package, bundle.
fn put_bundle_list(
    catalog: &Catalog,
    mut listed: Vec<Listed<'_>>,
    parts: &Bytes,
    out: &mut Messages<'_>,
) -> Result<Region, StoreError> {
    listed.sort_by(|a, b| {
        (&a.channel.name, &a.package.name, &a.entry.name).cmp(&(
            &b.channel.name,
            &b.package.name,
            &b.entry.name,
        ))
    });
    let start = out.position();
    let part = |span: Span| &parts[span.start as usize..span.end() as usize];
    for Listed {
        channel,
        package,
        entry,
    } in listed
    {
        let blob = &catalog.blobs.bundles[entry.bundle].blob;
        let listing = Listing::of(blob, package, channel, entry);
        if listing == Listing::Not {
            continue;
        }
        out.frame(|out| {
            out.extend_from_slice(part(blob.message.common));
            put_entry(out, package, channel, entry);
            if !blob.has_image && listing == Listing::Whole {
                put_manifests(out, blob, &part);
            }
        })?;
    }
    Ok(out.since(start))
}

/// The manifests of a bundle without an image.
fn put_manifests<'a>(out: &mut Vec<u8>, blob: &BundleBlob, part: &impl Fn(Span) -> &'a [u8]) {
    match &blob.message.manifests {
        // A bundle without image is only valid with objects.
        Manifests::None | Manifests::Made { .. } => {}
        Manifests::Objects { objects, csv } => {
            if let Some(csv) = csv {
                message::put_field(out, CSV_JSON, part(*csv));
            }
            out.extend_from_slice(part(*objects));
        }
    }
}

fn providers(catalog: &Catalog, bundles: &[usize]) -> Vec<Provider> {
    let mut providers: BTreeMap<&Gvk, Vec<u32>> = BTreeMap::new();
    for (number, bundle) in (0_u32..).zip(bundles) {
        for api in &*catalog.blobs.bundles[*bundle].blob.provides {
            let list = providers.entry(api).or_default();
            if list.last() != Some(&number) {
                list.push(number);
            }
        }
    }
    providers
        .into_iter()
        .map(|(api, bundles)| Provider {
            api: api.clone(),
            bundles,
        })
        .collect()
}
