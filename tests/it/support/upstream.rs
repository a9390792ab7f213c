//! A [`TestRegistry`] for tests that are not async themselves, since they wait
//! for the program: it has threads of its own, and takes whole images.

use std::ops::Deref;
use std::sync::Arc;

use images::digest::Digest;
use rustls::ServerConfig;
use tokio::runtime::Runtime;

use super::image::{Blob, Built};
use super::registry::TestRegistry;

use super::runtime::background;

/// A registry that runs until it is dropped.
pub(crate) struct Upstream {
    registry: TestRegistry,
    /// Dropped last: the registry's tasks run in it.
    _runtime: Runtime,
}

impl Upstream {
    /// Starts an empty registry.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0", None)
    }

    /// Starts an empty registry at an address, with TLS if it is told how.
    pub(crate) fn start_at(address: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let runtime = background();
        Self {
            registry: runtime.block_on(TestRegistry::start_at(address, tls)),
            _runtime: runtime,
        }
    }

    /// Keeps all of an image and moves the tag to it.
    pub(crate) fn push(&self, repository: &str, tag: &str, image: &Built) {
        self.push_without(repository, tag, image, &[]);
    }

    /// Keeps an image without some of its blobs and moves the tag to it.
    pub(crate) fn push_without(
        &self,
        repository: &str,
        tag: &str,
        image: &Built,
        missing: &[Digest],
    ) {
        image.for_each_blob(|blob| {
            if !missing.contains(&blob.digest) {
                self.put_blob(blob.bytes.clone());
            }
        });
        image.for_each_manifest(|manifest: &Blob| {
            let name = if manifest.digest == image.digest() {
                tag.to_owned()
            } else {
                manifest.digest.to_string()
            };
            let bytes = manifest.bytes.clone();
            self.put_manifest(repository, &name, bytes, manifest.media_type);
        });
    }

    /// Keeps an image without one of its manifests and moves the tag to it.
    pub(crate) fn push_without_manifest(
        &self,
        repository: &str,
        tag: &str,
        image: &Built,
        missing: Digest,
    ) {
        image.for_each_blob(|blob| {
            self.put_blob(blob.bytes.clone());
        });
        image.for_each_manifest(|manifest| {
            if ![missing, image.digest()].contains(&manifest.digest) {
                let (name, bytes) = (manifest.digest.to_string(), manifest.bytes.clone());
                self.put_manifest(repository, &name, bytes, manifest.media_type);
            }
        });
        let top = &image.top;
        self.put_manifest(repository, tag, top.bytes.clone(), top.media_type);
    }

    /// How often a path with this ending was asked for.
    pub(crate) fn asked(&self, ending: &str) -> usize {
        let lines = self.lines();
        lines.iter().filter(|line| line.ends_with(ending)).count()
    }
}

impl Deref for Upstream {
    type Target = TestRegistry;

    fn deref(&self) -> &TestRegistry {
        &self.registry
    }
}
