//! Where the documents and blobs of an image are read from: a registry or a
//! layout. Blobs go into the store, verified.

use std::fs;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use metrics::counter;

use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::source::LayoutSource;
use crate::ingest::stages::blocking;
use crate::store::content::{BlobPin, BlobWriter, Contents, ImportError};
use ::images::digest::Digest;
use ::images::policy::PolicySubject;
use ::images::{
    Admission, BlobStream, Choice, Descriptor, Layout, Manifest, ManifestError, PolicyFiles, Route,
};

/// Bytes per write of a transfer, at least.
const BUFFER: usize = 256 << 10;

/// Where an image is read from.
pub(super) enum Origin {
    Registry(Box<Route>),
    Layout(Arc<Layout>),
}

impl Origin {
    /// Opens a layout, which may be an archive of many files, if the policy
    /// admits it.
    pub(super) async fn open(
        policy: &PolicyFiles,
        source: &LayoutSource,
    ) -> Result<Self, PassError> {
        let (format, path) = (source.format, source.path.clone());
        let policy = policy.clone();
        blocking(Stage::Resolve, move || {
            let failed = PassError::at(Stage::Resolve);
            let subject = PolicySubject::Layout(format, path.clone());
            Admission::read(&policy, &subject).map_err(failed)?;
            let layout = Layout::open(format, &path).map_err(PassError::at(Stage::Resolve))?;
            Ok(Self::Layout(Arc::new(layout)))
        })
        .await
    }

    /// The digest of the image's top-level document.
    pub(super) async fn resolve(&self, choice: Option<&Choice>) -> Result<Digest, PassError> {
        match self {
            Self::Registry(route) => {
                let resolved = route.resolve().await;
                Ok(resolved.map_err(PassError::at(Stage::Resolve))?.digest)
            }
            Self::Layout(layout) => {
                let descriptor = layout
                    .resolve(choice)
                    .map_err(PassError::at(Stage::Resolve))?;
                Ok(descriptor.digest)
            }
        }
    }

    /// The repository that answered last, if a registry did.
    pub(super) fn served_by(&self) -> Option<String> {
        match self {
            Self::Registry(route) => route.served_by(),
            Self::Layout(_) => None,
        }
    }

    pub(super) fn parse(&self, digest: &Digest, bytes: &[u8]) -> Result<Manifest, PassError> {
        Manifest::parse(bytes, None)
            .map_err(|error| PassError::at(Stage::Pull)(self.document_error(digest, error)))
    }

    pub(super) fn document_error(&self, digest: &Digest, source: ManifestError) -> Cause {
        match self {
            Self::Registry(route) => Cause::Oci(images::Error::Manifest {
                reference: route.requested().clone(),
                digest: *digest,
                source,
            }),
            Self::Layout(_) => Cause::LayoutDocument {
                digest: *digest,
                source,
            },
        }
    }

    /// The manifest or index of an image, with its digest: the resolved one, or the one
    /// that the tag has if the registry does not know that.
    pub(super) async fn top_manifest(
        &self,
        store: &Contents,
        resolved: &Digest,
        blobs: &mut Vec<BlobPin>,
    ) -> Result<(Digest, Bytes), PassError> {
        let error = match self.manifest(store, resolved, blobs).await {
            Ok(bytes) => return Ok((*resolved, bytes)),
            Err(error) => error,
        };
        let (Self::Registry(route), Cause::Oci(cause)) = (self, &error.cause) else {
            return Err(error);
        };
        if !cause.is_not_found() {
            return Err(error);
        }
        match route.resolve_again(resolved).await {
            Ok(Some(digest)) => Ok((digest, self.manifest(store, &digest, blobs).await?)),
            Err(mismatch) if mismatch.is_manifest_mismatch() => {
                Err(PassError::at(Stage::Pull)(mismatch))
            }
            _ => Err(error),
        }
    }

