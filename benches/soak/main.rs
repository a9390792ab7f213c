//! Faults for minutes or hours, under load: does almanac lose or mix up a
//! catalog?
//!
//! The real program follows three small catalogs: an image in a registry, an image
//! in an OCI layout, and a file. Clients ask over gRPC, HTTP and `/v2/`, and
//! compare each answer with the known content. Meanwhile the bench kills the
//! program in the middle of passes, restarts it, changes catalogs, floods the
//! ports, takes the registry away, fills the disk, changes bytes of stored files and sets
//! the clock to other years.
//!
//! ```text
//! cargo bench --bench soak -- [--minutes N] [--seed N]
//! ```
//!
//! It prints a summary and exits 1 when an answer was lost, mixed or older than
//! one before, or when new content did not arrive.
#![allow(
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a measuring program, not a library"
)]

#[path = "../../tests/it/support/mod.rs"]
#[allow(
    unused_imports,
    clippy::wildcard_imports,
    reason = "their tests are not compiled here"
)]
mod support;

mod clients;
mod disk_faults;
mod faults;
mod known;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use faults::{Fault, Faults};
use known::Known;
use world::World;

/// The duration without `--minutes`.
const MINUTES: f64 = 2.0;
/// The number of violations that are shown.
const SHOWN: usize = 20;

fn main() -> ExitCode {
    let (mut minutes, mut seed) = (MINUTES, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo passes to every bench.
            "--bench" => {}
            "--minutes" => minutes = arguments.next().unwrap().parse().unwrap(),
            "--seed" => seed = arguments.next().unwrap().parse().unwrap(),
            other => {
                eprintln!("unknown argument {other}");
                return ExitCode::from(2);
            }
        }
    }
    let end = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
    let catalogs: Vec<Arc<Known>> = ["image", "layout", "file"].map(Known::new).into();
    let world = Arc::new(World::default());
    let mut faults = Faults::start(&catalogs, &world, seed);
    let running: Vec<_> = clients::all(&catalogs, &world)
        .into_iter()
        .map(thread::spawn)
        .collect();
    // Each kind once, in this order, and then at random.
    let mut next = Fault::ALL.into_iter();
    while Instant::now() < end {
        let fault = next.next().unwrap_or_else(|| faults.any());
        faults.bring(fault);
    }
    faults.stop();
    world.end();
    for client in running {
        if client.join().is_err() {
            world.violation("a client panicked".into());
        }
    }
    report(minutes, seed, &faults, &world)
}

/// Prints the summary.
fn report(minutes: f64, seed: u64, faults: &Faults, world: &World) -> ExitCode {
    println!("{minutes} minutes, seed {seed}");
    for (name, count) in faults.counts() {
        println!("  {name:30} {count:8}");
    }
    for (name, count) in world.answers() {
        println!("  {name:30} {count:8}");
    }
    for note in faults.notes() {
        println!("  {note}");
    }
    let violations = world.violations();
    println!("violations: {}", violations.len());
    for violation in violations.iter().take(SHOWN) {
        println!("  {violation}");
    }
    ExitCode::from(u8::from(!violations.is_empty()))
}
