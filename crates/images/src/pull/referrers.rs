//! Manifests that refer to another one: by the referrers API, by its fallback
//! tag, and by other tags.

use http::StatusCode;
use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{MAX_ENTRIES, OCI_INDEX, object};
use crate::pull::route::Route;
use crate::reference::Reference;
use crate::registry::Client;

/// The most pages of a list of referrers.
const MAX_PAGES: usize = 64;

/// A manifest that refers to another one.
pub(super) struct Referrer {
    pub(super) digest: Digest,
    pub(super) artifact_type: Option<String>,
}

impl Route {
    /// The digests of the manifests that refer to this one, at all locations
    /// together; at most 4096 of each. At a registry without that API the fallback tag
    /// is read (distribution-spec, "Unavailable Referrers API").
    pub async fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>, Error> {
        self.everywhere(|client, image| async move {
            let found = referrers(&client, &image, digest).await?;
            Ok(found.into_iter().map(|referrer| referrer.digest).collect())
        })
        .await
    }

    /// The digests of another tag of the repository, at all locations
    /// together: usually one, or none.
    pub async fn tagged(&self, tag: &str) -> Result<Vec<Digest>, Error> {
        self.everywhere(|client, image| async move {
            let found = tagged(&client, &image, tag).await?;
            Ok(found.into_iter().collect())
        })
        .await
    }

    /// Runs a query at all locations. Fails only if it fails at each of them.
    async fn everywhere<F: Future<Output = Result<Vec<Digest>, Error>>>(
        &self,
        query: impl Fn(Client, Reference) -> F,
    ) -> Result<Vec<Digest>, Error> {
        let mut found = Vec::new();
        let (mut succeeded, mut failure) = (false, None);
        for location in self.usable() {
            match self.clients.run(location, &query).await {
                Ok(digests) => {
                    succeeded = true;
                    found.extend(digests);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        found.sort_unstable();
        found.dedup();
        match failure {
            Some(error) if !succeeded => Err(error),
            _ => Ok(found),
        }
    }
}

#[derive(Deserialize)]
struct ReferrerIndex {
    manifests: Vec<ReferrerEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReferrerEntry {
    digest: String,
    artifact_type: Option<String>,
}

/// The manifests that refer to one, at one location.
pub(super) async fn referrers(
    client: &Client,
    reference: &Reference,
    digest: &Digest,
) -> Result<Vec<Referrer>, Error> {
    let listed = |bytes: &[u8]| -> Option<Vec<Referrer>> {
        let entries = object::<ReferrerIndex>(bytes).ok()?.manifests.into_iter();
        let referrers = entries.filter_map(|entry| {
            Some(Referrer {
                digest: entry.digest.parse().ok()?,
                artifact_type: entry.artifact_type,
            })
        });
        Some(referrers.collect())
    };
    if let Some(found) = all_pages(client, reference, digest, listed).await? {
        return Ok(found);
    }
    let tag = format!("sha256-{}", digest.hex());
    let Some(index) = tagged(client, reference, &tag).await? else {
        return Ok(Vec::new());
    };
    let bytes = client.manifest(reference, &index).await?;
    // Another image can have this tag; it lists no referrers.
    Ok(listed(&bytes).unwrap_or_default())
}

/// The referrers on all pages of the API; none if the registry does not have it.
async fn all_pages(
    client: &Client,
    reference: &Reference,
    digest: &Digest,
    listed: impl Fn(&[u8]) -> Option<Vec<Referrer>>,
) -> Result<Option<Vec<Referrer>>, Error> {
    let path = format!("referrers/{digest}");
    let first = present(client.page(reference, &path, None, OCI_INDEX).await)?;
    let Some(mut page) = first else {
        return Ok(None);
    };
    // A registry without the API can return anything.
    let Some(mut found) = listed(&page.bytes) else {
        return Ok(None);
    };
    let mut queries = Vec::new();
    while let Some(query) = page.next.take() {
        if queries.contains(&query) || queries.len() + 1 == MAX_PAGES || found.len() >= MAX_ENTRIES
        {
            tracing::warn!(
                image = %reference, %digest, pages = queries.len() + 1, referrers = found.len(),
                "the list of referrers does not end; further pages are ignored"
            );
            break;
        }
        let next = client.page(reference, &path, Some(&query), OCI_INDEX);
        page = next.await?;
        found.extend(listed(&page.bytes).unwrap_or_default());
        queries.push(query);
    }
    found.truncate(MAX_ENTRIES);
    Ok(Some(found))
}

/// The digest of another tag of the repository, if it has it.
pub(super) async fn tagged(
    client: &Client,
    reference: &Reference,
    tag: &str,
) -> Result<Option<Digest>, Error> {
    let Some(reference) = reference.with_tag(tag) else {
        return Ok(None);
    };
    let resolved = present(client.resolve(&reference).await)?;
    Ok(resolved.map(|resolved| resolved.digest))
}

/// Turns the statuses of a registry that does not have something into none.
pub(super) fn present<T>(response: Result<T, Error>) -> Result<Option<T>, Error> {
    match response {
        Ok(response) => Ok(Some(response)),
        Err(Error::Status {
            status:
                StatusCode::NOT_FOUND
                | StatusCode::GONE
                | StatusCode::BAD_REQUEST
                | StatusCode::NOT_ACCEPTABLE
                | StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::UNSUPPORTED_MEDIA_TYPE
                | StatusCode::NOT_IMPLEMENTED,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}