    /// A manifest or index, from the store if it has it.
    pub(super) async fn manifest(
        &self,
        store: &Contents,
        digest: &Digest,
        blobs: &mut Vec<BlobPin>,
    ) -> Result<Bytes, PassError> {
        let digest = *digest;
        blobs.push(store.pin(digest));
        let stored = store.clone();
        let reading = blocking(Stage::Pull, move || {
            let bytes = stored.blob(&digest).and_then(|path| fs::read(path).ok());
            Ok(bytes.filter(|bytes| Digest::of(bytes) == digest))
        });
        if let Some(bytes) = reading.await? {
            return Ok(bytes.into());
        }
        let bytes = match self {
            Self::Registry(route) => {
                let bytes = route.manifest(&digest).await;
                bytes.map_err(PassError::at(Stage::Pull))?
            }
            Self::Layout(layout) => {
                let layout = Arc::clone(layout);
                let read = move || layout.manifest(&digest).map_err(PassError::at(Stage::Pull));
                blocking(Stage::Pull, read).await?
            }
        };
        import(store, digest, Cursor::new(bytes.clone())).await?;
        Ok(bytes)
    }

    /// The bytes of a configuration. One that was damaged in the store is pulled
    /// again.
    pub(super) async fn document(
        &self,
        store: &Contents,
        descriptor: &Descriptor,
    ) -> Result<Vec<u8>, PassError> {
        let digest = descriptor.digest;
        let read = async || {
            let path = self.blob(store, descriptor).await?;
            let failed = |source| Cause::LayoutBlob { digest, source };
            let bytes = tokio::fs::read(&path).await.map_err(failed);
            bytes.map_err(PassError::at(Stage::Pull))
        };
        let bytes = read().await?;
        if Digest::of(&bytes) == digest {
            return Ok(bytes);
        }
        let contents = store.clone();
        let removing = move || {
            contents.remove_blob(&digest);
            Ok(())
        };
        blocking(Stage::Pull, removing).await?;
        read().await
    }

    /// Brings a configuration or layer into the store, verified, and returns its
    /// path. Of several passes that need a blob, one pulls it.
    pub(super) async fn blob(
        &self,
        store: &Contents,
        descriptor: &Descriptor,
    ) -> Result<PathBuf, PassError> {
        if let Some(path) = stored(store, descriptor.digest).await? {
            return Ok(path);
        }
        let _claim = store.claim(descriptor.digest).await;
        if let Some(path) = stored(store, descriptor.digest).await? {
            return Ok(path);
        }
        match self {
            Self::Registry(route) => download(route, store, descriptor).await,
            Self::Layout(layout) => {
                let (layout, wanted) = (Arc::clone(layout), descriptor.clone());
                let reader = blocking(Stage::Pull, move || {
                    let reader = layout.read_blob(&wanted);
                    reader.map_err(PassError::at(Stage::Pull))
                });
                import(store, descriptor.digest, reader.await?).await
            }
        }
    }
}

/// The path of a blob that the store has.
async fn stored(store: &Contents, digest: Digest) -> Result<Option<PathBuf>, PassError> {
    let store = store.clone();
    blocking(Stage::Pull, move || Ok(store.blob(&digest))).await
}

