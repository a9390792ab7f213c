//! `signedBy`: "simple signing" documents, signed with OpenPGP
//! (containers-signature(5)).

mod openpgp;

use crate::config_files::FileKind;
use crate::digest::Digest;
use crate::error::causes;
use crate::policy::SignedIdentity;
use crate::reference::Reference;
use crate::signatures::file_or_data::FileOrData;
use crate::signatures::payload::{Payload, PayloadKind};

use openpgp::Keys;

/// The largest file of keys, in bytes.
const MAX_KEYRING: u64 = 4 << 20;

/// A required signature with its keys.
#[derive(Debug)]
pub(crate) struct SimpleRequirement {
    keys: Keys,
    identity: SignedIdentity,
}

/// The content of a message that one of the keys of a file signed.
pub(crate) fn open_message(keys: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
    let (content, _) = Keys::read(std::iter::once(keys)).open(message)?;
    Ok(content)
}

impl SimpleRequirement {
    /// Reads the keys. It blocks.
    pub(crate) fn read(material: &[FileOrData], identity: SignedIdentity) -> Result<Self, String> {
        let files = material
            .iter()
            .map(|one| one.read(FileKind::Key, MAX_KEYRING));
        let files: Result<Vec<_>, _> = files.collect();
        let files = files.map_err(|error| causes(&error))?;
        let keys = Keys::read(files.iter().map(|file| &**file));
        if keys.is_empty() {
            let names: Vec<String> = material.iter().map(ToString::to_string).collect();
            return Err(format!("there is no OpenPGP key in {}", names.join(", ")));
        }
        Ok(Self { keys, identity })
    }

    /// Checks a signature. Returns the key that made it.
    pub(crate) fn check(
        &self,
        message: &[u8],
        image: &Reference,
        digest: &Digest,
    ) -> Result<String, String> {
        // The payload is not parsed before its signature holds.
        let (payload, key) = self.keys.open(message)?;
        let payload = Payload::parse(&payload, PayloadKind::Simple)?;
        payload.check(&self.identity, image, digest)?;
        Ok(format!("a signature by the key {key}"))
    }
}
