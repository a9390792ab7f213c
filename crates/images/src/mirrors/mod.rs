//! Where an image is pulled from when it is not, or not only, pulled from
//! where its reference says: mirrors, rewritten locations, and registries that
//! are blocked or insecure.
//!
//! The files are those of podman and CRI-O (`registries.conf` and its folders)
//! and of OpenShift (sets of mirrors). They are read anew for each pass.
//! Asking the places in turn is left to `registries`.

mod conf;
mod kubernetes;
mod unknown;
mod yaml;

use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::files;
use crate::files::{FileError, FileKind};
use crate::reference::{Reference, without_user};

pub(super) use unknown::{Told, UnknownKeys};

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// The most prefixes, and the most mirrors of one.
const MAX_RULES: usize = 10_000;
const MAX_MIRRORS: usize = 100;
/// The longest prefix or location.
const MAX_LOCATION: usize = 600;
/// How much of a refused text an error repeats.
const MAX_SHOWN: usize = 200;

/// The files that say where to pull from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorFiles {
    /// `registries.conf` files, or folders of such, that somebody named: each
    /// has to be there, and later ones outweigh earlier ones.
    pub named: Vec<PathBuf>,
    /// Where `registries.conf` usually is: the first there is counts.
    pub usual: Vec<PathBuf>,
    /// The usual folders of further such files (`registries.conf.d`), which
    /// may be missing; later ones outweigh earlier ones.
    pub usual_folders: Vec<PathBuf>,
    /// Files, or folders of such, with Kubernetes objects (YAML, JSON); each
    /// has to be there.
    pub kubernetes: Vec<PathBuf>,
}

/// What the files say. The default has no rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mirrors {
    rules: Vec<Rule>,
    unknown: Vec<UnknownKeys>,
}

/// What holds for the images whose names begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// `HOST[:PORT][/PATH]`, or `*.DOMAIN`.
    prefix: String,
    /// What stands in the place of the prefix where it really is; empty when
    /// nothing changes.
    location: String,
    insecure: bool,
    blocked: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    pull: PullFrom,
}

/// For which references a mirror counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PullFrom {
    All,
    Digest,
    Tag,
}

/// One place to pull an image from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The image as it is called there.
    pub(super) reference: Reference,
    /// Whether any certificate will do there, and plain http.
    pub(super) insecure: bool,
    /// Whether it is a mirror, and not the place that was asked for.
    pub(super) is_mirror: bool,
    /// The prefix that is blocked, when nothing may be pulled from there.
    pub(super) blocked: Option<String>,
}

/// A location that makes no image of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLocation {
    /// What came of it.
    pub(super) text: String,
    /// Why that is no reference.
    pub(super) problem: String,
}

impl Mirrors {
    /// Reads the files as they are now. It blocks.
    pub(super) fn read(files: &MirrorFiles) -> Result<Self, FileError> {
        let mut mirrors = Self::default();
        if let Some((path, bytes)) = files::first(FileKind::Mirrors, &files.usual, MAX_FILE)? {
            mirrors.replace(conf_content(path, bytes)?);
        }
        for (index, folder) in files.usual_folders.iter().enumerate() {
            match conf_folder(folder) {
                Err(error) if error.is_missing() && !folder.exists() => {}
                // The first is the system's, and whoever has it counts on it.
                Err(FileError::Hidden { .. }) if index > 0 => {}
                found => mirrors.replace(found?),
            }
        }
        for path in &files.named {
            mirrors.replace(if path.is_dir() {
                conf_folder(path)?
            } else {
                conf_file(path)?
            });
        }
        for path in &files.kubernetes {
            mirrors.add(kubernetes_rules(path)?);
        }
        if let Some(path) = files
            .kubernetes
            .last()
            .or(files.named.last())
            .or(files.usual.last())
            && (mirrors.rules.len() > MAX_RULES
                || mirrors
                    .rules
                    .iter()
                    .any(|rule| rule.mirrors.len() > MAX_MIRRORS))
        {
            let problem = format!(
                "there are more than {MAX_RULES} prefixes, or {MAX_MIRRORS} mirrors of one"
            );
            return Err(FileError::content(FileKind::Mirrors, path, problem));
        }
        Ok(mirrors)
    }

    /// The keys of each file that mean nothing.
    pub(super) fn unknown(&self) -> &[UnknownKeys] {
        &self.unknown
    }

