//! catalogd's admission webhook: gives each `ClusterCatalog` the label with its name,
//! by which `ClusterExtensions` select it. The API server asks before it stores one.

use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

/// The path in catalogd's `MutatingWebhookConfiguration`.
const PATH: &str = "/mutate-olm-operatorframework-io-v1-clustercatalog";
/// The longest request, in bytes: that of the API server.
const MAX_REQUEST: usize = 3 << 20;
/// The label.
const LABEL: &str = "olm.operatorframework.io/metadata.name";
/// The longest value of a label. A longer name is admitted without the label.
const MAX_LABEL: usize = 63;

/// The routes of the webhook's port.
pub fn routes() -> Router {
    Router::new()
        .route(PATH, post(review))
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
}

async fn review(Json(review): Json<Value>) -> Response {
    let request = &review["request"];
    let Some(uid) = request["uid"].as_str() else {
        return (StatusCode::BAD_REQUEST, "it is no AdmissionReview\n").into_response();
    };
    let mut response = json!({ "uid": uid, "allowed": true });
    if let Some(patch) = patch(&request["object"]) {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
    }
    Json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    }))
    .into_response()
}

/// The change that sets the label, if one is needed and possible.
fn patch(object: &Value) -> Option<Value> {
    let name = object["metadata"]["name"].as_str()?;
    let labels = &object["metadata"]["labels"];
    if labels[LABEL] == name || name.len() > MAX_LABEL {
        return None;
    }
    let mut patch = Vec::new();
    if !labels.is_object() {
        patch.push(json!({ "op": "add", "path": "/metadata/labels", "value": {} }));
    }
    let label = format!("/metadata/labels/{}", LABEL.replace('/', "~1"));
    patch.push(json!({ "op": "add", "path": label, "value": name }));
    Some(patch.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_added_where_it_is_missing_and_possible() {
        let path = "/metadata/labels/olm.operatorframework.io~1metadata.name";
        let add = json!({"op": "add", "path": path, "value": "a"});
        let empty = json!({"op": "add", "path": "/metadata/labels", "value": {}});
        for (metadata, wanted) in [
            (json!({"name": "a"}), Some(json!([empty, add]))),
            (
                json!({"name": "a", "labels": {"b": "c"}}),
                Some(json!([add])),
            ),
            (
                json!({"name": "a", "labels": {LABEL: "b"}}),
                Some(json!([add])),
            ),
            (json!({"name": "a", "labels": {LABEL: "a"}}), None),
            (json!({"name": "a".repeat(64)}), None),
            (json!({}), None),
        ] {
            assert_eq!(patch(&json!({"metadata": metadata})), wanted, "{metadata}");
        }
    }
}
