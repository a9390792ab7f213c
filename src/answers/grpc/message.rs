//! The messages of the registry API, written part by part.
//!
//! Field numbers: `proto/registry.proto`.

use fbc::graph::{Channel, Entry, Package};
use fbc::text::json::write::write_string;
use fbc::visit::{BundleParts, CSV_METADATA_TYPE, Dependency, OBJECT_TYPE, Property};

/// `csvJson` of a Bundle.
pub const CSV_JSON: u32 = 4;
/// `object` of a Bundle.
pub const OBJECT: u32 = 5;

/// Appends a string or message field; empty ones too.
pub fn put_field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_field_header(out, number, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the header of a string or message field of `length` bytes.
pub fn put_field_header(out: &mut Vec<u8>, number: u32, length: u64) {
    // Wire type 2: length-delimited.
    put_varint(out, u64::from(number << 3 | 2));
    put_varint(out, length);
}

/// Appends a string field. proto3 omits empty ones.
fn put_text(out: &mut Vec<u8>, number: u32, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    if !text.is_empty() {
        put_field(out, number, text);
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// The length of a varint in bytes.
fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The length of a string or message field with a value of `length` bytes. All
/// measured fields have numbers below 16, so their keys take one byte.
pub fn field_length(length: u64) -> u64 {
    1 + varint_length(length) as u64 + length
}

/// The length of a string field. proto3 omits empty ones.
pub fn text_length(text: impl AsRef<[u8]>) -> u64 {
    match text.as_ref().len() as u64 {
        0 => 0,
        length => field_length(length),
    }
}

/// Appends a message field that holds two texts, numbered 1 and 2.
fn put_pair(out: &mut Vec<u8>, number: u32, first: &str, second: &[u8]) {
    put_field_header(out, number, text_length(first) + text_length(second));
    put_text(out, 1, first);
    put_text(out, 2, second);
}

/// Appends the part of a Bundle that all its entries share. `scratch` is
/// overwritten.
pub fn put_common(out: &mut Vec<u8>, bundle: &BundleParts<'_>, scratch: &mut Vec<u8>) {
    put_text(out, 1, bundle.name);
    put_text(out, 2, bundle.package);
    put_text(out, 6, bundle.image);
    for (number, apis) in [(7, bundle.provides), (8, bundle.requires)] {
        for api in apis {
            let (group, version, kind) = (&api.group, &api.version, &api.kind);
            let length = text_length(group) + text_length(version) + text_length(kind);
            put_field_header(out, number, length);
            put_text(out, 1, group);
            put_text(out, 2, version);
            put_text(out, 3, kind);
        }
    }
    put_text(out, 9, bundle.version);
    for dependency in bundle.dependencies {
        match dependency {
            Dependency::Api(value) => put_pair(out, 11, "olm.gvk", value),
            Dependency::Package { name, range } => {
                scratch.clear();
                scratch.extend_from_slice(b"{\"packageName\":");
                write_string(scratch, name);
                scratch.extend_from_slice(b",\"version\":");
                write_string(scratch, range);
                scratch.push(b'}');
                put_pair(out, 11, "olm.package", scratch);
            }
        }
    }
    for Property { kind, value } in bundle.properties {
        // Manifests have fields of their own.
        if !matches!(&**kind, OBJECT_TYPE | CSV_METADATA_TYPE) {
            put_pair(out, 12, kind, value);
        }
    }
}

/// Appends the part that an entry adds to its bundle's message in `ListBundles`.
pub fn put_entry(out: &mut Vec<u8>, package: &Package, channel: &Channel, entry: &Entry) {
    put_membership(out, package, channel, entry);
    put_text(out, 13, &entry.replaces);
    for skip in &entry.skips {
        put_field(out, 14, skip.as_bytes());
    }
}

/// Appends the part that an entry adds to its bundle's message in every other answer.
pub fn put_membership(out: &mut Vec<u8>, package: &Package, channel: &Channel, entry: &Entry) {
    put_text(out, 3, &channel.name);
    put_text(out, 10, &entry.skip_range);
    let deprecation = package.deprecated_bundles.get(&entry.bundle);
    put_deprecation(out, 15, deprecation.map(String::as_str));
}

/// Appends a Package.
pub fn put_package(out: &mut Vec<u8>, package: &Package) {
    let default = package.channels.get(package.default_channel);
    put_text(out, 1, &package.name);
    put_text(out, 3, default.map_or("", |channel| &channel.name));
    put_deprecation(out, 4, package.deprecation.as_deref());
    let mut scratch = Vec::new();
    for channel in &package.channels {
        let head = channel.entries.get(channel.head);
        scratch.clear();
        put_text(&mut scratch, 1, &channel.name);
        put_text(&mut scratch, 2, head.map_or("", |head| &head.name));
        put_deprecation(&mut scratch, 3, channel.deprecation.as_deref());
        put_field(out, 2, &scratch);
    }
}

/// Appends a `PackageName`.
pub fn put_package_name(out: &mut Vec<u8>, name: &str) {
    put_text(out, 1, name);
}

/// Appends a `ChannelEntry`. `replaces` is the bundle that is replaced or skipped.
pub fn put_channel_entry(
    out: &mut Vec<u8>,
    package: &str,
    channel: &str,
    bundle: &str,
    replaces: &str,
) {
    put_text(out, 1, package);
    put_text(out, 2, channel);
    put_text(out, 3, bundle);
    put_text(out, 4, replaces);
}

fn put_deprecation(out: &mut Vec<u8>, number: u32, message: Option<&str>) {
    if let Some(message) = message {
        put_field_header(out, number, text_length(message));
        put_text(out, 1, message);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto;
    use fbc::document::Gvk;
    use fbc::visit::ManifestParts;

    #[test]
    fn parts_together_are_a_bundle_message() {
        let long = "x".repeat(300);
        let api = |kind: &str| Gvk {
            group: "example.com".into(),
            version: "v1".into(),
            kind: kind.into(),
        };
        let property = |kind: &'static str, value| Property {
            kind: kind.into(),
            value,
        };
        let mut out = Vec::new();
        put_common(
            &mut out,
            &BundleParts {
                name: "a.v1",
                package: "a",
                image: "example.com/a:v1",
                version: "1.0.0",
                provides: &[api("A"), api("B")],
                requires: &[api(&long)],
                dependencies: &[
                    Dependency::Api(br#"{"kind":"C"}"#),
                    Dependency::Package {
                        name: "b\"".into(),
                        range: ">=1".into(),
                    },
                ],
                properties: &[
                    property("olm.bundle.object", b"{}"),
                    property("olm.package", long.as_bytes()),
                    property("olm.csv.metadata", b"{}"),
                    property("", b"1"),
                ],
                manifests: ManifestParts::None,
            },
            &mut b"before".to_vec(),
        );
        let channel = Channel {
            name: "stable".into(),
            head: 0,
            entries: vec![Entry {
                name: "a.v1".into(),
                bundle: 7,
                replaces: "a.v0".into(),
                skips: vec!["a.v0.1".into(), String::new()],
                skip_range: "<1.0.0".into(),
            }],
            deprecation: None,
        };
        let package = Package {
            name: "a".into(),
            meta: 0,
            blob: 0,
            default_channel: 0,
            channels: Vec::new(),
            deprecation: None,
            deprecated_bundles: [(7, "old".to_owned())].into(),
        };
        put_entry(&mut out, &package, &channel, &channel.entries[0]);
        put_field(&mut out, CSV_JSON, b"{}");
        put_field(&mut out, OBJECT, b"{}");

        let bundle = proto::Bundle::decode(&out[..]).unwrap();
        assert_eq!(bundle.csv_name, "a.v1");
        assert_eq!(bundle.channel_name, "stable");
        assert_eq!(bundle.provided_apis.len(), 2);
        assert_eq!(bundle.required_apis[0].kind, long);
        assert_eq!(bundle.dependencies[0].value, r#"{"kind":"C"}"#);
        assert_eq!(bundle.dependencies[1].r#type, "olm.package");
        assert_eq!(
            bundle.dependencies[1].value,
            r#"{"packageName":"b\"","version":">=1"}"#
        );
        assert_eq!(bundle.properties.len(), 2);
        assert_eq!(bundle.properties[0].value, long);
        assert_eq!(bundle.skips, ["a.v0.1", ""]);
        assert_eq!(bundle.skip_range, "<1.0.0");
        assert_eq!(bundle.deprecation.unwrap().message, "old");
        assert_eq!(bundle.object, ["{}"]);
    }

    #[test]
    fn a_package_message_lists_its_channels() {
        let channel = |name: &str, head: &str, deprecation: Option<&str>| Channel {
            name: name.into(),
            head: 0,
            entries: vec![Entry {
                name: head.into(),
                bundle: 0,
                replaces: String::new(),
                skips: Vec::new(),
                skip_range: String::new(),
            }],
            deprecation: deprecation.map(Into::into),
        };
        let package = Package {
            name: "a".into(),
            meta: 0,
            blob: 0,
            default_channel: 1,
            channels: vec![
                channel("beta", "a.v2", Some("use stable")),
                channel("stable", "a.v1", None),
            ],
            deprecation: Some(String::new()),
            deprecated_bundles: [].into(),
        };
        let mut out = Vec::new();
        put_package(&mut out, &package);
        let package = proto::Package::decode(&out[..]).unwrap();
        assert_eq!(package.default_channel_name, "stable");
        assert_eq!(package.channels.len(), 2);
        assert_eq!(package.channels[1].csv_name, "a.v1");
        assert_eq!(package.deprecation.unwrap().message, "");
    }
}
