//! Requests that can go to one location after the other.

use bytes::Bytes;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::Descriptor;
use crate::reference::Reference;
use crate::registry::{BlobStream, Client, Resolved};

/// A request to a registry, with a client and the name of the image there.
pub(super) trait RegistryQuery: Send {
    type Output: Send;

    fn run(
        &mut self,
        client: &Client,
        reference: &Reference,
    ) -> impl Future<Output = Result<Self::Output, Error>> + Send;
}

/// See [`Client::resolve`].
pub(super) struct Resolve;

impl RegistryQuery for Resolve {
    type Output = Resolved;

    async fn run(&mut self, client: &Client, reference: &Reference) -> Result<Resolved, Error> {
        client.resolve(reference).await
    }
}

/// See [`Client::manifest`].
pub(super) struct FetchManifest<'a>(pub(super) &'a Digest);

impl RegistryQuery for FetchManifest<'_> {
    type Output = Bytes;

    async fn run(&mut self, client: &Client, reference: &Reference) -> Result<Bytes, Error> {
        client.manifest(reference, self.0).await
    }
}

/// See [`Client::blob`].
pub(super) struct OpenBlob<'a>(pub(super) &'a Descriptor);

impl RegistryQuery for OpenBlob<'_> {
    type Output = BlobStream;

    async fn run(&mut self, client: &Client, reference: &Reference) -> Result<BlobStream, Error> {
        client.blob(reference, self.0).await
    }
}
