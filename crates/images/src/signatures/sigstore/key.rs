//! Public keys in PEM, and the verification of signatures.
//!
//! ECDSA with P-256 and P-384, Ed25519, and RSA with 2048 to 8192 bits. Both
//! `SHA-256` and `SHA-384` are accepted for P-384: programs differ there.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::der::asn1::{AnyRef, BitStringRef};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::spki::{AlgorithmIdentifierRef, ObjectIdentifier, SubjectPublicKeyInfoRef};

use crate::signatures::sigstore::pem_sections;

/// The supported algorithms with their curves (RFC 5480, RFC 8410, RFC 8017).
const KINDS: [(ObjectIdentifier, Option<ObjectIdentifier>, Kind); 4] = [
    (EC_PUBLIC_KEY, Some(P256), Kind::P256),
    (EC_PUBLIC_KEY, Some(P384), Kind::P384),
    (
        ObjectIdentifier::new_unwrap("1.3.101.112"),
        None,
        Kind::Edwards25519,
    ),
    (RSA, None, Kind::Rsa),
];
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const NO_KEY: &str = "its PEM contains no public key";

/// A key that verifies signatures.
#[derive(Clone)]
pub(crate) struct PublicKey {
    kind: Kind,
    /// The key as its algorithm writes it.
    bytes: Vec<u8>,
    /// The key with its algorithm (`SubjectPublicKeyInfo`).
    der: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    Edwards25519,
    Rsa,
}

impl PublicKey {
    /// Reads the first key of a PEM: `PUBLIC KEY`, or `RSA PUBLIC KEY`. Further
    /// sections are ignored, as in other programs.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, &'static str> {
        const NO_PEM: &str = "it is not a PEM public key (BEGIN PUBLIC KEY)";
        let sections = pem_sections::sections(pem).map_err(|_| NO_PEM)?;
        let section = sections.first().ok_or(NO_PEM)?;
        match section.tag() {
            "PUBLIC KEY" => Self::from_der(section.contents()),
            "RSA PUBLIC KEY" => Self::from_rsa(section.contents()),
            _ => Err(NO_PEM),
        }
    }

    /// Reads a `SubjectPublicKeyInfo`.
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, &'static str> {
        let key = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| NO_KEY)?;
        let algorithm = key.algorithm.oids();
        let known = KINDS
            .iter()
            .find(|(known, curve, _)| algorithm == Ok((*known, *curve)));
        let (_, _, kind) = known.ok_or(
            "its kind of key is not supported; supported are ECDSA with P-256 or P-384, \
             Ed25519 and RSA",
        )?;
        Ok(Self {
            kind: *kind,
            bytes: key.subject_public_key.as_bytes().ok_or(NO_KEY)?.to_vec(),
            der: der.to_vec(),
        })
    }

    /// Adds the algorithm to an `RSAPublicKey` (RFC 8017).
    fn from_rsa(key: &[u8]) -> Result<Self, &'static str> {
        let written = SubjectPublicKeyInfoRef {
            algorithm: AlgorithmIdentifierRef {
                oid: RSA,
                parameters: Some(AnyRef::NULL),
            },
            subject_public_key: BitStringRef::from_bytes(key).map_err(|_| NO_KEY)?,
        };
        Self::from_der(&written.to_der().map_err(|_| NO_KEY)?)
    }

    /// The key with its algorithm (`SubjectPublicKeyInfo`, DER).
    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whether it is a key for ECDSA, the only kind that logs have.
    pub(crate) fn is_ecdsa(&self) -> bool {
        matches!(self.kind, Kind::P256 | Kind::P384)
    }

    /// Whether `signature` was made over `message` with this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
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
            assert_eq!(key.der(), pair.subject_public_key_info(), "{key:?}");
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
    fn the_first_key_of_a_file_is_the_key() {
        let (first, second) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let both = first.public_key_pem() + &second.public_key_pem();
        let key = PublicKey::parse(both.as_bytes()).unwrap();
        assert_eq!(key.der(), first.subject_public_key_info());
    }

    #[test]
    fn an_rsa_key_without_its_algorithm_is_the_same_key() {
        // The number of RSA need not be a good one: only the form is read.
        let plain = [0x30, 6, 2, 1, 35, 2, 1, 3];
        let text = pem::encode(&pem::Pem::new("RSA PUBLIC KEY", plain));
        let key = PublicKey::parse(text.as_bytes()).unwrap();
        let text = pem::encode(&pem::Pem::new("PUBLIC KEY", key.der()));
        let same = PublicKey::parse(text.as_bytes()).unwrap();
        assert_eq!((key.kind, &key.bytes), (same.kind, &same.bytes));
        assert_eq!(key.bytes, plain);
        assert!(!key.is_ecdsa());
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
        let p256 = P256.as_bytes();
        let curve = der.windows(p256.len()).position(|bytes| bytes == p256);
        der[curve.unwrap() + p256.len() - 1] = 8;
        let error = PublicKey::from_der(&der).unwrap_err();
        assert!(error.contains("not supported"), "{error}");
        for length in 0..der.len() {
            let error = PublicKey::from_der(&der[..length]).unwrap_err();
            assert!(error.contains("no public key"), "{error}");
        }
    }
}
