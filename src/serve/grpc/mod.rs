//! The Operator Registry gRPC API, for all catalogs behind one port.
//!
//! Which catalog a call means follows from its port, when that is a catalog's
//! own, else from its authority. The answers are
//! stored messages: they are framed and sent, not encoded. Health and
//! reflection, which is tonic's, answer on any authority.

mod call;
mod connection;
mod health;
mod observe;
mod pins;
mod reflection;
mod schemas;
mod services;
mod wire;

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::serve::Limits;
use crate::snapshot::Catalogs;
use health::Health;
use reflection::Reflection;

/// The largest message that health and reflection are asked with, in bytes: it
/// is the name of a service, a symbol or a file.
const MAX_NAME_REQUEST: usize = 16 << 10;

/// How many streams of health and reflection may be open, on all ports: a few
/// clients have them, for as long as they like.
const MAX_ASIDES: usize = 1000;

/// What is served on all gRPC ports. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    registry: Registry,
    health: Health,
    reflection: Reflection,
    limits: Limits,
    /// Places for calls, of all ports together.
    calls: Arc<Semaphore>,
    /// The same for streams of health and reflection.
    asides: Arc<Semaphore>,
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
            health: Health::new(catalogs.clone(), draining),
            reflection: Reflection::new()?,
            registry: Registry { catalogs },
            calls: Arc::new(Semaphore::new(limits.calls.min(Semaphore::MAX_PERMITS))),
            asides: Arc::new(Semaphore::new(MAX_ASIDES)),
            limits,
        })
    }
}
