//! Makes the slim image of a revision, away from the threads that serve.

use std::sync::Arc;
use std::time::Duration;

use crate::ingest::context::PassContext;
use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::images::mirror::{LATEST, followed_tag};
use crate::ingest::images::options::ImageOptions;
use crate::ingest::images::sign::ImageSigning;
use crate::ingest::images::slim;
use crate::ingest::source::Source;
use crate::ingest::stages::blocking_with_permit;
use crate::snapshot::Snapshot;
use crate::store::{self, BlobPin, Encoding};

/// The longest time to wait for compressed bytes before making them.
const COMPRESSION: Duration = Duration::from_secs(20);

/// Makes the slim image of a snapshot, and signs it if there is a key.
pub(crate) async fn make_slim(
    context: &PassContext,
    snapshot: &Arc<Snapshot>,
    tags: Vec<String>,
    signing: Option<ImageSigning>,
) -> Result<(store::Image, Vec<BlobPin>), PassError> {
    // The layer has the compressed groups of `all.gz`, whose thread may wait for an
    // idle processor.
    let _ = tokio::time::timeout(COMPRESSION, snapshot.until_encoded(Encoding::Gzip)).await;
    // It takes a core for a while: never beside a pass.
    let permit = context.read_permit().await;
    let (store, snapshot) = (context.store.clone(), Arc::clone(snapshot));
    blocking_with_permit(Stage::Build, &permit, move || {
        let make = || {
            let (mut image, mut pins) = slim::make(&store, &snapshot, &tags)?;
            if let Some(signing) = signing {
                signing.sign(&store, &mut image, &mut pins)?;
            }
            Ok((image, pins))
        };
        make().map_err(PassError::at::<Cause>(Stage::Build))
    })
    .await
}

/// The key and the name for signatures, if both are configured.
pub(crate) fn signing(context: &PassContext, options: &ImageOptions) -> Option<ImageSigning> {
    Some(ImageSigning {
        key: Arc::clone(context.signing_key.as_ref()?),
        name: options.signed_name.clone()?,
    })
}

/// The tags of the image under the catalog's own name.
pub(crate) fn tags(source: &Source) -> Vec<String> {
    let mut tags = vec![LATEST.to_owned()];
    if let Some(tag) = followed_tag(source)
        && tag != LATEST
    {
        tags.push(tag.to_owned());
    }
    tags
}
