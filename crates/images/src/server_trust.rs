//! Certificates of servers: reading them, and deciding which ones to accept.
//!
//! All TLS clients have the same rule: a certificate is accepted if a trusted
//! authority signed it, or if it is trusted itself. Host name and validity are
//! checked in both cases.

use std::error::Error;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

use crate::display::clip;

/// The largest PEM file, in bytes.
const MAX_FILE: u64 = 8 << 20;
/// The most names of a certificate that a message lists.
const MAX_NAMES: usize = 8;
/// The longest text from a certificate that a message repeats, in characters.
const MAX_NAME: usize = 100;

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
    /// None: no other certificate is accepted.
    authorities: Option<Arc<dyn ServerCertVerifier>>,
}

impl Verifier {
    /// Accepts all certificates.
    pub fn with_any_certificate() -> Self {
        Self {
            provider: provider(),
            trusted: None,
        }
    }

    /// Accepts these certificates and those that they sign.
    ///
    /// # Errors
    /// When one of them is invalid.
    pub fn with_certificates(
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        if roots.is_empty() {
            return Ok(Self::new(certificates, None));
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        // There is no list of revoked certificates that could be wrong.
        let authorities = builder
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self::new(certificates, Some(authorities)))
    }

    /// Accepts what the system accepts, these certificates, and those that they
    /// sign.
    ///
    /// # Errors
    /// When one of them is invalid, or those of the system cannot be read.
    pub fn with_system_and(
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<Self, rustls::Error> {
        let extra = certificates.iter().cloned();
        let system = rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider())?;
        Ok(Self::new(certificates, Some(Arc::new(system))))
    }

    fn new(
        certificates: Vec<CertificateDer<'static>>,
        authorities: Option<Arc<dyn ServerCertVerifier>>,
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
            let Some(authorities) = &trusted.authorities else {
                return Err(CertificateError::UnknownIssuer.into());
            };
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

/// The sentence for users when an error comes from a refused certificate of a
/// server. The library names some reasons only by identifiers of its own.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    refused(error).map(sentence)
}

/// Whether an error comes from a certificate that nothing but trust in it lacks.
pub fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    match refused(error) {
        Some(CertificateError::UnknownIssuer | CertificateError::BadSignature) => true,
        Some(CertificateError::Other(other)) => matches!(
            other.0.downcast_ref(),
            Some(webpki::Error::CaUsedAsEndEntity)
        ),
        _ => false,
    }
}

fn refused<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(problem)) => Some(problem),
        _ => None,
    })
}

/// An error and its causes. The source of an I/O error is the source of its inner
/// error, so the inner error itself is taken out.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(held) => Some(held as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// Why a certificate is refused.
fn sentence(problem: &CertificateError) -> String {
    let of = "the certificate of the server";
    match problem {
        CertificateError::UnknownIssuer => format!("no trusted authority has signed {of}"),
        CertificateError::BadEncoding => format!("{of} cannot be read"),
        CertificateError::Expired => format!("{of} has expired"),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "{of} expired at {}; the clock of this machine shows {}",
            date(*not_after),
            date(*time)
        ),
        CertificateError::NotValidYet => format!("{of} is not valid yet"),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "{of} is valid from {} on; the clock of this machine shows {}",
            date(*not_before),
            date(*time)
        ),
        CertificateError::Revoked => format!("{of} is revoked"),
        // As after the renewal of an authority.
        CertificateError::BadSignature => format!(
            "no trusted authority has signed {of}; one of them has the name of its authority and \
             another key"
        ),
        CertificateError::NotValidForName => format!("{of} is for another host"),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names = names(presented);
            format!("{of} is for {names} and not for {}", expected.to_str())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("{of} is not made for servers (extended key usage)")
        }
        CertificateError::UnhandledCriticalExtension => {
            format!("{of} has a critical extension that is not known")
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. } => {
            format!("{of} is signed by an algorithm that is not supported")
        }
        CertificateError::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::CaUsedAsEndEntity) => {
                format!("{of} is that of an authority, and not trusted itself")
            }
            Some(webpki::Error::UnsupportedCertVersion) => {
                format!("{of} is not of version 3 of X.509")
            }
            _ => format!("{of} is refused ({other})"),
        },
        problem => format!("{of} is refused ({problem})"),
    }
}

