//! Public keys in PEM (`SubjectPublicKeyInfo`), and the verification of
//! signatures.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

/// The supported algorithms with their curves (RFC 5480, RFC 8410, RFC 8017).
const KINDS: [(ObjectIdentifier, Option<ObjectIdentifier>, Kind); 4] = [
    (EC_PUBLIC_KEY, Some(P256), Kind::P256),
    (EC_PUBLIC_KEY, Some(P384), Kind::P384),
    (
        ObjectIdentifier::new_unwrap("1.3.101.112"),
        None,
        Kind::Edwards25519,
    ),
    (
        ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1"),
        None,
        Kind::Rsa,
    ),
];
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

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
        if let Some(rsa) = of_pkcs1(pem) {
            return Ok(Self {
                kind: Kind::Rsa,
                bytes: rsa,
            });
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
            .map_err(|_| "it is no PEM public key (BEGIN PUBLIC KEY)")?;
        Self::of_der(&der)
    }

    fn of_der(der: &[u8]) -> Result<Self, &'static str> {
        const NO_KEY: &str = "its PEM contains no public key";
        let key = SubjectPublicKeyInfoRef::try_from(der).map_err(|_| NO_KEY)?;
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

/// The key of a PEM in the older format of RSA keys alone (PKCS#1).
fn of_pkcs1(pem: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(pem).ok()?.trim_start();
    let text = text.strip_prefix("-----BEGIN RSA PUBLIC KEY-----")?;
    let (body, _) = text.split_once("-----END RSA PUBLIC KEY-----")?;
    let body: String = body.split_ascii_whitespace().collect();
    BASE64_STANDARD.decode(body).ok()
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
        let p256 = P256.as_bytes();
        let curve = der.windows(p256.len()).position(|bytes| bytes == p256);
        der[curve.unwrap() + p256.len() - 1] = 8;
        let error = PublicKey::of_der(&der).unwrap_err();
        assert!(error.contains("not supported"), "{error}");
        for length in 0..der.len() {
            let error = PublicKey::of_der(&der[..length]).unwrap_err();
            assert!(error.contains("no public key"), "{error}");
        }
    }
}
