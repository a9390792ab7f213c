//! Certificates: reading them, and deciding which servers to accept.

use std::error::Error;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// The largest PEM file, in bytes.
const MAX_FILE: u64 = 8 << 20;

/// The certificates in a PEM file of at most 8 MiB.
///
/// # Errors
/// With the file and the reason, when it cannot be read or has no certificate.
pub fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let refused = |problem: String| {
        format!(
            "cannot read the certificates in {}: {problem}",
            path.display()
        )
    };
    let size = std::fs::metadata(path)
        .map_err(|error| refused(error.to_string()))?
        .len();
    if size > MAX_FILE {
        return Err(refused(format!("it is larger than {MAX_FILE} bytes")));
    }
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(error.to_string()))?;
    if found.is_empty() {
        return Err(refused("it contains no certificate".into()));
    }
    Ok(found)
}

/// The validity of a certificate (RFC 5280, section 4.1), which rustls does not
/// expose. `None` for bytes that are no certificate.
pub fn validity(certificate: &[u8]) -> Option<RangeInclusive<SystemTime>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some(validity.not_before.to_system_time()..=validity.not_after.to_system_time())
}

/// Accepts some certificates of servers, whose keys the servers must have.
#[derive(Debug)]
pub struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` accepts all.
    trusted: Option<Trusted>,
}

/// The accepted certificates: some, and those that authorities sign. A server may
/// present a self-signed certificate of an authority, which rustls alone would
/// refuse.
#[derive(Debug)]
struct Trusted {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Arc<dyn ServerCertVerifier>,
}

impl Verifier {
    /// Accepts all certificates.
    pub fn of_any() -> Self {
        Self {
            provider: provider(),
            trusted: None,
        }
    }

    /// Accepts these certificates and those that they sign.
    ///
    /// # Errors
    /// When one of them is invalid.
    pub fn of(certificates: Vec<CertificateDer<'static>>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        // There is at least one authority, and no list of revoked certificates.
        let authorities = builder
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self::new(certificates, authorities))
    }

    /// Accepts what the system accepts, these certificates, and those that they
    /// sign.
    ///
    /// # Errors
    /// When one of them is invalid, or those of the system cannot be read.
    pub fn of_system_and(
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<Self, rustls::Error> {
        let extra = certificates.iter().cloned();
        let system = rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider())?;
        Ok(Self::new(certificates, Arc::new(system)))
    }

    fn new(
        certificates: Vec<CertificateDer<'static>>,
        authorities: Arc<dyn ServerCertVerifier>,
    ) -> Self {
        let trusted = Trusted {
            certificates,
            authorities,
        };
        Self {
            provider: provider(),
            trusted: Some(trusted),
        }
    }

    /// The beginning of a TLS client that uses this verifier.
    ///
    /// # Errors
    /// When the versions of TLS and the algorithms do not fit together.
    pub fn client(self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?;
        Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self)))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
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
        let Some(trusted) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        if !trusted.certificates.contains(end_entity) {
            return trusted.authorities.verify_server_cert(
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

/// The sentence for users when an error comes from a refused certificate of a
/// server. The library names some reasons only by identifiers of its own.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(problem)) = error.downcast_ref() {
            return Some(match problem {
                CertificateError::UnknownIssuer => {
                    "no trusted authority has signed the certificate of the server".to_owned()
                }
                CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                    "the certificate of the server is that of an authority, and not trusted itself"
                        .to_owned()
                }
                problem => {
                    let text = problem.to_string();
                    let text = text.strip_prefix("certificate ").unwrap_or(&text);
                    format!("the certificate of the server is refused: {text}")
                }
            });
        }
        // An error of a connection does not name the one that it holds as its source.
        next = match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(held) => Some(held as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_and_end_of_a_certificate_are_read() {
        for year in [2031, 2061] {
            let mut parameters = rcgen::CertificateParams::new(vec!["a".into()]).unwrap();
            parameters.not_before = rcgen::date_time_ymd(2021, 3, 4);
            parameters.not_after = rcgen::date_time_ymd(year, 2, 28);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            let validity = validity(certificate.der()).unwrap();
            let text = |time| humantime::format_rfc3339_seconds(time).to_string();
            assert_eq!(text(*validity.start()), "2021-03-04T00:00:00Z");
            assert_eq!(text(*validity.end()), format!("{year}-02-28T00:00:00Z"));
            for length in 0..certificate.der().len() {
                assert_eq!(super::validity(&certificate.der()[..length]), None);
            }
        }
    }
}
