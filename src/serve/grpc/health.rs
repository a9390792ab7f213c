//! `grpc.health.v1.Health`.
//!
//! opm answers SERVING to every name, and probes use various names. So does
//! almanac, except for catalogs that are not loaded, set unavailable or removed,
//! and while it stops. Watches end then: they would delay the end for as long as
//! the client likes.

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use prost::Message as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::serve::grpc::observe::Call;
use crate::serve::grpc::wire::{self, MAX_NAME_REQUEST};
use crate::snapshot::{Catalogs, Message};

/// The health of catalogs. Cheap to clone.
#[derive(Clone)]
pub(super) struct Health {
    catalogs: Catalogs,
    draining: watch::Receiver<bool>,
}

/// The state of a watch.
struct Watch {
    health: Health,
    service: String,
    publications: watch::Receiver<u64>,
    draining: watch::Receiver<bool>,
    closing: CancellationToken,
    last: Option<ServingStatus>,
}

impl Health {
    /// `draining` turns true when almanac stops.
    pub(super) fn new(catalogs: Catalogs, draining: watch::Receiver<bool>) -> Self {
        Self { catalogs, draining }
    }

    /// Answers `Check` or `Watch`; a watch ends with its connection.
    pub(super) async fn answer(
        &self,
        call: &mut Call,
        method: &str,
        request: Request,
        closing: CancellationToken,
    ) -> Result<Response, Status> {
        let asked = wire::read_at_most(MAX_NAME_REQUEST, request).await?;
        let HealthCheckRequest { service } = asked;
        call.catalog = self.catalogs.get(&service);
        Ok(if method == "Watch" {
            wire::live(self.watch(service, closing).map(message))
        } else {
            wire::unary(message(self.status(&service)))
        })
    }

    fn status(&self, service: &str) -> ServingStatus {
        let served = match self.catalogs.get(service) {
            Some(catalog) => catalog.snapshot().is_some() && !catalog.routing.withheld,
            None => !self.catalogs.is_gone(service),
        };
        if served && !*self.draining.borrow() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    }

    /// The current status, then every change.
    fn watch(
        &self,
        service: String,
        closing: CancellationToken,
    ) -> impl Stream<Item = ServingStatus> + Send + use<> {
        let watch = Watch {
            health: self.clone(),
            service,
            publications: self.catalogs.publications(),
            draining: self.draining.clone(),
            closing,
            last: None,
        };
        stream::unfold(watch, async |mut watch| {
            let status = watch.next().await?;
            Some((status, watch))
        })
    }
}

impl Watch {
    async fn next(&mut self) -> Option<ServingStatus> {
        loop {
            // Read before the status, so that the end is never missed.
            let over = *self.draining.borrow_and_update();
            let status = self.health.status(&self.service);
            if self.last.replace(status) != Some(status) {
                return self.last;
            }
            if over {
                return None;
            }
            tokio::select! {
                Ok(()) = self.publications.changed() => {}
                Ok(()) = self.draining.changed() => {}
                () = self.closing.cancelled() => return None,
                else => return None,
            }
        }
    }
}

fn message(status: ServingStatus) -> Message {
    let answer = HealthCheckResponse {
        status: status.into(),
    };
    Message::from(Bytes::from(answer.encode_to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Routing;

    fn health() -> (Health, watch::Sender<bool>) {
        let names = ["fruit".parse().unwrap()];
        let (catalogs, _) = Catalogs::new(names.map(|name| (name, Routing::default())), None);
        let (drain, draining) = watch::channel(false);
        (Health::new(catalogs, draining), drain)
    }

    const NAMES: [&str; 5] = [
        "",
        "Registry",
        "api.Registry",
        "api.ExperimentalRegistry",
        "x",
    ];

    #[test]
    fn nothing_is_serving_while_almanac_stops() {
        let (health, drain) = health();
        for name in NAMES {
            assert_eq!(health.status(name), ServingStatus::Serving, "{name}");
        }
        assert_eq!(health.status("fruit"), ServingStatus::NotServing);
        drain.send_replace(true);
        for name in NAMES {
            assert_eq!(health.status(name), ServingStatus::NotServing, "{name}");
        }
    }

    #[test]
    fn a_removed_catalog_is_not_serving() {
        let (publisher, catalogs) = crate::snapshot::CatalogsPublisher::new();
        publisher.remember(["stored".parse().unwrap()]);
        let fruit = publisher.slot("fruit".parse().unwrap(), Routing::default());
        publisher.set([std::sync::Arc::new(fruit.0)], None);
        publisher.set([], None);
        let (_drain, draining) = watch::channel(false);
        let health = Health::new(catalogs, draining);
        for (name, status) in [
            ("fruit", ServingStatus::NotServing),
            ("stored", ServingStatus::NotServing),
            ("never", ServingStatus::Serving),
        ] {
            assert_eq!(health.status(name), status, "{name}");
        }
    }

    #[tokio::test]
    async fn a_watch_that_crosses_with_goaway_reports_the_status_and_ends() {
        let (health, _drain) = health();
        let closing = CancellationToken::new();
        closing.cancel();
        let watched = health.watch("x".to_owned(), closing);
        let told: Vec<_> = watched.collect().await;
        assert_eq!(told, [ServingStatus::Serving]);
    }

    #[tokio::test]
    async fn a_watch_reports_the_stop_and_ends() {
        let (health, drain) = health();
        for name in NAMES {
            drain.send_replace(false);
            let mut watched =
                std::pin::pin!(health.watch(name.to_owned(), CancellationToken::new()));
            let mut told = Vec::new();
            while let Some(status) = watched.next().await {
                told.push(status);
                drain.send_replace(true);
            }
            assert_eq!(
                told,
                [ServingStatus::Serving, ServingStatus::NotServing],
                "{name}"
            );
        }
    }
}
