//! The stored answers about packages, as pages read them.

use bytes::Bytes;
use serde::Deserialize;

use crate::answers::index::PackageAnswers;
use crate::serve::http::api::problem::Problem;
use crate::snapshot::Snapshot;
use fbc::document::Gvk;
use fbc::problem::Problem as CatalogProblem;

/// A package.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PackageRecord {
    pub(super) name: String,
    pub(super) display_name: String,
    pub(super) summary: String,
    pub(super) default_channel: String,
    pub(super) head: Option<String>,
    pub(super) version: String,
    pub(super) channels: Vec<ChannelSummary>,
    pub(super) deprecation: Option<String>,
    pub(super) quarantined: bool,
    pub(super) icon: Option<Icon>,
    pub(super) description: String,
    pub(super) keywords: Vec<String>,
    pub(super) provider: Named,
    pub(super) maintainers: Vec<Maintainer>,
    pub(super) links: Vec<Named>,
    pub(super) maturity: String,
    pub(super) min_kube_version: String,
    pub(super) install_modes: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) capabilities: String,
    pub(super) repository: String,
    pub(super) container_image: String,
    pub(super) created_at: String,
    pub(super) support: String,
    pub(super) architectures: Vec<String>,
    pub(super) infrastructure_features: Vec<String>,
    pub(super) unclear_features: Vec<String>,
    pub(super) subscriptions: Vec<String>,
    pub(super) suggested_namespace: String,
    pub(super) provided_apis: Vec<Gvk>,
    pub(super) problems: Vec<CatalogProblem>,
}

/// A channel of a package.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChannelSummary {
    pub(super) name: String,
    pub(super) head: Option<String>,
    pub(super) version: String,
    pub(super) entries: usize,
    pub(super) deprecation: Option<String>,
}

/// The icon of a package.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Icon {
    pub(super) media_type: String,
}

/// A name with an address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) url: String,
}

/// A maintainer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Maintainer {
    pub(super) name: String,
    pub(super) email: String,
}

impl PackageRecord {
    /// The full record.
    pub(super) fn details(snapshot: &Snapshot, package: &PackageAnswers) -> Result<Self, Problem> {
        Self::read(&snapshot.answer(package.details))
    }

    /// The record in lists: without what only the full one has.
    pub(super) fn summary(snapshot: &Snapshot, package: &PackageAnswers) -> Result<Self, Problem> {
        Self::read(&snapshot.answer(package.summary))
    }

    fn read(stored: &Bytes) -> Result<Self, Problem> {
        serde_json::from_slice(stored).map_err(|error| {
            tracing::error!(%error, "a stored package cannot be read");
            Problem::internal()
        })
    }

    /// The name to display.
    pub(super) fn title(&self) -> &str {
        match self.display_name.trim() {
            "" => &self.name,
            name => name,
        }
    }
}
