//! The description of the API (`OpenAPI` 3.1), made from the operations of all routes and the
//! schemas of their records.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::SystemTime;

use axum::Extension;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::queries::schema::{Schemas, TypeSchema, components, remove_null};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, CatalogdAnswer, Content, FIELDS, Json, Operation, QueryAnswer, Status,
    Validators,
};
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::response::{Notes, QueryResponse, ResponseContext};
use crate::serve::http::api::shared_components::{
    path_parameter, problem, reference, response, shared_headers, shared_parameters,
    shared_responses,
};

/// The description of the description.
pub(crate) static OPENAPI: Operation = Operation {
    id: "openapi",
    summary: "This description",
    description: "",
    parameters: &[],
    answer: Answer::Description,
};

/// The operations of a route.
pub(crate) type RouteOperations = (&'static str, &'static [&'static Operation]);

/// The description, made when it is first asked for.
pub(crate) struct Description {
    routes: Vec<RouteOperations>,
    made: OnceLock<Made>,
}

struct Made {
    text: Bytes,
    value: Value,
    /// It is part of the program, so its date is about that of the start.
    date: SystemTime,
}

/// The document. Its members have the order that people expect.
#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    tags: Value,
    paths: Paths,
    components: Components,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationObject {
    operation_id: &'static str,
    tags: [&'static str; 1],
    summary: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<Value>,
    responses: IndexMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Components {
    parameters: IndexMap<&'static str, Value>,
    headers: IndexMap<&'static str, Value>,
    responses: IndexMap<&'static str, Value>,
    security_schemes: Value,
    schemas: Schemas,
}

/// Paths with their operations by method.
type Paths = IndexMap<String, IndexMap<&'static str, OperationObject>>;

/// The schemas in the making.
struct Collected {
    schemas: Schemas,
    /// The records whose fields clients select.
    selectable: Vec<Cow<'static, str>>,
}

impl Description {
    pub(crate) fn new(routes: Vec<RouteOperations>) -> Self {
        Self {
            routes,
            made: OnceLock::new(),
        }
    }

    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let document = document(&self.routes);
            let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
            text.push('\n');
            Made {
                value: serde_json::from_str(&text).unwrap_or_default(),
                text: text.into(),
                date: SystemTime::now(),
            }
        })
    }

    /// The document as a value.
    pub(crate) fn value(&self) -> &Value {
        &self.made().value
    }
}

/// Sends the description.
pub(crate) async fn show(
    method: Method,
    headers: HeaderMap,
    Extension(description): Extension<std::sync::Arc<Description>>,
) -> Result<Response, Problem> {
    let made = description.made();
    let response = QueryResponse::Text {
        bytes: made.text.clone(),
        media_type: "application/json",
    };
    ResponseContext::of(&method, &headers)?.send(
        response,
        &Parameters::default(),
        Some(made.date.into()),
    )
}

fn document(routes: &[RouteOperations]) -> Document {
    let mut collected = Collected {
        schemas: Schemas::new(),
        selectable: Vec::new(),
    };
    TypeSchema::new::<Problem>().add_to(&mut collected.schemas);
    let paths = routes.iter().map(|(route, operations)| {
        let path = route.replace("{name}", "{catalog}");
        let operations = operations.iter().map(|operation| {
            let method = match &operation.answer {
                Answer::Catalogd(answer) if answer.is_post => "post",
                _ => "get",
            };
            (method, operation_object(&path, operation, &mut collected))
        });
        let operations = operations.collect();
        (path, operations)
    });
    let paths = paths.collect();
    let mut schemas = components(&collected.schemas, &collected.selectable);
    remove_flattened(&mut schemas, &paths);
    Document {
        openapi: "3.1.0",
        info: json!({
            "title": "almanac",
            "version": "1",
            "summary": "Catalogs of operators over HTTP",
            "description": "`all`, `metas` and `graphql` are the API of OLM v1's catalogd. The \
                queries beside them save a client from getting the whole catalog. HEAD is answered \
                wherever GET is.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        }),
        tags: json!([
            {"name": "catalogd", "description": "As catalogd has them."},
            {
                "name": "queries",
                "description": "almanac's own. Errors are `application/problem+json`.",
            },
        ]),
        paths,
        components: Components {
            parameters: shared_parameters(),
            headers: shared_headers(),
            responses: shared_responses(),
            security_schemes: json!({
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "For catalogs that are configured with `token_files`.",
                },
                "certificate": {
                    "type": "mutualTLS",
                    "description": "For catalogs that are configured with `client_certificate`.",
                },
            }),
            schemas,
        },
    }
}

/// Removes the schemas of records that others flatten: nothing refers to them.
fn remove_flattened(schemas: &mut Schemas, paths: &Paths) {
    let responses = shared_responses();
    let text = serde_json::to_string(&(&*schemas, paths, &responses)).unwrap_or_default();
    schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
}

fn operation_object(
    path: &str,
    operation: &Operation,
    collected: &mut Collected,
) -> OperationObject {
    let mut parameters = path_parameters(path);
    for parameter in operation.parameters {
        if let Some(values) = parameter.values() {
            values.add_to(&mut collected.schemas);
        }
        parameters.push(if parameter.is_shared {
            reference("parameters", parameter.name)
        } else {
            parameter.describe()
        });
    }
    let (tag, request_body, responses) = match &operation.answer {
        Answer::Query(answer) => (
            "queries",
            None,
            query_responses(path, operation, answer, collected),
        ),
        Answer::Catalogd(answer) => (
            "catalogd",
            answer.body.map(|body| request_body(body, collected)),
            catalogd_responses(answer, collected),
        ),
        Answer::Description => ("queries", None, own_responses()),
    };
    let is_open = matches!(operation.answer, Answer::Description);
    OperationObject {
        operation_id: operation.id,
        tags: [tag],
        summary: operation.summary,
        description: operation.description,
        parameters,
        request_body,
        responses,
        security: (!is_open).then(|| json!([{}, {"token": []}, {"certificate": []}])),
    }
}

/// The parameters of a path, from its placeholders.
fn path_parameters(path: &str) -> Vec<Value> {
    let segments = path.split('/');
    let names = segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| match name {
            "channel" => path_parameter("channel", "The channel.", "v2"),
            "bundle" => path_parameter("bundle", "The bundle's name.", "ferry-operator.v2.1.0"),
            shared => reference("parameters", shared),
        })
        .collect()
}

/// The responses of a query: the answer, and the problems that its path and its parameters
/// allow.
fn query_responses(
    path: &str,
    operation: &Operation,
    answer: &QueryAnswer,
    collected: &mut Collected,
) -> IndexMap<String, Value> {
    let has = |name: &str| operation.parameters.iter().any(|one| one.name == name);
    let is_of_catalog = path.contains("{catalog}");
    let names = path.contains('{') || ["catalog", "package", "from", "pick"].into_iter().any(has);
    let mut headers: Vec<&'static str> = match answer.validators {
        Validators::None => vec![],
        Validators::Tag => vec!["ETag"],
        Validators::TagAndDate => vec!["ETag", "Last-Modified"],
    };
    headers.push("Cache-Control");
    if has(CONTINUE.name) {
        headers.push("Link");
    }
    let mut contents = Map::new();
    if let Some(json) = answer.json {
        let schema = collected.json(json, has(FIELDS.name));
        contents.insert("application/json".to_owned(), json!({"schema": schema}));
    }
    for content in answer.others {
        let (media_type, content) = collected.content(content);
        contents.insert(media_type.to_owned(), content);
    }
    let mut responses = IndexMap::new();
    responses.insert(
        "200".to_owned(),
        response("The answer.", &headers, contents),
    );
    for (status, name, is_possible) in [
        ("304", "NotModified", true),
        ("400", "BadRequest", true),
        ("401", "Unauthorized", is_of_catalog),
        ("403", "Forbidden", is_of_catalog),
        ("404", "NotFound", names),
        ("405", "MethodNotAllowed", true),
        ("410", "Gone", has(CONTINUE.name)),
        ("412", "PreconditionFailed", true),
        ("500", "Internal", true),
        ("503", "Unavailable", true),
    ] {
        if is_possible {
            responses.insert(status.to_owned(), reference("responses", name));
        }
    }
    responses
}

