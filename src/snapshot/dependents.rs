//! Needs of the newest versions of packages: the way back from a package or an API
//! to those that need it.

use serde::Deserialize;

use crate::answers::index::PackageAnswers;
use crate::answers::rest::needs::Needs;
use crate::snapshot::Snapshot;
use crate::store::StoreError;
use fbc::presentation::BundleView;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PackageRequired {
    package_name: String,
    version_range: String,
}

impl Snapshot {
    /// The packages whose newest version needs something. It is made when it is first
    /// asked for.
    ///
    /// # Errors
    /// When a stored package cannot be read: the file is damaged.
    pub fn needs(&self) -> Result<&[Needs], StoreError> {
        if let Some(needs) = self.needs.get() {
            return Ok(needs);
        }
        let mut all = Vec::new();
        for package in self.packages() {
            all.extend(self.needs_of(package)?);
        }
        Ok(self.needs.get_or_init(|| all))
    }

    /// The needs of the newest version of a package, if it has any.
    fn needs_of(&self, package: &PackageAnswers) -> Result<Option<Needs>, StoreError> {
        let head = self.summary(package)?.head.unwrap_or_default();
        let metas = self.bundles_named(&head);
        let mut own = metas.into_iter();
        let Some(meta) = own.find(|meta| self.package_of(*meta) == &*package.name) else {
            return Ok(None);
        };
        let line = self.line(meta);
        let view = BundleView::new(&line);
        let packages = view.dependencies.iter().filter_map(|(kind, value)| {
            if kind != "olm.package.required" {
                return None;
            }
            let needed: PackageRequired = serde_json::from_str(value.get()).ok()?;
            Some((needed.package_name, needed.version_range))
        });
        let needs = Needs {
            packages: packages.collect(),
            package: package.name.clone(),
            bundle: head.into_owned(),
            version: view.version.clone(),
            apis: view.requires,
        };
        Ok((!needs.packages.is_empty() || !needs.apis.is_empty()).then_some(needs))
    }
}
