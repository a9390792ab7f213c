//! Mirrors, rewritten locations, and registries that are blocked or insecure.
//!
//! [`Mirrors::read`] reads `registries.conf` files and folders, as podman and
//! CRI-O have them, and the mirror sets of OpenShift clusters.
//! [`Mirrors::locations`] lists where to pull an image from, in order.

mod kubernetes;
mod matching;
mod mirror_sets;
mod read;
mod registries_conf;
mod remarks;
mod rule;
#[cfg(test)]
mod tests;

pub use matching::{InvalidLocation, Mirrors, PullLocation};
pub use read::MirrorFiles;

pub(crate) use remarks::RemarkLog;
