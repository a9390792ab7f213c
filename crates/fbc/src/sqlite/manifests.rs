//! The manifests of a bundle.

use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde::Serialize;
use serde_json::{Value, json};

use crate::manifest_objects;
use crate::text::json::Canonicaliser;
use crate::text::json::typed::{Decode, Raw, Text, fields, from_json};

/// Base64 as Go decodes it: whatever bits are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The largest number of manifests, and of related images, of a bundle.
pub(super) const MOST: usize = 10_000;

/// The manifests of a bundle.
#[derive(Debug, Default)]
pub struct Manifests<'a> {
    /// The manifests as the database has them.
    pub(super) objects: Vec<&'a str>,
    /// The `ClusterServiceVersion` as canonical JSON.
    csv: Option<Vec<u8>>,
}

#[derive(Default)]
struct Csv<'a> {
    spec: Raw<'a>,
}

fields!(Csv<'a> { spec = "spec" });

/// The values of a `spec` that a catalog contains.
#[derive(Default)]
struct Spec<'a> {
    icon: Raw<'a>,
    related_images: Raw<'a>,
}

fields!(Spec<'a> { icon = "icon", related_images = "relatedImages" });

/// The values of an icon or of a related image.
#[derive(Default)]
struct Values<'a> {
    image: Raw<'a>,
    name: Raw<'a>,
    base64data: Raw<'a>,
    mediatype: Raw<'a>,
}

fields!(Values<'a> {
    image = "image",
    name = "name",
    base64data = "base64data",
    mediatype = "mediatype",
});

#[derive(Serialize)]
pub(super) struct RelatedImage {
    pub(super) image: String,
    pub(super) name: String,
}

impl<'a> Manifests<'a> {
    /// Reads JSON objects that stand one after the other.
    ///
    /// # Errors
    /// A description of the defect.
    pub fn read(text: &'a str) -> Result<Self, String> {
        let mut canonicaliser = Canonicaliser::default();
        let mut manifests = Self::default();
        let mut json = Vec::new();
        let mut rest = text.trim_ascii_start();
        loop {
            json.clear();
            let end = canonicaliser
                .read(rest.as_bytes(), 0, &mut json)
                .map_err(|error| format!("has manifests that are not JSON: {error}"))?;
            let Some((object, next)) = end.and_then(|end| rest.split_at_checked(end)) else {
                return Ok(manifests);
            };
            if !json.starts_with(b"{") {
                return Err("has a manifest that is not an object".to_owned());
            }
            if manifests.objects.len() == MOST {
                return Err(format!("has more than {MOST} manifests"));
            }
            manifests.objects.push(object);
            if manifests.csv.is_none() && manifest_objects::is_csv(&json) {
                manifests.csv = Some(std::mem::take(&mut json));
            }
            rest = next.trim_ascii_start();
        }
    }

    fn spec(&self) -> Spec<'_> {
        let csv: Csv<'_> = self
            .csv
            .as_ref()
            .map_or_else(Csv::default, |csv| lenient(Raw(csv)));
        lenient(csv.spec)
    }

    /// The first icon of the `ClusterServiceVersion`, in the form that a package
    /// has.
    pub(super) fn icon(&self) -> Option<Value> {
        let icons: Vec<Raw<'_>> = lenient(self.spec().icon);
        let icon: Values<'_> = lenient(*icons.first()?);
        // Some are broken into lines.
        let data = text(icon.base64data).replace([' ', '\n', '\r'], "");
        let data = BASE64.decode(data).ok().filter(|data| !data.is_empty())?;
        let kind = text(icon.mediatype);
        Some(json!({"base64data": STANDARD.encode(data), "mediatype": kind}))
    }

    /// The related images of the `ClusterServiceVersion`.
    ///
    /// # Errors
    /// Their number is too large.
    pub(super) fn related_images(&self) -> Result<Vec<RelatedImage>, String> {
        let images: Vec<Raw<'_>> = lenient(self.spec().related_images);
        if images.len() > MOST {
            return Err(format!("has more than {MOST} related images"));
        }
        let related = |image| {
            let Values { image, name, .. } = lenient(image);
            RelatedImage {
                image: text(image),
                name: text(name),
            }
        };
        Ok(images.into_iter().map(related).collect())
    }
}

/// A value, or its default where the manifest has another type: opm ignores such
/// values here.
fn lenient<'a, T: Decode<'a>>(value: Raw<'a>) -> T {
    from_json(value.0).unwrap_or_default()
}

fn text(value: Raw<'_>) -> String {
    lenient::<Text<'_>>(value).0.into_owned()
}
