//! A signature as lookasides and registries store it: the first byte tells its
//! kind (containers-signature(5)).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::manifest::texts;
use crate::signatures::required::Signature;
use crate::signatures::sigstore::SigstoreSignature;

/// The media type of the document that cosign signs.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// A signature of sigstore in JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SigstoreJson {
    mime_type: String,
    payload: String,
    #[serde(deserialize_with = "texts")]
    annotations: BTreeMap<String, String>,
}

/// Reads a stored signature.
pub(crate) fn parse(bytes: &[u8]) -> Result<Signature, &'static str> {
    match bytes.first() {
        // The first byte of an OpenPGP message: a compressed packet, a one-pass
        // signature, a signature.
        Some(0xA0..=0xA3 | 0xC8 | 0x90..=0x92 | 0xC4 | 0x88..=0x8B | 0xC2) => {
            Ok(Signature::Simple(bytes.to_vec()))
        }
        Some(0) => {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (kind, rest) = bytes[1..]
                .split_at_checked(end.unwrap_or(0).saturating_sub(1))
                .unwrap_or_default();
            let rest = rest.get(1..).unwrap_or_default();
            match kind {
                b"simple-signing" => Ok(Signature::Simple(rest.to_vec())),
                b"sigstore-json" => {
                    sigstore(rest).ok_or("it is not a signature of sigstore that can be read")
                }
                _ => Err("it is not a signature of a known kind"),
            }
        }
        _ => Err("it is not a signature: neither a binary OpenPGP message nor one of sigstore"),
    }
}

fn sigstore(json: &[u8]) -> Option<Signature> {
    let json: SigstoreJson = serde_json::from_slice(json).ok()?;
    if json.mime_type != PAYLOAD {
        return None;
    }
    let payload = BASE64_STANDARD.decode(json.payload).ok()?;
    SigstoreSignature::new(payload, json.annotations).map(Signature::Sigstore)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

    fn kind(bytes: &[u8]) -> Option<&'static str> {
        parse(bytes).ok().map(|signature| match signature {
            Signature::Simple(_) => "simple",
            Signature::Sigstore(_) => "sigstore",
            Signature::Bundle(_) => "bundle",
        })
    }

    #[test]
    fn the_first_byte_tells_the_kind() {
        for first in [0xA0, 0xA3, 0xC8, 0x90, 0x92, 0xC4, 0x88, 0x8B, 0xC2] {
            assert_eq!(kind(&[first, 1]), Some("simple"));
        }
        for first in [0x80, 0x8C, 0x93, 0xA4, 0xC6, 0xFF, b'-', b'{'] {
            assert_eq!(kind(&[first, 1]), None, "{first}");
        }
        assert_eq!(kind(b"\0simple-signing\nabc"), Some("simple"));
        let json = format!(
            r#"{{"mimeType":"{PAYLOAD}","payload":"e30=","annotations":{{"{SIGNATURE}":"eA=="}}}}"#
        );
        let sigstore = format!("\0sigstore-json\n{json}");
        assert_eq!(kind(sigstore.as_bytes()), Some("sigstore"));
        for text in [
            String::new(),
            "\0".to_owned(),
            "\0\n".to_owned(),
            "\0simple-signing".to_owned(),
            "\0other\nabc".to_owned(),
            "\0sigstore-json\n{}".to_owned(),
            sigstore.replace("simplesigning", "other"),
            sigstore.replace("e30=", "%"),
            sigstore.replace(SIGNATURE, "x"),
            format!("-----BEGIN PGP MESSAGE-----\n{json}"),
        ] {
            assert_eq!(kind(text.as_bytes()), None, "{text:?}");
        }
    }
}
