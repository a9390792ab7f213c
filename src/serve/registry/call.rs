//! The calls: which catalog, which question, which answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use prost::Message as _;
use tonic::Status;
use tracing::Instrument as _;

use super::health::Health;
use super::observe::Call;
use super::pins::Pins;
use super::reflection::Reflection;
use super::services::{Asked, Service};
use super::{Registry, wire};
use crate::fbc::blob::Gvk;
use crate::name::CatalogName;
use crate::proto;
use crate::serve::answer::Answer;
use crate::serve::{Answers, Peer};
use crate::snapshot::{Catalog, ChannelEntry, Message, NotFound, Snapshot};

/// What answers the calls of a connection.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) registry: Registry,
    pub(super) pins: Arc<Pins>,
    /// The catalog whose own port they come by.
    pub(super) own: Option<CatalogName>,
    pub(super) health: Health,
    pub(super) reflection: Reflection,
}

/// Calls come here without a router on the way, which would take as long as a
/// small answer.
impl Answers for Calls {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
        sending: &Arc<Answer>,
    ) -> Response {
        let request = request.map(Body::new);
        if let Err(response) = wire::check(&request) {
            return *response;
        }
        let asked = Asked::by(request.uri().path());
        let mut call = Call::begin(&asked, request.uri().path(), peer, sending);
        let span = call.span.clone();
        let answered = match (asked.service, asked.method) {
            (Some(Service::Registry | Service::Experimental), method) => {
                // Counted until the answer is sent, so that nobody has to go before.
                call.open = Some(self.pins.open());
                let answered = self.registry(&mut call, method, request);
                answered.instrument(span).await
            }
            (_, Err(unknown)) => Err(unknown),
            (Some(Service::Health), Ok(method)) => {
                let answered = self.health.answer(&mut call, method, request);
                answered.instrument(span).await
            }
            // No other service has methods.
            (_, Ok(_)) => self.reflection.answer(request).instrument(span).await,
        };
        call.observe(&answered);
        answered.unwrap_or_else(|status| wire::refuse(&status))
    }
}

impl Calls {
    /// A call of `api.Registry` or `api.ExperimentalRegistry`.
    async fn registry(
        &self,
        call: &mut Call,
        method: Result<&'static str, Status>,
        request: Request,
    ) -> Result<Response, Status> {
        let Self {
            registry,
            pins,
            own,
            ..
        } = self;
        let catalog = match own {
            Some(name) => registry.catalogs.get(name.as_str()),
            None => registry.catalogs.route(authority(&request)),
        };
        call.catalog.clone_from(&catalog);
        let method = method?;
        let snapshot = catalog
            .as_deref()
            .ok_or_else(|| no_catalog(registry, &request))
            .and_then(|catalog| pinned(pins, catalog));
        if let Ok(snapshot) = &snapshot
            && method == "ListBundles"
        {
            pins.listed(snapshot.package_count());
        }
        answer(method, pins, snapshot, request).await
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
        "ExperimentalListPackageCustomSchemas" => custom_schemas(snapshot, request).await?,
        other => return Err(Status::unimplemented(format!("nothing answers {other}"))),
    })
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
    let names = catalogs.iter().map(|catalog| catalog.name.as_str());
    Status::not_found(format!(
        "no catalog answers to {:?}; there are: {}",
        wire::shortened(authority(request)),
        listed(names)
    ))
}

/// Names with commas, as many as fit into a header, and how many more.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 1024;
    let mut list = String::new();
    let mut left = names.len();
    for name in names {
        if list.len() + name.len() > MOST {
            break;
        }
        if !list.is_empty() {
            list += ", ";
        }
        list += name;
        left -= 1;
    }
    match left {
        0 => list,
        left => format!("{list} and {left} more"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names_ends_with_how_many_more_there_are() {
        assert_eq!(listed(["a", "b"].into_iter()), "a, b");
        assert_eq!(listed([].into_iter()), "");
        let names: Vec<String> = (0..200).map(|n| format!("catalog-{n:03}")).collect();
        let list = listed(names.iter().map(String::as_str));
        let (shown, more) = list.rsplit_once(" and ").unwrap();
        let shown: Vec<&str> = shown.split(", ").collect();
        assert_eq!(shown, names[..shown.len()]);
        assert_eq!(more, format!("{} more", 200 - shown.len()));
        assert!((500..1200).contains(&list.len()), "{}", list.len());
    }
}
