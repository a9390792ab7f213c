//! The `ClusterServiceVersion` that is made for a bundle from its
//! `olm.csv.metadata` property.
//!
//! Most of its text stands in the bundle's canonical line already, so it is
//! put together of pieces of that line, of fixed pieces, and of little that is
//! written for the bundle. The install strategy must be there although it is
//! empty: OLM's packageserver crashes on related images without one.

use crate::message::{Part, Span};
use crate::text::json::cursor::Walk;
use crate::text::json::shape::{Checked, Field, Mismatch, Shape};
use crate::text::json::typed::{Text, fields};
use crate::text::json::write::write_string;
use crate::text::json::{folded, shape};

/// A made text, but for the end that the package brings (see [`put_end`]).
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) parts: Vec<Part>,
    /// Whether it has a description.
    pub(crate) described: bool,
}

/// Pieces that are the same in all made texts. A [`Part::Fixed`] names one by
/// its place here, so new ones go to the end, and a change of old ones needs
/// another format of the store.
pub const FIXED: [&str; 17] = [
    r#"{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","status":{"cleanup":{}},"metadata":{"name":"#,
    r#","annotations":"#,
    r#","labels":"#,
    r#"},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"cleanup":{"enabled":false},"version":"#,
    r#","apiservicedefinitions":"#,
    r#","customresourcedefinitions":"#,
    r#","description":"#,
    r#","displayName":"#,
    r#","installModes":"#,
    r#","keywords":"#,
    r#","links":"#,
    r#","maintainers":"#,
    r#","maturity":"#,
    r#","minKubeVersion":"#,
    r#","nativeAPIs":"#,
    r#","provider":"#,
    r#","relatedImages":"#,
];
const HEAD: u8 = 0;
const ANNOTATIONS: u8 = 1;
const LABELS: u8 = 2;
const SPEC: u8 = 3;
const RELATED_IMAGES: u8 = 16;

/// The fields of `spec`, in the order of their keys in the property, the
/// fixed piece that names each, and whether the name is the property's own, so
/// that neighbours can be taken in one piece.
const SPEC_FIELDS: [(&str, u8, bool); 12] = [
    ("apiServiceDefinitions", 4, false),
    ("crdDescriptions", 5, false),
    ("description", 6, true),
    ("displayName", 7, true),
    ("installModes", 8, true),
    ("keywords", 9, true),
    ("links", 10, true),
    ("maintainers", 11, true),
    ("maturity", 12, true),
    ("minKubeVersion", 13, true),
    ("nativeAPIs", 14, true),
    ("provider", 15, true),
];

/// A bundle's line, and where in it the pieces are looked for.
pub(crate) struct Line<'a> {
    /// All lines that were read so far, this one at the end.
    pub(crate) lines: &'a [u8],
}

impl Line<'_> {
    /// Where a slice of the lines lies in them.
    fn span(&self, slice: &[u8]) -> Span {
        Span {
            start: (slice.as_ptr() as usize - self.lines.as_ptr() as usize) as u64,
            length: slice.len() as u32,
        }
    }
}

/// An `olm.csv.metadata` value that has the right type: its known fields.
#[derive(Debug, Default)]
pub(crate) struct Metadata<'a>(Vec<Member<'a>>);

#[derive(Debug)]
struct Member<'a> {
    field: &'static Field,
    value: &'a [u8],
    /// What stands before it under keys that differ in case.
    earlier: Vec<&'a [u8]>,
    checked: Checked,
}

impl<'a> Member<'a> {
    /// All that is said of the field, in order.
    fn values(&self) -> Vec<&'a [u8]> {
        [&self.earlier[..], &[self.value]].concat()
    }
}

