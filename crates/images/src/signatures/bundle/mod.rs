//! Bundles of sigstore, version 0.3: a signed statement about digests, with the
//! proof of who signed it (sigstore protobuf-specs, `sigstore_bundle.proto`).
//!
//! A bundle usually names no image. So it satisfies a requirement only if the
//! statement has a name that fits, or if the digest alone was declared enough.

mod json;
mod log_entry;
mod statement;

use crate::digest::Digest;
use crate::display::clip;
use crate::manifest::object;
use crate::signatures::bundle::json::{BundleJson, Envelope, LogEntry, MAX_ENTRIES};
use crate::signatures::sigstore::key::PublicKey;
use crate::signatures::sigstore::trust::Trust;

/// The media type of a bundle, and its artifact type.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The older spelling of the same.
const BUNDLE_PARAMETER: &str = "application/vnd.dev.sigstore.bundle+json;version=0.3";
/// The kind of the signed content.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// The largest bundle, in bytes.
pub(crate) const MAX_BUNDLE: u64 = 1 << 20;

/// A bundle as it was found, not verified.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    pub(crate) bytes: Vec<u8>,
    /// Whether the digest alone was declared enough for the image.
    pub(crate) digest_suffices: bool,
}

/// The parts that every bundle has.
struct Parts {
    certificate: Option<Vec<u8>>,
    entries: Vec<LogEntry>,
    envelope: Envelope,
    signature: Vec<u8>,
}

impl Bundle {
    /// Checks that a statement about this digest was signed by someone trusted.
    /// Returns the signer, and the names of the statement's subject: none when
    /// the statement names no image.
    pub(crate) fn verify(
        &self,
        trust: &Trust,
        digest: &Digest,
    ) -> Result<(String, Vec<String>), String> {
        let parts = Parts::parse(&self.bytes)?;
        let signer = parts.verify(trust)?;
        let names = statement::names_of(&parts.envelope.payload, digest)?;
        Ok((signer, names))
    }
}

impl Parts {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() as u64 > MAX_BUNDLE {
            return Err("it is larger than 1 MiB".into());
        }
        let bundle: BundleJson =
            object(bytes).map_err(|error| format!("it is not a bundle: {error}"))?;
        if ![BUNDLE, BUNDLE_PARAMETER].contains(&bundle.media_type.as_str()) {
            let kind = clip(&bundle.media_type, 100);
            return Err(format!("it is a bundle of another version: {kind:?}"));
        }
        let material = bundle.verification_material;
        if material.x509_certificate_chain.is_some() {
            return Err("it has a chain of certificates, which version 0.3 does not allow".into());
        }
        let certificate = match (material.certificate, material.public_key) {
            (Some(certificate), None) => Some(certificate.raw_bytes),
            (None, Some(_)) => None,
            _ => return Err("it needs either a certificate or a key".into()),
        };
        if material.tlog_entries.len() > MAX_ENTRIES {
            return Err("it has more than 32 log entries".into());
        }
        let envelope = bundle.dsse_envelope.ok_or("it has no signed statement")?;
        if envelope.payload_type != STATEMENT {
            return Err("it has no signed statement".into());
        }
        let [only] = &envelope.signatures[..] else {
            return Err("it needs exactly one signature".into());
        };
        Ok(Self {
            certificate,
            entries: material.tlog_entries,
            signature: only.sig.clone(),
            envelope,
        })
    }

    fn verify(&self, trust: &Trust) -> Result<String, String> {
        match trust {
            Trust::Keys(trust) => {
                if self.certificate.is_some() {
                    return Err("it is by a certificate, and the policy has a key".into());
                }
                let signed = self.envelope.signed();
                let mut keys = trust.keys.iter();
                let key = keys.find(|key| key.key.verifies(&signed, &self.signature));
                let key = key.ok_or("it was not made with a key of the policy")?;
                if let Some(logs) = &trust.logs {
                    self.logged(logs, key.key.der())?;
                }
                Ok(key.to_string())
            }
            Trust::Fulcio(trust) => {
                let certificate = self.certificate.as_ref();
                let certificate = certificate.ok_or("it has no certificate")?;
                let time = self.logged(&trust.logs, certificate)?;
                let key = trust.key_of(certificate, &[], time)?;
                if !key.verifies(&self.envelope.signed(), &self.signature) {
                    return Err("it was not made with the key of its certificate".into());
                }
                Ok(trust.to_string())
            }
            Trust::Pki(_) => Err("bundles are not supported for pki".into()),
        }
    }

    /// The time of the log entry.
    fn logged(&self, logs: &[PublicKey], signer: &[u8]) -> Result<u64, String> {
        let mut problem = "it has no log entry, which the policy requires".to_owned();
        for entry in &self.entries {
            match log_entry::verify(entry, logs, signer, &self.envelope, &self.signature) {
                Ok(time) => return Ok(time),
                Err(reason) => problem = reason,
            }
        }
        Err(problem)
    }
}

impl Envelope {
    /// The signed bytes (DSSE, "pre-authentication encoding").
    fn signed(&self) -> Vec<u8> {
        let (kind, payload) = (&self.payload_type, &self.payload);
        let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
        [head.as_bytes(), payload].concat()
    }
}
