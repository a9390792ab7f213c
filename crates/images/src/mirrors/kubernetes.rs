//! The mirror sets of OpenShift clusters: `ImageDigestMirrorSet`,
//! `ImageTagMirrorSet` and the older `ImageContentSourcePolicy`, in YAML or JSON,
//! alone or in a `List`. Other objects are ignored, so the output folder of
//! oc-mirror can be used as it is.

use serde::Deserialize;
use serde_json::Value;

use crate::mirrors::mirror_sets::MirrorSet;
use crate::mirrors::rule::{PullFrom, checked_location, checked_prefix};
use crate::yaml;

/// The deepest nesting of lists of objects.
const MAX_LISTS: usize = 4;

/// The mirror sets of a file, and whether it has any object of these kinds.
pub(super) fn parse(text: &str) -> Result<(Vec<MirrorSet>, bool), String> {
    let mut sets = Vec::new();
    let mut found = false;
    for document in yaml::documents(text)? {
        object(document, &mut sets, &mut found, 0)?;
    }
    Ok((sets, found))
}

/// A mirror set of any of the three kinds.
#[derive(Deserialize)]
struct Spec {
    #[serde(rename = "imageDigestMirrors")]
    by_digest: Option<Vec<Entry>>,
    #[serde(rename = "imageTagMirrors")]
    by_tag: Option<Vec<Entry>>,
    #[serde(rename = "repositoryDigestMirrors")]
    of_repositories: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    source: String,
    mirrors: Option<Vec<String>>,
    mirror_source_policy: Option<SourcePolicy>,
}

/// The rule for an image that no mirror has.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum SourcePolicy {
    NeverContactSource,
    AllowContactingSource,
}

fn object(
    mut document: Value,
    sets: &mut Vec<MirrorSet>,
    found: &mut bool,
    depth: usize,
) -> Result<(), String> {
    let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if kind.ends_with("List") {
        if depth == MAX_LISTS {
            return Err(format!("lists are nested deeper than {MAX_LISTS} times"));
        }
        if let Value::Array(items) = document["items"].take() {
            for item in items {
                object(item, sets, found, depth + 1)?;
            }
        }
        return Ok(());
    }
    let (group, pull) = match kind.as_str() {
        "ImageDigestMirrorSet" => ("config.openshift.io/", PullFrom::Digest),
        "ImageTagMirrorSet" => ("config.openshift.io/", PullFrom::Tag),
        "ImageContentSourcePolicy" => ("operator.openshift.io/", PullFrom::Digest),
        _ => return Ok(()),
    };
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    let named = |problem: String| format!("{kind} {name:?}: {problem}");
    if !version.starts_with(group) {
        let problem = format!("its apiVersion {version:?} is not supported");
        return Err(named(problem));
    }
    *found = true;
    let spec = &document["spec"];
    if spec.is_null() {
        return Ok(());
    }
    let spec = Spec::deserialize(spec).map_err(|error| named(error.to_string()))?;
    let entries = match kind.as_str() {
        "ImageDigestMirrorSet" => spec.by_digest,
        "ImageTagMirrorSet" => spec.by_tag,
        _ => spec.of_repositories,
    };
    for entry in entries.unwrap_or_default() {
        sets.push(mirror_set(entry, pull).map_err(named)?);
    }
    Ok(())
}

fn mirror_set(entry: Entry, pull: PullFrom) -> Result<MirrorSet, String> {
    let mirrors = entry.mirrors.unwrap_or_default();
    let mirrors = mirrors.iter().map(|mirror| checked_location(mirror));
    Ok(MirrorSet {
        source: checked_prefix(&entry.source)?,
        mirrors: mirrors.collect::<Result<_, _>>()?,
        pull,
        blocks_source: entry.mirror_source_policy == Some(SourcePolicy::NeverContactSource),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: &str = "
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-example-0}
spec:
  imageDigestMirrors:
  - source: quay.io/teams
    mirrors: [mirror.example:5000/teams, other.example/teams]
    mirrorSourcePolicy: NeverContactSource
  - source: '*.redhat.io'
    mirrors: [mirror.example:5000/redhat]
---
apiVersion: v1
kind: List
items:
- apiVersion: config.openshift.io/v1
  kind: ImageTagMirrorSet
  metadata: {name: itms}
  spec:
    imageTagMirrors:
    - source: quay.io/apps/a
      mirrors: [mirror.example:5000/apps/a]
      mirrorSourcePolicy: AllowContactingSource
- apiVersion: operator.openshift.io/v1alpha1
  kind: ImageContentSourcePolicy
  metadata: {name: icsp}
  spec:
    repositoryDigestMirrors:
    - source: quay.io/older
      mirrors: [mirror.example:5000/older]
---
apiVersion: v1
kind: Pod
spec: {containers: [{image: 'mirror.example:5000/apps/a:v1'}]}
";

    #[test]
    fn each_kind_of_mirror_set_is_read() {
        let (sets, found) = parse(SETS).unwrap();
        assert!(found);
        let shown = sets.iter().map(|set| {
            let mirrors = set.mirrors.join(", ");
            format!(
                "{} {:?} {}: {mirrors}",
                set.source, set.pull, set.blocks_source
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "quay.io/teams Digest true: mirror.example:5000/teams, other.example/teams",
                "*.redhat.io Digest false: mirror.example:5000/redhat",
                "quay.io/apps/a Tag false: mirror.example:5000/apps/a",
                "quay.io/older Digest false: mirror.example:5000/older",
            ]
        );
        assert!(!parse("kind: Pod").unwrap().1);
    }

    #[test]
    fn an_invalid_mirror_set_is_named() {
        let with = |find: &str, put: &str| parse(&SETS.replace(find, put)).unwrap_err();
        for (find, put, problem) in [
            (
                "NeverContactSource",
                "Sometimes",
                "\"idms-example-0\": unknown variant `Sometimes`",
            ),
            (
                "mirror.example:5000/older",
                "https://m.example",
                "\"icsp\": ",
            ),
            (
                "source: quay.io/older",
                "sauce: x",
                "missing field `source`",
            ),
            ("config.openshift.io/v1", "example.com/v1", "apiVersion"),
        ] {
            let error = with(find, put);
            assert!(error.contains(problem), "{error}");
        }
    }
}
