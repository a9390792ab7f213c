//! TLS of the probe: trusted authorities and the client certificate.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::cli::compat::probe::target::Target;
use ::images::server_trust::{self, Verifier};

/// The trusted certificates.
pub(crate) enum Trust<'a> {
    /// Certificates of the system's authorities.
    System,
    /// The certificates in a PEM file, and those that they sign.
    File(&'a Path),
    /// All certificates.
    Any,
}

/// A TLS client for one server.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    authority: String,
}

impl Tls {
    /// `client` are the PEM files of the client certificate and its key. `name`
    /// is the expected name of the server, instead of the target's host.
    pub(crate) fn new(
        trust: &Trust<'_>,
        client: Option<(&Path, &Path)>,
        name: Option<&str>,
        target: &Target,
    ) -> anyhow::Result<Self> {
        let verifier = match trust {
            Trust::System => Verifier::with_system_and(Vec::new())
                .context("cannot read the system's authorities")?,
            Trust::File(path) => Verifier::with_certificates(read(path)?)
                .with_context(|| format!("{} has an invalid certificate", path.display()))?,
            Trust::Any => Verifier::with_any_certificate(),
        };
        let builder = verifier.client()?;
        let mut config = match client {
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key)
                    .with_context(|| format!("cannot read the key in {}", key.display()))?;
                builder.with_client_auth_cert(read(certificate)?, key)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host = name.unwrap_or(target.host());
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: ServerName::try_from(host.to_owned())
                .with_context(|| format!("{host:?} is not a server name"))?,
            authority: name.map_or_else(|| target.to_string(), str::to_owned),
        })
    }

    /// The authority of calls to the server.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    server_trust::read(path).map_err(anyhow::Error::msg)
}
