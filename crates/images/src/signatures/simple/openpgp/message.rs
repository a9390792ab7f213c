//! A signed message with its signature, as `gpg --sign` writes it.

use pgp::packet::{Signature, SignatureType, SignatureVersion};

use crate::signatures::simple::openpgp::packets::{
    COMPRESSED, LITERAL, ONE_PASS_SIGNATURE, Packets, RawPacket, SIGNATURE, decompressed,
};
use crate::signatures::simple::openpgp::rules::{self, created, has_strong_hash, has_unknown};

/// The most seconds that the clock of a signer may be ahead.
const MAX_AHEAD: u32 = 300;

/// A message with one signature, not verified.
#[derive(Debug)]
pub(super) struct SignedMessage {
    pub(super) content: Vec<u8>,
    pub(super) signature: Signature,
}

impl SignedMessage {
    /// Reads a message: exactly one signature and its content, compressed or
    /// not, with nothing behind them.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let packets = all(bytes)?;
        match packets.as_slice() {
            [packet] if packet.tag == COMPRESSED => {
                let content = decompressed(&packet.body)?;
                Self::from_packets(&all(&content)?)
            }
            packets => Self::from_packets(packets),
        }
    }

    fn from_packets(packets: &[RawPacket<'_>]) -> Result<Self, String> {
        let tags: Vec<u8> = packets.iter().map(|packet| packet.tag).collect();
        let (literal, signature) = match *tags.as_slice() {
            [ONE_PASS_SIGNATURE, LITERAL, SIGNATURE] => (1, 2),
            // The order of older programs.
            [SIGNATURE, LITERAL] => (1, 0),
            [LITERAL] => return Err("it is a message without a signature".into()),
            [SIGNATURE] => return Err("it is a signature without its message".into()),
            _ if tags.iter().position(|tag| *tag == SIGNATURE)
                != tags.iter().rposition(|tag| *tag == SIGNATURE) =>
            {
                return Err("it has more than one signature".into());
            }
            _ => return Err("it is not a signed message, or there is something behind it".into()),
        };
        let signature = rules::signature(&packets[signature].body)
            .ok_or("its signature packet cannot be read")?;
        Ok(Self {
            content: literal_content(&packets[literal].body)?,
            signature,
        })
    }

    /// Checks all of the signature except the key and the mathematics.
    pub(super) fn check(&self, now: u32) -> Result<(), String> {
        let signature = &self.signature;
        if !matches!(
            signature.version(),
            SignatureVersion::V3 | SignatureVersion::V4
        ) {
            return Err("the version of its signature is not supported".into());
        }
        if !matches!(
            signature.typ(),
            Some(SignatureType::Binary | SignatureType::Text)
        ) {
            return Err("its signature is not one of a document".into());
        }
        if !has_strong_hash(signature) {
            let hash = signature.hash_alg();
            let hash = hash.map_or_else(|| "unknown".to_owned(), |hash| hash.to_string());
            return Err(format!(
                "its hash is {hash}; accepted are SHA-256, SHA-384 and SHA-512"
            ));
        }
        if has_unknown(signature) {
            return Err("its signature has a critical attribute that is not supported".into());
        }
        match created(signature) {
            None => return Err("its signature has no date".into()),
            Some(made) if made > now.saturating_add(MAX_AHEAD) => {
                return Err("its signature was made in the future".into());
            }
            Some(_) => {}
        }
        if rules::is_expired(signature, now) {
            return Err("its signature has expired".into());
        }
        Ok(())
    }
}

fn all(bytes: &[u8]) -> Result<Vec<RawPacket<'_>>, String> {
    // A message has three packets; the others tell what else it is.
    let packets = Packets::new(bytes).take(8);
    let packets: Result<_, _> = packets.collect();
    packets.map_err(|problem| format!("it is not a signed message: {problem}"))
}

/// The content of a literal packet: its format, its name and its date, which
/// nobody signed, come first.
fn literal_content(body: &[u8]) -> Result<Vec<u8>, String> {
    let name = body.get(1).copied().map_or(0, usize::from);
    let content = body.get(2 + name + 4..);
    Ok(content.ok_or("its content is cut short")?.to_vec())
}
