//! The name in a signature: `signedIdentity` of a policy.

use std::fmt;

use crate::digest::{is_digest, is_hexadecimal};
use crate::display::clip;
use crate::reference::{Reference, is_registry, is_repository};

/// The longest name in a signature, in bytes.
const MAX_NAME: usize = 1000;

/// The rule that the name in a signature must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SignedIdentity {
    /// The same repository and tag.
    MatchExact,
    /// The same repository and tag; for a reference by digest, the same
    /// repository with any tag or digest.
    #[default]
    MatchRepoDigestOrExact,
    /// The same repository.
    MatchRepository,
    /// This name, with its tag or digest.
    ExactReference(SignedName),
    /// This repository.
    ExactRepository(SignedName),
    /// The default rule, after replacing a prefix.
    RemapIdentity {
        /// The prefix of the image's name.
        prefix: String,
        /// Its replacement.
        signed_prefix: String,
    },
}

/// A full name with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedName {
    repository: String,
    /// `:TAG`, `@DIGEST`, both, or nothing.
    version: String,
}

impl SignedIdentity {
    /// The rule for one name, which has a tag or digest.
    pub(crate) fn exact_reference(text: &str) -> Result<Self, String> {
        let name = SignedName::parse(text)?;
        if name.version.is_empty() {
            return Err(format!("{name} has neither a tag nor a digest"));
        }
        Ok(Self::ExactReference(name))
    }

    /// The rule for one repository. A tag or digest has no meaning.
    pub(crate) fn exact_repository(text: &str) -> Result<Self, String> {
        Ok(Self::ExactRepository(SignedName::parse(text)?))
    }

    /// The rule that replaces a prefix. Both prefixes begin with a host.
    pub(crate) fn remap(prefix: String, signed_prefix: String) -> Result<Self, String> {
        for text in [&prefix, &signed_prefix] {
            let (host, path) = match text.split_once('/') {
                Some((host, path)) => (host, Some(path)),
                None => (text.as_str(), None),
            };
            if text.len() > MAX_NAME || !is_registry(host) || !path.is_none_or(is_repository) {
                let shown = clip(text, 100);
                return Err(format!("{shown:?} is not a host with a path"));
            }
        }
        Ok(Self::RemapIdentity {
            prefix,
            signed_prefix,
        })
    }

    /// Whether a digest meets the rule, if no name is signed at all.
    pub(crate) fn is_met_by_digest(&self, image: &Reference) -> bool {
        match self {
            Self::MatchRepository | Self::ExactRepository(_) => true,
            Self::MatchRepoDigestOrExact => image.tag().is_none(),
            Self::MatchExact | Self::ExactReference(_) | Self::RemapIdentity { .. } => false,
        }
    }

    /// Checks `signed`, the name in a signature.
    pub(crate) fn check(&self, image: &Reference, signed: &str) -> Result<(), String> {
        let claimed = SignedName::parse(signed)?;
        let asked = SignedName {
            repository: image.name(),
            version: match (image.tag(), image.digest()) {
                (Some(tag), _) => format!(":{tag}"),
                (None, Some(digest)) => format!("@{digest}"),
                (None, None) => String::new(),
            },
        };
        let same_repository = |name: &SignedName| {
            if claimed.repository == name.repository {
                return Ok(());
            }
            Err(format!("it signs {claimed}, not {}", name.repository))
        };
        let same = |name: &SignedName| {
            if claimed == *name && !claimed.version.is_empty() {
                return Ok(());
            }
            let note = if !claimed.version.is_empty() || claimed.repository != name.repository {
                String::new()
            } else if name.repository == asked.repository {
                " (cosign signs repositories: signedIdentity matchRepository accepts that)".into()
            } else {
                format!(
                    " (cosign signs repositories: signedIdentity exactRepository with the \
                     dockerRepository {claimed} accepts that)"
                )
            };
            Err(format!("it signs {claimed}, not {name}{note}"))
        };
        // For an image by digest any tag or digest will do, but not none.
        let same_or_by_digest = |name: &SignedName| {
            if image.tag().is_none() && !claimed.version.is_empty() {
                same_repository(name)
            } else {
                same(name)
            }
        };
        match self {
            Self::MatchExact => same(&asked),
            Self::MatchRepoDigestOrExact => same_or_by_digest(&asked),
            Self::MatchRepository => same_repository(&asked),
            Self::ExactReference(name) => same(name),
            Self::ExactRepository(name) => same_repository(name),
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
                same_or_by_digest(&SignedName {
                    repository,
                    version: asked.version,
                })
            }
        }
    }
}

impl SignedName {
    /// Parses a name in Docker's format, where the host is optional.
    fn parse(text: &str) -> Result<Self, String> {
        let rejected = || {
            let shown = clip(text, 100);
            Err(format!("{shown:?} is not an image name"))
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
        // Such a name would be that of an image without a registry.
        if is_hexadecimal(text, 64) {
            return rejected();
        }
        let hub = if has_host { "" } else { "docker.io/" };
        // The grammar is that of references.
        let parse = |version: &str| format!("{hub}{name}{version}").parse::<Reference>();
        let Ok(reference) = parse(&tag) else {
            return rejected();
        };
        // References have digests of SHA-256 only.
        if !digest.is_empty() && !is_digest(&digest[1..]) {
            return rejected();
        }
        // Hosts are compared byte for byte.
        let registry = match reference.registry() {
            "docker.io" => "docker.io",
            _ => first,
        };
        Ok(Self {
            repository: format!("{registry}/{}", reference.repository()),
            version: format!("{tag}{digest}"),
        })
    }
}

impl fmt::Display for SignedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.repository, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(rule: &SignedIdentity, image: &str, signed: &str) -> bool {
        rule.check(&image.parse().unwrap(), signed).is_ok()
    }

