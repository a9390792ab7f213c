//! `registries.conf`, version 2: a TOML file with a `[[registry]]` for each
//! prefix (containers-registries.conf(5)). Settings for short names and unknown
//! keys are ignored; [`remarks`](super::remarks) reports the latter. Keys are
//! read in any case, as podman reads them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::folded_keys::Folded;
use crate::mirrors::remarks::{MAX_REMARKS, Remark, unknown_keys};
use crate::mirrors::rule::{Mirror, MirrorRule, PullFrom, checked_location, checked_prefix};

/// The most credential helpers of a file.
const MAX_HELPERS: usize = 20;

/// The content of a file.
#[derive(Debug)]
pub(super) struct ConfFile {
    /// The rules by their prefixes.
    pub(super) rules: BTreeMap<String, MirrorRule>,
    /// The names in `credential-helpers`, if the key is there.
    pub(super) credential_helpers: Option<Vec<String>>,
    pub(super) remarks: Vec<Remark>,
}

pub(super) fn parse(text: &str) -> Result<ConfFile, String> {
    let Folded(document): Folded<Document> =
        toml::from_str(text).map_err(|error| describe(text, &error))?;
    if document.registries.is_some() {
        return Err(
            "the table [registries] belongs to version 1 of the format; \
             write a [[registry]] for each registry"
                .into(),
        );
    }
    let helpers = document.credential_helpers;
    if helpers
        .as_ref()
        .is_some_and(|helpers| helpers.len() > MAX_HELPERS)
    {
        return Err(format!(
            "it names more than {MAX_HELPERS} credential helpers"
        ));
    }
    let mut file = ConfFile {
        rules: BTreeMap::new(),
        credential_helpers: helpers,
        remarks: unknown_keys(text),
    };
    let mut flags = HashMap::new();
    for Folded(registry) in document.registry {
        let rule = registry.into_rule()?;
        let location = match rule.location.as_str() {
            "" => &rule.prefix,
            _ => &rule.location,
        };
        let known = flags.entry(location.clone());
        if *known.or_insert((rule.insecure, rule.blocked)) != (rule.insecure, rule.blocked) {
            return Err(format!(
                "two [[registry]] tables for {location:?} differ in insecure or blocked"
            ));
        }
        if rule
            .prefix
            .split_once('/')
            .is_some_and(|(_, path)| path.contains([':', '@']))
        {
            file.remarks.push(Remark::prefix(
                &rule.prefix,
                "has a tag or digest and matches no image",
            ));
        }
        match file.rules.entry(rule.prefix.clone()) {
            Entry::Vacant(place) => {
                place.insert(rule);
            }
            Entry::Occupied(_) => {
                let problem = "is in an earlier table, which alone has an effect";
                file.remarks.push(Remark::prefix(&rule.prefix, problem));
            }
        }
    }
    file.remarks.truncate(MAX_REMARKS);
    Ok(file)
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    #[serde(default)]
    registry: Vec<Folded<Registry>>,
    credential_helpers: Option<Vec<String>>,
    /// Version 1.
    registries: Option<toml::Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Registry {
    prefix: String,
    location: String,
    insecure: bool,
    blocked: bool,
    mirror_by_digest_only: bool,
    pull_from_mirror: String,
    mirror: Vec<Folded<RawMirror>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct RawMirror {
    location: String,
    insecure: bool,
    pull_from_mirror: String,
}

impl Registry {
    fn into_rule(self) -> Result<MirrorRule, String> {
        let written = match (self.prefix.is_empty(), self.location.is_empty()) {
            (true, true) => return Err("a [[registry]] has neither prefix nor location".into()),
            (true, false) => &self.location,
            (false, _) => &self.prefix,
        };
        let prefix = checked_prefix(written)?;
        let location = match self.location.as_str() {
            "" if prefix.starts_with("*.") => String::new(),
            "" => return Err(format!("the registry {prefix:?} has no location")),
            location => checked_location(location)?,
        };
        if !self.pull_from_mirror.is_empty() {
            return Err(format!(
                "the registry {prefix:?} has pull-from-mirror, which belongs into its mirrors"
            ));
        }
        let mirrors = self.mirror.into_iter().map(|Folded(mirror)| {
            let location = checked_location(&mirror.location)?;
            let written = mirror.pull_from_mirror.as_str();
            if self.mirror_by_digest_only && !written.is_empty() {
                return Err(format!(
                    "the registry {prefix:?} has mirror-by-digest-only and its mirror {location:?} \
                     pull-from-mirror; only one of them is possible",
                ));
            }
            let pull = match written {
                "" if self.mirror_by_digest_only => PullFrom::Digest,
                "" | "all" => PullFrom::All,
                "digest-only" => PullFrom::Digest,
                "tag-only" => PullFrom::Tag,
                other => {
                    return Err(format!(
                        "the mirror {location:?} has pull-from-mirror = {other:?}; \
                         write \"all\", \"digest-only\" or \"tag-only\"",
                    ));
                }
            };
            Ok(Mirror {
                location,
                insecure: mirror.insecure,
                pull,
            })
        });
        Ok(MirrorRule {
            mirrors: mirrors.collect::<Result<_, _>>()?,
            prefix,
            location,
            insecure: self.insecure,
            blocked: self.blocked,
        })
    }
}

fn describe(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start));
    let line = line.map(|before| before.matches('\n').count() + 1);
    // An empty message leaves the line.
    let message = error.message().lines().next().unwrap_or_default();
    match line {
        Some(line) => format!("line {line}: {message}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_have_defaults() {
        let file = parse(
            r#"
            unqualified-search-registries = ["docker.io"]
            short-name-mode = "enforcing"
            [aliases]
            "a" = "b.example/a"
            [[registry]]
            location = "Quay.io/a/"
            insecure = true
            mirror-by-digest-only = true
            [[registry.mirror]]
            location = "m.example:5000"
            insecure = true
            [[registry]]
            prefix = "*.example.com"
            blocked = true
            [[registry.mirror]]
            location = "m.example/b"
            pull-from-mirror = "tag-only"
            "#,
        )
        .unwrap();
        let mirror = |location: &str, insecure, pull| Mirror {
            location: location.into(),
            insecure,
            pull,
        };
        let expected = [
            MirrorRule {
                prefix: "quay.io/a".into(),
                location: "quay.io/a".into(),
                insecure: true,
                blocked: false,
                mirrors: vec![mirror("m.example:5000", true, PullFrom::Digest)],
            },
            MirrorRule {
                prefix: "*.example.com".into(),
                location: String::new(),
                insecure: false,
                blocked: true,
                mirrors: vec![mirror("m.example/b", false, PullFrom::Tag)],
            },
        ];
        let expected = expected.map(|rule| (rule.prefix.clone(), rule));
        assert_eq!(file.rules, BTreeMap::from(expected));
        assert_eq!(file.remarks, []);
        assert!(parse("# nothing").unwrap().rules.is_empty());
    }

    #[test]
    fn contradictions_are_rejected() {
        for (text, problem) in [
            (
                "[[registry]]\nblocked = true",
                "neither prefix nor location",
            ),
            ("[[registry]]\nprefix = \"a.example\"", "has no location"),
            (
                "[[registry]]\nlocation = \"https://a.example\"",
                "without a scheme",
            ),
            (
                "[[registry]]\nlocation = \"https://me:s3cret@a.example\"",
                "without a scheme",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\n[[registry.mirror]]\n\
                 location = \"me:s3cret@c.d/e\"",
                "\"c.d/e\" contains a user",
            ),
            ("[[registry]]\nlocation = 7", "line 2: "),
            (
                "[[registry]]\nprefix = \"a.*.b\"\nlocation = \"c.d\"",
                "a.*.b",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\n[[registry]]\nlocation = \"a.b\"\nblocked = true",
                "differ in insecure or blocked",
            ),
            (
                "[[registry]]\nprefix = \"c.d\"\nlocation = \"a.b\"\n\
                 [[registry]]\nlocation = \"a.b\"\ninsecure = true",
                "differ in insecure or blocked",
            ),
            (
                "[[registry]]\nprefix = \"*.a.b/c\"\nblocked = true",
                "\"*.a.b/c\"",
            ),
            (
                "[[registry]]\nprefix = \"*.a.b:5000\"\nblocked = true",
                "\"*.a.b:5000\"",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\nBlocked = true\nblocked = false",
                "duplicate field `blocked`",
            ),
            ("[[registry]]\nlocation = \"a.b\"\nInsecure = 7", "line 3: "),
            (
                "[[registry]]\nlocation = \"a.b\"\npull-from-mirror = \"all\"",
                "belongs into its mirrors",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\n[[registry.mirror]]\nlocation = \"c.d\"\n\
                 pull-from-mirror = \"never\"",
                "\"never\"",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\nmirror-by-digest-only = true\n\
                 [[registry.mirror]]\nlocation = \"c.d\"\npull-from-mirror = \"all\"",
                "only one of them",
            ),
            ("[registries.search]\nregistries = []", "version 1"),
            ("[[registry]", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn keys_count_in_any_case() {
        let file = parse(
            "[[Registry]]\nLocation = \"a.b\"\nBLOCKED = true\n\
             [[Registry.Mirror]]\nlocation = \"c.d\"\nPull-From-Mirror = \"tag-only\"",
        )
        .unwrap();
        let rule = &file.rules["a.b"];
        assert!(rule.blocked);
        assert_eq!(rule.mirrors[0].pull, PullFrom::Tag);
        assert_eq!(file.remarks, []);
        assert!(parse("[Registries.search]\nregistries = []").is_err());
    }

    #[test]
    fn the_first_table_of_a_prefix_applies_with_a_remark() {
        let text = "[[registry]]\nprefix = \"a.b\"\nlocation = \"first.example\"\n\
                    [[registry]]\nprefix = \"a.b\"\nlocation = \"second.example\"\n";
        let file = parse(text).unwrap();
        assert_eq!(file.rules["a.b"].location, "first.example");
        let remarks: Vec<String> = file.remarks.iter().map(ToString::to_string).collect();
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].contains("the prefix \"a.b\" is in an earlier table"));
    }
}
