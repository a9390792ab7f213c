//! Reading and building on one core, in MB/s, beside the bare parsers on the
//! same bytes: `serde_json` into borrowed structs for JSON, libyaml-safer's
//! events for YAML.
//!
//! ```text
//! cargo bench --bench read -- [FILTER]
//! CATALOG=folder cargo bench --bench read
//! ```
//!
//! Without `CATALOG` the catalog is made up (see `made_up.rs`).
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a measuring program, not a library"
)]

#[path = "made_up.rs"]
mod made_up;

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;

use almanac::answers::grpc::encoder::Encoder;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fbc::document::Blobs;
use fbc::graph;
use fbc::read::{Output, Reader, pieces};
use serde::Deserialize;
use serde_json::value::RawValue;

criterion_group!(benches, json, yaml);
criterion_main!(benches);

fn json(criterion: &mut Criterion) {
    let files = files("json", |package| made_up::package(package).into_bytes());
    let mut group = criterion.benchmark_group("json");
    group.throughput(Throughput::Bytes(bytes(&files)));
    group.sample_size(10);
    group.bench_function("borrowed structs (serde_json)", |bencher| {
        bencher.iter(|| files.iter().map(|file| borrowed(file)).sum::<usize>());
    });
    group.bench_function("read and build", |bencher| {
        bencher.iter(|| read_and_build(&files));
    });
    group.finish();
}

fn yaml(criterion: &mut Criterion) {
    let files = files("yaml", |package| {
        let blobs = made_up::package(package);
        let documents = blobs.lines().map(|blob| {
            let blob: serde_json::Value = serde_json::from_str(blob).unwrap();
            made_up::yaml(&blob)
        });
        documents.collect::<String>().into_bytes()
    });
    let mut group = criterion.benchmark_group("yaml");
    group.throughput(Throughput::Bytes(bytes(&files)));
    group.sample_size(10);
    group.bench_function("events (libyaml-safer)", |bencher| {
        bencher.iter(|| files.iter().map(|file| events(file)).sum::<usize>());
    });
    group.bench_function("read and build", |bencher| {
        bencher.iter(|| read_and_build(&files));
    });
    group.finish();
}

/// The files of that kind in the folder that `CATALOG` names, or made-up ones.
fn files(extension: &str, made_up: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, extension: &str, files: &mut Vec<Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, extension, files);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(std::fs::read(&path).unwrap());
            }
        }
    }
    let mut files = Vec::new();
    if let Some(folder) = std::env::var_os("CATALOG") {
        walk(Path::new(&folder), extension, &mut files);
    }
    if files.is_empty() {
        files = (0..30).map(made_up).collect();
    }
    files
}

fn bytes(files: &[Vec<u8>]) -> u64 {
    files.iter().map(|file| file.len() as u64).sum()
}

/// All that a pass does with a file's bytes, but for compressing and writing.
fn read_and_build(files: &[Vec<u8>]) -> usize {
    let mut reader = Reader::default();
    let mut blobs = Blobs::default();
    let mut out = Output::default();
    let mut encoder = Encoder::default();
    for (number, file) in (0..).zip(files) {
        for piece in pieces(file, 1 << 20) {
            out.clear();
            encoder.clear();
            let bytes = &file[piece.range.clone()];
            reader.read(&piece, bytes, number, &mut out, &mut encoder);
            assert!(out.problems.is_empty(), "{:?}", out.problems);
            black_box((&out.lines, &encoder.messages));
            let read = std::mem::take(&mut out.blobs);
            blobs.packages.extend(read.packages);
            blobs.channels.extend(read.channels);
            blobs.bundles.extend(read.bundles);
            blobs.deprecations.extend(read.deprecations);
            blobs.lifecycles.extend(read.lifecycles);
        }
    }
    let paths = vec![String::new(); files.len()];
    let (graph, _) = graph::build(&blobs, &paths);
    assert!(!graph.packages.is_empty());
    graph.packages.len()
}

/// Fields of a blob that the graph needs, as serde reads them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only that they are read counts")]
struct Blob<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    package: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    properties: Option<Vec<Property<'a>>>,
    #[serde(borrow)]
    related_images: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only that they are read counts")]
struct Property<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

fn borrowed(file: &[u8]) -> usize {
    serde_json::Deserializer::from_slice(file)
        .into_iter::<Blob<'_>>()
        .fold(0, |count, blob| {
            black_box(blob.unwrap());
            count + 1
        })
}

fn events(file: &[u8]) -> usize {
    let mut input = file;
    let mut parser = libyaml_safer::Parser::new();
    parser.set_input(&mut input);
    let mut count = 0;
    loop {
        let event = parser.parse().unwrap();
        count += 1;
        if matches!(event.data, libyaml_safer::EventData::StreamEnd) {
            return count;
        }
    }
}
