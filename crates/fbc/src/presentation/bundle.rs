//! A bundle as its line shows it.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::bundle_line::{PackageProperty, each_property};
use crate::document::Gvk;
use crate::presentation::csv::Presentation;
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{fields, or_default};

/// A bundle, read from its canonical line.
#[derive(Debug, Default)]
pub struct BundleView<'a> {
    /// Its image, or empty.
    pub image: String,
    /// The version of its first `olm.package` property, or empty.
    pub version: String,
    /// The release of that property, or empty.
    pub release: String,
    /// `olm.gvk`.
    pub provides: Vec<Gvk>,
    /// `olm.gvk.required`.
    pub requires: Vec<Gvk>,
    /// Other properties that state a dependency: the type and the value.
    pub dependencies: Vec<(String, &'a RawValue)>,
    /// The images it needs.
    pub related_images: Vec<RelatedImage>,
    /// Its description for people.
    pub presentation: Presentation,
}

/// A related image of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelatedImage {
    /// The name that the bundle has for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its pull spec.
    pub image: String,
}

fields!(RelatedImage { name = "name", image = "image" });

impl<'a> BundleView<'a> {
    /// Reads the canonical line of a bundle.
    pub fn of(line: &'a [u8]) -> Self {
        let mut view = Self {
            presentation: Presentation::of_bundle(line, None),
            ..Self::default()
        };
        Cursor::new(line).each_member(|key, value| {
            if key.eq_ignore_ascii_case("image") {
                view.image = or_default(value);
            } else if key.eq_ignore_ascii_case("relatedImages") {
                view.related_images = or_default(value);
            }
        });
        let mut package: Option<PackageProperty> = None;
        each_property(line, |kind, value| match kind {
            "olm.package" if package.is_none() => package = Some(or_default(value)),
            "olm.gvk" => view.provides.push(or_default(value)),
            "olm.gvk.required" => view.requires.push(or_default(value)),
            "olm.package.required" | "olm.constraint" => {
                if let Ok(value) = serde_json::from_slice(value.skip()) {
                    view.dependencies.push((kind.to_owned(), value));
                }
            }
            _ => {}
        });
        let PackageProperty { version, release } = package.unwrap_or_default();
        (view.version, view.release) = (version, release);
        view
    }
}
