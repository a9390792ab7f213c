//! Needs of the newest versions of packages: the way back from a package or an API
//! to those that need it.

use serde::Deserialize;

use crate::answers::rest::needs::Needs;
use crate::snapshot::Snapshot;
use fbc::presentation::BundleView;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    head: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PackageRequired {
    package_name: String,
    version_range: String,
}

impl Snapshot {
    /// The packages whose newest version needs something. It is made when it is first
    /// asked for.
    pub fn needs(&self) -> &[Needs] {
        self.needs.get_or_init(|| {
            let packages = self.packages().iter();
            let needs = packages.filter_map(|package| {
                let stored = self.answer(package.summary);
                let stored: Stored = serde_json::from_slice(&stored).unwrap_or_default();
                let metas = self.bundles_named(&stored.head);
                let mut own = metas.into_iter();
                let meta = own.find(|meta| self.package_of(*meta) == &*package.name)?;
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
                    bundle: stored.head,
                    version: view.version.clone(),
                    apis: view.requires,
                };
                (!needs.packages.is_empty() || !needs.apis.is_empty()).then_some(needs)
            });
            needs.collect()
        })
    }
}
