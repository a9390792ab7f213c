//! TLS of a port: its certificate and key, the authorities of client
//! certificates, and their renewal without a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::gauge;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::serve::net::credential::{CredentialError, Followed, lines};
use ::images::server_trust::validity;

/// The TLS settings of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The certificate chain, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
    /// The authorities of client certificates, in PEM. Without them, clients are
    /// not asked for a certificate.
    pub client_ca: Option<PathBuf>,
    /// Whether clients may connect without a certificate.
    pub client_optional: bool,
    /// The minimum version.
    pub min_version: Version,
    /// A file with rules that replace the minimum version: a version, then the
    /// allowed suites below TLS 1.3, a line each; none for all.
    pub rules: Option<PathBuf>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The current TLS of a port. Cheap to clone.
#[derive(Clone)]
pub struct Tls(watch::Receiver<Arc<ServerConfig>>);

impl Tls {
    /// Reads the files of `settings` for a service with these ALPN protocols. The
    /// returned [`Followed`] has to run for changed files to take effect.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn open(
        service: &'static str,
        settings: &Settings,
        protocols: &'static [&'static str],
    ) -> Result<(Self, Followed<ServerConfig>), CredentialError> {
        let mut paths = vec![settings.certificate.clone(), settings.key.clone()];
        paths.extend(settings.client_ca.clone());
        paths.extend(settings.rules.clone());
        let settings = settings.clone();
        let build = move |_: &[PathBuf], contents: &[Vec<u8>]| {
            let config = server_config(&settings, contents, protocols)?;
            note_expiry(service, &settings, contents);
            Ok(config)
        };
        let (followed, config) = Followed::open("certificate", service, paths, Box::new(build))?;
        Ok((Self(config), followed))
    }

    /// Runs the handshake with a client, within a time limit.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        timeout: Duration,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.0.borrow());
        let handshake = TlsAcceptor::from(config).accept(stream);
        tokio::time::timeout(timeout, handshake).await?
    }
}

fn server_config(
    settings: &Settings,
    contents: &[Vec<u8>],
    protocols: &[&str],
) -> Result<ServerConfig, CredentialError> {
    let (certificate, key) = (&settings.certificate, &settings.key);
    let chain = certificates(certificate, contents.first().map_or(&[], Vec::as_slice))?;
    let key_content = contents.get(1).map_or(&[][..], Vec::as_slice);
    let private =
        PrivateKeyDer::from_pem_slice(key_content).map_err(|error| CredentialError::Pem {
            path: key.clone(),
            wanted: "private key",
            problem: Some(error.to_string()),
        })?;
    let verifier = match (&settings.client_ca, contents.get(2)) {
        (Some(path), Some(content)) => client_verifier(path, content, settings.client_optional)?,
        _ => WebPkiClientVerifier::no_client_auth(),
    };
    let (min_version, suites) = match (&settings.rules, contents.last()) {
        (Some(path), Some(content)) => rules(path, content)?,
        _ => (settings.min_version, Vec::new()),
    };
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|suite| {
        let name = suite.suite().as_str().unwrap_or_default();
        let is_listed = suites.is_empty() || suites.iter().any(|one| one == name);
        is_listed || suite.version().version == ProtocolVersion::TLSv1_3
    });
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(min_version.and_later())
        .map(|builder| builder.with_client_cert_verifier(verifier))
        .and_then(|builder| builder.with_single_cert(chain, private))
        .map_err(|problem| CredentialError::Pair {
            certificate: certificate.clone(),
            key: key.clone(),
            problem,
        })?;
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(config)
}

/// The lowest version and the suites below TLS 1.3 in a file with rules.
fn rules(path: &Path, content: &[u8]) -> Result<(Version, Vec<String>), CredentialError> {
    let (paths, contents) = ([path.to_owned()], [content.to_owned()]);
    let lines = lines(&paths, &contents).map(|(_, _, line)| String::from_utf8_lossy(line));
    let mut lines = lines.map(std::borrow::Cow::into_owned);
    let version = match lines.next().as_deref() {
        Some("1.2") => Version::Tls12,
        Some("1.3") => Version::Tls13,
        _ => {
            return Err(CredentialError::Line {
                path: path.to_owned(),
                line: 1,
                wanted: "version of TLS",
            });
        }
    };
    Ok((version, lines.collect()))
}

fn client_verifier(
    path: &Path,
    content: &[u8],
    optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, CredentialError> {
    let refused = |problem: String| CredentialError::Authority {
        path: path.to_owned(),
        problem,
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, content)? {
        roots
            .add(authority)
            .map_err(|error| refused(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if optional {
        builder.allow_unauthenticated()
    } else {
        builder
    };
    builder.build().map_err(|error| refused(error.to_string()))
}

/// The certificates in a file; at least one.
fn certificates(
    path: &Path,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let refused = |problem| CredentialError::Pem {
        path: path.to_owned(),
        wanted: "certificate",
        problem,
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let found = found.map_err(|error| refused(Some(error.to_string())))?;
    if found.is_empty() {
        return Err(refused(None));
    }
    Ok(found)
}

/// Reports when the active certificate expires.
fn note_expiry(service: &'static str, settings: &Settings, contents: &[Vec<u8>]) {
    let path = &settings.certificate;
    let chain = certificates(path, contents.first().map_or(&[], Vec::as_slice));
    let Some(end) = chain
        .ok()
        .as_deref()
        .and_then(|chain| Some(*validity(chain.first()?)?.end()))
    else {
        return;
    };
    let seconds = end.duration_since(SystemTime::UNIX_EPOCH);
    gauge!("almanac_certificate_expiry_timestamp_seconds", "service" => service)
        .set(seconds.map_or(0.0, |time| time.as_secs_f64()));
    let expires = humantime::format_rfc3339_seconds(end);
    let path = path.display();
    if end <= SystemTime::now() {
        tracing::warn!(service, %path, %expires, "the certificate has expired");
    } else {
        tracing::info!(service, %path, %expires, "serving with a certificate");
    }
}

impl Version {
    fn and_later(self) -> &'static [&'static SupportedProtocolVersion] {
        static ONLY_13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        match self {
            Self::Tls12 => rustls::ALL_VERSIONS,
            Self::Tls13 => &ONLY_13,
        }
    }
}
