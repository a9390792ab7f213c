//! The calls: which catalog, which question, which answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use prost::Message as _;
use tonic::Status;
use tracing::Instrument as _;

use super::observe::Call;
use super::pins::Pins;
use super::{Registry, wire};
use crate::fbc::blob::Gvk;
use crate::name::CatalogName;
use crate::proto;
use crate::serve::answer::Answer;
use crate::serve::{Answers, Peer};
use crate::snapshot::{Catalog, ChannelEntry, Message, NotFound, Snapshot};

/// The one of the services that OLM lives on, and the one that consoles ask.
const REGISTRY: &str = "api.Registry";
const EXPERIMENTAL: &str = "api.ExperimentalRegistry";

/// What they can be asked.
pub(super) const METHODS: [&str; 11] = [
    "ListPackages",
    "ListBundles",
    "GetPackage",
    "GetBundle",
    "GetBundleForChannel",
    "GetBundleThatReplaces",
    "GetChannelEntriesThatReplace",
    "GetChannelEntriesThatProvide",
    "GetLatestChannelEntriesThatProvide",
    "GetDefaultBundleThatProvides",
    "ExperimentalListPackageCustomSchemas",
];

/// What answers the calls of a connection.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) registry: Registry,
    pub(super) pins: Arc<Pins>,
    /// The catalog whose own port they come by.
    pub(super) own: Option<CatalogName>,
    /// What answers what is no call of the registry.
    pub(super) others: Router,
}

/// Calls of the registry come here without a router on the way, which would
/// take as long as a small answer.
impl Answers for Calls {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
        sending: &Arc<Answer>,
    ) -> Response {
        let path = request.uri().path().trim_start_matches('/');
        let called = match path.split_once('/') {
            Some((REGISTRY, method)) => Some((REGISTRY, method)),
            Some((EXPERIMENTAL, method)) => Some((EXPERIMENTAL, method)),
            _ => None,
        };
        let called = called.filter(|(_, method)| !method.is_empty() && !method.contains('/'));
        match called {
            Some((service, method)) => {
                let call = Call::begin(service, method.to_owned(), peer, sending, self.pins.open());
                self.call(call, request.map(Body::new)).await
            }
            None => self.other(request, peer, sending).await,
        }
    }
}

impl Calls {
    /// A call of health or reflection, or of nothing. Their answers begin when
    /// they have read a message, so that has to come.
    async fn other(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
        sending: &Arc<Answer>,
    ) -> Response {
        let answered = self.others.answer(request, peer, sending);
        let answered = tokio::time::timeout(wire::REQUEST_TIMEOUT, answered).await;
        answered.unwrap_or_else(|_| {
            wire::refuse(&Status::deadline_exceeded(
                "the request took too long to arrive",
            ))
        })
    }

    /// A call of `api.Registry` or `api.ExperimentalRegistry`.
    async fn call(&self, call: Call, request: Request) -> Response {
        let Self {
            registry,
            pins,
            own,
            ..
        } = self;
        if let Err(response) = wire::check(&request) {
            return *response;
        }
        let experimental = call.service == EXPERIMENTAL;
        let catalog = match own {
            Some(name) => registry.catalogs.get(name.as_str()),
            None => registry.catalogs.route(authority(&request)),
        };
        let snapshot = catalog
            .as_deref()
            .ok_or_else(|| no_catalog(registry, &request))
            .and_then(|catalog| pinned(pins, catalog));
        if let Ok(snapshot) = &snapshot
            && call.method == "ListBundles"
        {
            pins.listed(snapshot.package_count());
        }
        let answered = async {
            if experimental {
                answer_experimental(&call.method, snapshot, request).await
            } else {
                answer(&call.method, pins, snapshot, request).await
            }
        };
        let answered = answered.instrument(call.span.clone()).await;
        call.observe(catalog.as_deref().map(|catalog| &catalog.name), &answered);
        answered.unwrap_or_else(|status| wire::refuse(&status))
    }
}

