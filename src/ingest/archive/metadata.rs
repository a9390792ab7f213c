//! The documents of an archive: what `export` writes and `import` reads. Values
//! that no export writes are refused before they are used.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::name::CatalogName;
use crate::store::{
    Counts, Image, ImageBlob, LAST_SECOND, PastRevision, RevisionId, SourceIdentity,
};
use ::images::Descriptor;
use ::images::digest::Digest;
use ::images::manifest::{
    DOCKER_LIST, DOCKER_MANIFEST, Index, IndexEntry, OCI_INDEX, OCI_MANIFEST, REFERENCE_NAME,
};
use ::images::reference::is_tag;
use fbc::problem::Problem;
use fbc::text::display::quoted;

/// The format of archives. A number above this one is of a newer version.
pub(super) const FORMAT: u32 = 1;
pub(super) const LAYOUT: &str = "oci-layout";
pub(super) const LAYOUT_TEXT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
pub(super) const MARKER: &str = "almanac.json";
pub(super) const INDEX: &str = "index.json";
pub(super) const BLOBS: &str = "blobs/sha256/";
/// The largest document of an archive that is held in memory, in bytes.
pub(super) const MAX_DOCUMENT: u64 = 256 << 20;
/// The largest outline of an archive, in bytes.
pub(super) const MAX_OUTLINE: u64 = 64 << 20;
/// The longest history of a catalog.
pub(super) const MAX_HISTORY: usize = 10_000;

/// The marker that makes a tar an archive of almanac.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) format: u32,
    /// The version that wrote it, for people.
    pub(super) version: String,
    pub(super) metadata: Digest,
}

/// The content of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Metadata {
    pub(super) catalogs: Vec<CarriedRevision>,
    /// Catalogs that are not in it, since the other side holds them.
    #[serde(default)]
    pub(super) left_out: BTreeMap<CatalogName, Held>,
}

/// The part of a catalog that the other side holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) revision: RevisionId,
    pub(super) blobs: BTreeSet<Digest>,
}

impl Held {
    pub(super) fn new(revision: RevisionId, image: &Image) -> Self {
        let blobs = image.parts().map(|part| part.digest).collect();
        Self { revision, blobs }
    }
}

impl Metadata {
    /// Content of the other side after it imports this. An import removes earlier
    /// revisions.
    pub(super) fn held(self) -> BTreeMap<CatalogName, Held> {
        let mut held = self.left_out;
        for carried in self.catalogs {
            let now = Held::new(carried.id, &carried.image);
            held.insert(carried.catalog, now);
        }
        held
    }
}

/// A revision in an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CarriedRevision {
    pub(super) catalog: CatalogName,
    pub(super) id: RevisionId,
    pub(super) source: SourceIdentity,
    pub(super) digest: Digest,
    pub(super) content: Digest,
    /// Seconds since 1970.
    pub(super) modified: u64,
    pub(super) committed: u64,
    pub(super) counts: Counts,
    pub(super) problems: Vec<Problem>,
    pub(super) image: Image,
    /// The revisions before it, in the order of their numbers. An archive of an older
    /// version has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) history: Vec<CarriedPast>,
    /// The revision that the other side is taken to have, after which the history begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<PastRevision>,
}

/// A revision of before, and the blob with its outline, if that is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CarriedPast {
    #[serde(flatten)]
    pub(super) past: PastRevision,
    pub(super) outline: Option<ImageBlob>,
}

/// The images of an archive, for other tools.
pub(super) fn index(metadata: &Metadata) -> Index {
    let mut entries = Vec::new();
    for carried in &metadata.catalogs {
        for (tag, digest) in &carried.image.tags {
            let mut found = carried.image.manifests.iter();
            let Some(manifest) = found.find(|manifest| manifest.digest == *digest) else {
                continue;
            };
            let name = format!("{}:{tag}", carried.catalog);
            entries.push(IndexEntry {
                descriptor: Descriptor {
                    media_type: manifest.media_type.clone(),
                    digest: *digest,
                    size: manifest.size,
                },
                platform: None,
                annotations: BTreeMap::from([(REFERENCE_NAME.to_owned(), name)]),
            });
        }
    }
    Index { entries }
}