fn date(time: UnixTime) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    // A year that the clock of this machine cannot show.
    time.map_or_else(
        || "a date out of range".to_owned(),
        |time| humantime::format_rfc3339_seconds(time).to_string(),
    )
}

/// The names of a certificate. The library shows each with its type around it.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| -> String {
        let inner = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest);
        let inner = inner.trim_end_matches(')').trim_matches('"');
        clip(inner, MAX_NAME)
    };
    let mut names: Vec<String> = presented.iter().take(MAX_NAMES).map(plain).collect();
    match presented.len() {
        0 => return "no name (subjectAltName)".to_owned(),
        all if all > MAX_NAMES => names.push(format!("{} more", all - MAX_NAMES)),
        _ => {}
    }
    names.join(", ")
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

    /// The verdict on a certificate that is trusted itself, at a name and a time.
    fn verdict(
        change: impl FnOnce(&mut rcgen::CertificateParams),
        name: &str,
        now: SystemTime,
    ) -> Result<(), String> {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2021, 3, 4);
        parameters.not_after = rcgen::date_time_ymd(2031, 3, 4);
        change(&mut parameters);
        let key = rcgen::KeyPair::generate().unwrap();
        let own = parameters.self_signed(&key).unwrap().der().clone();
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap());
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let verifier = Verifier::with_certificates(vec![own.clone()]).unwrap();
        let outcome = verifier.verify_server_cert(&own, &[], &name, &[], now);
        outcome.map(drop).map_err(|error| refusal(&error).unwrap())
    }

    fn day(text: &str) -> SystemTime {
        humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).unwrap()
    }

    #[test]
    fn a_trusted_certificate_is_accepted_at_its_names_while_it_is_valid() {
        let authority = |parameters: &mut rcgen::CertificateParams| {
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        };
        let today = day("2026-01-01");
        verdict(authority, "localhost", today).unwrap();
        verdict(|_| {}, "localhost", today).unwrap();
        for (name, now, said) in [
            ("a.example", today, "is for localhost and not for a.example"),
            (
                "localhost",
                day("2031-03-05"),
                "expired at 2031-03-04T00:00:00Z; the clock of this machine shows 2031-03-05",
            ),
            ("localhost", day("2021-03-03"), "is valid from 2021-03-04"),
        ] {
            let refused = verdict(authority, name, now).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_refused_certificate_is_described_without_names_of_the_library() {
        let own = |is_ca| {
            let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
            if is_ca {
                parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            }
            let key = rcgen::KeyPair::generate().unwrap();
            parameters.self_signed(&key).unwrap().der().clone()
        };
        let name = ServerName::try_from("localhost").unwrap();
        let now = UnixTime::now();
        for trusted in [vec![], vec![own(true)]] {
            let verifier = Verifier::with_certificates(trusted).unwrap();
            for shown in [own(true), own(false)] {
                let refused = verifier.verify_server_cert(&shown, &[], &name, &[], now);
                let refused = refusal(&refused.unwrap_err()).unwrap();
                assert!(
                    refused.contains("the certificate of the server"),
                    "{refused}"
                );
                assert!(!refused.contains("UsedAs"), "{refused}");
                assert!(!refused.contains("UnknownIssuer"), "{refused}");
            }
        }
        let many: Vec<String> = (0..9)
            .map(|n| format!("DnsName(\"{n}.example\")"))
            .collect();
        let shown = names(&many);
        assert!(shown.starts_with("0.example, 1.example"), "{shown}");
        assert!(shown.ends_with("7.example, 1 more"), "{shown}");
    }
}
