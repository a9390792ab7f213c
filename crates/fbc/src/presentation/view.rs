//! Packages and bundles as their lines show them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::document::Gvk;
use crate::presentation::csv::Presentation;
use crate::properties::{PackageProperty, each_property};
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{Text, fields, or_default};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RelatedImage {
    /// The name that the bundle has for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its pull spec.
    pub image: String,
}

fields!(RelatedImage { name = "name", image = "image" });

impl<'a> BundleView<'a> {
    /// Reads the canonical line of a bundle.
    pub fn new(line: &'a [u8]) -> Self {
        let mut view = Self {
            presentation: Presentation::from_bundle(line, None),
            ..Self::default()
        };
        Cursor::new(line).each_member(|key, value| {
            if key.eq_ignore_ascii_case("image") {
                view.image = or_default(value);
            } else if key.eq_ignore_ascii_case("relatedImages") {
                view.related_images = or_default(value);
            }
        });
        let mut package: Option<PackageProperty<'_>> = None;
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
        let package = package.unwrap_or_default();
        view.version = package.version.0.into_owned();
        view.release = package.release.0.into_owned();
        view
    }
}

/// The image in the canonical line of a bundle, or empty.
pub fn image(line: &[u8]) -> String {
    let mut image = String::new();
    Cursor::new(line).each_member(|key, cursor| {
        if key.eq_ignore_ascii_case("image") {
            image = or_default(cursor);
        }
    });
    image
}

/// A package, read from its canonical line.
#[derive(Debug, Default)]
pub struct PackageView<'a> {
    /// Its description, or empty.
    pub description: String,
    /// Its icon in base64, and a media type that is safe to send.
    pub icon: Option<(Cow<'a, str>, String)>,
}

impl<'a> PackageView<'a> {
    /// Reads the canonical line of a package.
    pub fn new(line: &'a [u8]) -> Self {
        let mut view = Self::default();
        Cursor::new(line).each_member(|key, value| {
            if key.eq_ignore_ascii_case("description") {
                view.description = or_default(value);
            } else if key.eq_ignore_ascii_case("icon") {
                let mut data = Cow::Borrowed("");
                let mut media_type = String::new();
                value.each_member(|key, value| {
                    if key.eq_ignore_ascii_case("base64data") {
                        data = or_default::<Text<'_>>(value).0;
                    } else if key.eq_ignore_ascii_case("mediatype") {
                        media_type = or_default(value);
                    }
                });
                let media_type = safe_type(&media_type).to_owned();
                view.icon = (!data.is_empty()).then_some((data, media_type));
            }
        });
        view
    }
}

/// The media type of an icon. Anything that is not an image becomes a type that
/// browsers do not interpret.
pub(super) fn safe_type(media_type: &str) -> &str {
    let name = media_type.strip_prefix("image/").unwrap_or("");
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if (1..=100).contains(&name.len()) && name.bytes().all(good) {
        media_type
    } else {
        "application/octet-stream"
    }
}
