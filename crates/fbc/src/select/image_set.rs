//! The operators of an `ImageSetConfiguration`, as oc-mirror v2 reads it.
//!
//! Settings of the target (`targetCatalog` and the like) have no effect here, and
//! neither has anything outside `mirror.operators`.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::select::request::{
    ChannelSelection, PackageSelection, RequestError, Selection, VersionRange,
};
use crate::text::yaml;

/// The only version of the format that is read.
const VERSION: &str = "mirror.openshift.io/v2alpha1";

/// One of `mirror.operators`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operators {
    /// The catalog, as it was written.
    pub catalog: String,
    /// Its selected part; from no catalog yet.
    pub selection: Selection,
}

/// Why a file is no `ImageSetConfiguration` that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageSetError {
    /// It is no YAML.
    #[error("it is no YAML: {0}")]
    Yaml(#[from] yaml::YamlError),
    /// It is a list, a text or a number.
    #[error("it is no ImageSetConfiguration: it has no fields")]
    NoFields,
    /// It has other fields, or other values.
    #[error("it is no ImageSetConfiguration: {0}{1}")]
    Shape(String, &'static str),
    /// It is something else, or another version.
    #[error("it is {0:?}; write kind: ImageSetConfiguration and apiVersion: {VERSION}")]
    Version(String),
    /// There is nothing to select.
    #[error("it has no mirror.operators; add a catalog there")]
    NoOperators,
    /// A catalog without a name.
    #[error("one of its mirror.operators names no catalog; write catalog: IMAGE")]
    NoCatalog,
    /// Fields that version 2 no longer has.
    #[error(
        "the package {0:?} selects single bundles, which version 2 does not have; \
         write minVersion and maxVersion instead"
    )]
    Bundles(String),
    /// An invalid selection.
    #[error(transparent)]
    Request(#[from] RequestError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageSet {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    mirror: Mirror,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Mirror {
    operators: Vec<WrittenOperators>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WrittenOperators {
    catalog: String,
    full: bool,
    packages: Vec<WrittenPackage>,
    // Fields without effect. In camel case a name loses its underscores.
    _target_catalog: IgnoredAny,
    _target_tag: IgnoredAny,
    _target_catalog_source_template: IgnoredAny,
    _skip_dependencies: IgnoredAny,
    _platforms: IgnoredAny,
    _original_ref: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WrittenPackage {
    name: String,
    default_channel: String,
    channels: Vec<WrittenChannel>,
    min_version: String,
    max_version: String,
    #[serde(alias = "selectedBundles")]
    bundles: Vec<IgnoredAny>,
    min_bundle: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WrittenChannel {
    name: String,
    min_version: String,
    max_version: String,
    min_bundle: String,
}

/// Reads the operators of a file.
pub fn read(file: &[u8]) -> Result<Vec<Operators>, ImageSetError> {
    let mut json = Vec::new();
    if let Some(document) = yaml::documents(file).next() {
        yaml::to_json(document.bytes, &yaml::Limits::default(), &mut json)?;
    }
    let shape = |error: serde_json::Error| {
        // 4.10 without quotes is the number 4.1.
        let text = error.to_string();
        // The position is one of the converted text, which nobody has.
        let text = text
            .split(" at line ")
            .next()
            .unwrap_or_default()
            .to_owned();
        let hint = if text.contains("expected a string") {
            "; write versions and names in quotes"
        } else {
            ""
        };
        ImageSetError::Shape(text, hint)
    };
    if json.is_empty() {
        return Err(ImageSetError::Version(String::new()));
    }
    // A list would be taken for the fields in their order.
    if json.first() != Some(&b'{') {
        return Err(ImageSetError::NoFields);
    }
    let set: ImageSet = serde_json::from_slice(&json).map_err(shape)?;
    if set.kind != "ImageSetConfiguration" || set.api_version != VERSION {
        let found = format!("{} {}", set.kind, set.api_version);
        return Err(ImageSetError::Version(found.trim().to_owned()));
    }
    if set.mirror.operators.is_empty() {
        return Err(ImageSetError::NoOperators);
    }
    set.mirror.operators.into_iter().map(operators).collect()
}

fn operators(written: WrittenOperators) -> Result<Operators, ImageSetError> {
    if written.catalog.is_empty() {
        return Err(ImageSetError::NoCatalog);
    }
    let packages = written.packages.into_iter().map(package);
    Ok(Operators {
        catalog: written.catalog,
        selection: Selection {
            from: Vec::new(),
            full: written.full,
            packages: packages.collect::<Result<_, _>>()?,
        },
    })
}

fn package(written: WrittenPackage) -> Result<PackageSelection, ImageSetError> {
    let mut single = written.channels.iter().map(|channel| &channel.min_bundle);
    if !written.bundles.is_empty()
        || !written.min_bundle.is_empty()
        || single.any(|bundle| !bundle.is_empty())
    {
        return Err(ImageSetError::Bundles(written.name));
    }
    let channels = written.channels.into_iter().map(|channel| {
        Ok(ChannelSelection {
            range: VersionRange::new(&channel.min_version, &channel.max_version)?,
            name: channel.name,
        })
    });
    Ok(PackageSelection {
        channels: channels.collect::<Result<_, RequestError>>()?,
        range: VersionRange::new(&written.min_version, &written.max_version)?,
        name: written.name,
        default_channel: written.default_channel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";

    fn refused(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn an_error_has_no_position_of_the_converted_text() {
        let error = refused(&format!("{HEAD}mirror:\n  operators: 7\n"));
        assert!(error.contains("expected a sequence"), "{error}");
        assert!(
            !error.contains("line") && !error.contains("column"),
            "{error}"
        );
    }

    #[test]
    fn the_operators_are_read_as_they_stand() {
        let text = format!(
            "{HEAD}archiveSize: 4\nmirror:\n  platform:\n    graph: true\n  operators:\n  - catalog: quay.io/a/b:v1\n    \
             targetCatalog: mine/b\n    packages:\n    - name: etcd\n      defaultChannel: stable\n      \
             channels:\n      - name: stable\n        minVersion: 1.2.3\n        maxVersion: '2.0.0'\n  \
             - catalog: oci:///a\n    full: true\n  additionalImages:\n  - name: quay.io/x/y:z\n"
        );
        let found = read(text.as_bytes()).unwrap();
        let channel = ChannelSelection {
            name: "stable".into(),
            range: VersionRange::new("1.2.3", "2.0.0").unwrap(),
        };
        let package = PackageSelection {
            name: "etcd".into(),
            default_channel: "stable".into(),
            channels: vec![channel],
            range: VersionRange::default(),
        };
        let selection = |full, packages| Selection {
            from: Vec::new(),
            full,
            packages,
        };
        let operators = |catalog: &str, selection| Operators {
            catalog: catalog.into(),
            selection,
        };
        assert_eq!(
            found,
            [
                operators("quay.io/a/b:v1", selection(false, vec![package])),
                operators("oci:///a", selection(true, Vec::new())),
            ]
        );
    }

    #[test]
    fn what_is_no_image_set_says_what_to_write() {
        let operators = |text: &str| {
            format!("{HEAD}mirror:\n  operators:\n  - catalog: quay.io/a/b:v1\n{text}")
        };
        for (text, wanted) in [
            (String::new(), "write kind"),
            ("- a".into(), "no ImageSetConfiguration"),
            ("a: [".into(), "no YAML"),
            (HEAD.replace("v2alpha1", "v1alpha2"), "write kind"),
            (HEAD.to_owned(), "mirror.operators"),
            (
                format!("{HEAD}mirror:\n  operators:\n  - full: true\n"),
                "catalog: IMAGE",
            ),
            (operators("    package: []\n"), "unknown field `package`"),
            (
                operators("    packages:\n    - name: a\n      minVersion: 4.10\n"),
                "in quotes",
            ),
            (
                operators("    packages:\n    - name: a\n      minVersion: latest\n"),
                "\"latest\"",
            ),
            (
                operators("    packages:\n    - name: a\n      bundles:\n      - name: b\n"),
                "single bundles",
            ),
        ] {
            let error = refused(&text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
