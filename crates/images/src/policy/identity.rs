//! The name in a signature: `signedIdentity` of a policy.

use std::fmt;

use serde::Deserialize;

use crate::reference::Reference;

/// The longest name in a signature, in bytes.
const MAX_NAME: usize = 1000;

/// The rule that the name in a signature must match.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(super) enum SignedIdentity {
    /// The same repository and tag.
    MatchExact {},
    /// The same repository and tag; for a reference by digest, the same
    /// repository with any tag or digest.
    MatchRepoDigestOrExact {},
    /// The same repository.
    MatchRepository {},
    /// This name, with its tag or digest.
    ExactReference { docker_reference: String },
    /// This repository.
    ExactRepository { docker_repository: String },
    /// The default rule, after replacing a prefix.
    RemapIdentity {
        prefix: String,
        signed_prefix: String,
    },
}

/// A full name with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    repository: String,
    /// `:TAG`, `@DIGEST`, both, or nothing.
    version: String,
}

impl Default for SignedIdentity {
    fn default() -> Self {
        Self::MatchRepoDigestOrExact {}
    }
}

impl SignedIdentity {
    /// Checks `signed`, the name in a signature.
    pub(super) fn check(&self, image: &Reference, signed: &str) -> Result<(), String> {
        let claimed = Name::parse(signed)?;
        let asked = Name {
            repository: image.name(),
            version: match (image.tag(), image.digest()) {
                (Some(tag), _) => format!(":{tag}"),
                (None, Some(digest)) => format!("@{digest}"),
                (None, None) => String::new(),
            },
        };
        let same_repository = |name: &Name| {
            if claimed.repository == name.repository {
                return Ok(());
            }
            Err(format!("it signs {claimed}, not {}", name.repository))
        };
        let same = |name: &Name| {
            if claimed == *name && !claimed.version.is_empty() {
                return Ok(());
            }
            let note = if claimed.version.is_empty() && claimed.repository == name.repository {
                " (cosign signs repositories: signedIdentity matchRepository accepts that)"
            } else {
                ""
            };
            Err(format!("it signs {claimed}, not {name}{note}"))
        };
        // For an image by digest any tag or digest will do, but not none.
        let same_or_by_digest = |name: &Name| {
            if image.tag().is_none() && !claimed.version.is_empty() {
                same_repository(name)
            } else {
                same(name)
            }
        };
        match self {
            Self::MatchExact {} => same(&asked),
            Self::MatchRepoDigestOrExact {} => same_or_by_digest(&asked),
            Self::MatchRepository {} => same_repository(&asked),
            Self::ExactReference { docker_reference } => same(&Name::parse(docker_reference)?),
            Self::ExactRepository { docker_repository } => {
                same_repository(&Name::parse(docker_repository)?)
            }
            Self::RemapIdentity {
                prefix,
                signed_prefix,
            } => {
                let rest = asked.repository.strip_prefix(prefix.as_str());
                let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
                let repository = match rest {
                    Some(rest) => format!("{signed_prefix}{rest}"),
                    None => asked.repository.clone(),
                };
                same_or_by_digest(&Name {
                    repository,
                    version: asked.version,
                })
            }
        }
    }
}

impl Name {
    /// Parses a name in Docker's format, where the host is optional.
    fn parse(text: &str) -> Result<Self, String> {
        let rejected = || {
            let shown: String = text.chars().take(100).collect();
            Err(format!("{shown:?} is no image name"))
        };
        if text.len() > MAX_NAME {
            return rejected();
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, format!("@{digest}")),
            None => (text, String::new()),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, format!(":{tag}")),
            _ => (rest, String::new()),
        };
        // A split has at least one part.
        let first = name.split('/').next().unwrap_or_default();
        let has_host = name.contains('/') && (first.contains(['.', ':']) || first == "localhost");
        let hub = if has_host { "" } else { "docker.io/" };
        // The grammar is that of references.
        let parse = |version: &str| format!("{hub}{name}{version}").parse::<Reference>();
        let (Ok(reference), Ok(_)) = (parse(&tag), parse(&digest)) else {
            return rejected();
        };
        Ok(Self {
            repository: reference.name(),
            version: format!("{tag}{digest}"),
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.repository, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(rule: &serde_json::Value, image: &str, signed: &str) -> bool {
        let rule: SignedIdentity = serde_json::from_value(rule.clone()).unwrap();
        rule.check(&image.parse().unwrap(), signed).is_ok()
    }

    #[test]
    fn each_rule_accepts_its_names() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let tagged = "quay.io/a/b:v1";
        let pinned = format!("quay.io/a/b@{digest}");
        for rule in ["matchRepoDigestOrExact", "matchExact", "matchRepository"] {
            let by_repository = rule == "matchRepository";
            let exact = rule == "matchExact";
            let rule = json!({"type": rule});
            assert!(fits(&rule, tagged, "quay.io/a/b:v1"), "{rule}");
            assert_eq!(
                fits(&rule, tagged, "quay.io/a/b:v2"),
                by_repository,
                "{rule}"
            );
            assert_eq!(fits(&rule, tagged, "quay.io/a/b"), by_repository, "{rule}");
            assert_eq!(fits(&rule, &pinned, "quay.io/a/b:v2"), !exact, "{rule}");
            assert_eq!(fits(&rule, &pinned, "quay.io/a/b"), by_repository, "{rule}");
            assert!(!fits(&rule, tagged, "quay.io/a/c:v1"), "{rule}");
            assert!(!fits(&rule, &pinned, "quay.io/a"), "{rule}");
            assert!(!fits(&rule, tagged, "not a name"), "{rule}");
        }
        let exact = json!({"type": "exactReference", "dockerReference": "x.org/c:v1"});
        assert!(fits(&exact, tagged, "x.org/c:v1"));
        assert!(!fits(&exact, tagged, tagged));
        assert!(!fits(&exact, tagged, "x.org/c"));
        let exact = json!({"type": "exactRepository", "dockerRepository": "x.org/c"});
        assert!(fits(&exact, tagged, "x.org/c:v9"));
        assert!(fits(&exact, tagged, "x.org/c"));
        assert!(!fits(&exact, tagged, tagged));
        let remap = json!({
            "type": "remapIdentity", "prefix": "quay.io/a", "signedPrefix": "x.org/vendor",
        });
        assert!(fits(&remap, tagged, "x.org/vendor/b:v1"));
        assert!(!fits(&remap, tagged, "x.org/vendor/b"));
        assert!(!fits(&remap, &pinned, "x.org/vendor/b"));
        assert!(fits(&remap, &pinned, "x.org/vendor/b:v2"));
        assert!(!fits(&remap, tagged, tagged));
        assert!(fits(&remap, "quay.io/ab:v1", "quay.io/ab:v1"));
    }

    #[test]
    fn names_are_completed() {
        for (text, full) in [
            ("busybox", "docker.io/library/busybox"),
            ("docker.io/busybox:v1", "docker.io/library/busybox:v1"),
            ("a/b", "docker.io/a/b"),
            ("localhost/b", "localhost/b"),
            ("h:5000/b:v1", "h:5000/b:v1"),
        ] {
            assert_eq!(Name::parse(text).unwrap().to_string(), full);
        }
        for text in ["", ":v1", "a@b", "A/b", "a b"] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }
}
