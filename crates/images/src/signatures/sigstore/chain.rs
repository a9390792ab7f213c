//! Chains of certificates from an authority of the policy to a signer's.
//!
//! webpki builds the path. It takes an anchor as it is, so that the anchor's own
//! validity, purpose and length are checked here.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage, VerifiedPath};
use x509_cert::spki::ObjectIdentifier;

use crate::signatures::sigstore::certificate::{AnchorRules, certificates};

/// A purpose of certificates, in both forms that are needed.
#[derive(Clone, Copy)]
struct Purpose {
    id: ObjectIdentifier,
    /// The same without tag and length.
    der: &'static [u8],
}

/// Signing code. A certificate without any purpose may do that too.
const CODE_SIGNING: Purpose = Purpose {
    id: ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3"),
    der: &[0x2b, 6, 1, 5, 5, 7, 3, 3],
};

/// Certificate authorities. All certificates of their file are anchors, also
/// intermediate ones.
#[derive(Clone, Debug)]
pub(crate) struct Authorities(Vec<Authority>);

#[derive(Clone, Debug)]
struct Authority {
    anchor: TrustAnchor<'static>,
    rules: AnchorRules,
}

impl Authorities {
    /// Reads the authorities of a PEM. Certificates that cannot be an authority
    /// are skipped; one is needed.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, &'static str> {
        let mut authorities = Vec::new();
        let mut problem = "it contains no certificate (BEGIN CERTIFICATE)";
        for der in certificates(pem)? {
            match Authority::parse(&der) {
                Ok(authority) => authorities.push(authority),
                Err(reason) => problem = reason,
            }
        }
        if authorities.is_empty() {
            return Err(problem);
        }
        Ok(Self(authorities))
    }

    /// Checks that a path of certificates, all valid at that time, leads from an
    /// authority to the leaf, and that all of them may sign code.
    pub(super) fn verify(
        &self,
        leaf: &[u8],
        intermediates: &[Vec<u8>],
        seconds: u64,
    ) -> Result<(), String> {
        let valid = |authority: &&Authority| {
            (authority.rules.from..=authority.rules.until).contains(&seconds)
                && authority.rules.allows(CODE_SIGNING.id)
        };
        let authorities: Vec<&Authority> = self.0.iter().filter(valid).collect();
        if authorities.is_empty() {
            return Err("no authority of the policy was valid when it was made".into());
        }
        let anchors: Vec<TrustAnchor<'_>> = authorities
            .iter()
            .map(|authority| authority.anchor.clone())
            .collect();
        let leaf = CertificateDer::from(leaf);
        let leaf = EndEntityCert::try_from(&leaf).map_err(described)?;
        let intermediates: Vec<CertificateDer<'_>> = intermediates
            .iter()
            .map(|der| CertificateDer::from(der.as_slice()))
            .collect();
        let is_short = |path: &VerifiedPath<'_>| {
            let length = path.intermediate_certificates().count();
            let fits = authorities.iter().any(|authority| {
                let longest = authority.rules.max_intermediates;
                authority.anchor == *path.anchor()
                    && longest.is_none_or(|longest| length <= usize::from(longest))
            });
            fits.then_some(()).ok_or(Error::PathLenConstraintViolated)
        };
        leaf.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            &intermediates,
            UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
            KeyUsage::required_if_present(CODE_SIGNING.der),
            None,
            Some(&is_short),
        )
        .map_err(described)?;
        Ok(())
    }
}

impl Authority {
    fn parse(der: &[u8]) -> Result<Self, &'static str> {
        let rules = AnchorRules::parse(der)?;
        let certificate = CertificateDer::from(der);
        let anchor = webpki::anchor_from_trusted_cert(&certificate)
            .map_err(|_| "it is a certificate that cannot be an authority")?;
        Ok(Self {
            anchor: anchor.to_owned(),
            rules,
        })
    }
}

/// The intermediate certificates of cosign's `chain` annotation: all but the
/// last, which is the authority itself.
pub(super) fn intermediates_of_chain(chain: Option<&str>) -> Result<Vec<Vec<u8>>, String> {
    let mut all = match chain {
        Some(text) => certificates(text.as_bytes())
            .map_err(|problem| format!("its chain of certificates: {problem}"))?,
        None => Vec::new(),
    };
    all.pop();
    Ok(all)
}

fn described(error: Error) -> String {
    match error {
        Error::CertExpired { .. } => "its certificate, or one above, was expired".into(),
        Error::CertNotValidYet { .. } => "its certificate, or one above, was not valid yet".into(),
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => {
            "its certificate is by no authority of the policy".into()
        }
        Error::RequiredEkuNotFoundContext(_) => {
            "its certificate, or one above, is not for signing code".into()
        }
        Error::UnsupportedCriticalExtension => {
            "its certificate, or one above, has an unknown critical extension".into()
        }
        other => format!("its certificate cannot be verified: {other}"),
    }
}
