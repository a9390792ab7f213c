//! The description of a bundle for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::manifest_objects;
use crate::object::MAX_LIST;
use crate::presentation::features::Features;
use crate::properties::{BundleObject, each_property};
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{fields, or_default};

/// The beginning of labels that state architectures.
const ARCHITECTURE: &str = "operatorframework.io/arch.";
/// The architecture of a bundle without such labels.
const DEFAULT_ARCHITECTURE: &str = "amd64";
/// The beginning of annotations that state features one by one.
const FEATURE: &str = "features.operators.openshift.io/";
/// The longest summary, in characters.
const SUMMARY: usize = 200;

/// The description of a bundle: from its `olm.csv.metadata`, or else from the
/// `ClusterServiceVersion` among its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Presentation {
    /// The name to display. The record that contains the presentation has a field
    /// of its own for it.
    #[serde(skip)]
    pub display_name: String,
    /// The short description among its annotations.
    #[serde(skip)]
    pub short: String,
    /// The whole description, in Markdown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Keywords to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Who provides it.
    #[serde(skip_serializing_if = "Link::is_empty")]
    pub provider: Link,
    /// Who maintains it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// Links to further documentation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Its maturity, in its author's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub maturity: String,
    /// The oldest Kubernetes it runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// The install modes that it supports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<String>,
    /// From the annotation `categories`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// From the annotation `capabilities`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub capabilities: String,
    /// From the annotation `repository`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repository: String,
    /// From the annotation `containerImage`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_image: String,
    /// From the annotation `createdAt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    /// From the annotation `support`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub support: String,
    /// The architectures that its labels state. Without such labels, `amd64`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// The supported features of the cluster, from two families of annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub infrastructure_features: Vec<String>,
    /// Features whose annotation is neither `true` nor `false`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unclear_features: Vec<String>,
    /// The subscriptions that it needs, from the annotation
    /// `operators.openshift.io/valid-subscription`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscriptions: Vec<String>,
    /// The namespace that its author suggests: that of the template, if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub suggested_namespace: String,
    /// The object that its author suggests for this namespace, from the annotation
    /// `operatorframework.io/suggested-namespace-template`.
    #[serde(skip)]
    pub namespace_template: NamespaceTemplate,
}

/// The labels and annotations of a suggested namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamespaceTemplate {
    /// The name of the namespace; empty without a template.
    pub name: String,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its annotations.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// A name with an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Link {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

fields!(Link { name = "name", url = "url" });

impl Link {
    fn is_empty(&self) -> bool {
        self.name.is_empty() && self.url.is_empty()
    }
}

/// A maintainer of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Maintainer {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
}

fields!(Maintainer { name = "name", email = "email" });

#[derive(Default)]
struct InstallMode {
    kind: String,
    supported: bool,
}

fields!(InstallMode { kind = "type", supported = "supported" });

impl Presentation {
    /// Reads the line of a bundle. Malformed values count as absent: reading the
    /// catalog reported them. `csv` is the `ClusterServiceVersion` among the objects
    /// if the caller has it; otherwise it is searched for.
    pub fn from_bundle(line: &[u8], csv: Option<&[u8]>) -> Self {
        let mut presentation = None;
        let mut objects = Vec::new();
        each_property(line, |kind, cursor| match kind {
            "olm.csv.metadata" if presentation.is_none() => {
                presentation = Some(Self::from_metadata(cursor));
            }
            "olm.bundle.object" if csv.is_none() && objects.len() < MAX_LIST => {
                let object: BundleObject<'_> = or_default(cursor);
                objects.push(object.data.0);
            }
            _ => {}
        });
        if let Some(presentation) = presentation {
            return presentation;
        }
        match csv {
            Some(csv) if manifest_objects::is_csv(csv) => Self::from_csv(csv),
            Some(_) => Self::default(),
            None => manifest_objects::find_csv(objects)
                .map(|csv| Self::from_csv(&csv))
                // Not every bundle has one.
                .unwrap_or_default(),
        }
    }

    /// The short description, or the beginning of `description`: the sentence or
    /// two that lists contain.
    pub fn summary(&self, description: &str) -> String {
        let text = if self.short.trim().is_empty() {
            description
                .split("\n\n")
                .map(|paragraph| paragraph.trim_start_matches(['#', ' ', '\n', '\r']))
                .find(|paragraph| !paragraph.trim().is_empty())
                .unwrap_or_default()
        } else {
            &self.short
        };
        shortened(text)
    }

    /// Reads a `ClusterServiceVersion`, given as canonical JSON.
    fn from_csv(json: &[u8]) -> Self {
        let mut presentation = Self::default();
        let (mut annotations, mut labels) = (None, None);
        Cursor::new(json).each_member(|key, cursor| match key {
            "metadata" => cursor.each_member(|key, cursor| match key {
                "annotations" => annotations = Some(*cursor),
                "labels" => labels = Some(*cursor),
                _ => {}
            }),
            "spec" => presentation = Self::from_metadata(cursor),
            _ => {}
        });
        if let Some(mut annotations) = annotations {
            presentation.annotations(&mut annotations);
        }
        if let Some(mut labels) = labels {
            presentation.architectures = architectures(&mut labels);
        }
        presentation
    }

