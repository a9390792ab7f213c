//! almanac.
fn main() {}
