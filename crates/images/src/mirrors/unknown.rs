//! Keys of `registries.conf` that are not known. They are passed over, as
//! podman and CRI-O do, but not in silence: who misspells `blocked` blocks
//! nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::digest::Digest;
use crate::mirrors::shown;

/// The most keys of one file that are named.
const MAX_KEYS: usize = 20;

/// Longer keys are not compared with the known ones, in bytes.
const MAX_COMPARED: usize = 100;

/// What may stand in the tables. Not all of it means something here, but none
/// of it is a mistake.
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

/// A key that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownKey {
    /// The table that it stands in.
    table: &'static str,
    key: String,
    /// What may be meant, as the end of a sentence.
    proposal: String,
}

/// The keys of one file that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownKeys {
    pub(super) path: PathBuf,
    /// Of what stands in the file.
    pub(super) digest: Digest,
    pub(super) keys: Vec<UnknownKey>,
}

/// Finds the keys of a file that are not known. What cannot be parsed has
/// none.
pub(super) fn find(text: &str) -> Vec<UnknownKey> {
    let mut found = Vec::new();
    let Ok(file) = toml::from_str::<toml::Table>(text) else {
        return found;
    };
    look("the file", &file, &FILE, &mut found);
    for registry in tables(&file, "registry") {
        look("[[registry]]", registry, &REGISTRY, &mut found);
        for mirror in tables(registry, "mirror") {
            look("[[registry.mirror]]", mirror, &MIRROR, &mut found);
        }
    }
    found
}

fn look(table: &'static str, found: &toml::Table, known: &[&str], into: &mut Vec<UnknownKey>) {
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

/// Of which files it has been told what is unknown in them, and with what
/// content.
#[derive(Default)]
pub(crate) struct Told {
    files: Mutex<HashMap<PathBuf, Digest>>,
}

impl Told {
    /// Warns of unknown keys, once for each content of a file.
    pub(crate) fn tell(&self, unknown: &[UnknownKeys]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
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
                    "the key is not known and passed over{proposal}"
                );
            }
        }
        let now = unknown.iter().map(|file| (file.path.clone(), file.digest));
        *files = now.collect();
    }
}

/// The known key that a misspelt one most likely stands for, as the end of a
/// sentence.
fn proposal(key: &str, known: &[&str]) -> String {
    // Long keys are no misspellings, and the comparison takes quadratic time.
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
    fn keys_are_found_with_their_table_and_what_may_be_meant() {
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
    fn a_file_in_order_has_none_and_a_strange_one_not_too_many() {
        assert_eq!(find("[[registry]]\nlocation = \"a.b\"\nblocked = true"), []);
        assert_eq!(find("[[registry"), []);
        let keys: Vec<String> = (0..100).map(|n| format!("key-{n} = 1")).collect();
        assert_eq!(find(&keys.join("\n")).len(), MAX_KEYS);
    }
}
