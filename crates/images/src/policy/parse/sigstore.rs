//! `sigstoreSigned` and its shape.

use crate::policy::identity::SignedIdentity;
use crate::policy::parse::fields::{check_many, datas, files, one, signed_identity};
use crate::policy::parse::members::{Json, Members};
use crate::signatures::FileOrData;

/// The members besides the type.
const KEYS: [&str; 11] = [
    "keyPath",
    "keyPaths",
    "keyData",
    "keyDatas",
    "fulcio",
    "pki",
    "rekorPublicKeyPath",
    "rekorPublicKeyPaths",
    "rekorPublicKeyData",
    "rekorPublicKeyDatas",
    "signedIdentity",
];

/// A signature in the format of sigstore.
#[derive(Clone, Debug)]
pub(in crate::policy) struct SigstoreSigned {
    pub(in crate::policy) trust: SigstoreTrust,
    /// Keys of transparency logs, of which one has to have logged the
    /// signature. Without any, no log is asked for.
    pub(in crate::policy) rekor_keys: Vec<FileOrData>,
    pub(in crate::policy) identity: SignedIdentity,
}

/// The required signers.
#[derive(Clone, Debug)]
pub(in crate::policy) enum SigstoreTrust {
    /// The owner of one of these keys; at least one is given.
    Keys(Vec<FileOrData>),
    Fulcio(Fulcio),
    Pki(Pki),
}

/// The owner of a short-lived certificate. There is a key of a log besides.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Fulcio {
    pub(in crate::policy) authorities: FileOrData,
    pub(in crate::policy) issuer: String,
    pub(in crate::policy) email: String,
}

/// The owner of a certificate. There is no key of a log, and a name or both.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Pki {
    pub(in crate::policy) roots: FileOrData,
    pub(in crate::policy) intermediates: Option<FileOrData>,
    pub(in crate::policy) email: Option<String>,
    pub(in crate::policy) hostname: Option<String>,
}

impl SigstoreSigned {
    pub(super) fn parse(members: &mut Members) -> Result<Self, String> {
        members.check_known(&KEYS)?;
        let keys = [
            one(members, "keyPath", "keyData")?.map(|key| vec![key]),
            files(members.paths("keyPaths")?),
            datas(members, "keyDatas")?,
        ];
        let trusts = keys.into_iter().flatten().map(SigstoreTrust::Keys);
        let fulcio = members.field("fulcio", Fulcio::parse)?;
        let pki = members.field("pki", Pki::parse)?;
        let mut trusts = trusts
            .chain(fulcio.map(SigstoreTrust::Fulcio))
            .chain(pki.map(SigstoreTrust::Pki));
        let (Some(trust), None) = (trusts.next(), trusts.next()) else {
            return Err(
                "sigstoreSigned takes exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio \
                 and pki"
                    .into(),
            );
        };
        let rekor = [
            one(members, "rekorPublicKeyPath", "rekorPublicKeyData")?.map(|key| vec![key]),
            files(members.paths("rekorPublicKeyPaths")?),
            datas(members, "rekorPublicKeyDatas")?,
        ];
        let mut rekor = rekor.into_iter().flatten();
        let (rekor_keys, None) = (rekor.next(), rekor.next()) else {
            return Err(
                "sigstoreSigned takes at most one of rekorPublicKeyPath, rekorPublicKeyPaths, \
                 rekorPublicKeyData and rekorPublicKeyDatas"
                    .into(),
            );
        };
        let lists = [
            match &trust {
                SigstoreTrust::Keys(keys) => Some(keys),
                _ => None,
            },
            rekor_keys.as_ref(),
        ];
        for list in lists.into_iter().flatten() {
            if list.is_empty() {
                return Err("sigstoreSigned has an empty list of keys".into());
            }
            check_many(list)?;
        }
        match (&trust, &rekor_keys) {
            (SigstoreTrust::Fulcio(_), None) => {
                return Err("sigstoreSigned with fulcio takes a key of Rekor as well".into());
            }
            (SigstoreTrust::Pki(_), Some(_)) => {
                return Err("sigstoreSigned with pki takes no key of Rekor".into());
            }
            _ => {}
        }
        Ok(Self {
            trust,
            rekor_keys: rekor_keys.unwrap_or_default(),
            identity: signed_identity(members)?,
        })
    }
}

impl Fulcio {
    fn parse(json: Json) -> Result<Self, String> {
        let mut members = json.object()?;
        let missing = |name| move || format!("{name} is missing");
        let authorities = one(&mut members, "caPath", "caData")?;
        let issuer = members.full_text("oidcIssuer")?;
        let email = members.full_text("subjectEmail")?;
        members.finish()?;
        Ok(Self {
            authorities: authorities.ok_or_else(missing("caPath or caData"))?,
            issuer: issuer.ok_or_else(missing("oidcIssuer"))?,
            email: email.ok_or_else(missing("subjectEmail"))?,
        })
    }
}

impl Pki {
    fn parse(json: Json) -> Result<Self, String> {
        let mut members = json.object()?;
        let roots = one(&mut members, "caRootsPath", "caRootsData")?;
        let intermediates = one(&mut members, "caIntermediatesPath", "caIntermediatesData")?;
        let email = members.full_text("subjectEmail")?;
        let hostname = members.full_text("subjectHostname")?;
        members.finish()?;
        if email.is_none() && hostname.is_none() {
            return Err("subjectEmail or subjectHostname is missing".into());
        }
        Ok(Self {
            roots: roots.ok_or("caRootsPath or caRootsData is missing")?,
            intermediates,
            email,
            hostname,
        })
    }
}
