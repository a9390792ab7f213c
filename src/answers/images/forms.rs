//! Lists of images in the forms that copying tools read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::answers::images::mirror_paths::{FormError, MirrorPaths, TakenPaths};
use crate::answers::images::records::{ImageListRecord, ImageRecord};
use ::images::reference::{split_scheme, without_user};
use fbc::image_list::{ImageList, ImageVersion};
use fbc::text::yaml;

/// A form of a list, for flags and for URLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One image per line; also called name
    #[default]
    #[value(alias = "name", alias = "table")]
    List,
    /// One object, with the reason for each image
    Json,
    /// The same object as YAML
    Yaml,
    /// One line of JSON per image
    Jsonl,
    /// SOURCE=DESTINATION lines for `oc image mirror --filename`
    Mapping,
    /// YAML for `skopeo sync --src yaml`
    Skopeo,
    /// An `ImageSetConfiguration` for oc-mirror
    ImageSet,
}

impl FromStr for Form {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let found = <Self as ValueEnum>::from_str(text, false);
        found.map_err(|_| FormError::Unknown(text.chars().take(100).collect()))
    }
}

impl Form {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::List | Self::Mapping => "text/plain; charset=utf-8",
            Self::Json => "application/json",
            Self::Jsonl => "application/jsonl",
            Self::Yaml | Self::Skopeo | Self::ImageSet => "application/yaml",
        }
    }

    /// Writes a list. `to` is the destination of a mapping: a registry, with or
    /// without a path.
    pub fn write(self, list: &ImageList, to: Option<&str>) -> Result<Vec<u8>, FormError> {
        let images = list.images.iter();
        Ok(match self {
            Self::List => {
                let mut text = String::new();
                for image in images {
                    text.push_str(&image.pull_spec());
                    text.push('\n');
                }
                text.into_bytes()
            }
            Self::Mapping => {
                let to = destination(to.ok_or(FormError::NoDestination)?)?;
                let (paths, mut taken) = (MirrorPaths::of(list), TakenPaths::default());
                let mut text = String::new();
                for image in images {
                    let path = paths.path(image);
                    taken.take(&path, image)?;
                    // Many registries delete manifests without a tag.
                    let tag = match &image.version {
                        ImageVersion::Tag(tag) => tag,
                        ImageVersion::Digest(digest) => digest
                            .split_once(':')
                            .map_or(digest.as_str(), |(_, hex)| hex),
                    };
                    let source = image.pull_spec();
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "{source}={to}/{path}:{tag}");
                }
                text.into_bytes()
            }
            Self::Json => {
                let mut bytes = json_of(list).to_string().into_bytes();
                bytes.push(b'\n');
                bytes
            }
            Self::Yaml => yaml_of(&json_of(list)),
            Self::Jsonl => {
                let lines = images.map(|one| format!("{}\n", json!(ImageRecord::new(one))));
                lines.collect::<String>().into_bytes()
            }
            Self::Skopeo => yaml_of(&skopeo(list)),
            Self::ImageSet => {
                let images: Vec<Value> = images
                    .map(|image| json!({ "name": image.pull_spec() }))
                    .collect();
                yaml_of(&json!({
                    "apiVersion": "mirror.openshift.io/v2alpha1",
                    "kind": "ImageSetConfiguration",
                    "mirror": { "additionalImages": images },
                }))
            }
        })
    }
}

/// A registry with a path, without the slash at its end.
fn destination(text: &str) -> Result<&str, FormError> {
    let to = text.trim_end_matches('/');
    if is_destination(to) {
        return Ok(to);
    }
    let remedy = match split_scheme(to) {
        Some((scheme, rest)) if is_destination(rest) => {
            format!("drop {scheme}:// and write {rest}")
        }
        _ => "write it like mirror.example.com:5000/path".to_owned(),
    };
    Err(FormError::Destination {
        text: without_user(text).chars().take(100).collect(),
        remedy,
    })
}

fn is_destination(text: &str) -> bool {
    let (host, _) = text.split_once('/').unwrap_or((text, ""));
    // Otherwise the first part would belong to a repository of docker.io.
    let is_host = host == "localhost" || host.contains(['.', ':']);
    is_host && fbc::pullspec::check(&format!("{text}/a")).is_ok()
}

/// The record of a list. The fields of its objects are sorted by name.
fn json_of(list: &ImageList) -> Value {
    json!(ImageListRecord::new(list))
}

/// By registry, then by repository: tags and digests.
fn skopeo(list: &ImageList) -> Value {
    let mut registries: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for image in &list.images {
        let (ImageVersion::Digest(version) | ImageVersion::Tag(version)) = &image.version;
        let repositories = registries.entry(&image.registry).or_default();
        repositories
            .entry(&image.repository)
            .or_default()
            .push(version);
    }
    let registries = registries.into_iter().map(|(registry, images)| {
        let images = json!({ "images": images });
        (registry.to_owned(), images)
    });
    Value::Object(registries.collect())
}

