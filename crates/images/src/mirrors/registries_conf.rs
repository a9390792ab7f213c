//! `registries.conf`, version 2: a TOML file with a `[[registry]]` for each
//! prefix (containers-registries.conf(5)). Settings for short names and unknown
//! keys are ignored; [`unknown_keys`](super::unknown_keys) reports the latter.

use serde::Deserialize;

use crate::mirrors::rule::{Mirror, MirrorRule, PullFrom, checked_location, checked_prefix};

/// The rules of a file, in order.
pub(super) fn parse(text: &str) -> Result<Vec<MirrorRule>, String> {
    let document: Document = toml::from_str(text).map_err(|error| describe(text, &error))?;
    if document.registries.is_some() {
        return Err(
            "the table [registries] belongs to version 1 of the format; \
             write a [[registry]] for each registry"
                .into(),
        );
    }
    let mut rules: Vec<MirrorRule> = Vec::new();
    for registry in document.registry {
        let rule = registry.into_rule()?;
        if let Some(other) = rules.iter().find(|other| other.prefix == rule.prefix) {
            if *other == rule {
                continue;
            }
            return Err(format!(
                "the prefix {:?} has two different [[registry]] tables",
                rule.prefix
            ));
        }
        rules.push(rule);
    }
    Ok(rules)
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    #[serde(default)]
    registry: Vec<Registry>,
    /// Version 1.
    registries: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<RawMirror>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawMirror {
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<String>,
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
        let mirrors = self.mirror.into_iter().map(|mirror| {
            let location = checked_location(&mirror.location)?;
            let written = mirror.pull_from_mirror.as_deref().unwrap_or_default();
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
        let rules = parse(
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
        assert_eq!(rules, expected);
        assert!(parse("# nothing").unwrap().is_empty());
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
                "two different",
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
}
