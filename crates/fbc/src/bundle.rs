//! An `olm.bundle` blob: its properties checked, its message encoded.
//!
//! How each property turns into fields of the message is the peers' rule; see
//! the table in `proto/registry.proto` for the fields.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::csv::Line;
use crate::document::{BundleBlob, Defect, Gvk};
use crate::fields::PLAIN_LISTS;
use crate::message::{BundleMessage, Common, Manifests, OBJECT, Span};
use crate::object::{MAX_LIST, Object};
use crate::problem::Code;
use crate::text::json::cursor::Walk;
use crate::text::json::shape::Mismatch;
use crate::text::json::typed::{Text, fields, object};
use crate::text::json::{Canonicaliser, unescape};
use crate::text::semver::Version;
use crate::text::yaml;
use crate::{csv, message, pullspec};

/// A bundle that was read.
pub(crate) struct Bundle {
    pub(crate) blob: BundleBlob,
    /// Which of its lists are as [`PLAIN_LISTS`] has them.
    pub(crate) plain: [bool; 2],
}

/// Reads the blob and appends the parts of its message to `messages`. `lines`
/// are the canonical lines so far, which end with the blob's. `provides` is
/// what the bundle before provides, and becomes what this one does.
pub(crate) fn read(
    blob: &Object<'_>,
    lines: &[u8],
    name: &str,
    package: &str,
    messages: &mut Vec<u8>,
    provides: &mut Arc<[Gvk]>,
) -> Bundle {
    let mut defects = Vec::new();
    let image: Text<'_> = blob.field("image", &mut defects);
    check_image("the image", &image.0, &mut defects);
    let related = blob.walk("relatedImages").and_then(plain_images);
    if let Some(images) = &related {
        for image in images {
            check_image("the related image", image, &mut defects);
        }
    } else {
        let images: Vec<RelatedImage<'_>> = blob.list("relatedImages", &mut defects);
        for RelatedImage { image } in &images {
            check_image("the related image", &image.0, &mut defects);
        }
    }

    let Properties {
        list: properties,
        known,
        plain: plain_properties,
    } = match blob.walk("properties") {
        Some(walk) => read_properties(walk, &mut defects),
        None => <_>::default(),
    };
    if !known.provides.iter().eq(provides.iter()) {
        *provides = known.provides.iter().map(GvkProperty::to_gvk).collect();
    }
    let requires: Vec<Gvk> = known.requires.iter().map(GvkProperty::to_gvk).collect();
    known.check_package(package, &mut defects);
    let (version, release) = known
        .packages
        .first()
        .map(|package| (&*package.version.0, &*package.release.0))
        .unwrap_or_default();

    let start = messages.len();
    let visible: Vec<(&str, &[u8])> = properties
        .iter()
        .filter(|property| !matches!(&*property.kind, OBJECT_TYPE | CSV_METADATA_TYPE))
        .map(|property| (&*property.kind, property.value))
        .collect();
    message::put_common(
        messages,
        &Common {
            name,
            package,
            image: &image.0,
            version,
            provides,
            requires: &requires,
            dependencies: &known.dependencies,
            properties: &visible,
        },
    );
    let common = Span::since(messages, start);
    let mut crashes_packageserver = false;
    let manifests = if known.objects.is_empty() {
        match &known.csv_metadata[..] {
            [metadata] => {
                let made = csv::make(
                    &Line { lines },
                    name,
                    version,
                    metadata,
                    &csv::RelatedImages {
                        value: blob.walk("relatedImages"),
                        plain: related.as_ref().is_some_and(|images| !images.is_empty()),
                    },
                    messages,
                );
                Manifests::Made {
                    parts: made.parts.into(),
                    described: made.described,
                }
            }
            _ => Manifests::None,
        }
    } else {
        let (manifests, crashes) = put_objects(messages, &known.objects);
        crashes_packageserver = crashes;
        manifests
    };

    let blob = BundleBlob {
        name: name.to_owned(),
        package: package.to_owned(),
        version: version.to_owned(),
        release: release.to_owned(),
        has_image: !image.is_empty(),
        has_objects: !known.objects.is_empty(),
        has_csv_metadata: !known.csv_metadata.is_empty(),
        crashes_packageserver,
        prohibited: visible.iter().any(|(kind, _)| *kind == DEPRECATED_TYPE),
        provides: Arc::clone(provides),
        message: BundleMessage { common, manifests },
        defects,
    };
    Bundle {
        blob,
        plain: [plain_properties, related.is_some()],
    }
}

