//! The shared cases, where they are at hand: small catalogs with what `opm
//! validate` says of them.

use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::fbc::{pullspec, semver};

/// Cases that `opm` refuses for what is wrong between blobs, with the codes
/// that are found here.
const REFUSED: &[(&str, &[Code])] = &[
    ("bundle-no-image-no-objects", &[Code::BundleImageMissing]),
    (
        "bundle-no-package",
        &[Code::BundlePackageMissing, Code::ChannelEntryWithoutBundle],
    ),
    ("bundle-unknown-package", &[Code::PackageUnknown]),
    (
        "channel-no-entries",
        &[
            Code::ChannelEmpty,
            Code::BundleNotInChannel,
            Code::BundleNotInChannel,
        ],
    ),
    (
        "channel-no-package",
        &[
            Code::PackageUnknown,
            Code::PackageWithoutChannels,
            Code::DefaultChannelUnknown,
            Code::BundleNotInChannel,
            Code::BundleNotInChannel,
        ],
    ),
    ("deprecation-dup", &[Code::DeprecationDuplicate]),
    ("deprecation-empty-message", &[Code::DeprecationInvalid]),
    ("deprecation-no-schema", &[Code::DeprecationInvalid]),
    ("deprecation-package-name", &[Code::DeprecationInvalid]),
    ("deprecation-unknown-bundle", &[Code::DeprecationUnknown]),
    ("deprecation-unknown-channel", &[Code::DeprecationUnknown]),
    ("deprecation-unknown-schema", &[Code::DeprecationInvalid]),
    ("dup-channel", &[Code::ChannelDuplicate]),
    ("dup-entry", &[Code::ChannelEntryDuplicate]),
    ("dup-version", &[Code::VersionDuplicate]),
    (
        "entry-without-bundle-first-channel-only",
        &[Code::ChannelEntryWithoutBundle],
    ),
    ("good-and-bad-package", &[Code::ChannelMultipleHeads]),
    ("inner-cycle", &[Code::ChannelCycle]),
    (
        "no-channels",
        &[
            Code::PackageWithoutChannels,
            Code::DefaultChannelUnknown,
            Code::BundleNotInChannel,
        ],
    ),
    ("no-default-channel", &[Code::DefaultChannelMissing]),
    ("no-package-blob", &[Code::PackageUnknown]),
    ("package-name-dot", &[Code::PackageNameInvalid]),
    ("package-name-upper", &[Code::PackageNameInvalid]),
    ("release-name-mismatch", &[Code::ReleaseNameMismatch]),
    ("skiprange-comma", &[Code::SkipRangeInvalid]),
    ("skiprange-partial", &[Code::SkipRangeInvalid]),
    ("skiprange-tilde", &[Code::SkipRangeInvalid]),
    ("skiprange-v", &[Code::SkipRangeInvalid]),
    ("stranded", &[Code::ChannelStranded]),
    ("two-heads", &[Code::ChannelMultipleHeads]),
];

/// The names of the cases and whether `opm` accepts them, or nothing where
/// they are not at hand.
fn cases() -> Option<Vec<(String, bool)>> {
    let expected = std::fs::read(folder().join("expected.json"));
    let Ok(expected) = expected else {
        println!("skipped: there are no shared cases here");
        return None;
    };
    let expected: Vec<Value> = serde_json::from_slice(&expected).unwrap();
    let cases = expected.iter().map(|case| {
        let name = case["case"].as_str().unwrap().to_owned();
        (name, case["opm_accepts"].as_bool().unwrap())
    });
    Some(cases.collect())
}

