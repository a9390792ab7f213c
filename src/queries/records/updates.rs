//! Updates of an installed version.

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::rest::plan::{PlanStep, Rules};
use crate::answers::rest::stages::Stage;
use crate::answers::rest::updates::{Candidate, Path};
use crate::queries::record::records;

/// The steps from a version to another.
#[derive(Serialize, ToSchema)]
#[schema(as = Plan)]
pub(crate) struct PlanRecord<'a> {
    pub(crate) package: &'a str,
    pub(crate) rules: Rules,
    /// The channel of the subscription.
    pub(crate) channel: &'a str,
    /// What is installed, as it was asked for.
    pub(crate) from: &'a str,
    /// The bundle to reach; absent without a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<&'a str>,
    /// Whether the registry API omits the package for its errors. No way leads through it under
    /// OLM v0.
    pub(crate) quarantined: bool,
    /// Whether the way ends at the target; without one, at a head.
    pub(crate) reached: bool,
    pub(crate) steps: Vec<PlanStep<'a>>,
    /// Present when `from` is not in the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The nearest versions in the catalog, if so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggestions: Vec<String>,
}

/// The way of a package over several catalogs.
#[derive(Serialize, ToSchema)]
#[schema(as = Way)]
pub(crate) struct WayRecord<'a> {
    pub(crate) package: &'a str,
    pub(crate) rules: Rules,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<&'a str>,
    pub(crate) from: &'a str,
    /// Whether the last catalog takes what comes to it.
    pub(crate) reached: bool,
    pub(crate) stages: &'a [Stage<'a>],
}

/// The updates of an installed version.
#[derive(Serialize, ToSchema)]
pub(crate) struct Updates<'a> {
    pub(crate) package: &'a str,
    /// What is installed; absent when nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<InstalledRecord<'a>>,
    /// The channels that were looked at.
    pub(crate) channels: Vec<&'a str>,
    /// The requested range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<&'a str>,
    /// Whether the registry API omits the package for its errors: OLM v0 does not see it then.
    pub(crate) quarantined: bool,
    /// What OLM v1 may install, the best first: higher versions first, but deprecated bundles
    /// last.
    pub(crate) candidates: Vec<Candidate<'a>>,
    /// The way that OLM v0 goes in each channel, step by step.
    pub(crate) paths: Vec<Path<'a>>,
    /// Present when `from` is not in the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The nearest versions in the catalog, if so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggestions: Vec<String>,
}

/// An installed bundle.
#[derive(Serialize, ToSchema)]
#[schema(as = InstalledBundle)]
pub(crate) struct InstalledRecord<'a> {
    /// The bundle; absent when only the version is known.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'a str,
    /// Its version; absent when only the name is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
}

records!(PlanRecord<'_>, WayRecord<'_>, Updates<'_>);
