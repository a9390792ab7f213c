//! Blobs of schemas that the API has no calls for, as protobuf values.
//!
//! They are few and seldom asked for, so they are made for each call: in turn,
//! where that keeps nobody else waiting.

use std::sync::{Arc, LazyLock};

use axum::extract::Request;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use tonic::Status;

use super::wire;
use crate::proto;
use crate::quoted::Quoted;
use crate::serve::turns::{Turns, Undone};
use crate::snapshot::Snapshot;

static TURNS: LazyLock<Turns> = LazyLock::new(|| Turns::for_each_core(1));

/// Without the header by which a client says that it knows the call may
/// change, the answer is empty and the arguments are not looked at.
pub(super) async fn answer(
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    let acknowledged = request
        .headers()
        .get("x-acknowledge-experimental")
        .is_some_and(|value| value == "true");
    let asked: proto::ExperimentalListPackageCustomSchemasRequest = wire::read(request).await?;
    if !acknowledged {
        return wire::frames([]);
    }
    if asked.schema.is_empty() {
        return Err(Status::invalid_argument("schema is required"));
    }
    let packages = Some(("packageName", &asked.package_name)).filter(|(_, name)| !name.is_empty());
    for (what, name) in [("schema", &asked.schema)].into_iter().chain(packages) {
        if !is_name(name) {
            return Err(Status::invalid_argument(format!(
                "invalid custom schema query: invalid {what} {}: \
                 must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
                Quoted(&wire::shortened(name))
            )));
        }
    }
    let metas = snapshot?.custom_schemas(&asked.schema, &asked.package_name);
    if metas.is_empty() {
        return wire::frames([]);
    }
    let made = TURNS.work(move || frames(&metas)).await;
    let made = made.map_err(|undone| match undone {
        Undone::Busy => Status::resource_exhausted("too many such calls, try again later"),
        Undone::Failed => Status::internal("the call could not be answered"),
    })?;
    wire::made(made?)
}

/// The blobs, each as a message with its prefix.
fn frames(metas: &[Bytes]) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    for meta in metas {
        let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(meta) else {
            return Err(Status::internal("a stored blob cannot be read"));
        };
        wire::put_message(&mut bytes, &to_struct(object));
    }
    Ok(bytes.freeze())
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn to_struct(object: serde_json::Map<String, serde_json::Value>) -> prost_types::Struct {
    let fields = object.into_iter();
    prost_types::Struct {
        fields: fields.map(|(key, value)| (key, to_value(value))).collect(),
    }
}

fn to_value(value: serde_json::Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(value),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(values) => Kind::ListValue(prost_types::ListValue {
            values: values.into_iter().map(to_value).collect(),
        }),
        serde_json::Value::Object(object) => Kind::StructValue(to_struct(object)),
    };
    prost_types::Value { kind: Some(kind) }
}
