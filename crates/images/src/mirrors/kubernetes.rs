//! The mirror sets of OpenShift clusters: `ImageDigestMirrorSet`,
//! `ImageTagMirrorSet` and the older `ImageContentSourcePolicy`, in YAML or JSON,
//! alone or in a `List`. Other objects are ignored, so the output folder of
//! oc-mirror can be used as it is.

use serde::Deserialize;
use serde_json::Value;

use crate::mirrors::mirror_sets::MirrorSet;
use crate::mirrors::remarks::{MAX_REMARKS, Remark};
use crate::mirrors::rule::{PullFrom, checked_location, checked_prefix, shown};
use crate::yaml;

/// The deepest nesting of lists of objects.
const MAX_LISTS: usize = 4;
/// The API groups that mirror sets have had.
const GROUPS: [&str; 2] = ["config.openshift.io/", "operator.openshift.io/"];

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct MirrorSets {
    pub(super) sets: Vec<MirrorSet>,
    /// Whether it has any object of these kinds.
    pub(super) found: bool,
    pub(super) remarks: Vec<Remark>,
}

/// Reads a file.
pub(super) fn parse(text: &str) -> Result<MirrorSets, String> {
    let mut sets = MirrorSets::default();
    for document in yaml::documents(text)? {
        object(document, &mut sets, 0)?;
    }
    Ok(sets)
}

/// A kind of mirror sets.
struct Kind {
    name: &'static str,
    version: &'static str,
    /// The list in its `spec`.
    list: &'static str,
    pull: PullFrom,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "ImageDigestMirrorSet",
        version: "config.openshift.io/v1",
        list: "imageDigestMirrors",
        pull: PullFrom::Digest,
    },
    Kind {
        name: "ImageTagMirrorSet",
        version: "config.openshift.io/v1",
        list: "imageTagMirrors",
        pull: PullFrom::Tag,
    },
    Kind {
        name: "ImageContentSourcePolicy",
        version: "operator.openshift.io/v1alpha1",
        list: "repositoryDigestMirrors",
        pull: PullFrom::Digest,
    },
];

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

fn object(mut document: Value, into: &mut MirrorSets, depth: usize) -> Result<(), String> {
    let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if let Some(of) = kind.strip_suffix("List") {
        if depth == MAX_LISTS {
            return Err(format!("lists are nested deeper than {MAX_LISTS} times"));
        }
        for item in yaml::items(document, of) {
            object(item, into, depth + 1)?;
        }
        return Ok(());
    }
    let Some(kind) = KINDS.iter().find(|known| known.name == kind) else {
        return Ok(());
    };
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    let of = format!("{} {:?}", kind.name, shown(name));
    let named = |problem: String| format!("{of}: {problem}");
    if !GROUPS.iter().any(|group| version.starts_with(group)) {
        let (found, wanted) = (shown(&version), kind.version);
        let problem = format!("its apiVersion is {found:?}; write apiVersion: {wanted}");
        return Err(named(problem));
    }
    if version != kind.version && into.remarks.len() < MAX_REMARKS {
        into.remarks
            .push(Remark::version(kind.name, &version, kind.version));
    }
    into.found = true;
    let entries = match document["spec"].take() {
        Value::Null => Vec::new(),
        spec => kind.entries(spec).map_err(named)?,
    };
    for entry in entries {
        into.sets.push(mirror_set(entry, kind.pull).map_err(named)?);
    }
    Ok(())
}

impl Kind {
    /// The entries of a `spec`. The list of another kind would have no effect.
    fn entries(&self, spec: Value) -> Result<Vec<Entry>, String> {
        let Value::Object(mut spec) = spec else {
            return Err("its spec is no object; write keys and values".to_owned());
        };
        let lists = KINDS.iter().map(|kind| kind.list);
        for other in lists.filter(|list| *list != self.list) {
            if spec.get(other).is_some_and(|value| !value.is_null()) {
                let (name, list) = (self.name, self.list);
                return Err(format!(
                    "its spec has {other}, which the kind {name} does not have; write {list}, \
                     or correct the kind"
                ));
            }
        }
        let entries = spec.remove(self.list).unwrap_or_default();
        let entries = Option::<Vec<Entry>>::deserialize(entries);
        let entries = entries.map_err(|error| error.to_string())?;
        Ok(entries.unwrap_or_default())
    }
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
        let MirrorSets {
            sets,
            found,
            remarks,
        } = parse(SETS).unwrap();
        assert!(found && remarks.is_empty());
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
        assert!(!parse("kind: Pod").unwrap().found);
    }

    #[test]
    fn a_mirror_set_is_known_by_its_kind_and_another_version_is_remarked() {
        let whole = parse(SETS).unwrap().sets.len();
        for (find, put, remarks) in [
            (
                "config.openshift.io/v1",
                "operator.openshift.io/v1alpha1",
                2,
            ),
            ("config.openshift.io/v1", "operator.openshift.io/v1", 2),
            ("config.openshift.io/v1", "config.openshift.io/v1alpha1", 2),
            (
                "operator.openshift.io/v1alpha1",
                "config.openshift.io/v1",
                1,
            ),
        ] {
            let read = parse(&SETS.replace(find, put)).unwrap();
            assert_eq!(
                (read.sets.len(), read.remarks.len()),
                (whole, remarks),
                "{put}"
            );
            let remark = read.remarks[0].to_string();
            for said in [put, "write apiVersion: "] {
                assert!(remark.contains(said), "{remark}");
            }
        }
    }

    #[test]
    fn the_items_of_a_list_of_one_kind_have_that_kind() {
        let list = "
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSetList
items:
- metadata: {name: a}
  spec: {imageDigestMirrors: [{source: a.example, mirrors: [b.example]}]}
";
        let read = parse(list).unwrap();
        assert_eq!((read.sets.len(), read.found), (1, true));
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
            (
                "config.openshift.io/v1",
                "example.com/v1",
                "its apiVersion is \"example.com/v1\"; write apiVersion: config.openshift.io/v1",
            ),
            (
                "imageTagMirrors",
                "imageDigestMirrors",
                "\"itms\": its spec has imageDigestMirrors, which the kind ImageTagMirrorSet does not \
                 have; write imageTagMirrors",
            ),
            (
                "imageDigestMirrors",
                "repositoryDigestMirrors",
                "write imageDigestMirrors",
            ),
        ] {
            let error = with(find, put);
            assert!(error.contains(problem), "{error}");
        }
    }
}
