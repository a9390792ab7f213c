//! A key with its subkeys, and which of them may sign now. Only signed
//! attributes count; a revocation counts unless it proves false. One that cannot
//! be computed here, such as by an unknown hash, proves nothing.

use std::sync::OnceLock;

use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType, SubpacketData};
use pgp::ser::Serialize;
use pgp::types::{KeyDetails, Tag, VerifyingKey};

use crate::signatures::simple::openpgp::message::SignedMessage;
use crate::signatures::simple::openpgp::rules::{
    check_key, created, fingerprint, has_computable_hash, has_ended, has_strong_hash, has_unknown,
    hashed, is_expired, is_issuer,
};

/// A key with its subkeys and the signatures about them.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) primary: PublicKey,
    /// The signatures directly behind the key.
    pub(super) direct: Vec<Signature>,
    /// Whether it has a revocation that cannot be read.
    pub(super) is_perhaps_revoked: bool,
    pub(super) identities: Vec<Identity>,
    pub(super) subkeys: Vec<(PublicSubkey, Vec<Signature>)>,
    pub(super) keys: OnceLock<Vec<Result<(), String>>>,
}

/// A name or picture with the signatures about it.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) tag: Tag,
    pub(super) body: Vec<u8>,
    pub(super) signatures: Vec<Signature>,
}

/// The body of a packet, for the hash.
struct Body<'a>(&'a [u8]);

impl Certificate {
    /// Verifies a message. Returns the key that signed it, or the problem;
    /// nothing when another key signed it.
    pub(super) fn verify(
        &self,
        message: &SignedMessage,
        now: u32,
    ) -> Option<Result<String, String>> {
        // In the order of `states`.
        let subkeys = self.subkeys.iter().map(|(key, _)| key);
        let primary = verified(&self.primary, message);
        let mut found = primary.into_iter().map(|result| (0, result)).chain(
            (1..)
                .zip(subkeys)
                .filter_map(|(number, key)| Some((number, verified(key, message)?))),
        );
        // Of several keys with one name the one that signed decides.
        let mut wrong = None;
        let (number, name) = loop {
            match found.next() {
                Some((number, Ok(name))) => break (number, name),
                Some((_, Err(problem))) => wrong = Some(Err(problem)),
                None => return wrong,
            }
        };
        let states = self.keys.get_or_init(|| self.states(now));
        Some(match &states[number] {
            Ok(()) => Ok(name),
            Err(problem) => Err(format!("its key {name} is not valid: {problem}")),
        })
    }

    /// For the primary key, then for each subkey: whether it may sign.
    fn states(&self, now: u32) -> Vec<Result<(), String>> {
        let (may_sign, valid) = match self.primary_state(now) {
            Ok(may_sign) => (may_sign, Ok(())),
            Err(problem) => (false, Err(problem)),
        };
        let primary = match &valid {
            Ok(()) if may_sign => Ok(()),
            Ok(()) => Err("it is not for signing".to_owned()),
            Err(problem) => Err(problem.clone()),
        };
        let subkeys = self.subkeys.iter().map(|(key, signatures)| {
            valid
                .clone()
                .map_err(|problem| format!("of its primary key: {problem}"))?;
            self.subkey_state(key, signatures, now)
        });
        [primary].into_iter().chain(subkeys).collect()
    }

    /// Checks the primary key. Returns whether it may sign.
    fn primary_state(&self, now: u32) -> Result<bool, String> {
        let primary = &self.primary;
        check_key(primary)?;
        if primary.created_at().as_secs() > now {
            return Err("it was made in the future".into());
        }
        if self.is_revoked() {
            return Err("it is revoked".into());
        }
        let direct = newest(&self.direct, now, |one| {
            one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok()
        });
        let identities = self
            .identities
            .iter()
            .filter_map(|identity| identity.self_signature(primary, now));
        let all = direct.into_iter().chain(identities);
        let newest = all.max_by_key(|one| created(one));
        let newest = newest.ok_or(
            "it has no valid signature of its own with SHA-256, SHA-384 or SHA-512, or none that \
             is not revoked",
        )?;
        check_lifetime(primary, newest, now)?;
        Ok(flags_allow_signing(newest))
    }

    /// Whether the owner, or somebody that the owner named, revoked the key.
    fn is_revoked(&self) -> bool {
        let certifications = self.identities.iter().flat_map(|one| &one.signatures);
        let revokers: Vec<&[u8]> = self
            .direct
            .iter()
            .chain(certifications)
            .flat_map(hashed)
            .filter_map(|data| match data {
                SubpacketData::RevocationKey(revoker) => Some(&revoker.fingerprint[..]),
                _ => None,
            })
            .collect();
        let mut revocations = self
            .direct
            .iter()
            .filter(|one| one.typ() == Some(SignatureType::KeyRevocation));
        self.is_perhaps_revoked
            || revocations.any(|one| {
                // The key of a named revoker is not there to verify it.
                let named = revokers.iter().any(|revoker| {
                    let id = &revoker[revoker.len().saturating_sub(8)..];
                    one.issuer_key_id()
                        .iter()
                        .any(|issuer| issuer.as_ref() == id)
                });
                named || is_revoking(one, |one| one.verify_key(&self.primary).is_ok())
            })
    }