    #[test]
    fn each_rule_accepts_its_names() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let tagged = "quay.io/a/b:v1";
        let pinned = format!("quay.io/a/b@{digest}");
        for rule in [
            SignedIdentity::MatchRepoDigestOrExact,
            SignedIdentity::MatchExact,
            SignedIdentity::MatchRepository,
        ] {
            let by_repository = rule == SignedIdentity::MatchRepository;
            let exact = rule == SignedIdentity::MatchExact;
            assert!(fits(&rule, tagged, "quay.io/a/b:v1"), "{rule:?}");
            assert_eq!(fits(&rule, tagged, "quay.io/a/b:v2"), by_repository);
            assert_eq!(fits(&rule, tagged, "quay.io/a/b"), by_repository);
            assert_eq!(fits(&rule, &pinned, "quay.io/a/b:v2"), !exact, "{rule:?}");
            assert_eq!(fits(&rule, &pinned, "quay.io/a/b"), by_repository);
            assert!(fits(&rule, &pinned, &pinned), "{rule:?}");
            assert!(!fits(&rule, tagged, "quay.io/a/c:v1"), "{rule:?}");
            assert!(!fits(&rule, &pinned, "quay.io/a"), "{rule:?}");
            assert!(!fits(&rule, tagged, "QUAY.io/a/b:v1"), "{rule:?}");
            assert!(!fits(&rule, tagged, "not a name"), "{rule:?}");
        }
        let exact = SignedIdentity::exact_reference("x.org/c:v1").unwrap();
        assert!(fits(&exact, tagged, "x.org/c:v1"));
        assert!(!fits(&exact, tagged, tagged));
        assert!(!fits(&exact, tagged, "x.org/c"));
        // A tag of the rule has no meaning.
        for repository in ["x.org/c", "x.org/c:v3"] {
            let exact = SignedIdentity::exact_repository(repository).unwrap();
            assert!(fits(&exact, tagged, "x.org/c:v9"));
            assert!(fits(&exact, tagged, "x.org/c"));
            assert!(!fits(&exact, tagged, tagged));
        }
        let remap = SignedIdentity::remap("quay.io/a".into(), "x.org/vendor".into()).unwrap();
        assert!(fits(&remap, tagged, "x.org/vendor/b:v1"));
        assert!(!fits(&remap, tagged, "x.org/vendor/b"));
        assert!(!fits(&remap, &pinned, "x.org/vendor/b"));
        assert!(fits(&remap, &pinned, "x.org/vendor/b:v2"));
        assert!(!fits(&remap, tagged, tagged));
        assert!(fits(&remap, "quay.io/ab:v1", "quay.io/ab:v1"));
    }

    #[test]
    fn a_signed_repository_comes_with_the_rule_that_accepts_it() {
        let image: Reference = "quay.io/a/b:v1".parse().unwrap();
        let problem = |rule: SignedIdentity, signed: &str| rule.check(&image, signed).unwrap_err();
        let error = problem(SignedIdentity::default(), "quay.io/a/b");
        assert!(error.contains("matchRepository accepts that"), "{error}");
        let remap = SignedIdentity::remap("quay.io/a".into(), "x.org/vendor".into()).unwrap();
        let error = problem(remap, "x.org/vendor/b");
        let rule = "exactRepository with the dockerRepository x.org/vendor/b accepts that";
        assert!(error.contains(rule), "{error}");
        let rule = SignedIdentity::exact_repository("x.org/vendor/b").unwrap();
        assert!(rule.check(&image, "x.org/vendor/b").is_ok());
        let error = problem(SignedIdentity::default(), "quay.io/a/c");
        assert!(!error.contains("accepts that"), "{error}");
    }

    #[test]
    fn a_rule_without_a_proper_name_is_rejected() {
        for text in ["", "x.org/c", "x.org/C:v1", "x.org/c:"] {
            assert!(SignedIdentity::exact_reference(text).is_err(), "{text}");
        }
        for text in ["", "x.org/C", "https://x.org/c"] {
            assert!(SignedIdentity::exact_repository(text).is_err(), "{text}");
        }
        for (prefix, good) in [
            ("x.org", true),
            ("x.org:5000/a/b", true),
            ("shortname", true),
            ("", false),
            ("x.org/a:v1", false),
            ("x.org/a/", false),
            ("*.x.org", false),
            ("x.org/A", false),
        ] {
            let remap = SignedIdentity::remap("x.org".into(), prefix.into());
            assert_eq!(remap.is_ok(), good, "{prefix}");
            let remap = SignedIdentity::remap(prefix.into(), "x.org".into());
            assert_eq!(remap.is_ok(), good, "{prefix}");
        }
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
            assert_eq!(SignedName::parse(text).unwrap().to_string(), full);
        }
        for text in ["", ":v1", "a@b", "A/b", "a b"] {
            assert!(SignedName::parse(text).is_err(), "{text}");
        }
    }
}
