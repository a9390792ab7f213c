//! TLS of the probe: trusted authorities and the client certificate.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::cli::compat::probe::target::Target;
use crate::serve::net::tls::validity;

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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::System => Arc::new(
                rustls_platform_verifier::Verifier::new(provider)
                    .context("cannot read the system's authorities")?,
            ),
            Trust::File(path) => Arc::new(Verifier::of_file(path, provider)?),
            Trust::Any => Arc::new(Verifier {
                provider,
                only: None,
            }),
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
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

/// Accepts some certificates, whose keys the server must have.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// The certificates to accept, and the authorities that they are; all without
    /// any. A server may present a self-signed certificate of an authority, which
    /// rustls alone would refuse.
    only: Option<(Vec<CertificateDer<'static>>, Arc<WebPkiServerVerifier>)>,
}

impl Verifier {
    fn of_file(path: &Path, provider: Arc<CryptoProvider>) -> anyhow::Result<Self> {
        let certificates = certificates(path)?;
        let refused = || format!("{} has an invalid certificate", path.display());
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).with_context(refused)?;
        }
        let roots = Arc::new(roots);
        let authorities =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        Ok(Self {
            provider,
            only: Some((certificates, authorities.with_context(refused)?)),
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some((certificates, authorities)) = &self.only else {
            return Ok(ServerCertVerified::assertion());
        };
        if !certificates.contains(end_entity) {
            return authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        let validity = validity(end_entity).ok_or(CertificateError::BadEncoding)?;
        // Before 1970 is as long ago as 1970.
        let since = |time: &SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let [not_before, not_after] =
            [validity.start(), validity.end()].map(|time| UnixTime::since_unix_epoch(since(time)));
        let time = now;
        if time < not_before {
            return Err(CertificateError::NotValidYetContext { time, not_before }.into());
        }
        if time > not_after {
            return Err(CertificateError::ExpiredContext { time, not_after }.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