async fn answer(
    method: &str,
    pins: &Pins,
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    Ok(match method {
        "ListPackages" => {
            wire::read::<proto::ListPackageRequest>(request).await?;
            wire::stream(snapshot?.list_packages())
        }
        "ListBundles" => {
            wire::read::<proto::ListBundlesRequest>(request).await?;
            wire::stream(snapshot?.list_bundles())
        }
        "GetPackage" => {
            let asked: proto::GetPackageRequest = wire::read(request).await?;
            let package = snapshot?.get_package(&asked.name).map_err(not_found)?;
            pins.asked(&asked.name);
            wire::unary(package)
        }
        "GetBundle" => {
            let asked: proto::GetBundleRequest = wire::read(request).await?;
            let bundle =
                snapshot?.get_bundle(&asked.pkg_name, &asked.channel_name, &asked.csv_name);
            wire::unary(bundle.map_err(not_found)?)
        }
        "GetBundleForChannel" => {
            let asked: proto::GetBundleInChannelRequest = wire::read(request).await?;
            let bundle = snapshot?.get_bundle_for_channel(&asked.pkg_name, &asked.channel_name);
            wire::unary(bundle.map_err(not_found)?)
        }
        "GetBundleThatReplaces" => {
            let asked: proto::GetReplacementRequest = wire::read(request).await?;
            let bundle = snapshot?.get_bundle_that_replaces(
                &asked.csv_name,
                &asked.pkg_name,
                &asked.channel_name,
            );
            wire::unary(bundle.map_err(not_found)?)
        }
        "GetChannelEntriesThatReplace" => {
            let asked: proto::GetAllReplacementsRequest = wire::read(request).await?;
            entries(snapshot?.entries_that_replace(&asked.csv_name))?
        }
        "GetChannelEntriesThatProvide" => {
            let asked: proto::GetAllProvidersRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            entries(snapshot?.entries_that_provide(&api))?
        }
        "GetLatestChannelEntriesThatProvide" => {
            let asked: proto::GetLatestProvidersRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            entries(snapshot?.latest_entries_that_provide(&api))?
        }
        "GetDefaultBundleThatProvides" => {
            let asked: proto::GetDefaultProviderRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            let bundle = snapshot?.get_default_bundle_that_provides(&api);
            wire::unary(bundle.map_err(not_found)?)
        }
        _ => return Err(unknown_method(REGISTRY, method)),
    })
}

async fn answer_experimental(
    method: &str,
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    match method {
        "ExperimentalListPackageCustomSchemas" => custom_schemas(snapshot, request).await,
        _ => Err(unknown_method(EXPERIMENTAL, method)),
    }
}

/// Without the header by which a client says that it knows the call may
/// change, the answer is empty and the arguments are not looked at.
async fn custom_schemas(
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    let acknowledged = request
        .headers()
        .get("x-acknowledge-experimental")
        .is_some_and(|value| value == "true");
    let asked: proto::ExperimentalListPackageCustomSchemasRequest = wire::read(request).await?;
    if !acknowledged {
        return Ok(wire::frames([]));
    }
    if asked.schema.is_empty() {
        return Err(Status::invalid_argument("schema is required"));
    }
    let packages = Some(("packageName", &asked.package_name)).filter(|(_, name)| !name.is_empty());
    for (what, name) in [("schema", &asked.schema)].into_iter().chain(packages) {
        if !is_schema_name(name) {
            return Err(Status::invalid_argument(format!(
                "invalid custom schema query: invalid {what} {:?}: \
                 must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
                wire::shortened(name)
            )));
        }
    }
    let metas = snapshot?.custom_schemas(&asked.schema, &asked.package_name);
    let mut messages = Vec::with_capacity(metas.len());
    for meta in metas {
        let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(&meta) else {
            return Err(Status::internal("a stored blob cannot be read"));
        };
        let fields = object
            .into_iter()
            .map(|(key, value)| (key, to_value(value)));
        let message = prost_types::Struct {
            fields: fields.collect(),
        };
        messages.push(Message::from(Bytes::from(message.encode_to_vec())));
    }
    Ok(wire::frames(messages))
}

fn is_schema_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
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
        serde_json::Value::Object(object) => Kind::StructValue(prost_types::Struct {
            fields: object
                .into_iter()
                .map(|(key, value)| (key, to_value(value)))
                .collect(),
        }),
    };
    prost_types::Value { kind: Some(kind) }
}

fn api(group: String, version: String, kind: String) -> Gvk {
    Gvk {
        group,
        version,
        kind,
    }
}

fn entries(entries: Result<Vec<ChannelEntry<'_>>, NotFound>) -> Result<Response, Status> {
    let entries = entries.map_err(not_found)?;
    Ok(wire::frames(entries.iter().map(Message::from)))
}

/// The peer's errors are plain ones, which gRPC calls UNKNOWN.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_found(error: NotFound) -> Status {
    Status::unknown(wire::shortened(&error.to_string()))
}

fn unknown_method(service: &str, method: &str) -> Status {
    let method = wire::shortened(method);
    Status::unimplemented(format!("unknown method {method} for service {service}"))
}

fn authority(request: &Request) -> &str {
    match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => request
            .headers()
            .get(http::header::HOST)
            .and_then(|host| host.to_str().ok())
            .unwrap_or_default(),
    }
}

fn no_catalog(registry: &Registry, request: &Request) -> Status {
    let catalogs = registry.catalogs.all();
    let names: Vec<&str> = catalogs
        .iter()
        .map(|catalog| catalog.name.as_str())
        .collect();
    Status::not_found(wire::shortened(&format!(
        "no catalog answers to {:?}; there are: {}",
        authority(request),
        names.join(", ")
    )))
}

fn pinned(pins: &Pins, catalog: &Catalog) -> Result<Arc<Snapshot>, Status> {
    if catalog.routing.withheld {
        let name = &catalog.name;
        return Err(Status::not_found(format!(
            "catalog {name:?} is set unavailable"
        )));
    }
    pins.snapshot(catalog)
        .ok_or_else(|| Status::unavailable(format!("catalog {:?} is not loaded yet", catalog.name)))
}
