//! From a registry to answering: how long the program takes for a large
//! catalog, as a multiple of the floor, and how much memory.
//!
//! The floor is one stream over the same layer that only hashes, gunzips and
//! walks the archive: less than that cannot be done. Both are measured in
//! turns, so that a machine that slows down slows both.
//!
//! Then updates: the processor time of a pass over a changed catalog, and of what
//! follows its publication, as parts of those of a cold pass in the same process. At
//! last twenty catalogs: the memory and the restart of each.
//!
//! ```text
//! cargo bench --bench ingest -- [--runs N] [CATALOG_FOLDER]
//! ```
//!
//! Without a folder the catalog is made up: 300 packages, about 130 MB.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a measuring program, not a library"
)]

#[path = "ingest/layer.rs"]
mod layer;
#[path = "made_up.rs"]
mod made_up;
#[path = "ingest/program.rs"]
mod program;
#[path = "ingest/registry.rs"]
mod registry;
#[path = "rounds.rs"]
mod rounds;
#[path = "ingest/updates.rs"]
mod updates;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use layer::{Catalog, floor};
use program::Running;
use registry::Registry;
use rounds::{Machine, quartiles};

fn main() {
    let mut runs = 5;
    let mut folder = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo passes to every bench.
            "--bench" => {}
            "--runs" => runs = arguments.next().unwrap().parse().unwrap(),
            path => folder = Some(PathBuf::from(path)),
        }
    }
    let catalog = Catalog::of(folder.as_deref());
    let layer = Arc::new(catalog.layer());
    println!(
        "layer: {:.1} MB compressed, {:.1} MB unpacked",
        megabytes(layer.compressed.len() as u64),
        megabytes(layer.unpacked)
    );
    let registry = Registry::start(Arc::clone(&layer));
    let sources = [registry.source("catalog")];
    let runtime = tokio::runtime::Runtime::new().unwrap();

    let machine = Machine::note();
    let mut measured = Vec::new();
    for run in 1..=runs {
        let floor = floor(&layer);
        let data = tempfile::tempdir().unwrap();
        let cold = runtime.block_on(start(data.path(), &sources));
        registry.closed.store(true, Ordering::Relaxed);
        let warm = runtime.block_on(start(data.path(), &sources));
        registry.closed.store(false, Ordering::Relaxed);
        println!(
            "run {run}: floor {floor:.0?}, answering after {:.0?} ({:.1} x floor), \
             RssAnon at most {:.1} MiB; restart {:.0?}, RssAnon {:.1} MiB",
            cold.elapsed,
            cold.elapsed.as_secs_f64() / floor.as_secs_f64(),
            mebibytes(cold.memory),
            warm.elapsed,
            mebibytes(warm.memory),
        );
        measured.push((floor, cold, warm));
    }
    report(&measured);
    runtime.block_on(updates::report(&catalog));
    runtime.block_on(updates::report_many(&catalog));
    machine.report();
}

/// Starts the program and waits until both APIs answer.
async fn start(data: &Path, sources: &[String]) -> Measured {
    let running = Running::start(data, &[], sources, &["catalog"]).await;
    Measured {
        elapsed: running.elapsed,
        memory: running.most_memory(),
    }
}

struct Measured {
    elapsed: Duration,
    /// The most anonymous memory seen, in bytes.
    memory: u64,
}

fn report(measured: &[(Duration, Measured, Measured)]) {
    let floor = median(measured.iter().map(|m| m.0.as_secs_f64()));
    let cold = median(measured.iter().map(|m| m.1.elapsed.as_secs_f64()));
    let warm = median(measured.iter().map(|m| m.2.elapsed.as_secs_f64()));
    let ratios = measured
        .iter()
        .map(|m| m.1.elapsed.as_secs_f64() / m.0.as_secs_f64());
    let [low, ratio, high] = quartiles(ratios);
    let memory = measured.iter().map(|m| m.1.memory).max().unwrap_or(0);
    println!();
    println!(
        "floor (sha256, gunzip, tar walk)      {:6.0} ms",
        floor * 1e3
    );
    println!(
        "from a registry to both APIs          {:6.0} ms",
        cold * 1e3
    );
    println!(
        "  as a multiple of the floor          {ratio:6.1}     ({low:.1} to {high:.1}; at most 8)"
    );
    println!(
        "restart to both APIs                  {:6.0} ms  (under 100)",
        warm * 1e3
    );
    println!(
        "anonymous memory, the most            {:6.1} MiB (at most 128)",
        mebibytes(memory)
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quartiles(values)[1]
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