/// Brings a blob of a registry into the store.
async fn download(
    route: &Route,
    store: &Contents,
    descriptor: &Descriptor,
) -> Result<PathBuf, PassError> {
    loop {
        let (contents, digest) = (store.clone(), descriptor.digest);
        let starting = blocking(Stage::Pull, move || {
            let writer = contents.write_blob(digest);
            writer.map_err(PassError::at(Stage::Pull))
        });
        let writer = starting.await?;
        let opened = route.blob(descriptor).await;
        let (location, mut stream) = opened.map_err(PassError::at(Stage::Pull))?;
        let transferred = transfer(&mut stream, writer).await;
        counter!("almanac_pulled_bytes_total").increment(stream.transferred());
        counter!("almanac_pull_resumptions_total").increment(u64::from(stream.resumptions()));
        match transferred {
            Ok(writer) => {
                let finished = writer.finish().await;
                return finished.map_err(PassError::at(Stage::Pull));
            }
            Err(PassError {
                cause: Cause::Oci(error),
                ..
            }) if route.give_up(location, &error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes a blob as it comes, on blocking threads: a disk may be slow.
async fn transfer(
    stream: &mut BlobStream,
    mut writer: BlobWriter,
) -> Result<BlobWriter, PassError> {
    loop {
        let (mut pieces, mut size) = (Vec::new(), 0);
        while size < BUFFER
            && let Some(piece) = stream
                .next()
                .await
                .map_err(PassError::at::<::images::Error>(Stage::Pull))?
        {
            size += piece.len();
            pieces.push(piece);
        }
        if pieces.is_empty() {
            return Ok(writer);
        }
        writer = blocking(Stage::Pull, move || {
            for piece in &pieces {
                writer.write(piece).map_err(PassError::at(Stage::Pull))?;
            }
            Ok(writer)
        })
        .await?;
    }
}

/// Copies a blob into the store. The copy ends soon after the pass is given up.
async fn import(
    store: &Contents,
    digest: Digest,
    reader: impl Read + Send + 'static,
) -> Result<PathBuf, PassError> {
    let imported = store.import(digest, reader).await;
    imported
        .map_err(|error| match error {
            ImportError::Read(source) => Cause::LayoutBlob { digest, source },
            ImportError::Write(error) => error.into(),
        })
        .map_err(PassError::at(Stage::Pull))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::ingest::stages::tests::on_one_blocking_thread;

    #[test]
    fn looking_for_a_blob_and_starting_one_leave_the_async_thread_to_clients() {
        on_one_blocking_thread(async |gate| {
            let folder = tempfile::tempdir().unwrap();
            let store = Contents::open(folder.path().join("store")).unwrap();
            let digest = Digest::of(b"blob");
            let closed = gate.close();
            let mut looking = Box::pin(stored(&store, digest));
            assert!(looking.as_mut().now_or_never().is_none());
            let mut importing = Box::pin(import(&store, digest, &b"blob"[..]));
            assert!(importing.as_mut().now_or_never().is_none());
            let files = || std::fs::read_dir(store.folder()).unwrap().count();
            assert_eq!(files(), 0, "not even a temporary file");
            drop(closed);
            assert_eq!(looking.await.unwrap(), None);
            importing.await.unwrap();
            assert_eq!(files(), 1);
        });
    }

    #[tokio::test]
    async fn copying_a_layer_leaves_the_async_thread_to_clients() {
        let folder = tempfile::tempdir().unwrap();
        let layout = folder.path().join("layout");
        let blobs = layout.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
        std::fs::write(layout.join("oci-layout"), version).unwrap();
        let index = r#"{"schemaVersion":2,"manifests":[]}"#;
        std::fs::write(layout.join("index.json"), index).unwrap();
        let content = vec![7; 32 << 20];
        let descriptor = Descriptor::new("", &content);
        std::fs::write(blobs.join(descriptor.digest.hex()), &content).unwrap();
        let store = Contents::open(folder.path().join("store")).unwrap();
        let layout = Layout::open(::images::Format::Folder, &layout).unwrap();
        let origin = Origin::Layout(Arc::new(layout));

        // A test has one async thread, so that it runs other tasks only while
        // the copy does not use it.
        let mut copying = Box::pin(origin.blob(&store, &descriptor));
        let mut tick = tokio::time::interval(std::time::Duration::from_millis(1));
        let mut ticks = 0;
        let path = loop {
            tokio::select! {
                biased;
                path = &mut copying => break path.unwrap(),
                _ = tick.tick() => ticks += 1,
            }
        };
        assert!(ticks > 3, "{ticks} ticks while 32 MiB were copied");
        assert_eq!(std::fs::read(path).unwrap(), content);
    }
}
