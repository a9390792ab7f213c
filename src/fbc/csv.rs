//! The ClusterServiceVersion that is made for a bundle from its
//! `olm.csv.metadata` property.
//!
//! The peers read the property into typed fields and write those into a
//! ClusterServiceVersion, so unknown fields fall away and empty ones are left
//! out; the types below say which. The install strategy must be there although
//! it is empty: OLM's packageserver crashes on related images without one.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::typed::{Text, Texts, nullable};

/// The value of an `olm.csv.metadata` property.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsvMetadata<'a> {
    #[serde(borrow)]
    annotations: Texts<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    api_service_definitions: ApiServices<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    crd_descriptions: Crds<'a>,
    #[serde(borrow)]
    description: Text<'a>,
    #[serde(borrow)]
    display_name: Text<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    install_modes: Vec<InstallMode<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    keywords: Vec<Text<'a>>,
    #[serde(borrow)]
    labels: Texts<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    links: Vec<Link<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    maintainers: Vec<Maintainer<'a>>,
    #[serde(borrow)]
    maturity: Text<'a>,
    #[serde(borrow)]
    min_kube_version: Text<'a>,
    #[serde(borrow, rename = "nativeAPIs", deserialize_with = "nullable")]
    native_apis: Vec<NativeApi<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    provider: Link<'a>,
}

/// A related image of a bundle.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct RelatedImage<'a> {
    /// What it is for.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// Its pull spec.
    #[serde(borrow)]
    pub image: Text<'a>,
}

