//! Revisions of catalogs, and what they changed.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::changes::{Change, Kind};
use crate::queries::record::records;

/// A revision that was published.
#[derive(Serialize, ToSchema)]
#[schema(as = Revision)]
pub(crate) struct RevisionRecord {
    /// Its number.
    pub(crate) revision: String,
    /// The image; `null` for other sources, which name paths of this machine.
    #[schema(required = true)]
    pub(crate) source: Option<String>,
    /// The digest that the source was at.
    pub(crate) digest: String,
    /// The digest of its content.
    pub(crate) content: String,
    /// When it was published.
    #[schema(format = DateTime)]
    pub(crate) published: String,
    pub(crate) packages: u64,
    pub(crate) channels: u64,
    pub(crate) entries: u64,
    pub(crate) bundles: u64,
    pub(crate) quarantined: u64,
    /// The number of its changes; `null` for the first revision of the history, and while an outline is missing.
    #[schema(required = true)]
    pub(crate) changes: Option<u64>,
    /// Whether it is the one that is served.
    pub(crate) served: bool,
}

/// The changes from one revision to another.
#[derive(Serialize, ToSchema)]
#[schema(as = Changes)]
pub(crate) struct ChangesRecord {
    /// The older revision; `null` when there is no revision before.
    #[schema(required = true)]
    pub(crate) from: Option<RevisionRecord>,
    pub(crate) to: RevisionRecord,
    /// The number of changes by kind.
    pub(crate) counts: BTreeMap<Kind, usize>,
    pub(crate) changes: Vec<Change>,
}

/// An update of a catalog.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CatalogUpdate)]
pub(crate) struct UpdateRecord<'a> {
    pub(crate) catalog: &'a str,
    /// The number of the revision that it made.
    pub(crate) revision: String,
    /// The digest of its content.
    pub(crate) content: String,
    /// The digest of the content before.
    pub(crate) content_before: String,
    /// When it was published.
    #[schema(format = DateTime)]
    pub(crate) published: String,
    /// How many changes there are; the first of them are listed.
    pub(crate) total: usize,
    /// The number of changes by kind.
    pub(crate) counts: &'a BTreeMap<Kind, usize>,
    pub(crate) changes: &'a [Change],
}

records!(RevisionRecord, ChangesRecord, UpdateRecord<'_>);