/// Checks the metadata; an error names the problem.
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
        history(carried)?;
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

/// Checks the revisions before one: their numbers grow up to its own.
fn history(carried: &CarriedRevision) -> Result<(), String> {
    let name = &carried.catalog;
    let wrong = |problem: &str| Err(format!("its metadata have a history of {name} {problem}"));
    if carried.history.len() > MAX_HISTORY {
        return wrong("that is too long");
    }
    let numbers = carried.history.iter().map(|one| one.past.id);
    let mut last = None;
    for id in numbers {
        number(name, id)?;
        if last >= Some(id) || id >= carried.id {
            return wrong("whose numbers are not in order");
        }
        last = Some(id);
    }
    for one in &carried.history {
        if !(0..=LAST_SECOND)
            .contains(&u64::try_from(one.past.published.committed).unwrap_or(u64::MAX))
        {
            return wrong("with a date after the year 9999");
        }
        if one
            .outline
            .as_ref()
            .is_some_and(|outline| outline.size > MAX_OUTLINE)
        {
            return wrong("with an outline that is too large");
        }
    }
    Ok(())
}

fn image(carried: &CarriedRevision) -> Result<(), String> {
    let image = &carried.image;
    let origin = image.origin.iter().flat_map(|origin| origin.tags.keys());
    if let Some(tag) = image.tags.keys().chain(origin).find(|tag| !is_tag(tag)) {
        return Err(format!(
            "its metadata have {} for a tag of {}",
            quoted(tag),
            carried.catalog
        ));
    }
    let known = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];
    let mut kinds = image.manifests.iter().map(|manifest| &manifest.media_type);
    match kinds.find(|kind| !known.contains(&kind.as_str())) {
        Some(kind) => Err(format!(
            "its metadata have {} for the media type of a manifest of {}",
            quoted(kind),
            carried.catalog
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(change: impl FnOnce(&mut serde_json::Value)) -> Metadata {
        let digest = format!("sha256:{}", "0".repeat(64));
        let mut json = serde_json::json!({
            "catalogs": [{
                "catalog": "a", "id": 9, "source": "file:a", "digest": digest, "content": digest,
                "modified": LAST_SECOND, "committed": 0,
                "counts": {"metas": 0, "packages": 0, "channels": 0, "entries": 0, "bundles": 0,
                           "quarantined": 0},
                "problems": [],
                "history": [],
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
        let digest = format!("sha256:{}", "0".repeat(64));
        let past = |id: i64, committed: u64, outline: u64| {
            serde_json::json!({
                "id": id, "source": "file:a", "digest": digest, "content": digest,
                "committed": committed,
                "counts": {"metas": 0, "packages": 0, "channels": 0, "entries": 0, "bundles": 0,
                           "quarantined": 0},
                "outline": {"digest": digest, "size": outline},
            })
        };
        let history = [past(1, 0, MAX_OUTLINE), past(8, LAST_SECOND, 1)];
        let good = metadata(|json| json["catalogs"][0]["history"] = history.into_iter().collect());
        assert_eq!(check(&good), Ok(()));
        for (wrong, said) in [
            (vec![past(0, 0, 1)], "the number"),
            (vec![past(9, 0, 1)], "not in order"),
            (vec![past(4, 0, 1), past(4, 0, 1)], "not in order"),
            (vec![past(1, LAST_SECOND + 1, 1)], "the year 9999"),
            (vec![past(1, 0, MAX_OUTLINE + 1)], "too large"),
            (vec![past(1, 0, 1); MAX_HISTORY + 1], "too long"),
        ] {
            refused("/catalogs/0/history", wrong.into(), said);
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
