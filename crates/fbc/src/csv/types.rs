//! The types of operator-framework/api's `ClusterServiceVersion` that
//! `olm.csv.metadata` consists of.

use crate::text::json::schema::{Field, Shape};

pub(super) static CSV_METADATA: [Field; 14] = [
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
pub(super) static RELATED: Field = Field::omitted(
    "relatedImages",
    Shape::List(&Shape::Object(&[
        Field::kept("image", Shape::Text),
        Field::kept("name", Shape::Text),
    ])),
);
