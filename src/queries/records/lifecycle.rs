//! Support phases of a package.

use serde::Serialize;
use utoipa::ToSchema;

use crate::queries::record::records;
use fbc::lifecycle::VersionLifecycle;

/// The support phases of a package.
#[derive(Serialize, ToSchema)]
#[schema(as = Lifecycle)]
pub(crate) struct LifecycleRecord<'a> {
    pub(crate) package: &'a str,
    /// The day.
    pub(crate) date: &'a str,
    /// The version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    /// `self-support` is outside of all phases; `contradicted` is a package with several
    /// lifecycles.
    pub(crate) state: SupportState,
    /// The phase of that day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<&'a str>,
    /// Its last day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<&'a str>,
    pub(crate) versions: &'a [VersionLifecycle],
}

/// Support on a day.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SupportState {
    /// In a phase.
    Phase,
    /// Outside of all phases.
    SelfSupport,
    /// Nothing is known.
    Unknown,
    /// The package has several lifecycles.
    Contradicted,
}

records!(LifecycleRecord<'_>);
