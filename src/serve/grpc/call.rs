//! Calls: their catalog, method and response.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tonic::Status;
use tracing::Instrument as _;

use crate::name::CatalogName;
use crate::proto;
use crate::serve::access::Access;
use crate::serve::grpc::health::Health;
use crate::serve::grpc::methods::{CalledMethod, EXPERIMENTAL, HEALTH, REGISTRY};
use crate::serve::grpc::observe::Call;
use crate::serve::grpc::reflection::Reflection;
use crate::serve::grpc::session::Session;
use crate::serve::grpc::unknown_names::UnknownNames;
use crate::serve::grpc::wire;
use crate::serve::net::connection::RequestHandler;
use crate::serve::net::in_flight::InFlight;
use crate::serve::net::listen::Peer;
use crate::snapshot::{Catalog, Catalogs, NotFound, Snapshot, Stream};
use crate::store::damaged_uses;
use fbc::document::Gvk;
use fbc::text::go_quote::Quoted;

/// Handles the calls of a connection.
pub(super) struct Calls {
    pub(super) catalogs: Catalogs,
    pub(super) access: Access,
    pub(super) unknown_names: UnknownNames,
    pub(super) session: Arc<Session>,
    /// The catalog of the port, if it is a catalog's own.
    pub(super) own: Option<CatalogName>,
    pub(super) health: Health,
    pub(super) reflection: Reflection,
}

/// There is no router: it would take as long as a small response. Each call gets a
/// clone of the handler, so that is one pointer.
impl RequestHandler for Arc<Calls> {
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
            (REGISTRY | EXPERIMENTAL, method) => {
                let answered = self.registry(&mut call, peer, method, request);
                answered.instrument(span).await
            }
            (_, Err(unknown)) => Err(unknown),
            (HEALTH, Ok(method)) => {
                let closing = self.session.closing();
                let answered = self.health.answer(&mut call, method, request, closing);
                answered.instrument(span).await
            }
            // The other services are the versions of reflection.
            (_, Ok(_)) => {
                let answered = self.reflection.answer(request, self.session.closing());
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
        peer: Peer,
        method: Result<&'static str, Status>,
        request: Request,
    ) -> Result<Response, Status> {
        let catalogs = &self.catalogs;
        let catalog = match &self.own {
            Some(name) => catalogs.get(name.as_str()),
            None => catalogs.route(authority(&request)),
        };
        call.catalog.clone_from(&catalog);
        let method = method?;
        let snapshot = match catalog {
            Some(catalog) => pinned(&self.session, &catalog),
            None => Err(self.no_catalog(&request, peer)),
        };
        if let Ok(snapshot) = &snapshot
            && method == "ListBundles"
        {
            self.session.listed(snapshot.package_count());
        }
        let before = damaged_uses();
        let answered = answer(method, &self.session, snapshot, request).await;
        if damaged_uses() != before {
            // The answer may lack bytes.
            let text = "a stored file is damaged; try again in a moment";
            return Err(Status::unavailable(text));
        }
        answered
    }

    /// The status of a call to an authority that no catalog has. Calls are not restricted,
    /// but only the names of open catalogs are listed.
    fn no_catalog(&self, request: &Request, peer: Peer) -> Status {
        if self.catalogs.awaits_cluster() {
            return Status::unavailable("the catalogs of the cluster are not known yet");
        }
        if let Some(name) = self.catalogs.unavailable_at(authority(request)) {
            return unavailable(&name);
        }
        let mut open = self.catalogs.all();
        let rules = self.access.rules();
        open.retain(|catalog| !rules.restrict(catalog.name.as_str()));
        let names = open.iter().map(|catalog| catalog.name.as_str());
        let end = match listed(names) {
            list if list.is_empty() => list,
            list => format!("; there are: {list}"),
        };
        let authority = wire::shortened(authority(request));
        let status = format!("no catalog answers to {}{end}", Quoted(&authority));
        let peer = peer.address.ip().to_canonical();
        self.unknown_names
            .record(authority, peer, SystemTime::now());
        Status::not_found(status)
    }
}