/// Appends the ClusterServiceVersion's JSON text up to where the package's
/// part begins (see [`put_end`]). Returns whether it has a description.
pub fn put_made(
    out: &mut Vec<u8>,
    bundle: &str,
    version: &str,
    related_images: &[RelatedImage<'_>],
    metadata: &CsvMetadata<'_>,
) -> bool {
    out.extend_from_slice(
        br#"{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":"#,
    );
    put_json(
        out,
        &ObjectMeta {
            name: bundle,
            annotations: &metadata.annotations,
            labels: &metadata.labels,
        },
    );
    out.extend_from_slice(br#","status":{"cleanup":{}},"spec":"#);
    put_json(
        out,
        &Spec {
            install: Install {
                strategy: "deployment",
                spec: InstallSpec { deployments: None },
            },
            version,
            maturity: &metadata.maturity,
            customresourcedefinitions: &metadata.crd_descriptions,
            apiservicedefinitions: &metadata.api_service_definitions,
            native_apis: &metadata.native_apis,
            min_kube_version: &metadata.min_kube_version,
            display_name: &metadata.display_name,
            description: &metadata.description,
            keywords: &metadata.keywords,
            maintainers: &metadata.maintainers,
            provider: &metadata.provider,
            links: &metadata.links,
            install_modes: &metadata.install_modes,
            cleanup: Cleanup { enabled: false },
            related_images,
        },
    );
    // The package's part goes on inside `spec`.
    out.pop();
    !metadata.description.is_empty()
}

/// Appends the part that a package brings, and the end of the text.
pub fn put_end(out: &mut Vec<u8>, icon: Option<&Icon<'_>>, description: Option<&str>) {
    if let Some(icon) = icon {
        out.extend_from_slice(br#","icon":["#);
        put_json(out, icon);
        out.push(b']');
    }
    if let Some(description) = description.filter(|text| !text.is_empty()) {
        out.extend_from_slice(br#","description":"#);
        put_json(out, &description);
    }
    out.extend_from_slice(b"}}");
}

fn put_json(out: &mut Vec<u8>, value: &impl Serialize) {
    // Writing these types to memory cannot fail: no maps with odd keys, no I/O.
    let _ = serde_json::to_writer(out, value);
}

/// A package's icon, as `olm.package` and a ClusterServiceVersion have it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Icon<'a> {
    /// The picture, in base64.
    #[serde(borrow)]
    pub base64data: Text<'a>,
    /// Its media type.
    #[serde(borrow)]
    pub mediatype: Text<'a>,
}

#[derive(Serialize)]
struct ObjectMeta<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Texts::is_empty")]
    annotations: &'a Texts<'a>,
    #[serde(skip_serializing_if = "Texts::is_empty")]
    labels: &'a Texts<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    install: Install,
    version: &'a str,
    #[serde(skip_serializing_if = "Text::is_empty")]
    maturity: &'a Text<'a>,
    customresourcedefinitions: &'a Crds<'a>,
    apiservicedefinitions: &'a ApiServices<'a>,
    #[serde(rename = "nativeAPIs", skip_serializing_if = "<[_]>::is_empty")]
    native_apis: &'a [NativeApi<'a>],
    #[serde(skip_serializing_if = "Text::is_empty")]
    min_kube_version: &'a Text<'a>,
    display_name: &'a Text<'a>,
    #[serde(skip_serializing_if = "Text::is_empty")]
    description: &'a Text<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    keywords: &'a [Text<'a>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    maintainers: &'a [Maintainer<'a>],
    provider: &'a Link<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    links: &'a [Link<'a>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    install_modes: &'a [InstallMode<'a>],
    cleanup: Cleanup,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    related_images: &'a [RelatedImage<'a>],
}

#[derive(Serialize)]
struct Install {
    strategy: &'static str,
    spec: InstallSpec,
}

#[derive(Serialize)]
struct InstallSpec {
    deployments: Option<()>,
}

#[derive(Serialize)]
struct Cleanup {
    enabled: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Crds<'a> {
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    owned: Vec<Crd<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    required: Vec<Crd<'a>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Crd<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    display_name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Resource<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    status_descriptors: Vec<Descriptor<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    spec_descriptors: Vec<Descriptor<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    action_descriptors: Vec<Descriptor<'a>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ApiServices<'a> {
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    owned: Vec<ApiService<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    required: Vec<ApiService<'a>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiService<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    deployment_name: Text<'a>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_zero")]
    container_port: i32,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    display_name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Resource<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    status_descriptors: Vec<Descriptor<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    spec_descriptors: Vec<Descriptor<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    action_descriptors: Vec<Descriptor<'a>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Resource<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Descriptor<'a> {
    #[serde(borrow)]
    path: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    display_name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    #[serde(
        borrow,
        rename = "x-descriptors",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    x_descriptors: Vec<Text<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct InstallMode<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    supported: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Link<'a> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    url: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Maintainer<'a> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    email: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct NativeApi<'a> {
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::typed::object;
    use super::*;

    fn made(metadata: &str, end: impl FnOnce(&mut Vec<u8>, bool)) -> Value {
        let metadata: CsvMetadata<'_> = object(metadata).unwrap();
        let mut out = Vec::new();
        let described = put_made(&mut out, "a.v1", "1.0.0", &[], &metadata);
        end(&mut out, described);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_empty_property_makes_the_least_that_clients_can_read() {
        let made = made("{}", |out, described| {
            assert!(!described);
            put_end(out, None, None);
        });
        assert_eq!(
            made,
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "ClusterServiceVersion",
                "metadata": {"name": "a.v1"},
                "status": {"cleanup": {}},
                "spec": {
                    "install": {"strategy": "deployment", "spec": {"deployments": null}},
                    "version": "1.0.0",
                    "customresourcedefinitions": {},
                    "apiservicedefinitions": {},
                    "displayName": "",
                    "provider": {},
                    "cleanup": {"enabled": false},
                },
            })
        );
    }

    #[test]
    fn known_fields_are_kept_and_unknown_ones_fall_away() {
        let made = made(
            r#"{"annotations":{"a":"b","n":null},"crdDescriptions":{"owned":[{"kind":"A","specDescriptors":[{"path":"p","value":{"x":1},"zz":1}]}]},
                "description":"d\n","installModes":[{"type":"OwnNamespace","supported":true}],"provider":null,"zz":1}"#,
            |out, described| {
                assert!(described);
                let icon = Icon { base64data: Text("AA==".into()), mediatype: Text("image/png".into()) };
                put_end(out, Some(&icon), None);
            },
        );
        assert_eq!(made["metadata"]["annotations"], json!({"a": "b", "n": ""}));
        assert_eq!(
            made["spec"]["customresourcedefinitions"]["owned"],
            json!([{"name": "", "version": "", "kind": "A", "specDescriptors": [{"path": "p", "value": {"x": 1}}]}])
        );
        assert_eq!(made["spec"]["description"], "d\n");
        assert_eq!(made["spec"]["icon"], json!([{"base64data": "AA==", "mediatype": "image/png"}]));
        assert_eq!(made["spec"].get("zz"), None);
    }

    #[test]
    fn a_field_of_another_type_is_refused() {
        assert!(object::<CsvMetadata<'_>>(r#"{"installModes":"all"}"#).is_err());
        assert!(object::<CsvMetadata<'_>>(r#"["a"]"#).is_err());
    }
}