const OBJECT_TYPE: &str = "olm.bundle.object";
const CSV_METADATA_TYPE: &str = "olm.csv.metadata";
/// Made by the tools of OLM v0, and not to be taken for `olm.deprecations`.
const DEPRECATED_TYPE: &str = "olm.deprecated";
const PACKAGE_TYPE: &str = "olm.package";
const PACKAGE_REQUIRED_TYPE: &str = "olm.package.required";
const GVK_TYPE: &str = "olm.gvk";
const GVK_REQUIRED_TYPE: &str = "olm.gvk.required";

/// A property as it stands in the blob.
struct Property<'a> {
    kind: Cow<'a, str>,
    /// Canonical JSON.
    value: &'a [u8],
}

/// The properties of a bundle.
#[derive(Default)]
struct Properties<'a> {
    list: Vec<Property<'a>>,
    known: Known<'a>,
    /// Whether they are as [`PLAIN_LISTS`] has them.
    plain: bool,
}

/// Reads the list of properties, and what those mean that mean something. The
/// large ones are gone through only once: a property's keys are sorted, so its
/// type is known when its value comes.
fn read_properties<'a>(mut walk: Walk<'a>, defects: &mut Vec<Defect>) -> Properties<'a> {
    let mut properties: Vec<Property<'a>> = Vec::new();
    let mut known = Known::default();
    let mut without_value = WithoutValue::default();
    let mut plain = true;
    let malformed = |message: &str| Defect {
        code: Code::BlobMalformed,
        message: format!("has malformed \"properties\": {message}").into(),
    };
    match walk.peek() {
        Some(b'[') => walk.step(),
        Some(b'n') => return Properties::default(),
        _ => {
            defects.push(malformed("they must be a list; write one"));
            let mut properties = Properties::default();
            properties.known.lost_package = true;
            return properties;
        }
    }
    let mut passed = 0;
    while walk.next_element() {
        passed += 1;
        if passed > MAX_LIST {
            (plain, known.lost_package) = (false, true);
            let many = format!("there are more than {MAX_LIST}; remove some");
            note(defects, malformed(&many));
            walk.skip();
            continue;
        }
        let mut property = Property {
            kind: Cow::Borrowed(""),
            value: b"null",
        };
        let mut has_value = false;
        let mut checked = None;
        match walk.peek() {
            Some(b'{') => walk.step(),
            Some(b'n') => {
                plain = false;
                walk.skip();
                without_value.push(&property, passed - 1);
                properties.push(property);
                continue;
            }
            _ => {
                (plain, known.lost_package) = (false, true);
                let other = "each must be an object; write one with \"type\" and \"value\"";
                note(defects, malformed(other));
                walk.skip();
                continue;
            }
        }
        let mut keys = PLAIN_LISTS[0].1.iter();
        while let Some(key) = walk.next_key() {
            plain &= keys
                .next()
                .is_some_and(|plain| plain.as_bytes() == &key[1..key.len() - 1]);
            // As the peers find them: whatever their case.
            if key.eq_ignore_ascii_case(b"\"type\"") {
                match walk.skip() {
                    [b'"', kind @ .., b'"'] => property.kind = unescape(kind),
                    b"null" => {}
                    _ => {
                        known.lost_package = true;
                        let other = "a type must be a string; write it in quotes";
                        note(defects, malformed(other));
                    }
                }
            } else if !key.eq_ignore_ascii_case(b"\"value\"") {
                walk.skip();
            } else if property.kind == CSV_METADATA_TYPE {
                has_value = true;
                let start = walk;
                let metadata = csv::check(&mut walk);
                if metadata.is_err() {
                    walk = start;
                    walk.skip();
                }
                property.value = walk.since(start.position());
                checked = Some(metadata);
            } else {
                has_value = true;
                property.value = walk.skip();
            }
        }
        if !has_value {
            known.lost_package |= property.kind == PACKAGE_TYPE;
            without_value.push(&property, passed - 1);
        } else if let Err(Defect { code, message }) = known.take(&property, checked) {
            known.lost_package |= property.kind == PACKAGE_TYPE;
            let (number, kind) = (passed - 1, &property.kind);
            let message = format!(
                "has a property of type {kind:?} with an invalid value (properties[{number}]): \
                 {message}"
            );
            let message = message.into();
            note(defects, Defect { code, message });
        }
        plain &= keys.len() == 0;
        properties.push(property);
    }
    defects.extend(without_value.into_defect());
    Properties {
        list: properties,
        known,
        plain,
    }
}

/// The properties of a bundle that have no value. opm cannot read them, whatever
/// their type, and refuses the package. It accepts a value of `null`.
///
/// They are told of together: a list may hold one in every few bytes.
#[derive(Default)]
struct WithoutValue<'a> {
    /// The first one: its type and number.
    first: Option<(Cow<'a, str>, usize)>,
    others: usize,
}

impl<'a> WithoutValue<'a> {
    fn push(&mut self, property: &Property<'a>, number: usize) {
        if self.first.is_some() {
            self.others += 1;
        } else {
            self.first = Some((property.kind.clone(), number));
        }
    }