fn folder() -> PathBuf {
    let shared = std::env::var_os("ALMANAC_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    shared.join("cases")
}

/// The documents of a case, when it is one JSON file of objects.
fn documents(case: &str) -> Option<Vec<Value>> {
    let text = std::fs::read(folder().join(case).join("catalog.json")).ok()?;
    let documents = serde_json::Deserializer::from_slice(&text).into_iter();
    documents
        .map(|document| document.ok().filter(Value::is_object))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads the little that the cases need; the real reader is not this module's.
fn read(documents: &[Value]) -> Blobs {
    let mut blobs = Blobs::default();
    for (meta, document) in documents.iter().enumerate() {
        let package = text(&document["package"]);
        let name = text(&document["name"]);
        match document["schema"].as_str() {
            Some("olm.package") => {
                let default_channel = text(&document["defaultChannel"]);
                let blob = super::package(&name, &default_channel);
                blobs.packages.push(at(blob, meta));
            }
            Some("olm.channel") => {
                let mut blob = channel(&package, &name, &[]);
                let entries = document["entries"].clone();
                let entries: Option<Vec<EntryBlob>> = serde_json::from_value(entries).unwrap();
                blob.entries = entries.unwrap_or_default();
                blobs.channels.push(at(blob, meta));
            }
            Some("olm.bundle") => {
                let mut blob = bundle(&package, &name, "");
                blob.has_image = !text(&document["image"]).is_empty();
                for property in document["properties"].as_array().into_iter().flatten() {
                    let value = &property["value"];
                    match property["type"].as_str() {
                        Some("olm.package") => {
                            blob.version = text(&value["version"]);
                            blob.release = text(&value["release"]);
                        }
                        Some("olm.bundle.object") => blob.has_objects = true,
                        _ => {}
                    }
                }
                blobs.bundles.push(at(blob, meta));
            }
            Some("olm.deprecations") => {
                let mut blob = deprecations(&package, &[]);
                for entry in document["entries"].as_array().into_iter().flatten() {
                    blob.entries.push(DeprecationBlob {
                        schema: text(&entry["reference"]["schema"]),
                        name: text(&entry["reference"]["name"]),
                        message: text(&entry["message"]),
                    });
                }
                blobs.deprecations.push(at(blob, meta));
            }
            _ => {}
        }
    }
    blobs
}

#[test]
fn the_graphs_of_the_cases_are_judged_as_opm_judges_them() {
    let Some(cases) = cases() else { return };
    let mut judged = 0;
    for (case, accepted) in cases {
        let Some(documents) = documents(&case) else {
            continue;
        };
        let codes = match REFUSED.iter().find(|(name, _)| *name == case) {
            Some((_, codes)) => *codes,
            None if accepted => &[],
            None => continue,
        };
        judged += 1;
        let (_, mut problems) = build(&read(&documents), &files());
        problems.retain(|problem| problem.severity > Severity::Warning);
        let found: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
        assert_eq!(found, codes, "{case}: {problems:#?}");
        assert_eq!(accepted, codes.is_empty(), "{case}");
    }
    assert!(judged > REFUSED.len() + 20, "{judged}");
}

#[test]
fn the_versions_and_images_of_the_cases_are_judged_as_opm_judges_them() {
    let Some(cases) = cases() else { return };
    let mut judged = 0;
    for (case, accepted) in cases {
        let good = |document: &Value| {
            let images = document["relatedImages"].as_array().into_iter().flatten();
            let images = images.map(|image| &image["image"]);
            let mut images = images.chain([&document["image"]]).map(text);
            let version = text(&document["properties"][0]["value"]["version"]);
            semver::Version::parse(&version).is_ok()
                && images.all(|image| image.is_empty() || pullspec::check(&image).is_ok())
        };
        if !["version-", "image-", "related-", "dup-version-build"]
            .iter()
            .any(|start| case.starts_with(start))
        {
            continue;
        }
        judged += 1;
        let documents = documents(&case).unwrap();
        let mut bundles = documents
            .iter()
            .filter(|document| document["schema"] == "olm.bundle");
        assert_eq!(bundles.all(good), accepted, "{case}");
    }
    assert!(judged > 15, "{judged}");
}
