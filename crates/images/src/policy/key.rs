//! Public keys in PEM (`SubjectPublicKeyInfo`), and the verification of
//! signatures.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

/// Object identifiers in their DER encoding (RFC 5480, RFC 8410, RFC 8017).
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const EDWARDS_25519: &[u8] = &[0x2b, 0x65, 0x70];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BIT_STRING: u8 = 0x03;

/// A key that verifies signatures.
#[derive(Clone)]
pub(super) struct PublicKey {
    kind: Kind,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    P256,
    P384,
    Edwards25519,
    Rsa,
}

impl PublicKey {
    /// Reads the first key of a PEM.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, &'static str> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
            .map_err(|_| "it is no PEM public key (BEGIN PUBLIC KEY)")?;
        let (kind, bytes) = split(&der).ok_or("its PEM contains no public key")?;
        let kind = kind.ok_or(
            "its kind of key is not supported; supported are ECDSA with P-256 or P-384, \
             Ed25519 and RSA",
        )?;
        Ok(Self {
            kind,
            bytes: bytes.to_vec(),
        })
    }

    /// Whether `signature` was made over `message` with this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithms: &[&'static dyn VerificationAlgorithm] = match self.kind {
            Kind::P256 => &[&ECDSA_P256_SHA256_ASN1],
            // Both are in use.
            Kind::P384 => &[&ECDSA_P384_SHA256_ASN1, &ECDSA_P384_SHA384_ASN1],
            Kind::Edwards25519 => &[&ED25519],
            Kind::Rsa => &[&RSA_PKCS1_2048_8192_SHA256],
        };
        algorithms.iter().any(|algorithm| {
            let key = UnparsedPublicKey::new(*algorithm, &self.bytes);
            key.verify(message, signature).is_ok()
        })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?})", self.kind)
    }
}

/// The kind of a key, if it is supported, and its bits.
fn split(der: &[u8]) -> Option<(Option<Kind>, &[u8])> {
    let (whole, []) = value(der, SEQUENCE)? else {
        return None;
    };
    let (algorithm, rest) = value(whole, SEQUENCE)?;
    let (bits, []) = value(rest, BIT_STRING)? else {
        return None;
    };
    let (identifier, parameters) = value(algorithm, OBJECT_IDENTIFIER)?;
    let curve = value(parameters, OBJECT_IDENTIFIER).map(|(curve, _)| curve);
    let kind = match (identifier, curve) {
        (EC_PUBLIC_KEY, Some(P256)) => Some(Kind::P256),
        (EC_PUBLIC_KEY, Some(P384)) => Some(Kind::P384),
        (EDWARDS_25519, None) => Some(Kind::Edwards25519),
        (RSA, None) => Some(Kind::Rsa),
        _ => None,
    };
    // The first byte is the number of unused bits.
    Some((kind, bits.strip_prefix(&[0])?))
}

/// The content of the first DER value, and the bytes after it.
fn value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if !(1..=3).contains(&count) {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        let length = digits
            .iter()
            .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        (length, rest)
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};

    #[test]
    fn each_kind_of_key_verifies_what_it_signed() {
        for algorithm in [
            &rcgen::PKCS_ECDSA_P256_SHA256,
            &rcgen::PKCS_ECDSA_P384_SHA384,
            &rcgen::PKCS_ED25519,
        ] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let key = PublicKey::parse(pair.public_key_pem().as_bytes()).unwrap();
            let signature = pair.sign(b"message").unwrap();
            assert!(key.verifies(b"message", &signature), "{key:?}");
            assert!(!key.verifies(b"massage", &signature), "{key:?}");
            assert!(!key.verifies(b"message", &signature[1..]), "{key:?}");
            assert!(!key.verifies(b"message", b""), "{key:?}");
            let other = KeyPair::generate_for(algorithm).unwrap();
            let other = PublicKey::parse(other.public_key_pem().as_bytes()).unwrap();
            assert!(!other.verifies(b"message", &signature), "{key:?}");
        }
    }

    #[test]
    fn other_content_is_rejected() {
        let pair = KeyPair::generate().unwrap();
        for pem in [
            String::new(),
            "key".into(),
            pair.serialize_pem(),
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".into(),
        ] {
            assert!(PublicKey::parse(pem.as_bytes()).is_err(), "{pem}");
        }
        // P-521.
        let mut der = pair.subject_public_key_info();
        let curve = der
            .windows(P256.len())
            .position(|bytes| bytes == P256)
            .unwrap();
        der[curve + P256.len() - 1] = 8;
        assert!(split(&der).unwrap().0.is_none());
        for length in 0..der.len() {
            assert!(split(&der[..length]).is_none());
        }
    }
}