    fn into_defect(self) -> Option<Defect> {
        let (kind, number) = self.first?;
        let others = match self.others {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let message = format!(
            "has a property of type {kind:?} without a value (properties[{number}]{others}); add \
             its \"value\""
        );
        Some(Defect {
            code: Code::PropertyInvalid,
            message: message.into(),
        })
    }
}

/// How many defects of a bundle are noted.
const MAX_DEFECTS: usize = 1_000;

/// Notes a defect, unless it is the same again or one of too many.
fn note(defects: &mut Vec<Defect>, defect: Defect) {
    if defects.len() < MAX_DEFECTS && defects.last() != Some(&defect) {
        defects.push(defect);
    }
}

#[derive(Default)]
struct PackageProperty<'a> {
    package_name: Text<'a>,
    version: Text<'a>,
    release: Text<'a>,
}

fields!(PackageProperty<'a> {
    package_name = "packageName",
    version = "version",
    release = "release",
});

#[derive(Default)]
struct PackageRequired<'a> {
    package_name: Text<'a>,
    version_range: Text<'a>,
}

fields!(PackageRequired<'a> {
    package_name = "packageName",
    version_range = "versionRange",
});

#[derive(Default)]
struct GvkProperty<'a> {
    group: Text<'a>,
    version: Text<'a>,
    kind: Text<'a>,
}

fields!(GvkProperty<'a> {
    group = "group",
    version = "version",
    kind = "kind",
});

impl GvkProperty<'_> {
    fn to_gvk(&self) -> Gvk {
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

#[derive(Default)]
struct BundleObject<'a> {
    data: Text<'a>,
    reference: Text<'a>,
}

fields!(BundleObject<'a> { data = "data", reference = "ref" });

/// A related image.
#[derive(Default, PartialEq)]
struct RelatedImage<'a> {
    image: Text<'a>,
}

fields!(RelatedImage<'a> { image = "image" });

/// The properties that mean something to the message.
#[derive(Default)]
struct Known<'a> {
    packages: Vec<PackageProperty<'a>>,
    provides: Vec<GvkProperty<'a>>,
    requires: Vec<GvkProperty<'a>>,
    dependencies: Vec<(&'a str, Cow<'a, str>)>,
    csv_metadata: Vec<csv::Metadata<'a>>,
    /// Canonical JSON texts.
    objects: Vec<Vec<u8>>,
    /// Whether a property cannot be read that was to be an `olm.package`, or
    /// may have been.
    lost_package: bool,
}

