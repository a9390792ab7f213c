//! The values of properties whose types OLM defines.

use std::borrow::Cow;

use crate::bundle::images::plain_text;
use crate::bundle::objects;
use crate::csv::CsvMetadata;
use crate::document::{Defect, Gvk};
use crate::problem::Code;
use crate::properties::{BundleObject, PackageProperty, PackageRequired};
use crate::text::json::cursor::Cursor;
use crate::text::json::schema::Mismatch;
use crate::text::json::typed::{Text, fields, object};
use crate::text::semver::Version;
use crate::visit::{CSV_METADATA_TYPE, Dependency, OBJECT_TYPE, Property};

pub(super) const PACKAGE_TYPE: &str = "olm.package";
const PACKAGE_REQUIRED_TYPE: &str = "olm.package.required";
const GVK_TYPE: &str = "olm.gvk";
const GVK_REQUIRED_TYPE: &str = "olm.gvk.required";

#[derive(Default)]
pub(super) struct GvkProperty<'a> {
    group: Text<'a>,
    version: Text<'a>,
    kind: Text<'a>,
}

fields!(GvkProperty<'a> {
    group = "group",
    version = "version",
    kind = "kind",
});

impl<'a> GvkProperty<'a> {
    fn read(value: &'a [u8]) -> Result<Self, String> {
        // Nearly all have these three keys, and strings without escapes.
        let mut cursor = Cursor::new(value);
        if cursor.enter_object() {
            let mut text = |key: &[u8]| match cursor.next_key() {
                Some(found) if found == key => plain_text(cursor.skip()),
                _ => None,
            };
            if let (Some(group), Some(kind), Some(version)) =
                (text(b"\"group\""), text(b"\"kind\""), text(b"\"version\""))
                && cursor.next_key().is_none()
            {
                let text = |text| Text(Cow::Borrowed(text));
                return Ok(Self {
                    group: text(group),
                    version: text(version),
                    kind: text(kind),
                });
            }
        }
        object(value)
    }

    pub(super) fn to_gvk(&self) -> Gvk {
        Gvk {
            group: self.group.0.to_string(),
            version: self.version.0.to_string(),
            kind: self.kind.0.to_string(),
        }
    }
}

impl PartialEq<Gvk> for GvkProperty<'_> {
    fn eq(&self, other: &Gvk) -> bool {
        self.kind.0 == other.kind && self.group.0 == other.group && self.version.0 == other.version
    }
}

/// The values of a bundle's properties, by their types.
#[derive(Default)]
pub(super) struct KnownValues<'a> {
    pub(super) packages: Vec<PackageProperty<'a>>,
    pub(super) provides: Vec<GvkProperty<'a>>,
    pub(super) requires: Vec<GvkProperty<'a>>,
    pub(super) dependencies: Vec<Dependency<'a>>,
    pub(super) csv_metadata: Vec<CsvMetadata<'a>>,
    /// Canonical JSON texts.
    pub(super) objects: Vec<Vec<u8>>,
    /// Whether an unreadable property is, or may be, an `olm.package`.
    pub(super) lost_package: bool,
}

impl<'a> KnownValues<'a> {
    /// Adds a property. `csv` reads its value as `olm.csv.metadata`.
    pub(super) fn take(
        &mut self,
        property: &Property<'a>,
        csv: impl FnOnce() -> Result<CsvMetadata<'a>, Mismatch>,
    ) -> Result<(), Defect> {
        let invalid = |message: String| Defect::new(Code::PropertyInvalid, message);
        let value = property.value;
        match &*property.kind {
            PACKAGE_TYPE => self.packages.push(object(value).map_err(invalid)?),
            GVK_TYPE => self
                .provides
                .push(GvkProperty::read(value).map_err(invalid)?),
            GVK_REQUIRED_TYPE => {
                self.requires
                    .push(GvkProperty::read(value).map_err(invalid)?);
                self.dependencies.push(Dependency::Api(value));
            }
            PACKAGE_REQUIRED_TYPE => {
                let required: PackageRequired<'a> = object(value).map_err(invalid)?;
                self.dependencies.push(Dependency::Package {
                    name: required.package_name.0,
                    range: required.version_range.0,
                });
            }
            CSV_METADATA_TYPE => self
                .csv_metadata
                .push(csv().map_err(|error| invalid(format!("{error}; correct it")))?),
            OBJECT_TYPE => {
                let value: BundleObject<'_> = object(value).map_err(invalid)?;
                let decoded = objects::decode(&value);
                let invalid = |message| Defect::new(Code::BundleObjectInvalid, message);
                self.objects.push(decoded.map_err(invalid)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the `olm.package` property of a bundle of this package.
    pub(super) fn check_package(&self, package: &str, defects: &mut Vec<Defect>) {
        // The unreadable property may be the missing one.
        if self.packages.is_empty() && self.lost_package {
            return;
        }
        let [property] = &self.packages[..] else {
            let message: Cow<'static, str> = match self.packages.len() {
                // A frequent mistake takes no memory.
                0 => {
                    "must have exactly one property of type \"olm.package\", and has none; add it \
                      with \"packageName\" and \"version\""
                        .into()
                }
                count => format!(
                    "must have exactly one property of type \"olm.package\", and has {count}; keep \
                     one of them"
                )
                .into(),
            };
            defects.push(Defect::new(Code::PackagePropertyCount, message));
            return;
        };
        if property.package_name.0 != package && !package.is_empty() {
            let message = format!(
                "has an \"olm.package\" property that names the package {:?}; write {package:?} \
                 there, or correct the bundle's \"package\"",
                property.package_name.0
            );
            defects.push(Defect::new(Code::PackagePropertyMismatch, message));
        }
        if let Err(error) = Version::parse(&property.version.0) {
            let message = format!(
                "has the version {:?}, which is not a semantic version: {error}; write it like \
                 \"1.2.3\"",
                property.version.0
            );
            defects.push(Defect::new(Code::VersionInvalid, message));
        }
    }
}
