//! The manifests in `olm.bundle.object` properties.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::text::json::Canonicaliser;
use crate::text::json::typed::{Text, fields};
use crate::text::yaml;

/// The value of an `olm.bundle.object` property.
#[derive(Default)]
pub(super) struct BundleObject<'a> {
    data: Text<'a>,
    reference: Text<'a>,
}

fields!(BundleObject<'a> { data = "data", reference = "ref" });

/// Decodes a manifest to canonical JSON.
pub(super) fn decode(value: &BundleObject<'_>) -> Result<Vec<u8>, String> {
    if value.data.is_empty() && !value.reference.is_empty() {
        return Err(format!(
            "it refers to the file {:?}; put its content into \"data\" instead",
            value.reference.0
        ));
    }
    // Go's base64 decoder ignores line ends.
    let data: Cow<'_, [u8]> = if value.data.0.contains(['\r', '\n']) {
        Cow::Owned(value.data.0.replace(['\r', '\n'], "").into_bytes())
    } else {
        Cow::Borrowed(value.data.0.as_bytes())
    };
    let decoded = STANDARD
        .decode(&data)
        .map_err(|error| format!("its data is not base64: {error}; encode the manifest anew"))?;
    let mut json = Vec::with_capacity(decoded.len());
    if decoded.trim_ascii_start().starts_with(b"{") {
        Canonicaliser::default()
            .read(&decoded, 0, &mut json)
            .map_err(|error| format!("its data is not JSON: {error}; correct the manifest"))?;
    } else {
        yaml::to_json(&decoded, &yaml::Limits::default(), &mut json).map_err(|error| {
            let error = error.message;
            format!("its data is neither JSON nor YAML: {error}; correct the manifest")
        })?;
    }
    Ok(json)
}

/// The `ClusterServiceVersion` among a bundle's objects.
#[derive(Clone, Copy)]
pub(super) struct FoundCsv {
    /// Its index among the objects.
    pub(super) index: usize,
    /// Whether OLM's packageserver crashes on it.
    pub(super) crashes_packageserver: bool,
}

/// Finds the first `ClusterServiceVersion` among decoded objects.
pub(super) fn find_csv(objects: &[Vec<u8>]) -> Option<FoundCsv> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ObjectHead<'a> {
        #[serde(borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    objects.iter().enumerate().find_map(|(index, object)| {
        // An object whose kind is no string is of no kind.
        let head: ObjectHead<'_> = serde_json::from_slice(object).ok()?;
        (head.kind.0 == "ClusterServiceVersion").then(|| FoundCsv {
            index,
            crashes_packageserver: head.spec.is_some_and(crashes_packageserver),
        })
    })
}

/// Whether packageserver crashes on a `ClusterServiceVersion` with this spec.
/// It adds the related images to a map that it only makes for deployments.
fn crashes_packageserver(spec: &RawValue) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        install: Option<Install<'a>>,
        related_images: Option<Vec<IgnoredAny>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Install<'a> {
        #[serde(borrow)]
        strategy: Text<'a>,
    }
    // packageserver refuses a spec of other types before it could crash.
    let Ok(spec) = serde_json::from_str::<Spec<'_>>(spec.get()) else {
        return false;
    };
    let is_deployment = spec
        .install
        .is_some_and(|install| install.strategy.0 == "deployment");
    let has_images = spec.related_images.is_some_and(|images| !images.is_empty());
    has_images && !is_deployment
}
