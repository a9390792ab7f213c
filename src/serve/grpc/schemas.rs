//! Blobs of custom schemas, as protobuf values.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use tonic::Status;

use crate::proto;
use crate::serve::grpc::wire;
use crate::snapshot::{Snapshot, Stream};
use fbc::text::go_quote::Quoted;

/// Without the header that acknowledges an experimental call, the response is
/// empty and the arguments are ignored.
pub(super) async fn answer(
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    let acknowledged = request
        .headers()
        .get("x-acknowledge-experimental")
        .is_some_and(|value| value == "true");
    let arguments: proto::ExperimentalListPackageCustomSchemasRequest = wire::read(request).await?;
    if !acknowledged {
        return wire::stream(Stream::default());
    }
    if arguments.schema.is_empty() {
        return Err(Status::invalid_argument("schema is required"));
    }
    let packages =
        Some(("packageName", &arguments.package_name)).filter(|(_, name)| !name.is_empty());
    for (what, name) in [("schema", &arguments.schema)].into_iter().chain(packages) {
        if !is_name(name) {
            return Err(Status::invalid_argument(format!(
                "invalid custom schema query: invalid {what} {}: \
                 must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
                Quoted(&wire::shortened(name))
            )));
        }
    }
    wire::stream(snapshot?.custom_schemas(&arguments.schema, &arguments.package_name))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