/// Checks the `olm.csv.metadata` value at `walk` against its type.
pub(crate) fn check<'a>(walk: &mut Walk<'a>) -> Result<Metadata<'a>, Mismatch> {
    let mut members: Vec<Member<'a>> = Vec::with_capacity(CSV_METADATA.len());
    match walk.peek() {
        Some(b'{') => walk.step(),
        Some(b'n') => {
            walk.skip();
            return Ok(Metadata::default());
        }
        _ => return Err("must be an object".into()),
    }
    let mut next = 0;
    while let Some(key) = walk.next_key() {
        let name = &key[1..key.len() - 1];
        let Some((number, exactly)) = folded::find(&CSV_METADATA, name, next) else {
            walk.skip();
            continue;
        };
        next = number + 1;
        let field = &CSV_METADATA[number];
        let start = walk.position();
        let mut checked =
            shape::check(&field.shape, walk).map_err(|error| shape::within(key, &error))?;
        // Under another key it cannot be taken with its neighbours.
        checked.same &= exactly;
        let value = walk.since(start);
        let Some(member) = members
            .iter_mut()
            .find(|known| known.field.name == field.name)
        else {
            members.push(Member {
                field,
                value,
                earlier: Vec::new(),
                checked,
            });
            continue;
        };
        let before = std::mem::replace(&mut member.value, value);
        member.earlier.push(before);
    }
    for member in &mut members {
        if !member.earlier.is_empty() {
            member.checked =
                folded::check(&member.field.shape, &member.values()).map_err(|error| {
                    shape::within(format!("{:?}", member.field.name).as_bytes(), &error)
                })?;
        }
    }
    Ok(Metadata(members))
}

/// Makes the text for a bundle. What is not in its line is appended to
/// `messages`; the values of `metadata` and `related_images` are slices of the
/// line.
pub(crate) fn make(
    line: &Line<'_>,
    name: &str,
    version: &str,
    metadata: &Metadata<'_>,
    related_images: &RelatedImages<'_>,
    messages: &mut Vec<u8>,
) -> Made {
    let mut maker = Maker {
        line,
        parts: Vec::with_capacity(24),
        messages,
    };
    let member = |key: &str| metadata.0.iter().find(|member| member.field.name == key);
    maker.parts.push(Part::Fixed(HEAD));
    maker.text(name);
    for (key, fixed) in [("annotations", ANNOTATIONS), ("labels", LABELS)] {
        if let Some(member) = member(key) {
            maker.field(fixed, member, true, None);
        }
    }
    maker.parts.push(Part::Fixed(SPEC));
    maker.text(version);
    let mut described = false;
    // The last field taken, when another may follow it in the same piece.
    let mut last = None;
    for (key, fixed, same_name) in SPEC_FIELDS {
        // What Go leaves out of the property when it is empty, but not here.
        let kept = matches!(
            key,
            "apiServiceDefinitions" | "crdDescriptions" | "displayName" | "provider"
        );
        let taken = match member(key) {
            Some(member) => {
                let joined = last.filter(|_| same_name).zip(Some(key));
                maker.field(fixed, member, !kept, joined)
            }
            None if kept => {
                maker.parts.push(Part::Fixed(fixed));
                maker.zero(key);
                None
            }
            None => None,
        };
        described |= key == "description" && taken.is_some();
        if let Some(taken) = taken {
            last = taken.end.filter(|_| same_name);
        }
    }
    if let Some(mut walk) = related_images.value
        && let Ok(checked) = related_images.check(&mut walk)
    {
        let images = Member {
            field: &RELATED,
            value: walk.since(0),
            earlier: Vec::new(),
            checked,
        };
        maker.field(RELATED_IMAGES, &images, true, None);
    }
    Made {
        parts: maker.parts,
        described,
    }
}

struct Maker<'a, 'b> {
    line: &'a Line<'b>,
    parts: Vec<Part>,
    messages: &'a mut Vec<u8>,
}

/// A field that was written.
#[derive(Clone, Copy)]
struct Taken {
    /// Where it ends in the lines, when it was taken from there.
    end: Option<u64>,
}

impl Maker<'_, '_> {
    /// Writes a text of the bundle's own.
    fn text(&mut self, text: &str) {
        self.own(|messages| write_string(messages, text));
    }

    /// Writes the zero value of a field.
    fn zero(&mut self, key: &str) {
        if let Some(field) = CSV_METADATA.iter().find(|field| field.name == key) {
            self.own(|messages| shape::write_zero(&field.shape, messages));
        }
    }

    fn own(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.messages.len();
        write(self.messages);
        self.parts
            .push(Part::Messages(Span::since(self.messages, start)));
    }

