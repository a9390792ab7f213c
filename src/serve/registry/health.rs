//! `grpc.health.v1.Health`.
//!
//! The peer answers SERVING to every name, and probes ask under names of their
//! own. So do we, but for the names of catalogs that are not loaded or set unavailable, and while
//! almanac is stopping. A watch ends then: it would hold up the end for as long
//! as the client likes.

use std::pin::Pin;

use futures_util::Stream;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::snapshot::Catalogs;

#[derive(Clone)]
pub(super) struct HealthService {
    pub(super) catalogs: Catalogs,
    pub(super) draining: watch::Receiver<bool>,
}

impl HealthService {
    fn status(&self, service: &str) -> HealthCheckResponse {
        let loaded = self
            .catalogs
            .get(service)
            .is_none_or(|catalog| catalog.snapshot().is_some() && !catalog.routing.withheld);
        let status = if loaded && !*self.draining.borrow() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        HealthCheckResponse {
            status: status.into(),
        }
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(self.status(&request.get_ref().service)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let (sender, receiver) = mpsc::channel(1);
        let health = self.clone();
        tokio::spawn(async move {
            let mut publications = health.catalogs.publications();
            let mut draining = health.draining.clone();
            let mut last = None;
            loop {
                // Asked first, so that the end is never missed.
                let ending = *draining.borrow_and_update();
                let status = health.status(&service);
                if last.as_ref() != Some(&status) {
                    last = Some(status);
                    if sender.send(Ok(status)).await.is_err() {
                        return;
                    }
                }
                if ending {
                    return;
                }
                tokio::select! {
                    Ok(()) = publications.changed() => {}
                    Ok(()) = draining.changed() => {}
                    () = sender.closed() => return,
                    else => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;
    use crate::snapshot::Routing;

    fn service() -> (HealthService, watch::Sender<bool>) {
        let names = ["fruit".parse().unwrap()];
        let (catalogs, _) = Catalogs::new(names.map(|name| (name, Routing::default())), None);
        let (drain, draining) = watch::channel(false);
        (HealthService { catalogs, draining }, drain)
    }

    fn request(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest {
            service: service.to_owned(),
        })
    }

    const NAMES: [&str; 5] = [
        "",
        "Registry",
        "api.Registry",
        "api.ExperimentalRegistry",
        "x",
    ];

    #[tokio::test]
    async fn nothing_is_well_any_more_when_almanac_ends() {
        let (health, drain) = service();
        let status = async |name| {
            let answer = health.check(request(name)).await.unwrap();
            answer.into_inner().status()
        };
        for name in NAMES {
            assert_eq!(status(name).await, ServingStatus::Serving, "{name}");
        }
        assert_eq!(status("fruit").await, ServingStatus::NotServing);
        drain.send_replace(true);
        for name in NAMES {
            assert_eq!(status(name).await, ServingStatus::NotServing, "{name}");
        }
    }

    #[tokio::test]
    async fn a_watch_tells_the_end_and_ends() {
        let (health, drain) = service();
        for name in NAMES {
            drain.send_replace(false);
            let mut watched = health.watch(request(name)).await.unwrap().into_inner();
            let mut told = Vec::new();
            while let Some(status) = watched.next().await {
                told.push(status.unwrap().status());
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
