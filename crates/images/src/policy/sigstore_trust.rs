//! Reading the keys and certificates of `sigstoreSigned`.

use std::fmt::Write as _;

use crate::config_files::FileKind;
use crate::error::causes;
use crate::policy::parse::{SigstoreSigned, SigstoreTrust};
use crate::signatures::{
    Authorities, FileOrData, FulcioTrust, KeyTrust, NamedKey, PkiTrust, PublicKey,
    SigstoreRequirement, Trust, certificates,
};

/// The largest file with a key or with certificates, in bytes.
const MAX_FILE: u64 = 512 << 10;

/// The requirement in a few words.
pub(super) fn text(sigstore: &SigstoreSigned) -> String {
    let names = |files: &[FileOrData]| {
        let names: Vec<String> = files.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let mut text = "sigstoreSigned with ".to_owned();
    // Writing to a text cannot fail.
    let _ = match &sigstore.trust {
        SigstoreTrust::Keys(keys) => write!(text, "{}", names(keys)),
        SigstoreTrust::Fulcio(fulcio) => {
            write!(text, "fulcio for {} of {}", fulcio.email, fulcio.issuer)
        }
        SigstoreTrust::Pki(pki) => {
            let names = [pki.email.as_deref(), pki.hostname.as_deref()];
            let names: Vec<&str> = names.into_iter().flatten().collect();
            write!(text, "pki for {}", names.join(" and "))
        }
    };
    if !sigstore.rekor_keys.is_empty() {
        let _ = write!(text, ", logged by {}", names(&sigstore.rekor_keys));
    }
    text
}

/// Reads all keys and certificates. It blocks.
pub(super) fn read(sigstore: SigstoreSigned) -> Result<SigstoreRequirement, String> {
    let logs: Vec<PublicKey> = sigstore
        .rekor_keys
        .iter()
        .map(|one| {
            let key = key(one)?.key;
            if !key.is_ecdsa() {
                return Err(format!("the key {one} of a log is not for ECDSA"));
            }
            Ok(key)
        })
        .collect::<Result<_, String>>()?;
    let trust = match sigstore.trust {
        SigstoreTrust::Keys(keys) => Trust::Keys(KeyTrust {
            keys: keys.iter().map(key).collect::<Result<_, _>>()?,
            logs: (!logs.is_empty()).then_some(logs),
        }),
        SigstoreTrust::Fulcio(fulcio) => Trust::Fulcio(FulcioTrust {
            authorities: authorities(&fulcio.authorities)?,
            issuer: fulcio.issuer,
            email: fulcio.email,
            logs,
        }),
        SigstoreTrust::Pki(pki) => Trust::Pki(PkiTrust {
            authorities: authorities(&pki.roots)?,
            intermediates: match &pki.intermediates {
                Some(file) => used(file, certificates(&bytes(file)?))?,
                None => Vec::new(),
            },
            email: pki.email,
            hostname: pki.hostname,
        }),
    };
    Ok(SigstoreRequirement::new(trust, sigstore.identity))
}

fn bytes(file: &FileOrData) -> Result<Vec<u8>, String> {
    let bytes = file.read(FileKind::Key, MAX_FILE);
    Ok(bytes.map_err(|error| causes(&error))?.into_owned())
}

fn key(file: &FileOrData) -> Result<NamedKey, String> {
    let key = PublicKey::parse(&bytes(file)?);
    let key = key.map_err(|problem| format!("the key {file} cannot be used: {problem}"))?;
    Ok(NamedKey {
        name: file.to_string(),
        key,
    })
}

fn authorities(file: &FileOrData) -> Result<Authorities, String> {
    used(file, Authorities::parse(&bytes(file)?))
}

fn used<T>(file: &FileOrData, read: Result<T, &'static str>) -> Result<T, String> {
    read.map_err(|problem| format!("the certificates of {file} cannot be used: {problem}"))
}