fn yaml_of(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    yaml::from_json(value.to_string().as_bytes(), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fbc::select::Reason;
    use fbc::select::{Selected, SelectedBundle, SelectedPackage};

    fn bundle(name: &str, line: &str) -> SelectedBundle {
        SelectedBundle {
            name: name.into(),
            version: "1.0.0".into(),
            line: line.to_owned().into(),
            channels: vec![("stable".into(), Reason::Head)],
        }
    }

    fn list() -> ImageList {
        let digest = "0".repeat(64);
        let one = format!(
            r#"{{"image":"quay.io/a/bundle@sha256:{digest}","relatedImages":[{{"image":"busybox","name":"box"}},
            {{"image":"docker.io/library/busybox:latest","name":""}},{{"image":"quay.io/a/b:v1","name":"b"}},
            {{"image":"quay.io/A","name":"bad"}},{{"image":"","name":"none"}},
            {{"image":"quay.io/a/bundle:v1@sha256:{digest}","name":"self"}}]}}"#
        )
        .replace("\n            ", "");
        let two = r#"{"image":"quay.io/a/bundle:v2","relatedImages":[{"image":"quay.io/a/b:v1","name":"b"}]}"#;
        let selected = |bundles| Selected {
            packages: vec![SelectedPackage {
                name: "a".into(),
                catalog: "c".into(),
                lines: Vec::new(),
                bundles,
            }],
            ..Selected::default()
        };
        // The second one has a bundle of the first for another channel.
        let mut again = bundle("a.v2", two);
        again.channels = vec![("edge".into(), Reason::InRange)];
        ImageList::from_selections([
            &selected(vec![bundle("a.v1", &one), bundle("a.v2", two)]),
            &selected(vec![again]),
        ])
    }

    #[test]
    fn a_registry_that_begins_with_a_scheme_is_refused_with_one_that_is_taken() {
        let refused = |to: &str| {
            let error = Form::Mapping.write(&ImageList::default(), Some(to));
            error.unwrap_err().to_string()
        };
        let error = refused("docker://m.example:5000/ops/");
        let said = "drop docker:// and write m.example:5000/ops";
        assert!(error.ends_with(said), "{error}");
        for to in ["docker://", "docker://ops"] {
            let error = refused(to);
            assert!(error.ends_with("mirror.example.com:5000/path"), "{error}");
        }
    }

    #[test]
    fn each_tool_gets_its_form() {
        let list = list();
        let written = |form: Form| {
            let bytes = form
                .write(&list, Some("mirror.example.com:5000/ops"))
                .unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let digest = "0".repeat(64);
        assert_eq!(written(Form::List).lines().count(), 4);
        assert_eq!(
            written(Form::Mapping),
            format!(
                "docker.io/library/busybox:latest=mirror.example.com:5000/ops/library/busybox:latest\n\
                 quay.io/a/b:v1=mirror.example.com:5000/ops/a/b:v1\n\
                 quay.io/a/bundle@sha256:{digest}=mirror.example.com:5000/ops/a/bundle:{digest}\n\
                 quay.io/a/bundle:v2=mirror.example.com:5000/ops/a/bundle:v2\n"
            )
        );
        let skopeo = written(Form::Skopeo);
        assert!(skopeo.contains("quay.io:"), "{skopeo}");
        assert!(skopeo.contains(&format!("sha256:{digest}")), "{skopeo}");
        let set = written(Form::ImageSet);
        assert!(set.contains("kind: ImageSetConfiguration"), "{set}");
        let json: serde_json::Value = serde_json::from_str(&written(Form::Json)).unwrap();
        let yaml = written(Form::Yaml);
        assert!(
            yaml.contains("\ndigests: 1\n") || yaml.starts_with("digests: 1\n"),
            "{yaml}"
        );
        let lines = written(Form::Jsonl);
        let lines = lines.lines().map(serde_json::from_str);
        let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
        assert_eq!(Value::from(lines), json["images"]);
        for alias in ["name", "table"] {
            assert_eq!(alias.parse(), Ok(Form::List));
        }
        assert_eq!(json["digests"], 1);
        assert_eq!(json["tags"], 3);
        assert_eq!(json["images"][1]["kind"], "tag");
        assert_eq!(json["images"][2]["reasons"][0]["role"], "bundle");
        assert_eq!(
            json["images"][2]["reasons"][0]["channels"][0]["reason"],
            "head"
        );
        assert!(Form::Mapping.write(&list, None).is_err());
    }
}
