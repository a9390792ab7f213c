//! An `olm.bundle` blob: its fields and properties, checked.

mod images;
mod objects;
mod properties;
mod values;

use std::sync::Arc;

use crate::bundle::images::{check_image, check_related_images};
use crate::bundle::objects::crashes_packageserver;
use crate::bundle::properties::{Properties, read_properties};
use crate::bundle::values::GvkProperty;
use crate::csv::CsvField;
use crate::document::{BundleBlob, CsvSource, Gvk};
use crate::manifest_objects::is_csv;
use crate::object::Object;
use crate::text::json::typed::Text;
use crate::visit::{BundleParts, DEPRECATED_TYPE, ManifestParts, Visitor};

/// Reads the blob and shows its parts to `visitor`. Also returns which of its lists
/// match [`PLAIN_LISTS`](crate::fields::PLAIN_LISTS). `provides` holds the APIs
/// that the bundle before provides, and then those of this one: neighbours
/// mostly share them.
pub(crate) fn read(
    blob: &Object<'_>,
    name: &str,
    package: &str,
    provides: &mut Arc<[Gvk]>,
    visitor: &mut impl Visitor,
) -> (BundleBlob, [bool; 2]) {
    let mut defects = Vec::new();
    let image: Text<'_> = blob.field("image", &mut defects);
    check_image("the image", &image.0, &mut defects);
    let related = check_related_images(blob, &mut defects);

    let Properties {
        list: properties,
        known,
        plain: plain_properties,
    } = match blob.cursor_at("properties") {
        Some((start, cursor)) => read_properties(cursor, start, &mut defects),
        None => Properties::default(),
    };
    if !known.provides.iter().eq(provides.iter()) {
        *provides = known.provides.iter().map(GvkProperty::to_gvk).collect();
    }
    let requires: Vec<Gvk> = known.requires.iter().map(GvkProperty::to_gvk).collect();
    known.check_package(package, &mut defects);
    let (version, release) = match known.packages.first() {
        Some(package) => (&*package.version.0, &*package.release.0),
        None => ("", ""),
    };

    let mut crashes = false;
    let (csv, manifests) = if known.objects.is_empty() {
        match &known.csv_metadata[..] {
            [metadata] => {
                let related_images = blob.cursor_at("relatedImages").and_then(|(start, cursor)| {
                    let plain = related.is_some_and(|count| count > 0);
                    CsvField::from_related_images(cursor, start, plain)
                });
                let parts = ManifestParts::Metadata {
                    metadata,
                    related_images,
                };
                (CsvSource::Metadata, parts)
            }
            _ => (CsvSource::None, ManifestParts::None),
        }
    } else {
        let objects = &known.objects;
        let csv = objects.iter().position(|object| is_csv(object));
        crashes = csv.is_some_and(|csv| crashes_packageserver(&objects[csv]));
        let source = csv.map_or(CsvSource::None, |_| CsvSource::Object);
        (source, ManifestParts::Objects { objects, csv })
    };
    visitor.bundle(&BundleParts {
        name,
        package,
        image: &image.0,
        version,
        provides,
        requires: &requires,
        dependencies: &known.dependencies,
        properties: &properties,
        manifests,
    });

    let blob = BundleBlob {
        name: name.to_owned(),
        package: package.to_owned(),
        version: version.to_owned(),
        release: release.to_owned(),
        has_image: !image.is_empty(),
        has_objects: !known.objects.is_empty(),
        has_csv_metadata: !known.csv_metadata.is_empty(),
        csv,
        crashes_packageserver: crashes,
        prohibited: properties
            .iter()
            .any(|property| property.kind == DEPRECATED_TYPE),
        provides: Arc::clone(provides),
        defects,
    };
    (blob, [plain_properties, related.is_some()])
}
