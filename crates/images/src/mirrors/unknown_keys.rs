//! Unknown keys of `registries.conf`. They are ignored, as by podman and CRI-O,
//! but reported: a misspelt `blocked` blocks nothing.

use std::collections::HashMap;
use std::path::PathBuf;

use parking_lot::Mutex;

use crate::digest::Digest;
use crate::mirrors::rule::shown;

/// The most reported keys of one file.
const MAX_KEYS: usize = 20;

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

/// An unknown key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownKey {
    /// Its table.
    table: &'static str,
    key: String,
    /// A suggestion, as the end of a sentence.
    proposal: String,
}

/// The unknown keys of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownKeys {
    pub(super) path: PathBuf,
    /// The digest of the file's content.
    pub(super) digest: Digest,
    pub(super) keys: Vec<UnknownKey>,
}

/// Finds the unknown keys of a file. A file with a syntax error has none.
pub(super) fn find(text: &str) -> Vec<UnknownKey> {
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

fn check(table: &'static str, found: &toml::Table, known: &[&str], into: &mut Vec<UnknownKey>) {
    for key in found.keys().filter(|key| !known.contains(&key.as_str())) {
        let unknown = UnknownKey {
            table,
            proposal: proposal(key, known),
            key: shown(key),
        };
        if into.len() < MAX_KEYS && !into.contains(&unknown) {
            into.push(unknown);
        }
    }
}

fn tables<'t>(table: &'t toml::Table, key: &str) -> impl Iterator<Item = &'t toml::Table> {
    let tables = table.get(key).and_then(toml::Value::as_array);
    let tables = tables.into_iter().flatten();
    tables.filter_map(toml::Value::as_table)
}

/// The files whose unknown keys were reported, with the digests of their
/// content.
#[derive(Default)]
pub(crate) struct UnknownKeyReport {
    files: Mutex<HashMap<PathBuf, Digest>>,
}

impl UnknownKeyReport {
    /// Warns of unknown keys, once for each content of a file.
    pub(crate) fn warn(&self, unknown: &[UnknownKeys]) {
        let mut files = self.files.lock();
        for file in unknown {
            if files.get(&file.path) == Some(&file.digest) {
                continue;
            }
            for UnknownKey {
                table,
                key,
                proposal,
            } in &file.keys
            {
                tracing::warn!(
                    path = %file.path.display(),
                    table,
                    key,
                    "the key is not known and has no effect{proposal}"
                );
            }
        }
        let now = unknown.iter().map(|file| (file.path.clone(), file.digest));
        *files = now.collect();
    }
}

/// Suggests a known key for a misspelt one, as the end of a sentence.
fn proposal(key: &str, known: &[&str]) -> String {
    // The comparison takes quadratic time.
    if key.len() > MAX_COMPARED {
        return String::new();
    }
    let key = key.to_lowercase();
    let distances = known
        .iter()
        .map(|known| (strsim::levenshtein(&key, known), *known));
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
        let found = find(
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
            Insecure = true
            [[registry.mirror]]
            location = "e.f"
            Insecure = true
            "#,
        );
        let found: Vec<_> = found
            .iter()
            .map(|unknown| (unknown.table, &*unknown.key, &*unknown.proposal))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "the file",
                    "unqualified-search-registry",
                    "; did you mean \"unqualified-search-registries\"?"
                ),
                ("[[registry]]", "block", "; did you mean \"blocked\"?"),
                (
                    "[[registry.mirror]]",
                    "Insecure",
                    "; did you mean \"insecure\"?"
                ),
            ]
        );
    }

    #[test]
    fn a_valid_file_has_none_and_the_number_is_bounded() {
        assert_eq!(find("[[registry]]\nlocation = \"a.b\"\nblocked = true"), []);
        assert_eq!(find("[[registry"), []);
        let keys: Vec<String> = (0..100).map(|n| format!("key-{n} = 1")).collect();
        assert_eq!(find(&keys.join("\n")).len(), MAX_KEYS);
    }
}
