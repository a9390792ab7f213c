//! What the fuzz targets check, one function `run` a target.
//!
//! The programs below `targets` give it the inputs that libFuzzer makes up, and the
//! test target `seeds` of the program gives it the seeds: it includes this file.

pub mod memory;

pub mod certificate;
pub mod graph;
pub mod json;
pub mod layer;
pub mod openpgp;
pub mod plain;
pub mod policy;
pub mod range;
pub mod reference;
pub mod registries_d;
pub mod sigstore;
pub mod yaml;
