//! The statements of a certificate about its holder, and which certificates may be anchors
//! (RFC 5280; Fulcio's extensions).

use std::net::IpAddr;

use x509_cert::Certificate;
use x509_cert::der::asn1::Utf8StringRef;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
};
use x509_cert::spki::ObjectIdentifier;

use crate::signatures::sigstore::key::PublicKey;
use crate::signatures::sigstore::pem_sections;

/// The largest certificate, in bytes of DER.
const MAX_CERTIFICATE: usize = 64 << 10;
/// The most certificates of one text.
const MAX_CERTIFICATES: usize = 32;

const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const NAME_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.30");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const ANY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");
/// The issuer of the identity, as plain text.
const FULCIO_ISSUER_1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.1");
/// The issuer of the identity, as a string of DER.
const FULCIO_ISSUER_2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.8");

/// A certificate of a signer.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) key: PublicKey,
    issuers: [Option<Vec<u8>>; 2],
    names: Vec<GeneralName>,
}

/// The part of an authority that webpki does not check.
#[derive(Clone, Debug)]
pub(super) struct AnchorRules {
    /// The first second of its validity.
    pub(super) from: u64,
    /// The last second of its validity.
    pub(super) until: u64,
    /// The most certificates between it and the leaf.
    pub(super) max_intermediates: Option<u8>,
    /// The only purposes of certificates below it.
    purposes: Option<Vec<ObjectIdentifier>>,
}

/// The certificates of a PEM, as DER. Any other section is an error.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let sections = pem_sections::sections(pem)?;
    if sections.len() > MAX_CERTIFICATES {
        return Err("it has more than 32 certificates");
    }
    let certificates = sections.into_iter().map(|section| {
        if section.tag() != "CERTIFICATE" {
            return Err("it has something else than certificates");
        }
        if section.contents().len() > MAX_CERTIFICATE {
            return Err("it has a certificate of more than 64 KiB");
        }
        Ok(section.into_contents())
    });
    certificates.collect()
}

fn parse(der: &[u8]) -> Result<Certificate, &'static str> {
    if der.len() > MAX_CERTIFICATE {
        return Err("it is a certificate of more than 64 KiB");
    }
    let certificate = Certificate::from_der(der).map_err(|_| "it is not a certificate")?;
    let mut kinds: Vec<_> = extensions(&certificate)
        .iter()
        .map(|extension| extension.extn_id)
        .collect();
    kinds.sort_unstable();
    if kinds.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("it is a certificate with a repeated extension");
    }
    Ok(certificate)
}

fn extensions(certificate: &Certificate) -> &[Extension] {
    let extensions = certificate.tbs_certificate().extensions();
    extensions.map_or(&[], Vec::as_slice)
}

fn extension(certificate: &Certificate, kind: ObjectIdentifier) -> Option<&[u8]> {
    let mut extensions = extensions(certificate).iter();
    let found = extensions.find(|extension| extension.extn_id == kind)?;
    Some(found.extn_value.as_bytes())
}

/// The decoded extension, if the certificate has it.
fn decoded<'a, T: x509_cert::der::Decode<'a>>(
    certificate: &'a Certificate,
    kind: ObjectIdentifier,
) -> Result<Option<T>, &'static str> {
    let bytes = extension(certificate, kind);
    let decoded = bytes.map(|bytes| T::from_der(bytes));
    decoded
        .transpose()
        .map_err(|_| "it is a certificate with an extension that cannot be read")
}

