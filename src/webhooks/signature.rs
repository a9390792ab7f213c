//! Signatures of events, as the specification of Standard Webhooks has them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// The prefix of a secret's text.
const PREFIX: &str = "whsec_";
/// The fewest and the most bytes of a secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;
/// The largest file with a secret or a token, in bytes.
const MAX_FILE: u64 = 16 << 10;

/// A secret that signs events.
pub(super) struct Secret(hmac::Key);

impl Secret {
    /// Reads a secret. This blocks. The error names the file, and nothing of its
    /// content.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = read_text(path)?;
        let encoded = text.strip_prefix(PREFIX);
        let decoded = encoded.and_then(|text| BASE64_STANDARD.decode(text).ok());
        match decoded.filter(|bytes| LENGTHS.contains(&bytes.len())) {
            Some(bytes) => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))),
            None => Err(format!(
                "{} holds no secret of a webhook: write {PREFIX} and {} to {} random bytes in base64",
                path.display(),
                LENGTHS.start(),
                LENGTHS.end()
            )),
        }
    }

    /// The signature of a message.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
    }
}

/// Reads a small file with one line of text. This blocks. The error names the file,
/// and nothing of its content.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let refused = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| refused(&error))?;
    file.take(MAX_FILE + 1)
        .read_to_string(&mut text)
        .map_err(|error| refused(&error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(refused(&"it is larger than 16 KiB"));
    }
    let line = text.trim();
    if line.is_empty() {
        return Err(refused(&"it is empty"));
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Result<Secret, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, text).unwrap();
        Secret::read(&path)
    }

    /// Computed with Python's `hmac` and `base64`.
    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        let secret = secret("whsec_YWxtYW5hYy10ZXN0LXNlY3JldC0wMTIzNDU2Nzg5\n").unwrap();
        assert_eq!(
            secret.sign("msg_1", 1_700_000_000, b"{\"a\":1}"),
            "v1,0jLQymu9YnSIFJmghf4U3MvxbxVxWkQQ1Xx50t1D+aM="
        );
    }

    #[test]
    fn a_weak_secret_is_refused_without_showing_it() {
        for text in [
            "",
            "hunter2",
            "whsec_",
            "whsec_aHVudGVyMg==",
            "whsec_hunter2",
            "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjI=",
        ] {
            let error = secret(text).err().unwrap();
            assert!(!error.contains("unter"), "{error}");
        }
    }
}
