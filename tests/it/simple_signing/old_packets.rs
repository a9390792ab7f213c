//! Signatures of version 3, which `GnuPG` makes no more.

use images::digest::Digest;
use pgp::composed::{Deserializable as _, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{PacketHeader, Signature, SignatureType};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails as _, Password, SigningKey as _, Tag, Timestamp};

pub(super) fn message(secret: &[u8], content: &[u8]) -> Vec<u8> {
    let key = SignedSecretKey::from_bytes(secret).unwrap().primary_key;
    let created = key.created_at().as_secs() + 1;
    let hashed = [content, &[0], &created.to_be_bytes()].concat();
    let hash = Digest::of(&hashed).hex();
    let hash: Vec<u8> = (0..32)
        .map(|at| u8::from_str_radix(&hash[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let signature = key
        .sign(&Password::empty(), HashAlgorithm::Sha256, &hash)
        .unwrap();
    let issuer = key.legacy_key_id();
    let mut packet = Vec::new();
    Signature::v3(
        PacketHeader::new_fixed(Tag::Signature, 0),
        SignatureType::Binary,
        key.algorithm(),
        HashAlgorithm::Sha256,
        Timestamp::from_secs(created),
        issuer,
        [hash[0], hash[1]],
        signature,
    )
    .to_writer(&mut packet)
    .unwrap();
    let framed = |tag: u8, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap();
        [&[0xC0 | tag, 0xFF], &length.to_be_bytes()[..], body].concat()
    };
    let one_pass = [&[3, 0, 8, u8::from(key.algorithm())], issuer.as_ref(), &[1]].concat();
    let literal = [b"b\0\0\0\0\0", content].concat();
    [
        framed(4, &one_pass),
        framed(11, &literal),
        framed(2, &packet),
    ]
    .concat()
}
