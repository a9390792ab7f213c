//! The signatures and keys of OpenPGP that are accepted.

use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{
    PacketHeader, Signature, SignatureConfig, SignatureType, Subpacket, SubpacketData,
};
use pgp::ser::Serialize as _;
use pgp::types::{
    EcdsaPublicParams, EddsaLegacyPublicParams, KeyDetails, KeyVersion, PublicParams, Tag,
    Timestamp,
};

/// Reads the body of a signature packet, which ends with it.
pub(super) fn signature(body: &[u8]) -> Option<Signature> {
    let mut rest = body;
    let header = PacketHeader::new_fixed(Tag::Signature, u32::try_from(body.len()).ok()?);
    let signature = Signature::try_from_reader(header, &mut rest).ok()?;
    rest.is_empty().then_some(signature)
}

/// Whether no two contents with the hash of a signature can be made.
pub(super) fn has_strong_hash(signature: &Signature) -> bool {
    matches!(
        signature.hash_alg(),
        Some(HashAlgorithm::Sha256 | HashAlgorithm::Sha384 | HashAlgorithm::Sha512)
    )
}

/// Whether a signature can be verified or disproved here.
pub(super) fn has_computable_hash(signature: &Signature) -> bool {
    let hash = signature.hash_alg();
    hash.is_some_and(|hash| hash.new_hasher().is_ok())
}

/// The type of a signature packet that cannot be read otherwise (RFC 9580, section
/// 5.2; of version 3 a length comes first).
pub(super) fn stated_type(body: &[u8]) -> Option<SignatureType> {
    match body {
        [2 | 3, 5, kind, ..] | [4..=u8::MAX, kind, ..] => Some(SignatureType::from(*kind)),
        _ => None,
    }
}

/// The signed attributes of a signature. Others can be changed by anybody.
pub(super) fn hashed(signature: &Signature) -> impl Iterator<Item = &SubpacketData> {
    let config = signature.config().into_iter();
    config.flat_map(|config| config.hashed_subpackets().map(|one| &one.data))
}

/// Whether a signature has a critical attribute with an unknown meaning.
pub(super) fn has_unknown(signature: &Signature) -> bool {
    let config = signature.config().into_iter();
    let mut all = config.flat_map(|config| {
        config
            .hashed_subpackets()
            .chain(config.unhashed_subpackets())
    });
    all.any(|one: &Subpacket| {
        let is_known = matches!(
            one.data,
            SubpacketData::SignatureCreationTime(_)
                | SubpacketData::SignatureExpirationTime(_)
                | SubpacketData::KeyExpirationTime(_)
                | SubpacketData::IssuerKeyId(_)
                | SubpacketData::IssuerFingerprint(_)
                | SubpacketData::PreferredSymmetricAlgorithms(_)
                | SubpacketData::PreferredHashAlgorithms(_)
                | SubpacketData::PreferredCompressionAlgorithms(_)
                | SubpacketData::PreferredAeadAlgorithms(_)
                | SubpacketData::PreferredEncryptionModes(_)
                | SubpacketData::PreferredKeyServer(_)
                | SubpacketData::KeyServerPreferences(_)
                | SubpacketData::KeyFlags(_)
                | SubpacketData::Features(_)
                | SubpacketData::IsPrimary(_)
                | SubpacketData::Revocable(_)
                | SubpacketData::RevocationKey(_)
                | SubpacketData::RevocationReason(..)
                | SubpacketData::EmbeddedSignature(_)
                | SubpacketData::ExportableCertification(_)
                | SubpacketData::PolicyURI(_)
                | SubpacketData::SignersUserID(_)
        );
        one.is_critical && !is_known
    })
}

/// When a signature was made, in seconds since 1970.
pub(super) fn created(signature: &Signature) -> Option<u32> {
    let created = signature.config().and_then(SignatureConfig::created);
    created.map(Timestamp::as_secs)
}

/// Whether a signature is valid no longer.
pub(super) fn is_expired(signature: &Signature, now: u32) -> bool {
    let lifetime = hashed(signature).find_map(|data| match data {
        SubpacketData::SignatureExpirationTime(lifetime) => Some(lifetime.as_secs()),
        _ => None,
    });
    let made = created(signature).unwrap_or(0);
    has_ended(made, lifetime, now)
}

/// Whether a time since `made` is over. None and zero last for ever.
pub(super) fn has_ended(made: u32, lifetime: Option<u32>, now: u32) -> bool {
    match lifetime {
        None | Some(0) => false,
        Some(lifetime) => u64::from(made) + u64::from(lifetime) <= u64::from(now),
    }
}

/// Checks the version, the algorithm and the size of a key.
pub(super) fn check_key(key: &impl KeyDetails) -> Result<(), String> {
    if key.version() != KeyVersion::V4 {
        return Err("its version is not supported".into());
    }
    match key.public_params() {
        PublicParams::RSA(rsa) => {
            // The bytes begin with the count of the bits.
            let bytes = rsa.to_bytes().unwrap_or_default();
            let bits = bytes
                .first_chunk()
                .map_or(0, |bits| u16::from_be_bytes(*bits));
            if (2048..=8192).contains(&bits) {
                Ok(())
            } else {
                Err(format!("RSA with {bits} bits is not accepted"))
            }
        }
        PublicParams::ECDSA(EcdsaPublicParams::P256 { .. } | EcdsaPublicParams::P384 { .. })
        | PublicParams::EdDSALegacy(EddsaLegacyPublicParams::Ed25519 { .. })
        | PublicParams::Ed25519(_) => Ok(()),
        _ => Err(
            "its algorithm is not supported; supported are RSA, ECDSA with P-256 or P-384, \
             and Ed25519"
                .into(),
        ),
    }
}

/// The fingerprint of a key.
pub(super) fn fingerprint(key: &impl KeyDetails) -> String {
    use std::fmt::Write as _;

    let fingerprint = key.fingerprint();
    let bytes = fingerprint.as_bytes().iter();
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Whether a signature says that a key made it, or does not say which.
pub(super) fn is_issuer(signature: &Signature, key: &impl KeyDetails) -> bool {
    let (ids, fingerprints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
    if ids.is_empty() && fingerprints.is_empty() {
        return true;
    }
    ids.contains(&&key.legacy_key_id()) || fingerprints.contains(&&key.fingerprint())
}
