//! `sigstoreSigned` with logs, Fulcio and other authorities, bundles, and the
//! signatures that almanac makes. skopeo and cosign of the next Debian judge the
//! same material where they are installed. sigstore's own mocks of its services make
//! more.

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
mod services;
mod sign_command;
mod signing;
pub(crate) mod trial;
