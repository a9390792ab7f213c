//! Image references with parts of the Kubernetes version, in the syntax of the
//! annotation `olm.catalogImageTemplate` of a `CatalogSource`.

use std::fmt;
use std::str::FromStr;

use crate::config::value::{ValueError, deserialized_from_text};
use crate::ingest::{Source, SourceError};
use ::images::Reference;

const MAJOR: &str = "{kube_major_version}";
const MINOR: &str = "{kube_minor_version}";
const PATCH: &str = "{kube_patch_version}";
/// The prefix of all variables.
const VARIABLE: &str = "{kube_";
/// The longest template, in bytes.
const MAX_TEMPLATE: usize = 1024;

/// The Kubernetes version of the cluster: `1.33.2`, also with a leading `v`,
/// without the last number, or with a suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    major: u32,
    minor: u32,
    patch: Option<u32>,
}

/// An image reference with variables for parts of that version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTemplate(String);

/// A source in the settings: a plain one, or an image template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenSource {
    /// A source.
    Plain(Source),
    /// A template.
    Template(ImageTemplate),
}

impl ImageTemplate {
    /// The image for a version.
    ///
    /// # Errors
    /// If the template has no known variable, the version lacks a part that the
    /// template needs, or the result is not an image reference.
    pub fn resolve(&self, version: Option<&KubeVersion>) -> Result<Source, String> {
        if ![MAJOR, MINOR, PATCH]
            .iter()
            .any(|name| self.0.contains(name))
        {
            return Err(format!("it has none of {MAJOR}, {MINOR} and {PATCH}"));
        }
        let mut text = self.0.clone();
        for (variable, number) in [
            (MAJOR, version.map(|version| version.major)),
            (MINOR, version.map(|version| version.minor)),
            (PATCH, version.and_then(|version| version.patch)),
        ] {
            if !text.contains(variable) {
                continue;
            }
            let Some(number) = number else {
                return Err(match version {
                    None => format!("{variable} is not known: kube_version is not set"),
                    Some(_) => format!("{variable} is not known: kube_version has no such part"),
                });
            };
            text = text.replace(variable, &number.to_string());
        }
        let reference: Result<Reference, _> = text.parse();
        let reference = reference.map(Source::Image);
        reference.map_err(|error| error.to_string())
    }
}

impl WrittenSource {
    /// The source for a version of Kubernetes. If `template` cannot be resolved,
    /// this is the plain source, with the reason as second value.
    ///
    /// # Errors
    /// With the reason, if there is no plain source.
    pub(super) fn resolve(
        &self,
        template: Option<&ImageTemplate>,
        version: Option<&KubeVersion>,
    ) -> Result<(Source, Option<String>), String> {
        let mut reason = None;
        if let Some(template) = template {
            match template.resolve(version) {
                Ok(source) => return Ok((source, None)),
                Err(problem) => reason = Some(format!("{template}: {problem}")),
            }
        }
        match (self, reason) {
            // There is no plain source.
            (Self::Plain(Source::Curated(_)), Some(reason)) => Err(reason),
            (Self::Plain(source), reason) => Ok((source.clone(), reason)),
            (Self::Template(own), reason) => {
                let problem = |problem| format!("{own}: {problem}");
                let source = own.resolve(version).map_err(problem)?;
                Ok((source, reason))
            }
        }
    }
}

impl Default for WrittenSource {
    fn default() -> Self {
        Self::Plain(Source::default())
    }
}

impl FromStr for KubeVersion {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refuse = || {
            let problem = "write it as the cluster says it, such as \"1.33.2\"";
            ValueError::new(text, "version of Kubernetes", problem)
        };
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let numbers = numbers.split(['-', '+']).next().unwrap_or_default();
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| digits);
            number.ok_or_else(refuse)
        };
        let parts: Vec<u32> = numbers.split('.').map(number).collect::<Result<_, _>>()?;
        let (&[major, minor] | &[major, minor, _]) = &parts[..] else {
            return Err(refuse());
        };
        let patch = parts.get(2).copied();
        Ok(Self {
            major,
            minor,
            patch,
        })
    }
}

