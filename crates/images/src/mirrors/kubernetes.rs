//! The mirror sets of OpenShift clusters: `ImageDigestMirrorSet`,
//! `ImageTagMirrorSet` and the older `ImageContentSourcePolicy`, in YAML or JSON,
//! alone or in a `List`. Other objects are ignored, so the output folder of
//! oc-mirror can be used as it is.

use std::collections::BTreeMap;

use crate::mirrors::mirror_sets::MirrorSet;
use crate::mirrors::remarks::{MAX_REMARKS, Remark, proposal};
use crate::mirrors::rule::{PullFrom, checked_location, checked_prefix, shown};
use crate::yaml::{self, Content, Member, Node};

/// The deepest nesting of lists of objects.
const MAX_LISTS: usize = 4;
/// The API groups that mirror sets have had.
const GROUPS: [&str; 2] = ["config.openshift.io/", "operator.openshift.io/"];
/// The keys of an object. `metadata` and `status` are left out.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The keys of an entry in the list of a `spec`.
const ENTRY: [&str; 3] = ["source", "mirrors", "mirrorSourcePolicy"];
/// The rules for an image that no mirror has.
const NEVER_CONTACT: &str = "NeverContactSource";
const ALLOW_CONTACT: &str = "AllowContactingSource";

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
    for document in yaml::located_documents(text)? {
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

/// The members of an object in the file.
type Members = BTreeMap<String, Member>;

fn object(document: Node, into: &mut MirrorSets, depth: usize) -> Result<(), String> {
    let text = |name: &str| document.text(name).to_owned();
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
        return not_misspelt(&kind, document.line);
    };
    let name = document.member("metadata").map_or("", |of| of.text("name"));
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
    into.sets.extend(kind.sets(document).map_err(named)?);
    Ok(())
}

/// Fails for a kind that is almost that of mirror sets. Other kinds are ignored.
fn not_misspelt(kind: &str, line: u64) -> Result<(), String> {
    let names = KINDS.map(|known| known.name);
    let folded = names.iter().find(|name| name.eq_ignore_ascii_case(kind));
    let proposal = match folded {
        Some(name) => format!("; did you mean {name:?}?"),
        None => proposal(kind, &names),
    };
    if proposal.is_empty() {
        return Ok(());
    }
    let kind = shown(kind);
    Err(format!(
        "line {line}: the kind {kind:?} is unknown{proposal}"
    ))
}

impl Kind {
    /// The sets of an object of this kind.
    fn sets(&self, object: Node) -> Result<Vec<MirrorSet>, String> {
        let mut object = members(object, "the object")?;
        check_known(&object, &OBJECT)?;
        let Some(spec) = object.remove("spec") else {
            return Ok(Vec::new());
        };
        let mut spec = members(spec.value, "its spec")?;
        self.check_lists(&mut spec)?;
        check_known(&spec, &[self.list])?;
        let entries = list(&mut spec, self.list)?.into_iter();
        entries.map(|entry| mirror_set(entry, self.pull)).collect()
    }

    /// Fails for the list of another kind, which would have no effect.
    fn check_lists(&self, spec: &mut Members) -> Result<(), String> {
        let lists = KINDS.iter().map(|kind| kind.list);
        for other in lists.filter(|list| *list != self.list) {
            let found = spec.remove(other);
            if let Some(found) = found.filter(|found| !found.is_null()) {
                let (line, name, list) = (found.line, self.name, self.list);
                return Err(format!(
                    "line {line}: its spec has {other}, which the kind {name} does not have; \
                     write {list}, or correct the kind"
                ));
            }
        }
        Ok(())
    }
}

fn mirror_set(entry: Node, pull: PullFrom) -> Result<MirrorSet, String> {
    let line = entry.line;
    let mut entry = members(entry, "the entry")?;
    check_known(&entry, &ENTRY)?;
    let Some(source) = entry.remove("source").filter(|source| !source.is_null()) else {
        return Err(format!("line {line}: the entry has no source"));
    };
    let source = location(source.value, "source", checked_prefix)?;
    let mirrors = list(&mut entry, "mirrors")?.into_iter();
    let mirrors = mirrors.map(|mirror| location(mirror, "the mirror", checked_location));
    let policy = entry.remove("mirrorSourcePolicy");
    Ok(MirrorSet {
        source,
        mirrors: mirrors.collect::<Result<_, _>>()?,
        pull,
        blocks_source: policy.map_or(Ok(false), |policy| blocks_source(&policy.value))?,
    })
}

fn blocks_source(policy: &Node) -> Result<bool, String> {
    let found = match &policy.content {
        Content::Null => return Ok(false),
        Content::Text(text) if text == NEVER_CONTACT => return Ok(true),
        Content::Text(text) if text == ALLOW_CONTACT => return Ok(false),
        Content::Text(text) => format!("is {:?}", shown(text)),
        Content::List(_) | Content::Object(_) => "is not a string".to_owned(),
    };
    let line = policy.line;
    Err(format!(
        "line {line}: mirrorSourcePolicy {found}; write {NEVER_CONTACT} or {ALLOW_CONTACT}"
    ))
}

