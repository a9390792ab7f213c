//! The icons of packages by the digest of their bytes, so that an address names one
//! picture forever. Many packages share one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::answers::index::PackageAnswers;
use crate::snapshot::Snapshot;
use ::images::digest::Digest;
use fbc::presentation::PackageView;

impl Snapshot {
    /// The digest of a package's icon; `None` without one that can be decoded.
    pub fn icon(&self, package: &str) -> Option<Digest> {
        let packages = self.packages();
        let at = packages.binary_search_by(|one| (*one.name).cmp(package));
        self.icons().get(at.ok()?).copied()?
    }

    /// The icon with a digest.
    pub fn icon_bytes(&self, digest: &Digest) -> Option<Bytes> {
        let at = self
            .icons()
            .iter()
            .position(|one| one.as_ref() == Some(digest));
        decoded(self, self.packages().get(at?)?)
    }

    /// The digests in the order of packages. They are made when they are first asked for.
    fn icons(&self) -> &[Option<Digest>] {
        self.icons.get_or_init(|| {
            let packages = self.packages().iter();
            let icons = packages.map(|package| decoded(self, package));
            icons.map(|icon| Some(Digest::of(&icon?))).collect()
        })
    }
}

fn decoded(snapshot: &Snapshot, package: &PackageAnswers) -> Option<Bytes> {
    let line = snapshot.line(package.meta);
    let (data, _) = PackageView::new(&line).icon?;
    let data = STANDARD.decode(data.replace(['\r', '\n'], ""));
    Some(data.ok()?.into())
}