async fn answer(
    method: &str,
    session: &Session,
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    // opm returns plain errors, which grpc-go reports as UNKNOWN.
    let not_found = |error: NotFound| Status::unknown(wire::shortened(&error.to_string()));
    let unary = |found: Result<_, _>| found.map(wire::unary).map_err(not_found);
    let stream = |found: Result<_, _>| wire::stream(found.map_err(not_found)?);
    match method {
        "ListPackages" => {
            wire::read::<proto::ListPackageRequest>(request).await?;
            wire::stream(snapshot?.list_packages())
        }
        "ListBundles" => {
            wire::read::<proto::ListBundlesRequest>(request).await?;
            wire::stream(stored(snapshot?, Snapshot::list_bundles).await?)
        }
        "GetPackage" => {
            let proto::GetPackageRequest { name } = wire::read(request).await?;
            let package = unary(snapshot?.get_package(&name))?;
            session.requested(&name);
            Ok(package)
        }
        "GetBundle" => {
            let asked: proto::GetBundleRequest = wire::read(request).await?;
            let (package, channel) = (&asked.pkg_name, &asked.channel_name);
            unary(snapshot?.get_bundle(package, channel, &asked.csv_name))
        }
        "GetBundleForChannel" => {
            let asked: proto::GetBundleInChannelRequest = wire::read(request).await?;
            unary(snapshot?.get_bundle_for_channel(&asked.pkg_name, &asked.channel_name))
        }
        "GetBundleThatReplaces" => {
            let asked: proto::GetReplacementRequest = wire::read(request).await?;
            let (package, channel) = (&asked.pkg_name, &asked.channel_name);
            unary(snapshot?.get_bundle_that_replaces(&asked.csv_name, package, channel))
        }
        "GetChannelEntriesThatReplace" => {
            let asked: proto::GetAllReplacementsRequest = wire::read(request).await?;
            stream(snapshot?.entries_that_replace(&asked.csv_name))
        }
        "GetChannelEntriesThatProvide" => {
            let asked: proto::GetAllProvidersRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            stream(snapshot?.entries_that_provide(&api))
        }
        "GetLatestChannelEntriesThatProvide" => {
            let asked: proto::GetLatestProvidersRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            stream(snapshot?.latest_entries_that_provide(&api))
        }
        "GetDefaultBundleThatProvides" => {
            let asked: proto::GetDefaultProviderRequest = wire::read(request).await?;
            let api = api(asked.group, asked.version, asked.kind);
            unary(snapshot?.get_default_bundle_that_provides(&api))
        }
        "ExperimentalListPackageCustomSchemas" => custom_schemas(snapshot, request).await,
        other => Err(Status::unimplemented(format!("unknown method {other}"))),
    }
}

/// Many stored messages. As long as their bytes have to be compared with their sums, this
/// takes a thread for blocking work.
async fn stored(
    snapshot: Arc<Snapshot>,
    list: impl FnOnce(&Snapshot) -> Stream + Send + 'static,
) -> Result<Stream, Status> {
    if snapshot.has_quick_messages() {
        return Ok(list(&snapshot));
    }
    let listing = tokio::task::spawn_blocking(move || list(&snapshot));
    // A panic has been logged.
    let failed = |_| Status::internal("the messages could not be read");
    listing.await.map_err(failed)
}

fn api(group: String, version: String, kind: String) -> Gvk {
    Gvk {
        group,
        version,
        kind,
    }
}

/// Blobs of custom schemas, as protobuf values. Without the header that
/// acknowledges an experimental call, the response is empty and the arguments are
/// ignored.
async fn custom_schemas(
    snapshot: Result<Arc<Snapshot>, Status>,
    request: Request,
) -> Result<Response, Status> {
    let acknowledged = request.headers().get("x-acknowledge-experimental");
    let acknowledged = acknowledged.is_some_and(|value| value == "true");
    let asked: proto::ExperimentalListPackageCustomSchemasRequest = wire::read(request).await?;
    if !acknowledged {
        return wire::stream(Stream::default());
    }
    let (schema, package) = (asked.schema, asked.package_name);
    if schema.is_empty() {
        return Err(Status::invalid_argument("schema is required"));
    }
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    for (what, name) in [("schema", &schema), ("packageName", &package)] {
        let valid = name.starts_with(|first: char| first.is_ascii_alphanumeric());
        if !(name.is_empty() || valid && name.bytes().all(good)) {
            return Err(Status::invalid_argument(format!(
                "invalid custom schema query: invalid {what} {}: \
                 must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
                Quoted(&wire::shortened(name))
            )));
        }
    }
    let listing = stored(snapshot?, move |it| it.custom_schemas(&schema, &package));
    wire::stream(listing.await?)
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

fn pinned(session: &Session, catalog: &Catalog) -> Result<Arc<Snapshot>, Status> {
    if catalog.routing.withheld {
        return Err(unavailable(&catalog.name));
    }
    session
        .snapshot(catalog)
        .ok_or_else(|| Status::unavailable(format!("catalog {:?} is not loaded yet", catalog.name)))
}

fn unavailable(catalog: &CatalogName) -> Status {
    Status::not_found(format!("catalog {catalog:?} is set unavailable"))
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
