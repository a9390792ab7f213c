//! Checks of an archive's metadata: values that no export writes are refused
//! before they are used.

use std::collections::BTreeSet;

use crate::ingest::archive::metadata::{CarriedRevision, Metadata};
use crate::name::CatalogName;
use crate::store::{LAST_SECOND, RevisionId};
use ::images::manifest::{DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use ::images::reference::is_tag;

/// Checks the metadata; an error says what is wrong.
pub(super) fn check(metadata: &Metadata) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for carried in &metadata.catalogs {
        let name = &carried.catalog;
        if !names.insert(name) {
            return Err(format!("its metadata have the catalog {name} twice"));
        }
        number(name, carried.id)?;
        dates(carried)?;
        image(carried)?;
    }
    let mut left_out = metadata.left_out.iter();
    left_out.try_for_each(|(name, held)| number(name, held.revision))
}

fn number(name: &CatalogName, id: RevisionId) -> Result<(), String> {
    if id.is_sound() {
        return Ok(());
    }
    Err(format!(
        "its metadata have the number {id} for the revision of {name}, which is none"
    ))
}

fn dates(carried: &CarriedRevision) -> Result<(), String> {
    match carried.modified.max(carried.committed) {
        0..=LAST_SECOND => Ok(()),
        _ => Err(format!(
            "its metadata have a date after the year 9999 for {}",
            carried.catalog
        )),
    }
}

fn image(carried: &CarriedRevision) -> Result<(), String> {
    let image = &carried.image;
    let origin = image.origin.iter().flat_map(|origin| origin.tags.keys());
    if let Some(tag) = image.tags.keys().chain(origin).find(|tag| !is_tag(tag)) {
        return Err(format!(
            "its metadata have {} for a tag of {}",
            shown(tag),
            carried.catalog
        ));
    }
    let known = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];
    let mut kinds = image.manifests.iter().map(|manifest| &manifest.media_type);
    match kinds.find(|kind| !known.contains(&kind.as_str())) {
        Some(kind) => Err(format!(
            "its metadata have {} for the media type of a manifest of {}",
            shown(kind),
            carried.catalog
        )),
        None => Ok(()),
    }
}

fn shown(text: &str) -> String {
    let text: String = text.chars().take(100).collect();
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(change: impl FnOnce(&mut serde_json::Value)) -> Metadata {
        let digest = format!("sha256:{}", "0".repeat(64));
        let mut json = serde_json::json!({
            "catalogs": [{
                "catalog": "a", "id": 1, "source": "file:a", "digest": digest, "content": digest,
                "modified": LAST_SECOND, "committed": 0,
                "counts": {"metas": 0, "packages": 0, "channels": 0, "entries": 0, "bundles": 0,
                           "quarantined": 0},
                "problems": [],
                "image": {"kind": "slim", "origin": null, "tags": {"latest": digest},
                          "manifests": [{"digest": digest, "mediaType": OCI_MANIFEST, "size": 1,
                                         "referrer": null, "attached": false}],
                          "blobs": []},
            }],
            "left_out": {"b": {"revision": 1, "blobs": []}},
        });
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_no_export_writes_is_refused() {
        assert_eq!(check(&metadata(|_| ())), Ok(()));
        let refused = |pointer: &str, value: serde_json::Value, said: &str| {
            let metadata = metadata(|json| *json.pointer_mut(pointer).unwrap() = value);
            let error = check(&metadata).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        for number in [i64::MAX, 1 << 53, 0, -5] {
            refused("/catalogs/0/id", number.into(), "the number");
            refused("/left_out/b/revision", number.into(), "the number");
        }
        for date in ["modified", "committed"] {
            let date = format!("/catalogs/0/{date}");
            refused(&date, (LAST_SECOND + 1).into(), "the year 9999");
            refused(&date, u64::MAX.into(), "the year 9999");
        }
        let digest = format!("sha256:{}", "0".repeat(64));
        let tags = serde_json::json!({"a\nb": digest});
        refused("/catalogs/0/image/tags", tags.clone(), "a tag of a");
        let origin = serde_json::json!({"registry": "r", "repository": "a", "tags": tags});
        refused("/catalogs/0/image/origin", origin, "a tag of a");
        refused(
            "/catalogs/0/image/manifests/0/mediaType",
            "text/html".into(),
            "the media type",
        );
    }

    #[test]
    fn a_catalog_stands_once() {
        let twice = metadata(|json| {
            let first = json["catalogs"][0].clone();
            json["catalogs"].as_array_mut().unwrap().push(first);
        });
        let error = check(&twice).unwrap_err();
        assert!(error.contains("the catalog a twice"), "{error}");
    }
}
