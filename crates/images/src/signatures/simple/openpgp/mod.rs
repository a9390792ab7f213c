//! Verification of messages that `gpg --sign` made (RFC 9580, RFC 4880). The
//! crate `pgp` reads signatures and keys and computes; which of them count is
//! decided here.

mod certificate;
mod keyring;
mod message;
mod packets;
mod rules;

use std::time::{SystemTime, UNIX_EPOCH};

use certificate::Certificate;
use message::SignedMessage;

/// The keys of all files of a requirement.
#[derive(Debug)]
pub(super) struct Keys(Vec<Certificate>);

impl Keys {
    /// The keys of some files.
    pub(super) fn read<'a>(files: impl Iterator<Item = &'a [u8]>) -> Self {
        Self(files.flat_map(keyring::certificates).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The content of a signed message, and the fingerprint of its key.
    pub(super) fn open(&self, message: &[u8]) -> Result<(Vec<u8>, String), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        // Later than all dates of OpenPGP is after 2106.
        let now = now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX));
        let message = SignedMessage::parse(message)?;
        message.check(now)?;
        let mut problem = None;
        for certificate in &self.0 {
            match certificate.verify(&message, now) {
                Some(Ok(key)) => return Ok((message.content, key)),
                Some(Err(found)) => problem = Some(found),
                None => {}
            }
        }
        Err(problem.unwrap_or_else(|| "it was not made with a key of the policy".into()))
    }
}