impl FromStr for ImageTemplate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.len() > MAX_TEMPLATE {
            return Err(ValueError::new(text, "image template", "it is too long"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ImageTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for WrittenSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let on_disk = ["file:", "oci:", "oci-archive:", "docker-archive:"];
        let on_disk = on_disk.iter().any(|prefix| text.starts_with(prefix));
        if text.contains(VARIABLE)
            && !on_disk
            && let Ok(template) = text.parse()
        {
            return Ok(Self::Template(template));
        }
        text.parse().map(Self::Plain)
    }
}

deserialized_from_text! {
    WrittenSource, "a string";
    ImageTemplate, "a string";
    KubeVersion, "a string";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(template: &str, version: Option<&str>) -> Result<String, String> {
        let version: Option<KubeVersion> = version.map(|version| version.parse().unwrap());
        let template: ImageTemplate = template.parse().unwrap();
        let source = template.resolve(version.as_ref())?;
        Ok(source.to_string())
    }

    #[test]
    fn parts_of_the_version_stand_where_their_names_stood() {
        let minor = "quay.io/a/b:v{kube_major_version}.{kube_minor_version}";
        let patch = "quay.io/a/b:{kube_minor_version}-{kube_patch_version}";
        for (template, version, wanted) in [
            (minor, "1.33.2", "quay.io/a/b:v1.33"),
            (minor, "v1.33", "quay.io/a/b:v1.33"),
            (minor, "v1.33.2+k3s1", "quay.io/a/b:v1.33"),
            (patch, "1.33.2-eks-1", "quay.io/a/b:33-2"),
        ] {
            assert_eq!(resolved(template, Some(version)).as_deref(), Ok(wanted));
        }
        assert!(
            resolved(minor, None)
                .unwrap_err()
                .contains("kube_version is not set")
        );
        let error = resolved(patch, Some("1.33")).unwrap_err();
        assert!(error.contains("{kube_patch_version}"), "{error}");
        let unknown = "quay.io/a/b:{kube_major_version}{ocp_version}";
        assert!(resolved(unknown, Some("1.33")).is_err());
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in [
            "",
            "1",
            "1.",
            "1.x",
            "1.2.3.4",
            "v",
            "-1.2",
            "1.+2",
            "99999999999.1",
        ] {
            assert!(text.parse::<KubeVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_plain_image_is_taken_when_the_template_gives_none() {
        let plain: WrittenSource = "quay.io/a/b:v1".parse().unwrap();
        let template = "quay.io/a/b:v{kube_major_version}".parse().unwrap();
        let version = "1.33.2".parse().unwrap();
        let (source, reason) = plain.resolve(Some(&template), None).unwrap();
        assert_eq!(source.to_string(), "quay.io/a/b:v1");
        assert!(reason.unwrap().contains("kube_version is not set"));
        for (template, problem) in [
            ("quay.io/a/b:v2", "it has none of {kube_major_version}"),
            ("quay.io/a/b:v{ocp_version}", "it has none of"),
            (
                "quay.io/a/b:v{kube_major_version}-{ocp_version}",
                "{ocp_version}",
            ),
        ] {
            let template: ImageTemplate = template.parse().unwrap();
            let (source, reason) = plain.resolve(Some(&template), Some(&version)).unwrap();
            assert_eq!(source.to_string(), "quay.io/a/b:v1");
            let reason = reason.unwrap();
            assert!(reason.contains(problem), "{template}: {reason}");
        }
        let without = "quay.io/a/c:{kube_minor_version}"
            .parse::<WrittenSource>()
            .unwrap();
        assert!(without.resolve(None, None).is_err());
        let (source, reason) = without.resolve(None, Some(&version)).unwrap();
        assert_eq!(
            (source.to_string().as_str(), reason),
            ("quay.io/a/c:33", None)
        );
        let file: WrittenSource = "file:{kube_minor_version}".parse().unwrap();
        assert!(matches!(file, WrittenSource::Plain(Source::File(_))));
    }
}
