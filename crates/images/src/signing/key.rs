//! Private keys that sign images.

use std::fmt;

use pem::{EncodeConfig, LineEnding, Pem};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use x509_cert::der::Encode as _;
use x509_cert::der::asn1::{AnyRef, BitStringRef};
use x509_cert::spki::{AlgorithmIdentifierRef, ObjectIdentifier, SubjectPublicKeyInfoRef};

use crate::digest::Digest;
use crate::display::clip;
use crate::signatures::sigstore::key::PublicKey;
use crate::signatures::sigstore::pem_sections;
use crate::signing::encrypted_key;

/// The largest file with a key, in bytes.
pub(super) const MAX_KEY_FILE: u64 = 64 << 10;

const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");

/// A private key: ECDSA with P-256, the kind on which all verifiers agree.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    public: PublicKey,
}

impl SigningKey {
    /// Reads a key in PEM: one of cosign, encrypted with a password, or a plain
    /// one in PKCS#8 (`PRIVATE KEY`). It computes much: it blocks.
    pub fn parse(pem: &[u8], password: &[u8]) -> Result<Self, String> {
        if pem.len() as u64 > MAX_KEY_FILE {
            return Err("it is larger than 64 KiB".into());
        }
        let section = pem_sections::only(pem)?;
        match section.tag() {
            "PRIVATE KEY" => Self::from_pkcs8(section.contents()),
            "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => {
                Self::from_pkcs8(&encrypted_key::decrypt(section.contents(), password)?)
            }
            tag => {
                let tag = clip(tag, 50);
                Err(format!(
                    "it is a PEM {tag:?}; supported are keys of cosign and \"PRIVATE KEY\" \
                     (PKCS#8)"
                ))
            }
        }
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, String> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &random)
            .map_err(|_| "its key is not an ECDSA key with P-256, the only supported kind")?;
        let public = PublicKey::from_der(&subject_public_key(pair.public_key().as_ref())?)?;
        Ok(Self {
            pair,
            random,
            public,
        })
    }

    /// The public key that verifies its signatures, in PEM.
    pub fn public_key_pem(&self) -> String {
        let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
        pem::encode_config(&Pem::new("PUBLIC KEY", self.public.der()), config)
    }

    /// The digest of the public key (of its `SubjectPublicKeyInfo`), which tells
    /// keys apart.
    pub fn public_key_digest(&self) -> Digest {
        Digest::of(self.public.der())
    }

    /// Signs bytes: ECDSA with SHA-256, in DER.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let signature = self.pair.sign(&self.random, message);
        let signature = signature.map_err(|_| "the system has no random numbers")?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?})", self.public)
    }
}

/// A point of P-256 with its algorithm (RFC 5480).
fn subject_public_key(point: &[u8]) -> Result<Vec<u8>, String> {
    let key = SubjectPublicKeyInfoRef {
        algorithm: AlgorithmIdentifierRef {
            oid: EC_PUBLIC_KEY,
            parameters: Some(AnyRef::from(&P256)),
        },
        subject_public_key: BitStringRef::from_bytes(point).map_err(|error| error.to_string())?,
    };
    key.to_der().map_err(|error| error.to_string())
}
