//! The kinds that a version owns, with examples.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::queries::record::records;

/// The kinds that a version owns.
#[derive(Serialize, ToSchema)]
#[schema(as = Examples)]
pub(crate) struct ExamplesRecord<'a> {
    pub(crate) package: &'a str,
    /// The bundle of the version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) bundle: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    pub(crate) apis: Vec<ApiRecord<'a>>,
    /// The examples as text, if they are no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreadable: Option<Unreadable<'a>>,
}

/// A kind with its examples.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApiExamples)]
pub(crate) struct ApiRecord<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) display_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) description: &'a str,
    /// Objects of the kind, from the annotation `alm-examples`.
    #[schema(value_type = Vec<Object>)]
    pub(crate) examples: Vec<&'a Value>,
}

/// Examples that are not JSON.
#[derive(Serialize, ToSchema)]
#[schema(as = UnreadableExamples)]
pub(crate) struct Unreadable<'a> {
    pub(crate) text: &'a str,
    pub(crate) reason: &'a str,
}

records!(ExamplesRecord<'_>);