    /// Reads the fields that the property and the `spec` of a
    /// `ClusterServiceVersion` have in common.
    fn from_metadata(cursor: &mut Cursor<'_>) -> Self {
        let mut presentation = Self::default();
        let mut modes: Vec<InstallMode> = Vec::new();
        presentation.architectures = vec![DEFAULT_ARCHITECTURE.to_owned()];
        cursor.each_member(|key, value| match key {
            "annotations" => presentation.annotations(value),
            "description" => presentation.description = or_default(value),
            "displayName" => presentation.display_name = or_default(value),
            "installModes" => modes = or_default(value),
            "labels" => presentation.architectures = architectures(value),
            "keywords" => presentation.keywords = or_default(value),
            "links" => presentation.links = or_default(value),
            "maintainers" => presentation.maintainers = or_default(value),
            "maturity" => presentation.maturity = or_default(value),
            "minKubeVersion" => presentation.min_kube_version = or_default(value),
            "provider" => presentation.provider = or_default(value),
            _ => {}
        });
        let supported = modes.into_iter().filter(|mode| mode.supported);
        presentation.install_modes = supported.map(|mode| mode.kind).collect();
        presentation
    }

    fn annotations(&mut self, cursor: &mut Cursor<'_>) {
        let mut features = Features::default();
        cursor.each_member(|key, value| match key {
            "description" => self.short = or_default(value),
            "categories" => {
                self.categories = or_default::<String>(value)
                    .split(',')
                    .map(|category| category.trim().to_owned())
                    .filter(|category| !category.is_empty())
                    .collect();
            }
            "capabilities" => self.capabilities = or_default(value),
            "repository" => self.repository = or_default(value),
            "containerImage" => self.container_image = or_default(value),
            "createdAt" => self.created_at = or_default(value),
            "support" => self.support = or_default(value),
            "operatorframework.io/suggested-namespace" => {
                self.suggested_namespace = or_default(value);
            }
            "operatorframework.io/suggested-namespace-template" => {
                self.namespace_template = template(&or_default::<String>(value));
            }
            "operators.openshift.io/valid-subscription" => {
                self.subscriptions = listed(&or_default::<String>(value));
            }
            "operators.openshift.io/infrastructure-features" => {
                features.list(&listed(&or_default::<String>(value)));
            }
            _ => {
                if let Some(feature) = key.strip_prefix(FEATURE) {
                    features.state(feature, &or_default::<String>(value));
                }
            }
        });
        // The console of OpenShift prefers the template, too.
        if !self.namespace_template.name.is_empty() {
            self.suggested_namespace
                .clone_from(&self.namespace_template.name);
        }
        self.infrastructure_features = features.supported();
        self.unclear_features = features.unclear();
    }
}

/// The supported architectures among labels, sorted (package-server of Operator
/// Lifecycle Manager, `pkg/package-server/provider/labels.go`).
fn architectures(labels: &mut Cursor<'_>) -> Vec<String> {
    let mut found = Vec::new();
    labels.each_member(|key, value| {
        let supported = or_default::<String>(value) == "supported";
        if let Some(name) = key.strip_prefix(ARCHITECTURE)
            && supported
            && found.len() < MAX_LIST
        {
            found.push(name.to_owned());
        }
    });
    if found.is_empty() {
        found.push(DEFAULT_ARCHITECTURE.to_owned());
    }
    found.sort();
    found
}

/// The namespace of a template. One that is no `Namespace` as JSON counts as absent.
fn template(text: &str) -> NamespaceTemplate {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        kind: String,
        metadata: NamespaceTemplate,
    }
    let read = serde_json::from_str::<Template>(text).ok();
    let read = read.filter(|one| one.kind.is_empty() || one.kind == "Namespace");
    read.unwrap_or_default().metadata
}

/// The strings of a JSON list. Other text is an item of its own.
fn listed(text: &str) -> Vec<String> {
    let items = serde_json::from_str::<Vec<String>>(text);
    let mut items = items.unwrap_or_else(|_| vec![text.trim().to_owned()]);
    items.retain(|item| !item.is_empty());
    items.truncate(MAX_LIST);
    items
}

/// A text on one line, cut to the length of a summary.
fn shortened(text: &str) -> String {
    let mut short = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if count + length + usize::from(count > 0) > SUMMARY {
            if short.is_empty() {
                short = word.chars().take(SUMMARY).collect();
            }
            short.push('…');
            return short;
        }
        if count > 0 {
            short.push(' ');
            count += 1;
        }
        short.push_str(word);
        count += length;
    }
    short
}
