//! The operations of catalogd, as the description of the API declares them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::queries::schema::TypeSchema;
use crate::serve::http::api::operation::{
    Answer, CatalogdAnswer, Content, Operation, Parameter, Status,
};

/// The headers of blobs.
const HEADERS: &[&str] = &["ETag", "Last-Modified"];
/// Lines of JSON.
const LINES: Content = Content::Text("application/jsonl");

/// The body of a request to GraphQL. Other members are ignored.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GraphqlRequest {
    /// The query.
    #[serde(default)]
    #[schema(required = true, min_length = 1, max_length = 100_000)]
    pub(crate) query: String,
    /// The values of the variables of the query.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) variables: Option<Map<String, Value>>,
    /// The operation to run, where the query has several.
    #[serde(default)]
    pub(crate) operation_name: Option<String>,
}

/// The answer of GraphQL.
#[derive(Serialize, ToSchema)]
pub(crate) struct GraphqlAnswer {
    /// The selected data.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// The errors in the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    errors: Vec<Value>,
    /// `limits`: the pages whose limit was not applied; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    extensions: Option<Value>,
}

/// A whole catalog.
pub(crate) static ALL: Operation = Operation {
    id: "all",
    summary: "The whole catalog",
    description: "As catalogd serves it, with ranges. Sent as zstd, as gzip or as it is, the best \
                  that `Accept-Encoding` takes.",
    parameters: &[],
    answer: Answer::Catalogd(CatalogdAnswer {
        is_post: false,
        body: None,
        statuses: &[
            (
                200,
                Status::Own {
                    description: "Blobs of the catalog, one JSON object a line.",
                    headers: HEADERS,
                    contents: &[LINES],
                },
            ),
            (
                206,
                Status::Own {
                    description: "A range of it, or several.",
                    headers: HEADERS,
                    contents: &[LINES, Content::Text("multipart/byteranges")],
                },
            ),
            (304, Status::Shared("NotModified")),
            (400, Status::Shared("Sentence")),
            (401, Status::Shared("Unauthorized")),
            (403, Status::Shared("Forbidden")),
            (404, Status::Shared("Sentence")),
            (405, Status::Shared("OtherMethod")),
            (412, Status::Shared("PreconditionFailed")),
            (
                416,
                Status::Own {
                    description: "There is nothing in that range.",
                    headers: &[],
                    contents: &[],
                },
            ),
            (503, Status::Shared("TryAgain")),
        ],
    }),
};

/// A selection of a catalog.
pub(crate) static METAS: Operation = Operation {
    id: "metas",
    summary: "Some blobs of the catalog",
    description: "The blobs that match all parameters: an empty body when none does. Unknown \
                  parameters are rejected.",
    parameters: &[
        Parameter::text("schema", "The schema.").example("olm.bundle"),
        Parameter::text("package", "The package.").example("ferry-operator"),
        Parameter::text("name", "The name.").example("ferry-operator.v2.1.0"),
    ],
    answer: Answer::Catalogd(CatalogdAnswer {
        is_post: false,
        body: None,
        statuses: &[
            (
                200,
                Status::Own {
                    description: "Blobs of the catalog, one JSON object a line.",
                    headers: &["ETag", "Last-Modified", "Almanac-Hint"],
                    contents: &[LINES],
                },
            ),
            (304, Status::Shared("NotModified")),
            (400, Status::Shared("Sentence")),
            (401, Status::Shared("Unauthorized")),
            (403, Status::Shared("Forbidden")),
            (404, Status::Shared("Sentence")),
            (405, Status::Shared("OtherMethod")),
            (412, Status::Shared("PreconditionFailed")),
            (503, Status::Shared("TryAgain")),
        ],
    }),
};

/// The page of GraphQL.
pub(crate) static GRAPHQL_PAGE: Operation = Operation {
    id: "graphqlPage",
    summary: "A page to ask from",
    description: "For browsers only: without `text/html` in `Accept` the method is refused.",
    parameters: &[],
    answer: Answer::Catalogd(CatalogdAnswer {
        is_post: false,
        body: None,
        statuses: &[
            (
                200,
                Status::Own {
                    description: "The page. It needs nothing from elsewhere.",
                    headers: &[],
                    contents: &[Content::Text("text/html")],
                },
            ),
            (400, Status::Shared("Sentence")),
            (
                401,
                Status::Own {
                    description: "As elsewhere; a browser gets the page, which has a field for \
                                  the token.",
                    headers: &["WWW-Authenticate"],
                    contents: &[
                        Content::Text("text/plain"),
                        Content::Problem,
                        Content::Text("text/html"),
                    ],
                },
            ),
            (403, Status::Shared("Forbidden")),
            (404, Status::Shared("Sentence")),
            (405, Status::Shared("OtherMethod")),
            (503, Status::Shared("TryAgain")),
        ],
    }),
};

/// GraphQL.
pub(crate) static GRAPHQL: Operation = Operation {
    id: "graphql",
    summary: "GraphQL over the blobs of the catalog",
    description: "Errors in the query are answered with 200, as GraphQL has it.",
    parameters: &[],
    answer: Answer::Catalogd(CatalogdAnswer {
        is_post: true,
        body: Some(TypeSchema::new::<GraphqlRequest>()),
        statuses: &[
            (
                200,
                Status::Own {
                    description: "The answer.",
                    headers: &[],
                    contents: &[Content::Json(TypeSchema::new::<GraphqlAnswer>())],
                },
            ),
            (400, Status::Shared("Sentence")),
            (401, Status::Shared("Unauthorized")),
            (403, Status::Shared("Forbidden")),
            (404, Status::Shared("Sentence")),
            (405, Status::Shared("OtherMethod")),
            (408, Status::Shared("Sentence")),
            (500, Status::Shared("Sentence")),
            (503, Status::Shared("TryAgain")),
        ],
    }),
};