    /// The places to pull an image from, in the order in which they are to be
    /// asked: its mirrors, then its own.
    pub(super) fn endpoints(&self, reference: &Reference) -> Vec<Result<Endpoint, BadLocation>> {
        let name = reference.to_string();
        let Some((rule, length)) = self.find(&name) else {
            return vec![Ok(Endpoint {
                reference: reference.clone(),
                insecure: false,
                is_mirror: false,
                blocked: None,
            })];
        };
        let by_digest = reference.digest().is_some();
        let mirrors = rule.mirrors.iter().filter(|mirror| match mirror.pull {
            PullFrom::All => true,
            PullFrom::Digest => by_digest,
            PullFrom::Tag => !by_digest,
        });
        let mirrors = mirrors.map(|mirror| (&mirror.location, mirror.insecure, true));
        let own = (&rule.location, rule.insecure, false);
        let mut endpoints = Vec::new();
        for (location, insecure, is_mirror) in mirrors.chain([own]) {
            let text = match location.as_str() {
                "" => name.clone(),
                location => format!("{location}{}", &name[length..]),
            };
            let endpoint = match text.parse::<Reference>() {
                Err(error) => Err(BadLocation {
                    text: shown(&text),
                    problem: error.to_string(),
                }),
                Ok(reference) => {
                    let there = self.find(&reference.to_string()).map(|(rule, _)| rule);
                    Ok(Endpoint {
                        reference,
                        insecure: insecure || there.is_some_and(|rule| rule.insecure),
                        is_mirror,
                        blocked: there
                            .filter(|rule| rule.blocked)
                            .or((!is_mirror && rule.blocked).then_some(rule))
                            .map(|rule| rule.prefix.clone()),
                    })
                }
            };
            // A place that is named twice is asked once.
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        endpoints
    }

    /// The rule with the longest prefix of a name, and how much of the name
    /// that is.
    fn find(&self, name: &str) -> Option<(&Rule, usize)> {
        let matching = self.rules.iter();
        let matching = matching.filter_map(|rule| Some((rule, matched(name, &rule.prefix)?)));
        matching.max_by_key(|(rule, _)| rule.prefix.len())
    }

    /// Puts each rule of a later file in the place of the one with the same
    /// prefix.
    fn replace(&mut self, later: Self) {
        self.unknown.extend(later.unknown);
        for rule in later.rules {
            match self.same_prefix(&rule) {
                Some(there) => *there = rule,
                None => self.rules.push(rule),
            }
        }
    }

    /// Adds the mirrors of each rule to those of the one with the same prefix.
    fn add(&mut self, rules: Vec<Rule>) {
        for rule in rules {
            match self.same_prefix(&rule) {
                Some(there) => {
                    there.blocked |= rule.blocked;
                    for mirror in rule.mirrors {
                        if !there.mirrors.contains(&mirror) {
                            there.mirrors.push(mirror);
                        }
                    }
                }
                None => self.rules.push(rule),
            }
        }
    }

    fn same_prefix(&mut self, rule: &Rule) -> Option<&mut Rule> {
        let mut rules = self.rules.iter_mut();
        rules.find(|there| there.prefix == rule.prefix)
    }
}

/// How much of a name (`HOST[:PORT]/REPOSITORY:TAG` or `@DIGEST`) a prefix
/// matches; it has to end where a part of the name does.
pub(super) fn matched(name: &str, prefix: &str) -> Option<usize> {
    let length = match prefix.strip_prefix('*') {
        None => {
            name.strip_prefix(prefix)?;
            prefix.len()
        }
        Some(domain) => {
            let at = name.find(domain)?;
            if at == 0 || name[..at].contains('/') {
                return None;
            }
            at + domain.len()
        }
    };
    let ends = name[length..].is_empty() || name[length..].starts_with([':', '/', '@']);
    ends.then_some(length)
}

fn conf_file(path: &Path) -> Result<Mirrors, FileError> {
    conf_content(path, files::read(FileKind::Mirrors, path, MAX_FILE)?)
}

fn conf_content(path: &Path, bytes: Vec<u8>) -> Result<Mirrors, FileError> {
    let text = text(path, bytes)?;
    let rules = conf::parse(&text)
        .map_err(|problem| FileError::content(FileKind::Mirrors, path, problem))?;
    let keys = unknown::find(&text);
    let unknown = (!keys.is_empty()).then(|| UnknownKeys {
        path: path.to_owned(),
        digest: Digest::of(text.as_bytes()),
        keys,
    });
    Ok(Mirrors {
        rules,
        unknown: unknown.into_iter().collect(),
    })
}

/// What a folder's files say, of which later ones outweigh earlier ones.
fn conf_folder(folder: &Path) -> Result<Mirrors, FileError> {
    let mut mirrors = Mirrors::default();
    for path in files::list(FileKind::Mirrors, folder, &[".conf"])? {
        mirrors.replace(conf_file(&path)?);
    }
    Ok(mirrors)
}

fn kubernetes_rules(path: &Path) -> Result<Vec<Rule>, FileError> {
    let is_folder = path.is_dir();
    let files = if is_folder {
        files::list(FileKind::Mirrors, path, &[".yaml", ".yml", ".json"])?
    } else {
        vec![path.to_owned()]
    };
    let mut all = Vec::new();
    for path in files {
        let refused = |problem: String| FileError::content(FileKind::Mirrors, &path, problem);
        let bytes = files::read(FileKind::Mirrors, &path, MAX_FILE)?;
        let (rules, found) = kubernetes::parse(&text(&path, bytes)?).map_err(refused)?;
        if !found && !is_folder {
            return Err(refused(
                "there is no ImageDigestMirrorSet, ImageTagMirrorSet or \
                 ImageContentSourcePolicy in it"
                    .into(),
            ));
        }
        all.extend(rules);
    }
    Ok(all)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, FileError> {
    let problem = "it is not UTF-8";
    String::from_utf8(bytes).map_err(|_| FileError::content(FileKind::Mirrors, path, problem))
}

/// A prefix with its host in lower case, as names have it.
fn checked_prefix(text: &str) -> Result<String, String> {
    let (wildcard, rest) = match text.strip_prefix("*.") {
        Some(rest) => ("*.", rest),
        None => ("", text),
    };
    Ok(format!("{wildcard}{}", checked_location(rest)?))
}

/// `HOST[:PORT][/PATH][:TAG|@DIGEST]`, without the slash at its end.
fn checked_location(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    let refused = |problem: &str| Err(format!("{:?} {problem}", shown(text)));
    if trimmed.contains("://") {
        return refused("has to be written without a scheme");
    }
    let good = |c: char| c.is_ascii_alphanumeric() || "-._:/@[]".contains(c);
    if trimmed.is_empty() || trimmed.len() > MAX_LOCATION || !trimmed.chars().all(good) {
        return refused("is no HOST[:PORT][/PATH]; only a prefix may begin with \"*.\"");
    }
    let (host, path) = trimmed.split_once('/').unwrap_or((trimmed, ""));
    if host
        .split_once('@')
        .is_some_and(|(_, behind)| !behind.starts_with("sha256:"))
    {
        return refused("is written with a user; credentials are read from auth files");
    }
    let host = host.to_ascii_lowercase();
    Ok(match path {
        "" => host,
        path => format!("{host}/{path}"),
    })
}

/// A text without what may be a password.
fn shown(text: &str) -> String {
    let text = without_user(text);
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mirrors(text: &str) -> Mirrors {
        Mirrors {
            rules: conf::parse(text).unwrap(),
            ..Mirrors::default()
        }
    }

    fn asked(mirrors: &Mirrors, image: &str) -> Vec<String> {
        let reference: Reference = image.parse().unwrap();
        let digest = reference.digest().map(ToString::to_string);
        mirrors
            .endpoints(&reference)
            .into_iter()
            .map(|endpoint| match endpoint {
                Err(bad) => format!("bad {}", bad.text),
                Ok(endpoint) => {
                    let mut text = endpoint.reference.to_string();
                    if let Some(digest) = &digest {
                        text = text.replace(digest, "D");
                    }
                    if endpoint.insecure {
                        text += " insecure";
                    }
                    if let Some(prefix) = endpoint.blocked {
                        text = format!("{text} blocked by {prefix}");
                    }
                    text
                }
            })
            .collect()
    }

    fn by_digest(name: &str) -> String {
        format!("{name}@sha256:{}", "0".repeat(64))
    }

    #[test]
    fn an_image_without_a_rule_is_where_it_says() {
        let mirrors = mirrors("");
        assert_eq!(asked(&mirrors, "quay.io/a/b:v1"), ["quay.io/a/b:v1"]);
    }

    #[test]
    fn the_longest_prefix_counts_and_ends_at_a_part() {
        let mirrors = mirrors(
            r#"
            [[registry]]
            location = "quay.io"
            [[registry.mirror]]
            location = "short.example"
            [[registry]]
            prefix = "quay.io/a"
            location = "elsewhere.example/x/a"
            [[registry.mirror]]
            location = "m.example:5000/long"
            insecure = true
            [[registry]]
            prefix = "*.example.com"
            [[registry.mirror]]
            location = "m.example/sub"
            "#,
        );
        assert_eq!(
            asked(&mirrors, "quay.io/a/b:v1"),
            [
                "m.example:5000/long/b:v1 insecure",
                "elsewhere.example/x/a/b:v1"
            ]
        );
        assert_eq!(
            asked(&mirrors, "quay.io/a:v1"),
            [
                "m.example:5000/long:v1 insecure",
                "elsewhere.example/x/a:v1"
            ]
        );
        assert_eq!(
            asked(&mirrors, "quay.io/ab:v1"),
            ["short.example/ab:v1", "quay.io/ab:v1"]
        );
        assert_eq!(
            asked(&mirrors, "quay.io:443/a:v1")[0],
            "short.example:443/a:v1"
        );
        assert_eq!(
            asked(&mirrors, "a.b.example.com/c/d:v1"),
            ["m.example/sub/c/d:v1", "a.b.example.com/c/d:v1"]
        );
        assert_eq!(asked(&mirrors, "example.com/c:v1"), ["example.com/c:v1"]);
        assert_eq!(
            asked(&mirrors, "x.org/a.example.com:v1"),
            ["x.org/a.example.com:v1"]
        );
    }

    #[test]
    fn a_mirror_counts_for_digests_or_tags_as_it_says() {
        let mirrors = mirrors(
            r#"
            [[registry]]
            location = "quay.io"
            [[registry.mirror]]
            location = "all.example"
            [[registry.mirror]]
            location = "digest.example"
            pull-from-mirror = "digest-only"
            [[registry.mirror]]
            location = "tag.example"
            pull-from-mirror = "tag-only"
            [[registry]]
            location = "quay.io/b"
            mirror-by-digest-only = true
            [[registry.mirror]]
            location = "digest.example/b"
            "#,
        );
        assert_eq!(
            asked(&mirrors, "quay.io/a:v1"),
            ["all.example/a:v1", "tag.example/a:v1", "quay.io/a:v1"]
        );
        assert_eq!(
            asked(&mirrors, &by_digest("quay.io/a")),
            ["all.example/a@D", "digest.example/a@D", "quay.io/a@D"]
        );
        assert_eq!(asked(&mirrors, "quay.io/b:v1"), ["quay.io/b:v1"]);
        assert_eq!(
            asked(&mirrors, &by_digest("quay.io/b")),
            ["digest.example/b@D", "quay.io/b@D"]
        );
    }

    #[test]
    fn what_is_blocked_or_insecure_is_so_under_each_name() {
        let mirrors = mirrors(
            r#"
            [[registry]]
            location = "quay.io"
            blocked = true
            [[registry.mirror]]
            location = "m.example"
            [[registry.mirror]]
            location = "bad.example"
            [[registry]]
            location = "m.example"
            insecure = true
            [[registry]]
            location = "bad.example"
            blocked = true
            "#,
        );
        assert_eq!(
            asked(&mirrors, "quay.io/a:v1"),
            [
                "m.example/a:v1 insecure",
                "bad.example/a:v1 blocked by bad.example",
                "quay.io/a:v1 blocked by quay.io",
            ]
        );
    }

    #[test]
    fn files_outweigh_those_before_them() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        };
        let rule = |prefix: &str, location: &str| {
            format!("[[registry]]\nprefix = {prefix:?}\nlocation = {location:?}\n")
        };
        let main = put(
            "main.conf",
            &(rule("a.b", "main.example") + &rule("c.d", "main.example")),
        );
        put("d/1.conf", &rule("a.b", "one.example"));
        put("d/2.conf", &rule("a.b", "two.example"));
        put("d/3.txt", &rule("a.b", "three.example"));
        put(
            "sets/idms.yaml",
            "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nspec:\n  \
             imageDigestMirrors: [{source: a.b, mirrors: [set.example]}]\n",
        );
        put("sets/other.yaml", "kind: Secret\n");
        let mut files = MirrorFiles {
            usual: vec![folder.path().join("missing.conf"), main.clone()],
            usual_folders: vec![folder.path().join("d"), folder.path().join("missing.d")],
            kubernetes: vec![folder.path().join("sets")],
            ..MirrorFiles::default()
        };
        let read = Mirrors::read(&files).unwrap();
        assert_eq!(asked(&read, "a.b/x:v1"), ["two.example/x:v1"]);
        assert_eq!(
            asked(&read, &by_digest("a.b/x")),
            ["set.example/x@D", "two.example/x@D"]
        );
        assert_eq!(asked(&read, "c.d/x:v1"), ["main.example/x:v1"]);

        // What somebody named has to be there, and to be what it should be.
        files.kubernetes = vec![folder.path().join("sets/other.yaml")];
        let error = Mirrors::read(&files).unwrap_err().to_string();
        assert!(error.contains("no ImageDigestMirrorSet"), "{error}");
        files.kubernetes.clear();
        files.named = vec![folder.path().join("missing.conf")];
        assert!(Mirrors::read(&files).unwrap_err().is_missing());
        files.named = vec![main];
        let read = Mirrors::read(&files).unwrap();
        assert_eq!(asked(&read, "a.b/x:v1"), ["main.example/x:v1"]);
        put("main.conf", "[[registry]]");
        let error = Mirrors::read(&files).unwrap_err();
        assert_eq!(error.reason(), "mirrors");
    }
}
