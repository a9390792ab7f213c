//! The manifests in `olm.bundle.object` properties.

use crate::manifest_objects;
use crate::properties::BundleObject;
use crate::text::json::typed::{Raw, fields, from_json};

/// Decodes a manifest to canonical JSON.
pub(super) fn decode(value: &BundleObject<'_>) -> Result<Vec<u8>, String> {
    if value.data.is_empty() && !value.reference.is_empty() {
        return Err(format!(
            "it refers to the file {:?}; put its content into \"data\" instead",
            value.reference.0
        ));
    }
    manifest_objects::decode(&value.data.0).map_err(|error| error.to_string())
}

/// The parts of a `ClusterServiceVersion` on which packageserver crashes.
#[derive(Default)]
struct Csv<'a> {
    spec: CsvSpec<'a>,
}

fields!(Csv<'a> { spec = "spec" });

#[derive(Default)]
struct CsvSpec<'a> {
    install: Install,
    related_images: Vec<Raw<'a>>,
}

fields!(CsvSpec<'a> { install = "install", related_images = "relatedImages" });

#[derive(Default)]
struct Install {
    strategy: String,
}

fields!(Install { strategy = "strategy" });

/// Whether packageserver crashes on a `ClusterServiceVersion`. It adds the related
/// images to a map that it only makes for deployments.
pub(super) fn crashes_packageserver(csv: &[u8]) -> bool {
    // packageserver refuses a spec of other types before it could crash.
    let Ok(Csv { spec }) = from_json(csv) else {
        return false;
    };
    !spec.related_images.is_empty() && spec.install.strategy != "deployment"
}
