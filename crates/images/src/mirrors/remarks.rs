//! Remarks on the files about mirrors: keys and tables of a `registries.conf` without
//! effect, which are ignored as by podman and CRI-O, but reported, since a misspelt
//! `blocked` blocks nothing; and mirror sets in a version that no cluster takes.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use parking_lot::Mutex;

use crate::digest::Digest;
use crate::mirrors::rule::shown;

/// The most remarks on one file.
pub(super) const MAX_REMARKS: usize = 20;

/// Longer keys are not compared with the known ones, in bytes.
const MAX_COMPARED: usize = 100;

/// The known keys of each table. Some of them have no effect here.
const FILE: [&str; 6] = [
    "additional-layer-store-auth-helper",
    "aliases",
    "credential-helpers",
    "registry",
    "short-name-mode",
    "unqualified-search-registries",
];
const REGISTRY: [&str; 6] = [
    "blocked",
    "insecure",
    "location",
    "mirror",
    "mirror-by-digest-only",
    "prefix",
];
const MIRROR: [&str; 3] = ["insecure", "location", "pull-from-mirror"];

/// Something in a file that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Remark {
    table: &'static str,
    key: String,
    problem: String,
}

/// A remark on a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileRemark {
    pub(super) path: PathBuf,
    /// The digest of the file's content.
    pub(super) digest: Digest,
    pub(super) remark: Remark,
}

impl Remark {
    /// A remark on a mirror set in another version than that of its kind.
    pub(super) fn version(kind: &'static str, found: &str, wanted: &str) -> Self {
        Self {
            table: kind,
            key: "apiVersion".into(),
            problem: format!(
                "a cluster would not take the version {:?}; write apiVersion: {wanted}",
                shown(found)
            ),
        }
    }

    /// A remark on a `[[registry]]`.
    pub(super) fn prefix(prefix: &str, problem: &str) -> Self {
        Self {
            table: "[[registry]]",
            key: "prefix".into(),
            problem: format!("the prefix {:?} {problem}", shown(prefix)),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

/// Finds the unknown keys of a file. A file with a syntax error has none.
pub(super) fn unknown_keys(text: &str) -> Vec<Remark> {
    let mut found = Vec::new();
    let Ok(file) = toml::from_str::<toml::Table>(text) else {
        return found;
    };
    check("the file", &file, &FILE, &mut found);
    for registry in tables(&file, "registry") {
        check("[[registry]]", registry, &REGISTRY, &mut found);
        for mirror in tables(registry, "mirror") {
            check("[[registry.mirror]]", mirror, &MIRROR, &mut found);
        }
    }
    found
}

fn check(table: &'static str, found: &toml::Table, known: &[&str], into: &mut Vec<Remark>) {
    for key in found.keys() {
        let folded = key.to_ascii_lowercase();
        if known.contains(&folded.as_str()) {
            continue;
        }
        let remark = Remark {
            table,
            key: shown(key),
            problem: format!(
                "the key is not known and has no effect{}",
                proposal(&folded, known)
            ),
        };
        if into.len() < MAX_REMARKS && !into.contains(&remark) {
            into.push(remark);
        }
    }
}

/// The tables of an array, whose key is read in any case.
fn tables<'t>(table: &'t toml::Table, key: &str) -> impl Iterator<Item = &'t toml::Table> {
    let found = table
        .iter()
        .filter(move |(name, _)| name.eq_ignore_ascii_case(key));
    let tables = found.filter_map(|(_, value)| value.as_array()).flatten();
    tables.filter_map(toml::Value::as_table)
}

/// The remarks that were logged and still hold.
#[derive(Default)]
pub(crate) struct RemarkLog(Mutex<HashSet<FileRemark>>);

impl RemarkLog {
    /// Logs remarks, once for each content of a file.
    pub(crate) fn warn(&self, remarks: &[FileRemark]) {
        let mut logged = self.0.lock();
        for remark in remarks.iter().filter(|remark| !logged.contains(*remark)) {
            let FileRemark { path, remark, .. } = remark;
            let Remark { table, key, .. } = remark;
            tracing::warn!(path = %path.display(), table, key, "{remark}");
        }
        *logged = remarks.iter().cloned().collect();
    }
}

/// Suggests a known word for a misspelt one, as the end of a sentence.
pub(super) fn proposal(key: &str, known: &[&str]) -> String {
    // The comparison takes quadratic time.
    if key.len() > MAX_COMPARED {
        return String::new();
    }
    let distances = known
        .iter()
        .map(|known| (strsim::levenshtein(key, known), *known));
    match distances.min() {
        Some((distance, nearest)) if distance <= (key.len() / 4 + 1).min(3) => {
            format!("; did you mean {nearest:?}?")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_have_their_table_and_a_suggestion() {
        let found = unknown_keys(
            r#"
            unqualified-search-registry = ["docker.io"]
            short-name-mode = "enforcing"
            credential-helpers = ["containers-auth.json"]
            [aliases]
            "any" = "b.example/a"
            [[registry]]
            location = "a.b"
            block = true
            [[registry.mirror]]
            location = "c.d"
            Insecurely = true
            [[registry.mirror]]
            location = "e.f"
            Insecurely = true
            "#,
        );
        let found: Vec<_> = found
            .iter()
            .map(|unknown| (unknown.table, &*unknown.key, &*unknown.problem))
            .collect();
        let unknown = "the key is not known and has no effect; did you mean";
        assert_eq!(
            found,
            [
                (
                    "the file",
                    "unqualified-search-registry",
                    &*format!("{unknown} \"unqualified-search-registries\"?")
                ),
                ("[[registry]]", "block", &*format!("{unknown} \"blocked\"?")),
                (
                    "[[registry.mirror]]",
                    "Insecurely",
                    &*format!("{unknown} \"insecure\"?")
                ),
            ]
        );
    }

    #[test]
    fn a_valid_file_has_none_and_the_number_is_bounded() {
        assert_eq!(
            unknown_keys("[[registry]]\nlocation = \"a.b\"\nblocked = true"),
            []
        );
        assert_eq!(unknown_keys("[[registry"), []);
        let keys: Vec<String> = (0..100).map(|n| format!("key-{n} = 1")).collect();
        assert_eq!(unknown_keys(&keys.join("\n")).len(), MAX_REMARKS);
    }
}
