//! The requirements of a policy and their shapes.

use std::fmt;

use crate::policy::identity::SignedIdentity;
use crate::policy::parse::fields::{check_many, files, identity, signed_identity};
use crate::policy::parse::members::{Json, Members, shown};
use crate::policy::parse::sigstore::SigstoreSigned;
use crate::signatures::FileOrData;

/// One requirement of a scope.
#[derive(Clone, Debug)]
pub(in crate::policy) enum Requirement {
    InsecureAcceptAnything,
    Reject,
    SignedBy(SignedBy),
    SignedBaseLayer,
    SigstoreSigned(Box<SigstoreSigned>),
}

/// A signature by OpenPGP.
#[derive(Clone, Debug)]
pub(in crate::policy) struct SignedBy {
    pub(in crate::policy) key_type: KeyType,
    /// The keyrings, of which one key has to have signed. It may be empty.
    pub(in crate::policy) keys: Vec<FileOrData>,
    pub(in crate::policy) identity: SignedIdentity,
}

/// The keys of `signedBy`. Only the first kind was ever built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum KeyType {
    GpgKeys,
    SignedByGpgKeys,
    X509Certificates,
    SignedByX509Cas,
}

impl Requirement {
    pub(super) fn parse(json: Json) -> Result<Self, String> {
        let mut members = json.object()?;
        let kind = members.required_text("type")?;
        let requirement = match kind.as_str() {
            "insecureAcceptAnything" => Self::InsecureAcceptAnything,
            "reject" => Self::Reject,
            "signedBy" => Self::SignedBy(SignedBy::parse(&mut members)?),
            "signedBaseLayer" => {
                let given = members.field("baseLayerIdentity", identity)?;
                given.ok_or("baseLayerIdentity is missing")?;
                Self::SignedBaseLayer
            }
            "sigstoreSigned" => {
                Self::SigstoreSigned(Box::new(SigstoreSigned::parse(&mut members)?))
            }
            other => return Err(format!("the type {:?} is unknown", shown(other))),
        };
        members
            .finish()
            .map_err(|problem| format!("{kind}: {problem}"))?;
        Ok(requirement)
    }
}

impl SignedBy {
    fn parse(members: &mut Members) -> Result<Self, String> {
        members.check_known(&[
            "keyType",
            "keyPath",
            "keyPaths",
            "keyData",
            "signedIdentity",
        ])?;
        let key_type = match members.required_text("keyType")?.as_str() {
            "GPGKeys" => KeyType::GpgKeys,
            "signedByGPGKeys" => KeyType::SignedByGpgKeys,
            "X509Certificates" => KeyType::X509Certificates,
            "signedByX509CAs" => KeyType::SignedByX509Cas,
            other => return Err(format!("the keyType {:?} is unknown", shown(other))),
        };
        let sources = [
            members
                .path("keyPath")?
                .map(|path| vec![FileOrData::File(path)]),
            files(members.paths("keyPaths")?),
            members
                .bytes("keyData")?
                .map(|data| vec![FileOrData::Data("keyData".into(), data)]),
        ];
        let mut given = sources.into_iter().flatten();
        let (Some(keys), None) = (given.next(), given.next()) else {
            return Err("signedBy takes exactly one of keyPath, keyPaths and keyData".into());
        };
        check_many(&keys)?;
        Ok(Self {
            key_type,
            keys,
            identity: signed_identity(members)?,
        })
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GpgKeys => "GPGKeys",
            Self::SignedByGpgKeys => "signedByGPGKeys",
            Self::X509Certificates => "X509Certificates",
            Self::SignedByX509Cas => "signedByX509CAs",
        })
    }
}