fn catalogd_responses(
    answer: &CatalogdAnswer,
    collected: &mut Collected,
) -> IndexMap<String, Value> {
    let statuses = answer.statuses.iter().map(|(status, kind)| {
        let kind = match kind {
            Status::Shared(name) => reference("responses", name),
            Status::Own {
                description,
                headers,
                contents,
            } => {
                let contents = contents.iter().map(|content| {
                    let (media_type, content) = collected.content(content);
                    (media_type.to_owned(), content)
                });
                let contents = contents.collect();
                response(description, headers, contents)
            }
        };
        (status.to_string(), kind)
    });
    statuses.collect()
}

fn own_responses() -> IndexMap<String, Value> {
    let contents = Map::from_iter([(
        "application/json".to_owned(),
        json!({"schema": {"type": "object"}}),
    )]);
    let headers = ["ETag", "Last-Modified", "Cache-Control"];
    let mut responses = IndexMap::new();
    responses.insert(
        "200".to_owned(),
        response("This description.", &headers, contents),
    );
    for (status, name) in [
        ("304", "NotModified"),
        ("405", "MethodNotAllowed"),
        ("412", "PreconditionFailed"),
    ] {
        responses.insert(status.to_owned(), reference("responses", name));
    }
    responses
}

fn request_body(body: TypeSchema, collected: &mut Collected) -> Value {
    body.add_to(&mut collected.schemas);
    json!({
        "required": true,
        "content": {
            "application/json": {
                "schema": reference("schemas", &body.name()),
                "example": {"query": "{ summary { totalSchemas } }"},
            },
        },
    })
}

