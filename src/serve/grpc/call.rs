//! Calls: their catalog, method and response.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tonic::Status;
use tracing::Instrument as _;

use crate::name::CatalogName;
use crate::proto;
use crate::serve::grpc::health::Health;
use crate::serve::grpc::methods::{CalledMethod, GrpcService};
use crate::serve::grpc::observe::Call;
use crate::serve::grpc::pins::Pins;
use crate::serve::grpc::reflection::Reflection;
use crate::serve::grpc::{schemas, wire};
use crate::serve::net::connection::RequestHandler;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::snapshot::{Catalog, Catalogs, NotFound, Snapshot};
use fbc::document::Gvk;
use fbc::text::go_quote::Quoted;

/// Handles the calls of a connection.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) catalogs: Catalogs,
    pub(super) pins: Arc<Pins>,
    /// The catalog of the port, if it is a catalog's own.
    pub(super) own: Option<CatalogName>,
    pub(super) health: Health,
    pub(super) reflection: Reflection,
}

/// There is no router: it would take as long as a small response.
impl RequestHandler for Calls {
    async fn handle(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
        in_flight: &Arc<InFlight>,
    ) -> Response {
        let request = request.map(Body::new);
        if let Err(response) = wire::check(&request) {
            return *response;
        }
        let called = CalledMethod::of(request.uri().path());
        let mut call = Call::begin(&called, request.uri().path(), peer, in_flight);
        let span = call.span.clone();
        let answered = match (called.service, called.method) {
            (Some(GrpcService::Registry | GrpcService::Experimental), method) => {
                // The connection is not asked to close before the response is sent.
                call.open = Some(self.pins.open());
                let answered = self.registry(&mut call, method, request);
                answered.instrument(span).await
            }
            (_, Err(unknown)) => Err(unknown),
            (Some(GrpcService::Health), Ok(method)) => {
                let answered = self
                    .health
                    .answer(&mut call, method, request, self.pins.leaving());
                answered.instrument(span).await
            }
            // The other services are the versions of reflection.
            (_, Ok(_)) => {
                let answered = self.reflection.answer(request, self.pins.leaving());
                answered.instrument(span).await
            }
        };
        call.observe(&answered);
        answered.unwrap_or_else(|status| wire::error(&status))
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
            catalogs,
            pins,
            own,
            ..
        } = self;
        let catalog = match own {
            Some(name) => catalogs.get(name.as_str()),
            None => catalogs.route(authority(&request)),
        };
        call.catalog.clone_from(&catalog);
        let method = method?;
        let snapshot = catalog
            .as_deref()
            .ok_or_else(|| no_catalog(catalogs, &request))
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
            wire::stream(snapshot?.list_packages())?
        }
        "ListBundles" => {
            wire::read::<proto::ListBundlesRequest>(request).await?;
            wire::stream(snapshot?.list_bundles())?
        }
        "GetPackage" => {
            let arguments: proto::GetPackageRequest = wire::read(request).await?;
            let package = snapshot?.get_package(&arguments.name).map_err(not_found)?;
            pins.asked(&arguments.name);
            wire::unary(package)
        }
        "GetBundle" => {
            let arguments: proto::GetBundleRequest = wire::read(request).await?;
            let bundle = snapshot?.get_bundle(
                &arguments.pkg_name,
                &arguments.channel_name,
                &arguments.csv_name,
            );
            wire::unary(bundle.map_err(not_found)?)
        }
        "GetBundleForChannel" => {
            let arguments: proto::GetBundleInChannelRequest = wire::read(request).await?;
            let bundle =
                snapshot?.get_bundle_for_channel(&arguments.pkg_name, &arguments.channel_name);
            wire::unary(bundle.map_err(not_found)?)
        }
        "GetBundleThatReplaces" => {
            let arguments: proto::GetReplacementRequest = wire::read(request).await?;
            let bundle = snapshot?.get_bundle_that_replaces(
                &arguments.csv_name,
                &arguments.pkg_name,
                &arguments.channel_name,
            );
            wire::unary(bundle.map_err(not_found)?)
        }
        "GetChannelEntriesThatReplace" => {
            let arguments: proto::GetAllReplacementsRequest = wire::read(request).await?;
            let entries = snapshot?.entries_that_replace(&arguments.csv_name);
            wire::stream(entries.map_err(not_found)?)?
        }
        "GetChannelEntriesThatProvide" => {
            let arguments: proto::GetAllProvidersRequest = wire::read(request).await?;
            let api = api(arguments.group, arguments.version, arguments.kind);
            let entries = snapshot?.entries_that_provide(&api);
            wire::stream(entries.map_err(not_found)?)?
        }
        "GetLatestChannelEntriesThatProvide" => {
            let arguments: proto::GetLatestProvidersRequest = wire::read(request).await?;
            let api = api(arguments.group, arguments.version, arguments.kind);
            let entries = snapshot?.latest_entries_that_provide(&api);
            wire::stream(entries.map_err(not_found)?)?
        }
        "GetDefaultBundleThatProvides" => {
            let arguments: proto::GetDefaultProviderRequest = wire::read(request).await?;
            let api = api(arguments.group, arguments.version, arguments.kind);
            let bundle = snapshot?.get_default_bundle_that_provides(&api);
            wire::unary(bundle.map_err(not_found)?)
        }
        "ExperimentalListPackageCustomSchemas" => schemas::answer(snapshot, request).await?,
        other => return Err(Status::unimplemented(format!("unknown method {other}"))),
    })
}

fn api(group: String, version: String, kind: String) -> Gvk {
    Gvk {
        group,
        version,
        kind,
    }
}

/// opm returns plain errors, which grpc-go reports as UNKNOWN.
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

fn no_catalog(catalogs: &Catalogs, request: &Request) -> Status {
    let catalogs = catalogs.all();
    let names = catalogs.iter().map(|catalog| catalog.name.as_str());
    Status::not_found(format!(
        "no catalog answers to {}; there are: {}",
        Quoted(&wire::shortened(authority(request))),
        listed(names)
    ))
}

/// Names with commas, as many as fit into a header, and the number of others.
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
    fn a_long_list_of_names_ends_with_the_number_of_others() {
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