impl<'a> Known<'a> {
    /// Takes a property in; `checked` is what was found of `olm.csv.metadata`.
    fn take(
        &mut self,
        property: &Property<'a>,
        checked: Option<Result<csv::Metadata<'a>, Mismatch>>,
    ) -> Result<(), Defect> {
        let invalid = |message: String| Defect {
            code: Code::PropertyInvalid,
            message: message.into(),
        };
        match &*property.kind {
            PACKAGE_TYPE => self.packages.push(object(property.value).map_err(invalid)?),
            GVK_TYPE => self.provides.push(read_gvk(property).map_err(invalid)?),
            GVK_REQUIRED_TYPE => {
                self.requires.push(read_gvk(property).map_err(invalid)?);
                self.dependencies
                    .push((GVK_TYPE, String::from_utf8_lossy(property.value)));
            }
            PACKAGE_REQUIRED_TYPE => {
                let required: PackageRequired<'_> = object(property.value).map_err(invalid)?;
                let mut value = b"{\"packageName\":".to_vec();
                crate::text::json::write::write_string(&mut value, &required.package_name.0);
                value.extend_from_slice(b",\"version\":");
                crate::text::json::write::write_string(&mut value, &required.version_range.0);
                value.push(b'}');
                let value = String::from_utf8(value).unwrap_or_default();
                self.dependencies.push((PACKAGE_TYPE, Cow::Owned(value)));
            }
            CSV_METADATA_TYPE => {
                let check = || csv::check(&mut Walk::new(property.value));
                let metadata = checked.unwrap_or_else(check);
                self.csv_metadata
                    .push(metadata.map_err(|error| invalid(format!("{error}; correct it")))?);
            }
            OBJECT_TYPE => {
                let value: BundleObject<'_> = object(property.value).map_err(invalid)?;
                let decoded = decode_object(&value).map_err(|message| Defect {
                    code: Code::BundleObjectInvalid,
                    message: message.into(),
                })?;
                self.objects.push(decoded);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_package(&self, package: &str, defects: &mut Vec<Defect>) {
        // What cannot be read may be the property that is missed.
        if self.packages.is_empty() && self.lost_package {
            return;
        }
        let [property] = &self.packages[..] else {
            let message = match self.packages.len() {
                // What is often wrong takes no memory.
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
            defects.push(Defect {
                code: Code::PackagePropertyCount,
                message,
            });
            return;
        };
        if property.package_name.0 != package && !package.is_empty() {
            defects.push(Defect {
                code: Code::PackagePropertyMismatch,
                message: format!(
                    "has an \"olm.package\" property that names the package {:?}; write \
                     {package:?} there, or correct the bundle's \"package\"",
                    property.package_name.0
                )
                .into(),
            });
        }
        if let Err(error) = Version::parse(&property.version.0) {
            defects.push(Defect {
                code: Code::VersionInvalid,
                message: format!(
                    "has the version {:?}, which is not a semantic version: {error}; write it \
                     like \"1.2.3\"",
                    property.version.0
                )
                .into(),
            });
        }
    }
}

fn read_gvk<'a>(property: &Property<'a>) -> Result<GvkProperty<'a>, String> {
    // As nearly all are written: these three keys and texts without escapes.
    let mut walk = Walk::new(property.value);
    if walk.peek() == Some(b'{') {
        walk.step();
        let mut text = |key: &[u8]| match walk.next_key() {
            Some(found) if found == key => plain_text(walk.skip()),
            _ => None,
        };
        if let (Some(group), Some(kind), Some(version)) =
            (text(b"\"group\""), text(b"\"kind\""), text(b"\"version\""))
            && walk.next_key().is_none()
        {
            let text = |text| Text(Cow::Borrowed(text));
            return Ok(GvkProperty {
                group: text(group),
                version: text(version),
                kind: text(kind),
            });
        }
    }
    object(property.value)
}

/// A JSON string's text, when it has no escapes.
fn plain_text(value: &[u8]) -> Option<&str> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let plain = memchr::memchr(b'\\', inner).is_none();
    str::from_utf8(inner).ok().filter(|_| plain)
}

/// The related images where they are written as they should be: a list of
/// objects with an image and a name, both texts, and the image without escapes.
fn plain_images(mut walk: Walk<'_>) -> Option<Vec<&str>> {
    let mut images = Vec::new();
    if walk.peek() != Some(b'[') {
        return None;
    }
    walk.step();
    while walk.next_element() {
        if walk.peek() != Some(b'{') || images.len() == MAX_LIST {
            return None;
        }
        walk.step();
        walk.next_key().filter(|key| key == b"\"image\"")?;
        images.push(plain_text(walk.skip())?);
        walk.next_key().filter(|key| key == b"\"name\"")?;
        if walk.peek() != Some(b'"') {
            return None;
        }
        walk.skip();
        if walk.next_key().is_some() {
            return None;
        }
    }
    Some(images)
}

fn check_image(what: &str, spec: &str, defects: &mut Vec<Defect>) {
    if spec.is_empty() {
        return;
    }
    if let Err(error) = pullspec::check(spec) {
        let message = format!("has {what} {spec:?}, which is not a pull spec: {error}");
        note(
            defects,
            Defect {
                code: Code::ImageInvalid,
                message: message.into(),
            },
        );
    }
}

/// The object's document as canonical JSON.
fn decode_object(value: &BundleObject<'_>) -> Result<Vec<u8>, String> {
    if value.data.is_empty() && !value.reference.is_empty() {
        return Err(format!(
            "it refers to the file {:?}; put its content into \"data\" instead",
            value.reference.0
        ));
    }
    // Go's decoder passes over line ends.
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

/// Appends the objects as fields of the message, and tells whether the
/// `ClusterServiceVersion` among them crashes packageserver.
fn put_objects(messages: &mut Vec<u8>, objects: &[Vec<u8>]) -> (Manifests, bool) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Head<'a> {
        #[serde(borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    let start = messages.len();
    let mut csv = None;
    let mut crashes = false;
    for object in objects {
        message::put_field(messages, OBJECT, object);
        let head = serde_json::from_slice::<Head<'_>>(object).unwrap_or_default();
        if head.kind.0 == "ClusterServiceVersion" && csv.is_none() {
            csv = Some(Span::since(messages, messages.len() - object.len()));
            crashes = head.spec.is_some_and(crashes_packageserver);
        }
    }
    let objects = Span::since(messages, start);
    (Manifests::Objects { objects, csv }, crashes)
}

/// Whether packageserver crashes on a `ClusterServiceVersion` with this spec:
/// it adds the related images to a map that it only makes for deployments.
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
    // What is not of these types is refused before it comes to that.
    let spec: Spec<'_> = serde_json::from_str(spec.get()).unwrap_or_default();
    let strategy = spec.install.unwrap_or_default().strategy;
    let has_images = spec.related_images.is_some_and(|images| !images.is_empty());
    has_images && strategy.0 != "deployment"
}
