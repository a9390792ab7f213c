//! Manifests that refer to another one: by the referrers API, by its fallback
//! tag, and by other tags.

use http::StatusCode;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Manifest, OCI_INDEX};
use crate::pull::query::RegistryQuery;
use crate::pull::route::Route;
use crate::reference::Reference;
use crate::registry::Client;

impl Route {
    /// The digests of the manifests that refer to this one, at all locations
    /// together; at most one page of each. At a registry without that API the
    /// fallback tag is read (distribution-spec, "Unavailable Referrers API").
    pub async fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>, Error> {
        self.everywhere(&mut FindReferrers(digest)).await
    }

    /// The digests of another tag of the repository, at all locations
    /// together: usually one, or none.
    pub async fn tagged(&self, tag: &str) -> Result<Vec<Digest>, Error> {
        self.everywhere(&mut ResolveTag(tag)).await
    }

    /// Runs a query at all locations. Fails only if it fails at each of them.
    async fn everywhere<Q: RegistryQuery<Output = Vec<Digest>>>(
        &self,
        query: &mut Q,
    ) -> Result<Vec<Digest>, Error> {
        let mut found = Vec::new();
        let (mut succeeded, mut failure) = (false, None);
        for location in self.usable() {
            match self.clients.run(location, query).await {
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

struct FindReferrers<'a>(&'a Digest);

impl RegistryQuery for FindReferrers<'_> {
    type Output = Vec<Digest>;

    async fn run(&mut self, client: &Client, reference: &Reference) -> Result<Vec<Digest>, Error> {
        let digests = |bytes: &[u8]| match Manifest::parse(bytes, Some(OCI_INDEX)) {
            Ok(Manifest::Index(index)) => {
                let entries = index.entries.into_iter();
                Some(entries.map(|entry| entry.descriptor.digest).collect())
            }
            // A registry without the API can return any page.
            _ => None,
        };
        let path = format!("referrers/{}", self.0);
        match client.document(reference, &path, OCI_INDEX).await {
            Ok(bytes) => {
                if let Some(found) = digests(&bytes) {
                    return Ok(found);
                }
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        let tag = format!("sha256-{}", self.0.hex());
        let mut found = ResolveTag(&tag).run(client, reference).await?;
        let Some(digest) = found.pop() else {
            return Ok(found);
        };
        let bytes = client.manifest(reference, &digest).await?;
        // Another image can have this tag; it lists no referrers.
        Ok(digests(&bytes).unwrap_or_default())
    }
}

struct ResolveTag<'a>(&'a str);

impl RegistryQuery for ResolveTag<'_> {
    type Output = Vec<Digest>;

    async fn run(&mut self, client: &Client, reference: &Reference) -> Result<Vec<Digest>, Error> {
        let Some(reference) = reference.with_tag(self.0) else {
            return Ok(Vec::new());
        };
        match client.resolve(&reference).await {
            Ok(resolved) => Ok(vec![resolved.digest]),
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a registry says with this error that it does not have something.
fn is_absent(error: &Error) -> bool {
    let Error::Status { status, .. } = error else {
        return false;
    };
    matches!(
        *status,
        StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::NOT_IMPLEMENTED
    )
}
