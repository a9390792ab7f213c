//! The blobs of a catalog, grouped by package.

use crate::document::{
    Blobs, BundleBlob, ChannelBlob, Defect, DeprecationsBlob, Located, PackageBlob,
};
use crate::problem::Code;

/// The blobs that name one package, as indices.
pub(crate) struct Group<'a> {
    pub(crate) blobs: &'a Blobs,
    pub(crate) name: &'a str,
    pub(crate) packages: Vec<usize>,
    pub(crate) channels: Vec<usize>,
    pub(crate) bundles: Vec<usize>,
    pub(crate) deprecations: Vec<usize>,
}

/// The groups of a catalog, sorted by name. The first is the group of the blobs that
/// name no package. Each group is made when it is requested: there may be as many
/// packages as blobs.
pub(crate) fn groups(blobs: &Blobs) -> impl Iterator<Item = Group<'_>> {
    let packages = blobs.packages.iter().map(|one| &one.blob.name);
    let channels = blobs.channels.iter().map(|one| &one.blob.package);
    let bundles = blobs.bundles.iter().map(|one| &one.blob.package);
    let deprecations = blobs.deprecations.iter().map(|one| &one.blob.package);
    let named = |kind: Kind| move |(index, name): (u32, _)| (name, kind, index);
    let packages = (0..).zip(packages).map(named(Kind::Package));
    let channels = (0..).zip(channels).map(named(Kind::Channel));
    let bundles = (0..).zip(bundles).map(named(Kind::Bundle));
    let deprecations = (0..).zip(deprecations).map(named(Kind::Deprecations));
    let all = packages.chain(channels).chain(bundles).chain(deprecations);
    let mut rest: Vec<(&String, Kind, u32)> = all.collect();
    rest.sort_unstable();
    let mut rest = rest.into_iter().peekable();
    std::iter::from_fn(move || {
        let (name, ..) = rest.peek()?;
        let mut group = Group {
            blobs,
            name,
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
        };
        while let Some((_, kind, index)) = rest.next_if(|(name, ..)| *name == group.name) {
            let indices = match kind {
                Kind::Package => &mut group.packages,
                Kind::Channel => &mut group.channels,
                Kind::Bundle => &mut group.bundles,
                Kind::Deprecations => &mut group.deprecations,
            };
            indices.push(index as usize);
        }
        Some(group)
    })
}

impl<'a> Group<'a> {
    pub(crate) fn packages(&self) -> impl Iterator<Item = &'a Located<PackageBlob>> {
        located(&self.blobs.packages, &self.packages)
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = &'a Located<ChannelBlob>> {
        located(&self.blobs.channels, &self.channels)
    }

    pub(crate) fn bundles(&self) -> impl Iterator<Item = &'a Located<BundleBlob>> {
        located(&self.blobs.bundles, &self.bundles)
    }

    pub(crate) fn deprecations(&self) -> impl Iterator<Item = &'a Located<DeprecationsBlob>> {
        located(&self.blobs.deprecations, &self.deprecations)
    }
}

/// The blobs with these indices.
fn located<'b, T>(
    blobs: &'b [Located<T>],
    indices: &[usize],
) -> impl Iterator<Item = &'b Located<T>> {
    indices.iter().map(|index| &blobs[*index])
}

/// Whether a blob has a malformed field. Its value is lost, so nothing that is missing
/// in the blob, or because of it, is reported.
pub(crate) fn is_malformed(defects: &[Defect]) -> bool {
    defects
        .iter()
        .any(|defect| defect.code == Code::BlobMalformed)
}

/// The kinds of blobs that make up a package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Package,
    Channel,
    Bundle,
    Deprecations,
}