impl Collected {
    /// The schema of a record, or of a list of records.
    fn json(&mut self, json: Json, is_selectable: bool) -> Value {
        let records = match json {
            Json::Object(record) => [Some(record), None],
            Json::List { item, or, .. } => [Some(item), or],
        };
        for record in records.into_iter().flatten() {
            record.add_to(&mut self.schemas);
            if is_selectable {
                self.selectable.push(record.name());
            }
        }
        match json {
            Json::Object(record) => reference("schemas", &record.name()),
            Json::List {
                name,
                item,
                or,
                notes,
            } => {
                let list = list(item, or, notes, &mut self.schemas);
                self.schemas.insert(name.to_owned(), list);
                reference("schemas", name)
            }
        }
    }

    /// The media type and the description of a body.
    fn content(&mut self, content: &Content) -> (&'static str, Value) {
        match content {
            Content::Json(schema) => {
                schema.add_to(&mut self.schemas);
                let schema = reference("schemas", &schema.name());
                ("application/json", json!({"schema": schema}))
            }
            Content::Problem => ("application/problem+json", problem()),
            Content::Text(media_type) => (media_type, json!({"schema": {"type": "string"}})),
            Content::Any(media_type) => (media_type, json!({})),
            Content::Bytes(media_type) => {
                let schema = json!({"type": "string", "contentMediaType": media_type});
                (media_type, json!({"schema": schema}))
            }
        }
    }
}

/// The schema of a list.
fn list(
    item: TypeSchema,
    or: Option<TypeSchema>,
    notes: &[&str],
    schemas: &mut Schemas,
) -> RefOr<Schema> {
    let of = |record: TypeSchema| reference("schemas", &record.name());
    let items = match or {
        None => of(item),
        Some(or) => json!({"anyOf": [of(item), of(or)]}),
    };
    let mut list: Object = serde_json::from_value(json!({
        "type": "object",
        "required": ["items", "total"],
        "properties": {
            "items": {"type": "array", "items": items},
            "total": {
                "type": "integer",
                "minimum": 0,
                "description": "The number of items on all pages.",
            },
            "continue": {
                "type": "string",
                "description": "What gets the next page; absent on the last.",
            },
        },
    }))
    .unwrap_or_default();
    if let RefOr::T(Schema::Object(all)) = Notes::schema() {
        let mut parts = Vec::new();
        Notes::schemas(&mut parts);
        for (name, mut property) in all.properties {
            if notes.contains(&name.as_str()) {
                remove_null(&mut property);
                list.properties.insert(name, property);
            }
        }
        if notes.contains(&"links") {
            list.required.push("links".to_owned());
            schemas.extend(parts);
        }
    }
    RefOr::T(Schema::Object(list))
}
