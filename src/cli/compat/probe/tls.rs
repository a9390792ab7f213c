//! TLS of the probe: whom to trust and what to show.

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

use crate::cli::compat::probe::connect::Target;
use crate::serve::net::validity::validity;

/// Whose certificates are good.
pub(crate) enum Trust<'a> {
    /// Those of the system's authorities.
    System,
    /// Those in a PEM file, and those of the authorities among them.
    File(&'a Path),
    /// Anybody's.
    Anybody,
}

/// How to speak TLS with the server.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    authority: String,
}

impl Tls {
    /// `client` is a certificate to show and its key, as PEM files; `name` is
    /// what the server's certificate is for, unless it is for the target.
    pub(crate) fn new(
        trust: &Trust<'_>,
        client: Option<(&Path, &Path)>,
        name: Option<&str>,
        target: &Target,
    ) -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match trust {
            Trust::File(path) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Given::read(path, provider)?)),
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

/// Takes the certificates of authorities, and one that is itself among those of
/// the authorities: a server may have signed its own, and rustls takes none of
/// an authority from a server.
#[derive(Debug)]
struct Given {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl Given {
    fn read(path: &Path, provider: Arc<CryptoProvider>) -> anyhow::Result<Self> {
        let certificates = certificates(path)?;
        let refused = || format!("{} has no good authority", path.display());
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).with_context(refused)?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self {
            certificates,
            authorities: builder.build().with_context(refused)?,
        })
    }
}

impl ServerCertVerifier for Given {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.certificates.contains(end_entity) {
            let authorities = &self.authorities;
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
        let authorities = &self.authorities;
        authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let authorities = &self.authorities;
        authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
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
