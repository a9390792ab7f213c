//! Sends parts of images that this replica lacks: another one may have shown the image that a
//! client pulls.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::fleet::replica::Replica;
use crate::name::CatalogName;
use crate::snapshot::{ReadThrough, RemoteError, RemotePart};
use ::images::digest::Digest;

impl ReadThrough for Replica {
    fn part<'a>(
        &'a self,
        catalog: &'a CatalogName,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<RemotePart>, RemoteError>> {
        async move {
            let found = self.reader().remote_part(catalog, digest).await;
            found.map_err(|error| RemoteError(error.to_string()))
        }
        .boxed()
    }
}