impl Leaf {
    /// Reads a certificate. Whether it is trusted is another question.
    pub(super) fn parse(der: &[u8]) -> Result<Self, &'static str> {
        let certificate = parse(der)?;
        let key = certificate.tbs_certificate().subject_public_key_info();
        let key = key.to_der().map_err(|_| "its certificate has no key")?;
        let names: Option<SubjectAltName> = decoded(&certificate, SUBJECT_ALT_NAME)?;
        let issuer = |kind| extension(&certificate, kind).map(<[u8]>::to_vec);
        Ok(Self {
            key: PublicKey::from_der(&key)?,
            issuers: [issuer(FULCIO_ISSUER_1), issuer(FULCIO_ISSUER_2)],
            names: names.map_or_else(Vec::new, |names| names.0),
        })
    }

    /// The issuer of the holder's identity. Two statements must agree.
    pub(super) fn issuer(&self) -> Result<String, &'static str> {
        const UNREADABLE: &str = "its certificate names an issuer that cannot be read";
        let [plain, encoded] = &self.issuers;
        let plain = plain.as_ref().map(|bytes| {
            let text = std::str::from_utf8(bytes);
            text.map(str::to_owned).map_err(|_| UNREADABLE)
        });
        let encoded = encoded.as_ref().map(|bytes| {
            let text = Utf8StringRef::from_der(bytes);
            text.map(|text| text.as_str().to_owned())
                .map_err(|_| UNREADABLE)
        });
        match (plain.transpose()?, encoded.transpose()?) {
            (Some(plain), Some(encoded)) if plain != encoded => {
                Err("its certificate names two issuers")
            }
            (Some(issuer), _) | (None, Some(issuer)) => Ok(issuer),
            (None, None) => Err("its certificate names no issuer"),
        }
    }

    /// The addresses of mail, for which a URI never counts.
    pub(super) fn emails(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| match name {
            GeneralName::Rfc822Name(address) => Some(address.as_str()),
            _ => None,
        })
    }

    /// Whether it is valid for a host, or an address in digits. Its common name
    /// does not count.
    pub(super) fn is_for_host(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<IpAddr>() {
            let octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            return self.names.iter().any(
                |name| matches!(name, GeneralName::IpAddress(bytes) if bytes.as_bytes() == octets),
            );
        }
        self.names.iter().any(|name| {
            matches!(name, GeneralName::DnsName(pattern) if matches_host(pattern.as_str(), host))
        })
    }
}

/// Whether a name of a certificate covers a host. A wildcard stands for the
/// whole leftmost label.
fn matches_host(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let (patterns, labels): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    let mut pairs = patterns.iter().zip(&labels).enumerate();
    patterns.len() == labels.len()
        && pairs.all(|(index, (pattern, label))| {
            let is_wildcard = index == 0 && *pattern == "*" && labels.len() > 1;
            !label.is_empty() && (is_wildcard || pattern.eq_ignore_ascii_case(label))
        })
}

impl AnchorRules {
    /// Reads an authority, which must be allowed to sign certificates.
    pub(super) fn parse(der: &[u8]) -> Result<Self, &'static str> {
        const NO_AUTHORITY: &str = "it is a certificate that is not an authority";
        let certificate = parse(der)?;
        let basic: Option<BasicConstraints> = decoded(&certificate, BASIC_CONSTRAINTS)?;
        let basic = basic.filter(|basic| basic.ca).ok_or(NO_AUTHORITY)?;
        let usage: Option<KeyUsage> = decoded(&certificate, KEY_USAGE)?;
        if usage.is_some_and(|usage| !usage.0.contains(KeyUsages::KeyCertSign)) {
            return Err(NO_AUTHORITY);
        }
        let known = [
            BASIC_CONSTRAINTS,
            KEY_USAGE,
            NAME_CONSTRAINTS,
            EXTENDED_KEY_USAGE,
        ];
        let unknown = extensions(&certificate).iter().any(|extension| {
            extension.critical
                && extension.extn_id != SUBJECT_ALT_NAME
                && !known.contains(&extension.extn_id)
        });
        if unknown {
            return Err("it is a certificate with an unknown critical extension");
        }
        let purposes: Option<ExtendedKeyUsage> = decoded(&certificate, EXTENDED_KEY_USAGE)?;
        let validity = certificate.tbs_certificate().validity();
        Ok(Self {
            from: validity.not_before.to_unix_duration().as_secs(),
            until: validity.not_after.to_unix_duration().as_secs(),
            max_intermediates: basic.path_len_constraint,
            purposes: purposes.map(|purposes| purposes.0),
        })
    }

    /// Whether certificates below it may have a purpose.
    pub(super) fn allows(&self, purpose: ObjectIdentifier) -> bool {
        let purposes = self.purposes.as_ref();
        purposes.is_none_or(|all| all.iter().any(|one| *one == purpose || *one == ANY_USAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        for (pattern, host, expected) in [
            ("a.example", "a.example", true),
            ("A.example", "a.EXAMPLE.", true),
            ("*.example", "a.example", true),
            ("*.example", "b.a.example", false),
            ("a.*.example", "a.b.example", false),
            ("*a.example", "ba.example", false),
            ("*", "a", false),
            ("*.example", ".example", false),
            ("", "", false),
            ("a.example", "example", false),
        ] {
            assert_eq!(matches_host(pattern, host), expected, "{pattern} {host}");
        }
    }
}