    fn subkey_state(
        &self,
        key: &PublicSubkey,
        signatures: &[Signature],
        now: u32,
    ) -> Result<(), String> {
        let primary = &self.primary;
        check_key(key)?;
        if key.created_at().as_secs() > now {
            return Err("it was made in the future".into());
        }
        let is_bound = |one: &Signature| one.verify_subkey_binding(primary, key).is_ok();
        if signatures.iter().any(|one| {
            one.typ() == Some(SignatureType::SubkeyRevocation) && is_revoking(one, is_bound)
        }) {
            return Err("it is revoked".into());
        }
        let binding = newest(signatures, now, |one| {
            one.typ() == Some(SignatureType::SubkeyBinding) && is_bound(one)
        });
        let binding = binding.ok_or("no valid signature binds it to its primary key")?;
        check_lifetime(key, binding, now)?;
        if !flags_allow_signing(binding) {
            return Err("it is not for signing".into());
        }
        // Without its own signature somebody could claim another's key.
        let config = binding.config().into_iter();
        let mut back = config
            .flat_map(|config| {
                config
                    .hashed_subpackets()
                    .chain(config.unhashed_subpackets())
            })
            .filter_map(|one| match &one.data {
                SubpacketData::EmbeddedSignature(signature) => Some(&**signature),
                _ => None,
            });
        let is_good = |one: &Signature| {
            has_strong_hash(one)
                && !has_unknown(one)
                && created(one).is_some_and(|made| made <= now)
                && !is_expired(one, now)
                && one.verify_primary_key_binding(key, primary).is_ok()
        };
        if back.any(is_good) {
            return Ok(());
        }
        Err("it has not signed its primary key".into())
    }
}

impl Identity {
    /// The newest signature of the owner, unless it is revoked.
    fn self_signature(&self, primary: &PublicKey, now: u32) -> Option<&Signature> {
        let verifies = |one: &Signature| {
            one.verify_certification(primary, self.tag, &Body(&self.body))
                .is_ok()
        };
        let found = newest(&self.signatures, now, |one| {
            one.is_certification()
                && one.typ() != Some(SignatureType::CertRevocation)
                && verifies(one)
        })?;
        let is_revoked = self.signatures.iter().any(|one| {
            one.typ() == Some(SignatureType::CertRevocation)
                && created(one) >= created(found)
                && is_revoking(one, verifies)
        });
        (!is_revoked).then_some(found)
    }
}

/// Verifies a message with one key; nothing when another one signed it.
fn verified<K: VerifyingKey>(key: &K, message: &SignedMessage) -> Option<Result<String, String>> {
    let signature = &message.signature;
    if !is_issuer(signature, key) {
        return None;
    }
    let name = fingerprint(key);
    // Weak keys verify anything.
    if let Err(problem) = check_key(key) {
        return Some(Err(format!("its key {name} is not valid: {problem}")));
    }
    if created(signature).is_some_and(|made| made < key.created_at().as_secs()) {
        return Some(Err(format!("it is older than its key {name}")));
    }
    Some(match signature.verify(key, &message.content[..]) {
        Ok(()) => Ok(name),
        Err(_) => Err(format!("it was not made with the key {name}, as it says")),
    })
}

/// Whether a revocation counts.
fn is_revoking(revocation: &Signature, verifies: impl Fn(&Signature) -> bool) -> bool {
    !has_computable_hash(revocation) || verifies(revocation)
}

/// The newest signature that passes, unless it has expired. Of several of one
/// second the last counts.
fn newest(
    signatures: &[Signature],
    now: u32,
    passes: impl Fn(&Signature) -> bool,
) -> Option<&Signature> {
    let usable = |one: &&Signature| {
        has_strong_hash(one) && !has_unknown(one) && created(one).is_some_and(|made| made <= now)
    };
    let mut all: Vec<&Signature> = signatures.iter().filter(usable).collect();
    all.sort_by_key(|one| created(one));
    let newest = all.into_iter().rev().find(|one| passes(one))?;
    (!is_expired(newest, now)).then_some(newest)
}

/// Checks the end of a key, which a signature about it tells.
fn check_lifetime(key: &impl KeyDetails, about: &Signature, now: u32) -> Result<(), String> {
    let lifetime = hashed(about).find_map(|data| match data {
        SubpacketData::KeyExpirationTime(lifetime) => Some(lifetime.as_secs()),
        _ => None,
    });
    if has_ended(key.created_at().as_secs(), lifetime, now) {
        return Err("it has expired".into());
    }
    Ok(())
}

/// Whether a signature about a key lets it sign. Without flags it may.
fn flags_allow_signing(about: &Signature) -> bool {
    let flags = hashed(about).find_map(|data| match data {
        SubpacketData::KeyFlags(flags) => Some(flags.sign()),
        _ => None,
    });
    flags.unwrap_or(true)
}

impl Serialize for Body<'_> {
    fn to_writer<W: std::io::Write>(&self, writer: &mut W) -> pgp::errors::Result<()> {
        writer.write_all(self.0)?;
        Ok(())
    }

    fn write_len(&self) -> usize {
        self.0.len()
    }
}
