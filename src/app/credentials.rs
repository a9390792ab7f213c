//! The certificates, passwords and token rules that the program reads before it
//! binds a port.

use anyhow::Context as _;
use rustls::ServerConfig;

use crate::config::Config;
use crate::serve::access::Access;
use crate::serve::net::tls::Tls;
use crate::serve::net::{credential, tls};
use crate::serve::oci::{Gate, Users};

/// The credentials of the server, and the means to check those of clients.
pub(super) struct Credentials {
    pub(super) grpc: Option<Tls>,
    pub(super) http: Option<Tls>,
    pub(super) certificates: Vec<credential::Followed<ServerConfig>>,
    pub(super) gate: Gate,
    pub(super) users: Option<credential::Followed<Users>>,
}

impl Credentials {
    pub(super) fn open(config: &Config, access: &Access) -> anyhow::Result<Self> {
        let mut certificates = Vec::new();
        let mut open = |service, settings: &Option<tls::Settings>, protocols| {
            let Some(settings) = settings else {
                return anyhow::Ok(None);
            };
            let (tls, files) = Tls::open(service, settings, protocols)
                .with_context(|| format!("TLS of {service}"))?;
            certificates.push(files);
            Ok(Some(tls))
        };
        let grpc = open("grpc", &config.grpc_tls, &["h2"])?;
        let http = open("http", &config.http_tls, &["h2", "http/1.1"])?;
        let gate = Gate::open(&config.distribution, access.clone());
        let (gate, users) = gate.context("users who may pull images")?;
        if users.is_some() && http.is_none() {
            tracing::warn!("passwords are sent without TLS: anyone on the network can read them");
        }
        Ok(Self {
            grpc,
            http,
            certificates,
            gate,
            users,
        })
    }
}