    /// Writes a field. `joined` is where the field before it ended, and this
    /// one's key: when only a comma and the key stand between them, both are
    /// one piece.
    fn field(
        &mut self,
        fixed: u8,
        member: &Member<'_>,
        omitted: bool,
        joined: Option<(u64, &str)>,
    ) -> Option<Taken> {
        let Checked { same, empty } = member.checked;
        if empty && omitted {
            return None;
        }
        if !same {
            self.parts.push(Part::Fixed(fixed));
            let shape = &member.field.shape;
            self.own(|messages| match &member.earlier[..] {
                [] => shape::write(shape, member.value, messages),
                _ => folded::write(shape, &member.values(), messages),
            });
            return Some(Taken { end: None });
        }
        let span = self.line.span(member.value);
        match (joined, self.parts.last_mut()) {
            (Some((end, key)), Some(Part::Metas(last)))
                // ,"key":
                if last.end() == end && span.start == end + key.len() as u64 + 4 =>
            {
                last.length = (span.end() - last.start) as u32;
            }
            _ => {
                self.parts.push(Part::Fixed(fixed));
                self.parts.push(Part::Metas(span));
            }
        }
        Some(Taken {
            end: Some(span.end()),
        })
    }
}

/// The related images of a bundle.
pub(crate) struct RelatedImages<'a> {
    /// A walk over them.
    pub(crate) value: Option<Walk<'a>>,
    /// Whether it was found out already that they are as they should be.
    pub(crate) plain: bool,
}

impl RelatedImages<'_> {
    fn check(&self, walk: &mut Walk<'_>) -> Result<Checked, Mismatch> {
        if self.plain {
            walk.finish();
            return Ok(Checked {
                same: true,
                empty: false,
            });
        }
        shape::check(&RELATED.shape, walk)
    }
}

