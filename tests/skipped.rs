//! Says which tests of a run were skipped, and why: cargo runs the targets by name,
//! so this one comes after the tests in `it`. It always succeeds.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is its purpose"
)]

use std::os::unix::process::parent_id;

#[path = "it/support/skip_records.rs"]
#[allow(dead_code, reason = "the tests that add records have the rest")]
mod skip_records;

fn main() {
    // Other runners ask each target for its tests.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    match skip_records::take(parent_id()) {
        Ok(skipped) => print!("\n{}\n", skip_records::report(&skipped)),
        Err(error) => eprintln!("cannot read which tests were skipped: {error}"),
    }
}
