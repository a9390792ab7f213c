//! Repositories: the images of catalogs by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::name::CatalogName;
use crate::snapshot::{Image, Images, PublishedImages};
use crate::store::ImageManifest;
use crate::store::content::OpenBlob;
use ::images::digest::Digest;

/// The content of one name: images of one or more catalogs.
pub(super) struct Repository {
    parts: Vec<Part>,
}

/// The images of a catalog in a repository.
struct Part {
    catalog: CatalogName,
    /// Whether the name is the catalog's; else it is that of its source.
    own: bool,
    shown: PublishedImages,
}

impl Repository {
    /// The repository of a name, the catalog of that name first. `namespace` is the
    /// upstream registry that a mirror client means.
    pub(super) fn find(images: &Images, name: &str, namespace: Option<&str>) -> Option<Self> {
        let mut parts = Vec::new();
        for (catalog, shown) in images.all() {
            let own = namespace.is_none() && catalog.as_str() == name;
            let of_source = match &shown.current {
                Some(image) => image
                    .record
                    .origin
                    .as_ref()
                    .map(|o| (&o.repository, &o.registry)),
                None => (shown.mirrored.as_ref()).map(|m| (&m.repository, &m.registry)),
            };
            let of_source = of_source.is_some_and(|(repository, registry)| {
                repository == name && namespace.is_none_or(|namespace| namespace == registry)
            });
            if own || of_source {
                parts.push(Part {
                    catalog: catalog.clone(),
                    own,
                    shown,
                });
            }
        }
        parts.sort_by_key(|part| !part.own);
        (!parts.is_empty()).then_some(Self { parts })
    }

    /// The names of all repositories, sorted, each with its catalog.
    pub(super) fn names(images: &Images) -> Vec<(String, CatalogName)> {
        let mut names = Vec::new();
        for (catalog, shown) in images.all() {
            names.push((catalog.to_string(), catalog.clone()));
            let image = shown.current.as_ref();
            if let Some(origin) = image.and_then(|image| image.record.origin.as_ref()) {
                names.push((origin.repository.clone(), catalog.clone()));
            }
        }
        names.sort();
        names
    }

    /// Its catalogs.
    pub(super) fn catalogs(&self) -> impl Iterator<Item = &CatalogName> {
        self.parts.iter().map(|part| &part.catalog)
    }

    /// Removes other catalogs than these.
    pub(super) fn retain(&mut self, good: impl Fn(&CatalogName) -> bool) {
        self.parts.retain(|part| good(&part.catalog));
    }

    /// Whether no image is made yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.parts.iter().all(|part| part.shown.current.is_none())
    }

    /// The tags, sorted by bytes, without ambiguous ones.
    pub(super) fn tags(&self) -> BTreeMap<&str, Digest> {
        let known = self.all_tags().into_iter();
        known
            .filter_map(|(tag, digest)| Some((tag, digest?)))
            .collect()
    }

    /// The digest of a tag. Tags of signatures and other attachments of images that can be
    /// pulled by digest only are found, too.
    pub(super) fn tag(&self, tag: &str) -> Option<Digest> {
        let tags = self.all_tags();
        if let Some(shown) = tags.get(tag) {
            return *shown;
        }
        let hex = tag.strip_prefix("sha256-")?;
        let hex = hex.split_once('.').map_or(hex, |(hex, _)| hex);
        let subject: Digest = format!("sha256:{hex}").parse().ok()?;
        // Those of current images are current as well.
        let mut current = self
            .parts
            .iter()
            .filter_map(|part| part.shown.current.as_ref());
        if current.any(|image| image.manifest(&subject).is_some()) {
            return None;
        }
        self.attachment(tag)
    }

    fn attachment(&self, tag: &str) -> Option<Digest> {
        self.parts.iter().find_map(|part| {
            part.shown.previous.as_ref().and_then(|image| {
                let origin = image.record.origin.as_ref().filter(|_| !part.own);
                let own = part.own.then_some(&image.record.tags);
                let tags = own.or_else(|| origin.map(|origin| &origin.tags));
                tags?.get(tag).copied()
            })
        })
    }

    /// Whether an image is not made yet, so that tags may be missing.
    pub(super) fn is_partial(&self) -> bool {
        self.parts.iter().any(|part| part.shown.current.is_none())
    }

    /// Whether several upstream registries have a tag with different images.
    pub(super) fn is_ambiguous(&self, tag: &str) -> bool {
        self.all_tags().get(tag) == Some(&None)
    }

    /// All tags. Those of the catalog of that name take precedence. Ambiguous tags
    /// have no digest.
    fn all_tags(&self) -> BTreeMap<&str, Option<Digest>> {
        let mut tags: BTreeMap<&str, Option<Digest>> = BTreeMap::new();
        let mut of_name = BTreeSet::new();
        let partial = self.is_partial();
        for part in &self.parts {
            let Some(image) = &part.shown.current else {
                continue;
            };
            let own = part.own.then_some(&image.record.tags);
            let origin = image.record.origin.as_ref().filter(|_| !part.own);
            let all = own.into_iter().chain(origin.map(|origin| &origin.tags));
            for (tag, digest) in all.flatten() {
                if part.own {
                    of_name.insert(tag.as_str());
                }
                let first = tags.entry(tag.as_str()).or_insert(Some(*digest));
                if (partial || *first != Some(*digest)) && !of_name.contains(tag.as_str()) {
                    *first = None;
                }
            }
        }
        tags
    }

    /// A manifest, with its blob.
    pub(super) fn manifest(&self, digest: &Digest) -> Option<(ImageManifest, Arc<OpenBlob>)> {
        let found = self.images().find_map(|image| image.manifest(digest));
        found.map(|(manifest, blob)| (manifest.clone(), Arc::clone(blob)))
    }

    /// A configuration or layer.
    pub(super) fn blob(&self, digest: &Digest) -> Option<Arc<OpenBlob>> {
        self.images().find_map(|image| image.blob(digest)).cloned()
    }

    /// Tells those who make the images that a blob is damaged.
    pub(super) fn report_damage(&self) {
        for part in &self.parts {
            part.shown.damaged.notify_one();
        }
    }

    /// The referrers of a manifest, each once, sorted by digest.
    pub(super) fn referrers(&self, subject: Digest) -> BTreeMap<Digest, ImageManifest> {
        let found = self.images().flat_map(|image| image.referrers(subject));
        found
            .map(|manifest| (manifest.digest, manifest.clone()))
            .collect()
    }

    /// All images that can be pulled by digest: current and previous ones.
    fn images(&self) -> impl Iterator<Item = &Arc<Image>> {
        let shown = || self.parts.iter().map(|part| &part.shown);
        let current = shown().filter_map(|shown| shown.current.as_ref());
        current.chain(shown().filter_map(|shown| shown.previous.as_ref()))
    }
}