/// Appends the part that a package brings, and the end of the text.
pub(crate) fn put_end(out: &mut Vec<u8>, icon: Option<&Icon<'_>>, description: Option<&str>) {
    if let Some(icon) = icon {
        out.extend_from_slice(br#","icon":[{"base64data":"#);
        write_string(out, &icon.base64data.0);
        out.extend_from_slice(br#","mediatype":"#);
        write_string(out, &icon.mediatype.0);
        out.extend_from_slice(b"}]");
    }
    if let Some(description) = description.filter(|text| !text.is_empty()) {
        out.extend_from_slice(br#","description":"#);
        write_string(out, description);
    }
    out.extend_from_slice(b"}}");
}

/// A package's icon, as `olm.package` and a `ClusterServiceVersion` have it.
#[derive(Debug, Default)]
pub(crate) struct Icon<'a> {
    /// The picture, in base64.
    pub(crate) base64data: Text<'a>,
    /// Its media type.
    pub(crate) mediatype: Text<'a>,
}

fields!(Icon<'a> { base64data = "base64data", mediatype = "mediatype" });

// The types of operator-framework/api's ClusterServiceVersion that the
// property is made of.

static CSV_METADATA: [Field; 14] = [
    Field::omitted("annotations", Shape::Texts),
    Field::omitted("apiServiceDefinitions", API_SERVICES),
    Field::omitted("crdDescriptions", CRDS),
    Field::omitted("description", Shape::Text),
    Field::omitted("displayName", Shape::Text),
    Field::omitted("installModes", Shape::List(&INSTALL_MODE)),
    Field::omitted("keywords", Shape::List(&Shape::Text)),
    Field::omitted("labels", Shape::Texts),
    Field::omitted("links", Shape::List(&LINK)),
    Field::omitted("maintainers", Shape::List(&MAINTAINER)),
    Field::omitted("maturity", Shape::Text),
    Field::omitted("minKubeVersion", Shape::Text),
    Field::omitted("nativeAPIs", Shape::List(&NATIVE_API)),
    Field::omitted("provider", LINK),
];

const CRDS: Shape = Shape::Object(&[
    Field::omitted("owned", Shape::List(&CRD)),
    Field::omitted("required", Shape::List(&CRD)),
]);

const CRD: Shape = Shape::Object(&[
    Field::omitted("actionDescriptors", Shape::List(&DESCRIPTOR)),
    Field::omitted("description", Shape::Text),
    Field::omitted("displayName", Shape::Text),
    Field::kept("kind", Shape::Text),
    Field::kept("name", Shape::Text),
    Field::omitted("resources", Shape::List(&RESOURCE)),
    Field::omitted("specDescriptors", Shape::List(&DESCRIPTOR)),
    Field::omitted("statusDescriptors", Shape::List(&DESCRIPTOR)),
    Field::kept("version", Shape::Text),
]);

const API_SERVICES: Shape = Shape::Object(&[
    Field::omitted("owned", Shape::List(&API_SERVICE)),
    Field::omitted("required", Shape::List(&API_SERVICE)),
]);

const API_SERVICE: Shape = Shape::Object(&[
    Field::omitted("actionDescriptors", Shape::List(&DESCRIPTOR)),
    Field::omitted("containerPort", Shape::Integer),
    Field::omitted("deploymentName", Shape::Text),
    Field::omitted("description", Shape::Text),
    Field::omitted("displayName", Shape::Text),
    Field::kept("group", Shape::Text),
    Field::kept("kind", Shape::Text),
    Field::kept("name", Shape::Text),
    Field::omitted("resources", Shape::List(&RESOURCE)),
    Field::omitted("specDescriptors", Shape::List(&DESCRIPTOR)),
    Field::omitted("statusDescriptors", Shape::List(&DESCRIPTOR)),
    Field::kept("version", Shape::Text),
]);

const RESOURCE: Shape = Shape::Object(&[
    Field::kept("kind", Shape::Text),
    Field::kept("name", Shape::Text),
    Field::kept("version", Shape::Text),
]);

const DESCRIPTOR: Shape = Shape::Object(&[
    Field::omitted("description", Shape::Text),
    Field::omitted("displayName", Shape::Text),
    Field::kept("path", Shape::Text),
    Field::omitted("value", Shape::Any),
    Field::omitted("x-descriptors", Shape::List(&Shape::Text)),
]);

const INSTALL_MODE: Shape = Shape::Object(&[
    Field::kept("supported", Shape::Bool),
    Field::kept("type", Shape::Text),
]);

const LINK: Shape = Shape::Object(&[
    Field::omitted("name", Shape::Text),
    Field::omitted("url", Shape::Text),
]);

const MAINTAINER: Shape = Shape::Object(&[
    Field::omitted("email", Shape::Text),
    Field::omitted("name", Shape::Text),
]);

const NATIVE_API: Shape = Shape::Object(&[
    Field::kept("group", Shape::Text),
    Field::kept("kind", Shape::Text),
    Field::kept("version", Shape::Text),
]);

/// `relatedImages` of a bundle.
static RELATED: Field = Field::omitted(
    "relatedImages",
    Shape::List(&Shape::Object(&[
        Field::kept("image", Shape::Text),
        Field::kept("name", Shape::Text),
    ])),
);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The text made for a bundle with this property, and how many parts of it
    /// come from the line.
    fn made(metadata: &str, related: Option<&str>, icon: Option<&Icon<'_>>) -> (Value, usize) {
        let line = format!("{metadata}{}", related.unwrap_or_default());
        let (metadata, related_images) = line.as_bytes().split_at(metadata.len());
        let metadata = check(&mut Walk::new(metadata)).unwrap();
        let mut messages = Vec::new();
        let made = make(
            &Line {
                lines: line.as_bytes(),
            },
            "a.v1",
            "1.0.0",
            &metadata,
            &RelatedImages {
                value: related.map(|_| Walk::new(related_images)),
                plain: false,
            },
            &mut messages,
        );
        let mut text = Vec::new();
        let mut from_line = 0;
        let cut =
            |bytes: &[u8], span: Span| bytes[span.start as usize..span.end() as usize].to_vec();
        for part in &made.parts {
            match part {
                Part::Fixed(number) => text.extend(FIXED[usize::from(*number)].bytes()),
                Part::Metas(span) => {
                    from_line += 1;
                    text.extend(cut(line.as_bytes(), *span));
                }
                Part::Messages(span) => text.extend(cut(&messages, *span)),
            }
        }
        put_end(
            &mut text,
            icon,
            Some("the package").filter(|_| !made.described),
        );
        (serde_json::from_slice(&text).unwrap(), from_line)
    }

    #[test]
    fn an_empty_property_makes_the_least_that_clients_can_read() {
        let (made, _) = made("{}", None, None);
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
                    "description": "the package",
                    "displayName": "",
                    "provider": {},
                    "cleanup": {"enabled": false},
                },
            })
        );
    }

    #[test]
    fn neighbours_in_the_line_are_one_piece() {
        let (made, from_line) = made(
            r#"{"annotations":{"a":"b"},"apiServiceDefinitions":{},"crdDescriptions":{"owned":[{"kind":"A","name":"as","version":"v1"}]},"description":"d","displayName":"D","installModes":[{"supported":true,"type":"OwnNamespace"}],"keywords":["k"],"labels":{"l":"m"},"links":[{"name":"n","url":"u"}],"provider":{"name":"p"}}"#,
            Some(r#"[{"image":"i","name":"n"}]"#),
            None,
        );
        // annotations, labels, two kinds of APIs, description to keywords,
        // links to provider, related images.
        assert_eq!(from_line, 7);
        assert_eq!(
            made["metadata"],
            json!({"name": "a.v1", "annotations": {"a": "b"}, "labels": {"l": "m"}})
        );
        let spec = &made["spec"];
        assert_eq!(spec["customresourcedefinitions"]["owned"][0]["kind"], "A");
        assert_eq!(spec["apiservicedefinitions"], json!({}));
        assert_eq!(spec["description"], "d");
        assert_eq!(spec["displayName"], "D");
        assert_eq!(
            spec["installModes"],
            json!([{"supported": true, "type": "OwnNamespace"}])
        );
        assert_eq!(spec["keywords"], json!(["k"]));
        assert_eq!(spec["links"], json!([{"name": "n", "url": "u"}]));
        assert_eq!(spec["provider"], json!({"name": "p"}));
        assert_eq!(spec["relatedImages"], json!([{"image": "i", "name": "n"}]));
    }

    #[test]
    fn known_fields_are_kept_and_unknown_ones_fall_away() {
        let icon = Icon {
            base64data: Text("AA==".into()),
            mediatype: Text("image/png".into()),
        };
        let (made, _) = made(
            r#"{"annotations":{"a":"b","n":null},"crdDescriptions":{"owned":[{"kind":"A","specDescriptors":[{"path":"p","value":{"x":1},"zz":1}]}]},"description":"","displayName":null,"installModes":[],"provider":null,"zz":1}"#,
            Some(r#"[{"image":""}]"#),
            Some(&icon),
        );
        assert_eq!(made["metadata"]["annotations"], json!({"a": "b", "n": ""}));
        assert_eq!(
            made["spec"]["customresourcedefinitions"]["owned"],
            json!([{"name": "", "version": "", "kind": "A", "specDescriptors": [{"path": "p", "value": {"x": 1}}]}])
        );
        assert_eq!(made["spec"]["description"], "the package");
        assert_eq!(made["spec"]["displayName"], "");
        assert_eq!(
            made["spec"]["icon"],
            json!([{"base64data": "AA==", "mediatype": "image/png"}])
        );
        assert_eq!(
            made["spec"]["relatedImages"],
            json!([{"image": "", "name": ""}])
        );
        assert_eq!(made["spec"].get("installModes"), None);
        assert_eq!(made["spec"].get("zz"), None);
    }

    #[test]
    fn keys_in_another_case_name_the_same_fields() {
        let (made, from_line) = made(
            r#"{"Annotations":{"a":"1","b":"2"},"CRDDescriptions":{"Owned":[{"KIND":"A","Name":"as","version":"v1"}]},"DisplayName":"D","Keywords":["k","l"],"annotations":{"b":"3"},"description":"d","keywords":["m"],"provider":{"NAME":"p","Other":1}}"#,
            Some(r#"[{"Image":"i","NAME":"n"}]"#),
            None,
        );
        // Only the description stands as it is needed.
        assert_eq!(from_line, 1);
        assert_eq!(
            made["metadata"],
            json!({"name": "a.v1", "annotations": {"a": "1", "b": "3"}})
        );
        let spec = &made["spec"];
        assert_eq!(
            spec["customresourcedefinitions"],
            json!({"owned": [{"kind": "A", "name": "as", "version": "v1"}]})
        );
        assert_eq!(spec["displayName"], "D");
        assert_eq!(spec["description"], "d");
        assert_eq!(spec["keywords"], json!(["m"]));
        assert_eq!(spec["provider"], json!({"name": "p"}));
        assert_eq!(spec["relatedImages"], json!([{"image": "i", "name": "n"}]));
    }

    #[test]
    fn a_field_of_another_type_is_refused() {
        let check = |json: &str| check(&mut Walk::new(json.as_bytes())).map(drop);
        assert_eq!(
            check(r#"{"installModes":"all"}"#),
            Err(r#"its "installModes" must be a list"#.into())
        );
        assert_eq!(
            check(r#"{"InstallModes":[{"Type":1}]}"#),
            Err(r#"its "InstallModes" "Type" must be a string"#.into())
        );
        assert!(check(r#"["a"]"#).is_err());
    }
}
