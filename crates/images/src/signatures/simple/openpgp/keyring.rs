//! Files with public keys: binary, or armoured in any number of blocks. What
//! is not understood is skipped.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pgp::packet::{PacketHeader, PublicKey, PublicSubkey, Signature, SignatureType};
use pgp::types::Tag;

use crate::signatures::simple::openpgp::certificate::{Certificate, Identity};
use crate::signatures::simple::openpgp::packets::{
    PUBLIC_KEY, PUBLIC_SUBKEY, Packets, RawPacket, SIGNATURE, USER_ATTRIBUTE, USER_ID,
};
use crate::signatures::simple::openpgp::rules::{self, is_issuer};

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// The most keys of one file.
const MAX_KEYS: usize = 1000;
/// The most signatures of the owner of one key, and the most subkeys and names.
/// A key with more is skipped.
const MAX_PARTS: usize = 1000;

/// The keys of a file.
pub(super) fn certificates(file: &[u8]) -> Vec<Certificate> {
    let mut all = Vec::new();
    for block in blocks(file) {
        let mut keyring = Keyring::default();
        // After a packet that cannot be framed nothing can be found.
        for packet in Packets::new(&block).map_while(Result::ok) {
            keyring.add(&packet);
            if keyring.done.len() + all.len() > MAX_KEYS {
                break;
            }
        }
        keyring.finish();
        all.append(&mut keyring.done);
    }
    all.truncate(MAX_KEYS);
    all
}

/// The binary blocks of a file.
fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    if file.first().is_some_and(|first| *first >= 0x80) {
        return vec![file.to_vec()];
    }
    let text = String::from_utf8_lossy(file);
    let mut blocks = text.split(BEGIN).skip(1);
    let mut found = Vec::new();
    for block in blocks.by_ref() {
        let Some((block, _)) = block.split_once(END) else {
            continue;
        };
        found.extend(dearmoured(block));
    }
    found
}

/// The content of an armoured block: headers, an empty line, base64, and a
/// checksum, which protects nothing.
fn dearmoured(block: &str) -> Option<Vec<u8>> {
    let lines: Vec<&str> = block.lines().map(str::trim).collect();
    // The first line is the rest of the one with the marker.
    let empty = lines.iter().skip(1).position(|line| line.is_empty());
    let start = empty.map_or(1, |empty| empty + 2);
    let data = lines.get(start..)?.iter();
    let data: String = data
        .take_while(|line| !line.starts_with('='))
        .copied()
        .collect();
    BASE64_STANDARD.decode(data).ok()
}

/// The keys that are read so far.
#[derive(Default)]
struct Keyring {
    done: Vec<Certificate>,
    open: Option<Open>,
}

/// The key that is being read.
struct Open {
    certificate: Certificate,
    /// The subject of the next signature.
    about: About,
    parts: usize,
}

#[derive(Clone, Copy)]
enum About {
    Key,
    Identity,
    Subkey,
    /// A subkey that is not understood.
    Nothing,
}

impl Keyring {
    fn add(&mut self, packet: &RawPacket<'_>) {
        let length = u32::try_from(packet.body.len()).unwrap_or(u32::MAX);
        let mut body = &packet.body[..];
        match (packet.tag, &mut self.open) {
            (PUBLIC_KEY, _) => {
                self.finish();
                let header = PacketHeader::new_fixed(Tag::PublicKey, length);
                let key = PublicKey::try_from_reader(header, &mut body).ok();
                self.open = key.filter(|_| body.is_empty()).map(Open::new);
            }
            (PUBLIC_SUBKEY, Some(open)) => {
                let header = PacketHeader::new_fixed(Tag::PublicSubkey, length);
                let key = PublicSubkey::try_from_reader(header, &mut body).ok();
                open.parts += 1;
                open.about = match key.filter(|_| body.is_empty()) {
                    Some(key) => {
                        open.certificate.subkeys.push((key, Vec::new()));
                        About::Subkey
                    }
                    None => About::Nothing,
                };
            }
            (USER_ID | USER_ATTRIBUTE, Some(open)) => {
                open.parts += 1;
                open.about = About::Identity;
                open.certificate.identities.push(Identity {
                    tag: if packet.tag == USER_ID {
                        Tag::UserId
                    } else {
                        Tag::UserAttribute
                    },
                    body: body.to_vec(),
                    signatures: Vec::new(),
                });
            }
            (SIGNATURE, Some(open)) => match rules::signature(body) {
                Some(signature) => open.sign(signature),
                None => open.sign_unread(rules::stated_type(body)),
            },
            _ => {}
        }
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.parts > MAX_PARTS)
        {
            self.open = None;
        }
    }

    fn finish(&mut self) {
        self.done
            .extend(self.open.take().map(|open| open.certificate));
    }
}

impl Open {
    fn new(primary: PublicKey) -> Self {
        Self {
            certificate: Certificate {
                primary,
                direct: Vec::new(),
                is_perhaps_revoked: false,
                identities: Vec::new(),
                subkeys: Vec::new(),
                keys: OnceLock::new(),
            },
            about: About::Key,
            parts: 0,
        }
    }

    /// Notes a signature that cannot be read. A revocation may be a true one.
    fn sign_unread(&mut self, stated: Option<SignatureType>) {
        match (stated, self.about) {
            (Some(SignatureType::KeyRevocation), _) => self.certificate.is_perhaps_revoked = true,
            (Some(SignatureType::SubkeyRevocation), About::Subkey) => {
                self.certificate.subkeys.pop();
                self.about = About::Nothing;
            }
            (Some(SignatureType::CertRevocation), About::Identity) => {
                self.certificate.identities.pop();
                self.about = About::Nothing;
            }
            _ => {}
        }
    }

    fn sign(&mut self, signature: Signature) {
        // Somebody else's signature says nothing, except that of a revoker.
        let is_revocation = signature.typ() == Some(SignatureType::KeyRevocation);
        if !is_revocation && !is_issuer(&signature, &self.certificate.primary) {
            return;
        }
        self.parts += 1;
        let certificate = &mut self.certificate;
        let signatures = match self.about {
            _ if is_revocation => Some(&mut certificate.direct),
            About::Key => Some(&mut certificate.direct),
            About::Identity => certificate
                .identities
                .last_mut()
                .map(|identity| &mut identity.signatures),
            About::Subkey => certificate
                .subkeys
                .last_mut()
                .map(|(_, signatures)| signatures),
            About::Nothing => None,
        };
        if let Some(signatures) = signatures {
            signatures.push(signature);
        }
    }
}
