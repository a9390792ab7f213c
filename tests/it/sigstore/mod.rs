//! `sigstoreSigned` with logs, Fulcio and other authorities, bundles, and the
//! signatures that almanac makes. skopeo and cosign of the next Debian judge the
//! same material where they are installed.

#![allow(
    clippy::similar_names,
    reason = "a signer signs, and what is signed has a signature"
)]

mod bundles;
mod cases;
mod certificates;
mod keys;
mod logs;
pub(crate) mod material;
mod signing;
pub(crate) mod trial;
