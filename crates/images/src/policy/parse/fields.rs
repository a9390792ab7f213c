//! Fields that several requirements have: keys and rules for names.

use std::path::PathBuf;

use crate::policy::identity::SignedIdentity;
use crate::policy::parse::members::{Json, Members, shown};
use crate::signatures::FileOrData;

/// The most keys of one requirement.
const MAX_KEYS: usize = 100;

/// The files of a list of paths.
pub(super) fn files(paths: Option<Vec<PathBuf>>) -> Option<Vec<FileOrData>> {
    Some(paths?.into_iter().map(FileOrData::File).collect())
}

/// Checks the count of the keys.
pub(super) fn check_many(keys: &[FileOrData]) -> Result<(), String> {
    if keys.len() > MAX_KEYS {
        return Err(format!("it has more than {MAX_KEYS} keys"));
    }
    Ok(())
}

/// `signedIdentity`, or the default rule.
pub(super) fn signed_identity(members: &mut Members) -> Result<SignedIdentity, String> {
    let identity = members.field("signedIdentity", identity)?;
    Ok(identity.unwrap_or_default())
}

/// A rule for the name in a signature.
pub(super) fn identity(json: Json) -> Result<SignedIdentity, String> {
    let mut members = json.object()?;
    let kind = members.required_text("type")?;
    let identity = match kind.as_str() {
        "matchExact" => SignedIdentity::MatchExact,
        "matchRepoDigestOrExact" => SignedIdentity::MatchRepoDigestOrExact,
        "matchRepository" => SignedIdentity::MatchRepository,
        "exactReference" => {
            SignedIdentity::exact_reference(&members.required_text("dockerReference")?)?
        }
        "exactRepository" => {
            SignedIdentity::exact_repository(&members.required_text("dockerRepository")?)?
        }
        "remapIdentity" => SignedIdentity::remap(
            members.required_text("prefix")?,
            members.required_text("signedPrefix")?,
        )?,
        other => return Err(format!("the type {:?} is unknown", shown(other))),
    };
    members.finish()?;
    Ok(identity)
}

/// A file or bytes, of which at most one is given.
pub(super) fn one(
    members: &mut Members,
    path: &'static str,
    data: &'static str,
) -> Result<Option<FileOrData>, String> {
    match (members.path(path)?, members.bytes(data)?) {
        (Some(_), Some(_)) => Err(format!("{path} and {data} exclude each other")),
        (Some(path), None) => Ok(Some(FileOrData::File(path))),
        (None, bytes) => Ok(bytes.map(|bytes| FileOrData::Data(data.into(), bytes))),
    }
}

/// The members of a list of bytes.
pub(super) fn datas(
    members: &mut Members,
    name: &'static str,
) -> Result<Option<Vec<FileOrData>>, String> {
    let list = members.many_bytes(name)?;
    Ok(list.map(|list| {
        let data = list
            .into_iter()
            .map(|bytes| FileOrData::Data(name.into(), bytes));
        data.collect()
    }))
}