/// A text that is a location.
fn location(
    node: Node,
    what: &str,
    check: fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let line = node.line;
    match node.content {
        Content::Text(text) => check(&text).map_err(|problem| format!("line {line}: {problem}")),
        _ => Err(format!("line {line}: {what} is not a string")),
    }
}

/// The items of a list, which may be missing.
fn list(members: &mut Members, key: &str) -> Result<Vec<Node>, String> {
    let Some(Member { line, value }) = members.remove(key) else {
        return Ok(Vec::new());
    };
    match value.content {
        Content::Null => Ok(Vec::new()),
        Content::List(items) => Ok(items),
        _ => Err(format!("line {line}: {key} is not a list")),
    }
}

/// The members of an object, which may be `null`.
fn members(node: Node, what: &str) -> Result<Members, String> {
    let line = node.line;
    match node.content {
        Content::Null => Ok(Members::new()),
        Content::Object(members) => Ok(members),
        _ => Err(format!(
            "line {line}: {what} is not an object; write keys and values"
        )),
    }
}

/// Fails for a key that is none of these.
fn check_known(members: &Members, known: &[&str]) -> Result<(), String> {
    let unknown = members
        .iter()
        .find(|(key, _)| !known.contains(&key.as_str()));
    unknown.map_or(Ok(()), |(key, Member { line, .. })| {
        let proposal = proposal(key, known);
        Err(format!(
            "line {line}: the key {:?} is unknown{proposal}",
            shown(key)
        ))
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
    fn metadata_and_status_of_a_mirror_set_may_hold_any_keys() {
        let text = SETS.replace(
            "metadata: {name: idms-example-0}",
            "metadata: {name: idms-example-0, annotations: {any: key}, later: [x]}\nstatus: {any: key}",
        );
        assert_eq!(
            parse(&text).unwrap().sets.len(),
            parse(SETS).unwrap().sets.len()
        );
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
                "\"idms-example-0\": line 9: mirrorSourcePolicy is \"Sometimes\"; write NeverContactSource or \
                 AllowContactingSource",
            ),
            (
                "mirror.example:5000/older",
                "https://m.example",
                "\"icsp\": ",
            ),
            (
                "source: quay.io/older",
                "sauce: x",
                "\"icsp\": line 29: the key \"sauce\" is unknown; did you mean \"source\"?",
            ),
            (
                "source: quay.io/older",
                "source:",
                "\"icsp\": line 29: the entry has no source",
            ),
            (
                "mirrors: [mirror.example:5000/older]",
                "mirrors: mirror.example:5000/older",
                "line 30: mirrors is not a list",
            ),
            (
                "mirrors: [mirror.example:5000/older]",
                "mirrors: [[]]",
                "line 30: the mirror is not a string",
            ),
            (
                "mirrorSourcePolicy: N",
                "mirrorSourcePolcy: N",
                "line 9: the key \"mirrorSourcePolcy\" is unknown; did you mean \"mirrorSourcePolicy\"?",
            ),
            (
                "    mirrors: [mirror.example:5000/redhat]",
                "    mirror: [mirror.example:5000/redhat]",
                "line 11: the key \"mirror\" is unknown; did you mean \"mirrors\"?",
            ),
            (
                "    mirrors: [mirror.example:5000/redhat]",
                "    mirrors: []\n    mirrors: [mirror.example:5000/redhat]",
                "line 12: the key \"mirrors\" is repeated",
            ),
            (
                "  imageDigestMirrors:",
                "  imageDigestMirror:",
                "line 6: the key \"imageDigestMirror\" is unknown; did you mean \"imageDigestMirrors\"?",
            ),
            (
                "metadata: {name: itms}\n  spec:",
                "metadata: {name: itms}\n  spce:",
                "\"itms\": line 19: the key \"spce\" is unknown; did you mean \"spec\"?",
            ),
            (
                "\nspec:\n",
                "\nspec: {}\nspec:\n",
                "line 6: the key \"spec\" is repeated",
            ),
            (
                "\nkind: ImageDigestMirrorSet",
                "\nkind: imagedigestmirrorset",
                "line 2: the kind \"imagedigestmirrorset\" is unknown; did you mean \"ImageDigestMirrorSet\"?",
            ),
            (
                "config.openshift.io/v1",
                "example.com/v1",
                "its apiVersion is \"example.com/v1\"; write apiVersion: config.openshift.io/v1",
            ),
            (
                "imageTagMirrors",
                "imageDigestMirrors",
                "\"itms\": line 20: its spec has imageDigestMirrors, which the kind ImageTagMirrorSet does not \
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
