//! The calls: which catalog, which question, which answer.

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
use crate::serve::grpc::observe::Call;
use crate::serve::grpc::pins::Pins;
use crate::serve::grpc::reflection::Reflection;
use crate::serve::grpc::services::{Asked, Service};
use crate::serve::grpc::{Registry, schemas, wire};
use crate::serve::net::in_flight::Answer;
use crate::serve::{Answers, Peer};
use crate::snapshot::{Catalog, NotFound, Snapshot};
use fbc::document::Gvk;
use fbc::text::go_quote::Quoted;

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
                let answered = self
                    .health
                    .answer(&mut call, method, request, self.pins.leaving());
                answered.instrument(span).await
            }
            // No other service has methods.
            (_, Ok(_)) => {
                let answered = self.reflection.answer(request, self.pins.leaving());
                answered.instrument(span).await
            }
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
            wire::stream(snapshot?.list_packages())?
        }
        "ListBundles" => {
            wire::read::<proto::ListBundlesRequest>(request).await?;
            wire::stream(snapshot?.list_bundles())?
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
            let entries = snapshot?.entries_that_replace(&asked.csv_name);
            wire::stream(entries.map_err(not_found)?)?
        }
        "GetChannelEntriesThatProvide" => {
            let asked: proto::GetAllProvidersRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            let entries = snapshot?.entries_that_provide(&api);
            wire::stream(entries.map_err(not_found)?)?
        }
        "GetLatestChannelEntriesThatProvide" => {
            let asked: proto::GetLatestProvidersRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            let entries = snapshot?.latest_entries_that_provide(&api);
            wire::stream(entries.map_err(not_found)?)?
        }
        "GetDefaultBundleThatProvides" => {
            let asked: proto::GetDefaultProviderRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            let bundle = snapshot?.get_default_bundle_that_provides(&api);
            wire::unary(bundle.map_err(not_found)?)
        }
        "ExperimentalListPackageCustomSchemas" => schemas::answer(snapshot, request).await?,
        other => return Err(Status::unimplemented(format!("nothing answers {other}"))),
    })
}

fn api(group: String, version: String, kind: String) -> Gvk {
    Gvk {
        group,
        version,
        kind,
    }
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
        "no catalog answers to {}; there are: {}",
        Quoted(&wire::shortened(authority(request))),
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
