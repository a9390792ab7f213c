//! TLS of the probe: whom to trust and what to show.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connect::Target;

/// Whose certificates are good.
pub(super) enum Trust<'a> {
    /// Those of the system's authorities.
    System,
    /// Those of the authorities in a PEM file.
    File(&'a Path),
    /// Anybody's.
    Anybody,
}

/// How to speak TLS with the server.
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    authority: String,
}

impl Tls {
    /// `client` is a certificate to show and its key, as PEM files; `name` is
    /// what the server's certificate is for, unless it is for the target.
    pub(super) fn new(
        trust: &Trust<'_>,
        client: Option<(&Path, &Path)>,
        name: Option<&str>,
        target: &Target,
    ) -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match trust {
            Trust::File(path) => builder.with_root_certificates(authorities(path)?),
            Trust::System => {
                let verifier = rustls_platform_verifier::Verifier::new(provider)
                    .context("the system's authorities cannot be read")?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
            }
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        };
        let mut config = match client {
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key)
                    .with_context(|| format!("cannot read the key in {}", key.display()))?;
                builder.with_client_auth_cert(certificates(certificate)?, key)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host = name.unwrap_or(target.host());
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: ServerName::try_from(host.to_owned())
                .with_context(|| format!("{host:?} is no name of a server"))?,
            authority: name.map_or_else(|| target.authority(), str::to_owned),
        })
    }

    /// What the call says that it wants to reach.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .with_context(|| format!("{} has no good authority", path.display()))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || format!("cannot read the certificates in {}", path.display());
    let certificates = CertificateDer::pem_file_iter(path)
        .with_context(read)?
        .collect::<Result<Vec<_>, _>>()
        .with_context(read)?;
    if certificates.is_empty() {
        bail!("there is no certificate in {}", path.display());
    }
    Ok(certificates)
}

/// Takes every certificate, but only from who has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
