//! Whom a `sigstoreSigned` requirement trusts, and whether a signature is by
//! them.

use std::fmt;

use crate::signatures::sigstore::certificate::{Leaf, certificates};
use crate::signatures::sigstore::chain::{Authorities, intermediates_of_chain};
use crate::signatures::sigstore::key::PublicKey;
use crate::signatures::sigstore::set;
use crate::signatures::sigstore::signature::SigstoreSignature;

/// The longest annotation with certificates, in bytes.
const MAX_CERTIFICATES: usize = 256 << 10;
const NO_LOG_ENTRY: &str = "it has no log entry, which the policy requires";
const NO_CERTIFICATE: &str = "it has no certificate, which the policy requires";

/// Whom a requirement trusts.
#[derive(Debug)]
pub(crate) enum Trust {
    /// Holders of keys.
    Keys(KeyTrust),
    /// Holders of an identity, for whom Fulcio issued a certificate.
    Fulcio(FulcioTrust),
    /// Holders of certificates of other authorities.
    Pki(PkiTrust),
}

/// Holders of keys.
#[derive(Debug)]
pub(crate) struct KeyTrust {
    /// Any of these keys.
    pub(crate) keys: Vec<NamedKey>,
    /// The keys of logs, one of which must have an entry. None: no log is
    /// needed.
    pub(crate) logs: Option<Vec<PublicKey>>,
}

/// A key of a policy.
#[derive(Clone, Debug)]
pub(crate) struct NamedKey {
    /// Its file or field, for messages.
    pub(crate) name: String,
    pub(crate) key: PublicKey,
}

/// Holders of an identity, for whom Fulcio issued a certificate.
#[derive(Debug)]
pub(crate) struct FulcioTrust {
    pub(crate) authorities: Authorities,
    pub(crate) issuer: String,
    pub(crate) email: String,
    /// The keys of logs, one of which must have an entry.
    pub(crate) logs: Vec<PublicKey>,
}

/// Holders of certificates of other authorities.
#[derive(Debug)]
pub(crate) struct PkiTrust {
    pub(crate) authorities: Authorities,
    /// Certificates below the authorities, as DER.
    pub(crate) intermediates: Vec<Vec<u8>>,
    pub(crate) email: Option<String>,
    pub(crate) hostname: Option<String>,
}

impl Trust {
    /// Checks the signature of the payload. `now` is in seconds since 1970. The
    /// payload is not read. Returns the signer.
    pub(crate) fn verify(&self, signature: &SigstoreSignature, now: u64) -> Result<String, String> {
        let (key, signer) = match self {
            Self::Keys(trust) => return trust.verify(signature),
            Self::Fulcio(trust) => (trust.key_for(signature)?, trust.to_string()),
            Self::Pki(trust) => (trust.key_for(signature, now)?, trust.to_string()),
        };
        if !signature.is_by(&key) {
            return Err("it was not made with the key of its certificate".into());
        }
        Ok(signer)
    }
}

impl KeyTrust {
    fn verify(&self, signature: &SigstoreSignature) -> Result<String, String> {
        let mut problem = "it was not made with a key of the policy".to_owned();
        for key in &self.keys {
            if !signature.is_by(&key.key) {
                continue;
            }
            match self.check_log(signature, &key.key) {
                Ok(()) => return Ok(key.to_string()),
                Err(reason) => problem = reason,
            }
        }
        Err(problem)
    }

    /// Checks that a log has an entry, if the policy requires one.
    fn check_log(&self, signature: &SigstoreSignature, key: &PublicKey) -> Result<(), String> {
        let Some(logs) = &self.logs else {
            return Ok(());
        };
        let entry = signature.log_entry.as_deref().ok_or(NO_LOG_ENTRY)?;
        let SigstoreSignature {
            payload, signature, ..
        } = signature;
        set::verify(entry, logs, key.der(), signature, payload)?;
        Ok(())
    }
}

impl FulcioTrust {
    fn key_for(&self, signature: &SigstoreSignature) -> Result<PublicKey, String> {
        let set = signature.log_entry.as_deref().ok_or(NO_LOG_ENTRY)?;
        let certificate = leaf(signature)?;
        let time = set::verify(
            set,
            &self.logs,
            &certificate,
            &signature.signature,
            &signature.payload,
        )?;
        let intermediates = intermediates_of_chain(bounded(signature.chain.as_deref())?)?;
        self.key_of(&certificate, &intermediates, time)
    }

    /// The key of a certificate that was valid at the time of a log entry, for
    /// this identity.
    pub(crate) fn key_of(
        &self,
        certificate: &[u8],
        intermediates: &[Vec<u8>],
        time: u64,
    ) -> Result<PublicKey, String> {
        let leaf = Leaf::parse(certificate)?;
        self.authorities.verify(certificate, intermediates, time)?;
        let issuer = leaf.issuer()?;
        if issuer != self.issuer {
            return Err(format!(
                "the issuer of its certificate is {:?}, not {:?}",
                shown(&issuer),
                self.issuer
            ));
        }
        check_email(&leaf, &self.email)?;
        Ok(leaf.key)
    }
}

impl fmt::Display for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key {}", self.name)
    }
}

impl fmt::Display for FulcioTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (certified for {})", self.email, self.issuer)
    }
}

impl fmt::Display for PkiTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [self.email.as_deref(), self.hostname.as_deref()];
        let names: Vec<&str> = names.into_iter().flatten().collect();
        write!(f, "the certificate of {}", names.join(", "))
    }
}

impl PkiTrust {
    fn key_for(&self, signature: &SigstoreSignature, now: u64) -> Result<PublicKey, String> {
        let certificate = leaf(signature)?;
        let mut intermediates = intermediates_of_chain(bounded(signature.chain.as_deref())?)?;
        intermediates.extend(self.intermediates.iter().cloned());
        let leaf = Leaf::parse(&certificate)?;
        self.authorities.verify(&certificate, &intermediates, now)?;
        if let Some(email) = &self.email {
            check_email(&leaf, email)?;
        }
        if let Some(host) = &self.hostname
            && !leaf.is_for_host(host)
        {
            return Err(format!("its certificate is not for the host {host:?}"));
        }
        Ok(leaf.key)
    }
}

/// The only certificate of the annotation, as DER.
fn leaf(signature: &SigstoreSignature) -> Result<Vec<u8>, String> {
    let text = bounded(signature.certificate.as_deref())?.ok_or(NO_CERTIFICATE)?;
    let mut all =
        certificates(text.as_bytes()).map_err(|problem| format!("its certificate: {problem}"))?;
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err("it has several certificates instead of one".into()),
        (None, _) => Err(NO_CERTIFICATE.into()),
    }
}

fn bounded(text: Option<&str>) -> Result<Option<&str>, String> {
    match text {
        Some(text) if text.len() > MAX_CERTIFICATES => {
            Err("its certificates are larger than 256 KiB".into())
        }
        text => Ok(text),
    }
}

fn check_email(leaf: &Leaf, expected: &str) -> Result<(), String> {
    if leaf.emails().any(|email| email == expected) {
        return Ok(());
    }
    let all: Vec<&str> = leaf.emails().take(3).map(shown).collect();
    Err(format!(
        "its certificate is for {all:?}, not for the email {expected:?}"
    ))
}

/// The start of a text that someone else wrote.
fn shown(text: &str) -> &str {
    let end = text
        .char_indices()
        .nth(100)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}
