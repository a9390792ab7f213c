//! Catalogs side by side, and what changes from one to another.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::changes::{Change, Kind};
use crate::queries::record::records;

/// The default channel of a package, and the version of its head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ComparedHead)]
pub(crate) struct Head {
    pub(crate) channel: String,
    pub(crate) version: String,
}

/// Catalogs side by side.
#[derive(Serialize, ToSchema)]
#[schema(as = Comparison)]
pub(crate) struct ComparisonRecord<'a> {
    pub(crate) catalogs: &'a [&'a str],
    /// How many packages the catalogs have.
    pub(crate) total: usize,
    pub(crate) packages: Vec<RowRecord<'a>>,
}

/// A package in the compared catalogs.
#[derive(Serialize, ToSchema)]
#[schema(as = ComparedPackage)]
pub(crate) struct RowRecord<'a> {
    pub(crate) package: &'a str,
    /// The default channel and its version, by catalog.
    pub(crate) catalogs: BTreeMap<&'a str, &'a Head>,
}

/// The changes from one catalog to another.
#[derive(Serialize, ToSchema)]
#[schema(as = Difference)]
pub(crate) struct DifferenceRecord<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// The number of changes by kind.
    pub(crate) counts: BTreeMap<Kind, usize>,
    pub(crate) changes: Vec<Change>,
}

records!(ComparisonRecord<'_>, DifferenceRecord<'_>);
