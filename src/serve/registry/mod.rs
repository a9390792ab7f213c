//! The Operator Registry gRPC API, for all catalogs behind one port.
//!
//! Which catalog a call means follows from its port, when that is a catalog's
//! own, else from its authority. The answers are
//! stored messages: they are framed and sent, not encoded. Health and
//! reflection are tonic's services and answer on any authority.

mod call;
mod connection;
mod health;
mod observe;
mod pins;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tokio::sync::{Semaphore, watch};
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;

use super::Limits;
use crate::proto;
use crate::snapshot::Catalogs;

/// The largest message that health and reflection are asked with, in bytes: they
/// are the names of a service, a symbol or a file.
const MAX_OTHER_REQUEST: usize = 16 << 10;

/// What is served on all gRPC ports. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    registry: Registry,
    /// What is no call of the registry: health, reflection, the unknown.
    others: Router,
    limits: Limits,
    /// Places for calls, of all ports together.
    calls: Arc<Semaphore>,
}

/// What calls are answered from.
#[derive(Clone)]
struct Registry {
    catalogs: Catalogs,
}

impl Service {
    /// All catalogs. `draining` turns true when almanac stops.
    ///
    /// # Errors
    /// When the descriptors do not decode: a defect of the build.
    pub fn new(
        catalogs: Catalogs,
        limits: Limits,
        draining: watch::Receiver<bool>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        Ok(Self {
            others: others(catalogs.clone(), draining)?,
            registry: Registry { catalogs },
            calls: Arc::new(Semaphore::new(limits.calls.min(Semaphore::MAX_PERMITS))),
            limits,
        })
    }
}

fn others(
    catalogs: Catalogs,
    draining: watch::Receiver<bool>,
) -> Result<Router, tonic_reflection::server::Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
    };
    let health = HealthServer::new(health::HealthService { catalogs, draining })
        .max_decoding_message_size(MAX_OTHER_REQUEST);
    let tonic = tonic::service::Routes::new(health)
        .add_service(
            reflection()
                .build_v1()?
                .max_decoding_message_size(MAX_OTHER_REQUEST),
        )
        .add_service(
            reflection()
                .build_v1alpha()?
                .max_decoding_message_size(MAX_OTHER_REQUEST),
        )
        .prepare()
        .into_axum_router();
    Ok(tonic.fallback(unknown_service))
}

async fn unknown_service(request: Request) -> Response {
    if let Err(response) = wire::check(&request) {
        return *response;
    }
    let service = request.uri().path().trim_start_matches('/');
    let service = service.rsplit_once('/').map_or(service, |(name, _)| name);
    wire::refuse(&Status::new(
        Code::Unimplemented,
        format!("unknown service {}", wire::shortened(service)),
    ))
}
