//! The answers of the registry API and the serving index.

mod streams;

use std::collections::{BTreeMap, HashMap};

use crate::answers::catalog::{AnswerInput, EncodedCatalog};
use crate::answers::chunks::ChunkWriter;
use crate::answers::grpc::build::streams::{
    ListedEntry, put_bundle_list, put_channel_entries, put_custom_schemas, put_package_names,
};
use crate::answers::grpc::message;
use crate::answers::index::{
    BundleIndex, ChannelIndex, EntryIndex, Index, PackageIndex, Provider, number,
};
use crate::answers::span::Span;
use fbc::document::Gvk;
use fbc::graph::Package;

/// The length in bytes of the chunks that are written.
const CHUNK: usize = 1 << 20;

/// Hands the answers to `store`, which appends them to the message file, and
/// returns the index without its metas and queries. `custom` are the metas of other
/// schemas than [`OLM_SCHEMAS`](fbc::document::OLM_SCHEMAS), sorted: for each the
/// index's numbers of schema and package, and its own.
pub fn build<E>(
    input: &AnswerInput<'_>,
    custom: &[[u32; 3]],
    store: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Index, E> {
    let catalog = input.catalog;
    let mut out = ChunkWriter::new(input.messages.len() as u64, CHUNK, store);
    let mut numbers = BundleNumbers::default();
    let mut packages = Vec::with_capacity(catalog.graph.packages.len());
    let mut listed = Vec::new();
    for package in &catalog.graph.packages {
        let package = put_package(catalog, package, &mut numbers, &mut out, &mut listed)?;
        packages.push(package);
    }
    let bundles = numbers.bundles.iter().map(|bundle| BundleIndex {
        name: catalog.blobs.bundles[*bundle].blob.name.as_str().into(),
        message: catalog.messages[*bundle].clone(),
    });
    let bundles: Vec<_> = bundles.collect();
    put_channel_entries(&mut packages, &bundles, &mut out)?;
    let custom_schemas = put_custom_schemas(custom, input.lines, &mut out)?;
    let package_names = put_package_names(&catalog.graph.packages, &mut out)?;
    let bundle_list = put_bundle_list(catalog, listed, input.messages, &mut out)?;
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

/// The served bundles, numbered in the order of packages.
#[derive(Default)]
struct BundleNumbers {
    /// Their indices among the blobs.
    bundles: Vec<usize>,
    numbers: HashMap<usize, u32>,
}

impl BundleNumbers {
    fn number(&mut self, bundle: usize) -> u32 {
        *self.numbers.entry(bundle).or_insert_with(|| {
            self.bundles.push(bundle);
            number(self.bundles.len() - 1)
        })
    }
}

fn put_package<'a, E>(
    catalog: &EncodedCatalog,
    package: &'a Package,
    numbers: &mut BundleNumbers,
    out: &mut ChunkWriter<'_, E>,
    listed: &mut Vec<ListedEntry<'a>>,
) -> Result<PackageIndex, E> {
    let message = out.span(|out| {
        message::put_package(out, package);
        Ok(())
    })?;
    let mut channels = Vec::with_capacity(package.channels.len());
    for channel in &package.channels {
        let mut entries = Vec::with_capacity(channel.entries.len());
        for entry in &channel.entries {
            listed.push(ListedEntry {
                channel,
                package,
                entry,
            });
            entries.push(EntryIndex {
                bundle: numbers.number(entry.bundle),
                membership: out.span(|out| {
                    message::put_membership(out, package, channel, entry);
                    Ok(())
                })?,
                replaces: entry.replaces.as_str().into(),
                skips: entry.skips.iter().map(|skip| (**skip).into()).collect(),
                frames: Span::default(),
            });
        }
        channels.push(ChannelIndex {
            name: channel.name.as_str().into(),
            head: number(channel.head),
            entries,
        });
    }
    Ok(PackageIndex {
        name: package.name.as_str().into(),
        meta: package.meta,
        message,
        default_channel: number(package.default_channel),
        ends: catalog.ends[package.blob],
        channels,
    })
}

fn providers(catalog: &EncodedCatalog, bundles: &[usize]) -> Vec<Provider> {
    let mut providers: BTreeMap<&Gvk, Vec<u32>> = BTreeMap::new();
    for (number, bundle) in (0_u32..).zip(bundles) {
        for api in &*catalog.blobs.bundles[*bundle].blob.provides {
            let list = providers.entry(api).or_default();
            if list.last() != Some(&number) {
                list.push(number);
            }
        }
    }
    let provider = |(api, bundles): (&Gvk, _)| Provider {
        api: api.clone(),
        bundles,
    };
    providers.into_iter().map(provider).collect()
}
