//! Catalogs in the index.

use serde::Serialize;
use utoipa::ToSchema;

use crate::name::CatalogName;
use crate::queries::record::records;
use crate::snapshot::{Catalog, Snapshot, Stale, State};
use crate::store::Counts;

/// A catalog in the index.
#[derive(Serialize, ToSchema)]
#[schema(as = Catalog)]
pub(crate) struct CatalogRecord<'a> {
    pub(crate) name: &'a str,
    /// `loading`: no content yet. `failing`: no content, and the last pass failed. `damaged`:
    /// the stored files are damaged and not repaired yet.
    pub(crate) state: State,
    /// Why the last pass brought no content: the source could not be read, or its content was
    /// refused. Absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stale: Option<Stale>,
    /// The served revision; absent without content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<ServedRevision>,
    /// What the revision has; absent without content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Counts>,
    /// The paths of its routes.
    pub(crate) links: CatalogLinks,
}

/// The served revision of a catalog.
#[derive(Serialize, ToSchema)]
#[schema(as = CatalogRevision)]
pub(crate) struct ServedRevision {
    /// The digest of the source.
    pub(crate) digest: String,
    /// The digest of the content.
    pub(crate) content: String,
    /// When the content first appeared, in RFC 3339.
    pub(crate) modified: String,
}

/// The paths of the routes of a catalog.
#[derive(Serialize, ToSchema)]
pub(crate) struct CatalogLinks {
    #[serde(rename = "self")]
    pub(crate) own: String,
    pub(crate) all: String,
    pub(crate) metas: String,
    pub(crate) graphql: String,
    pub(crate) packages: String,
    /// With the name of a bundle for `{bundle}`: there is no list of all bundles.
    pub(crate) bundles: String,
    pub(crate) providers: String,
    pub(crate) updates: String,
    pub(crate) search: String,
    pub(crate) images: String,
    pub(crate) tags: String,
}

/// The paths of routes over all catalogs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IndexLinks {
    pub(crate) openapi: &'static str,
    pub(crate) packages: &'static str,
    pub(crate) providers: &'static str,
    pub(crate) search: &'static str,
}

impl Default for IndexLinks {
    fn default() -> Self {
        Self {
            openapi: "/openapi.json",
            packages: "/api/v1/packages/{package}",
            providers: "/api/v1/providers",
            search: "/api/v1/search",
        }
    }
}

impl CatalogLinks {
    fn new(name: &CatalogName) -> Self {
        let own = format!("/catalogs/{name}");
        let route = |route: &str| format!("{own}/api/v1/{route}");
        Self {
            all: route("all"),
            metas: route("metas"),
            graphql: route("graphql"),
            packages: route("packages"),
            // There is no list of all bundles.
            bundles: route("bundles/{bundle}"),
            providers: route("providers"),
            updates: route("updates"),
            search: route("search"),
            images: route("images"),
            tags: format!("/v2/{name}/tags/list"),
            own,
        }
    }
}

impl<'a> CatalogRecord<'a> {
    pub(crate) fn new(catalog: &'a Catalog, snapshot: Option<&Snapshot>) -> Self {
        let revision = snapshot.map(Snapshot::revision);
        Self {
            name: catalog.name.as_str(),
            // The snapshot may be a moment older than the state.
            state: snapshot.map_or_else(|| catalog.state(), |_| State::Serving),
            stale: catalog.stale(),
            revision: revision.map(|revision| ServedRevision {
                digest: revision.digest.to_string(),
                content: revision.content.to_string(),
                modified: humantime::format_rfc3339_seconds(revision.modified).to_string(),
            }),
            counts: revision.map(|revision| revision.counts),
            links: CatalogLinks::new(&catalog.name),
        }
    }
}

records!(CatalogRecord<'_>);
