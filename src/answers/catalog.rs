//! A catalog that was read and encoded.

use bytes::Bytes;

use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds};
use fbc::document::Blobs;
use fbc::fields::SchemaFields;
use fbc::graph::Graph;
use fbc::problem::Problem;

/// A catalog, and the encoded messages beside its blobs.
#[derive(Debug)]
pub struct EncodedCatalog {
    /// Its blobs.
    pub blobs: Blobs,
    /// The message of each `olm.bundle` blob.
    pub messages: Vec<BundleMessage>,
    /// For each `olm.package` blob, the ends of the `ClusterServiceVersion`s made
    /// for its bundles.
    pub ends: Vec<CsvEnds>,
    /// The fields of its blobs.
    pub fields: Vec<SchemaFields>,
    /// Its valid packages.
    pub graph: Graph,
    /// Its problems.
    pub problems: Vec<Problem>,
}

/// The input of all answers.
pub struct AnswerInput<'a> {
    /// The catalog.
    pub catalog: &'a EncodedCatalog,
    /// The canonical lines.
    pub lines: &'a LineOf<'a>,
    /// The encoded parts of bundles: the message file so far.
    pub messages: &'a Bytes,
}

/// Finds the canonical line of a meta by its number; empty without such a meta.
pub type LineOf<'a> = dyn Fn(u32) -> &'a [u8] + Sync + 'a;
