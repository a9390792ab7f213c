//! The rule for all images under one prefix.

use crate::reference::without_user;

/// The longest prefix or location, in bytes.
const MAX_LOCATION: usize = 600;
/// The longest text that an error repeats, in characters.
const MAX_SHOWN: usize = 200;

/// The rule for images whose names begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorRule {
    /// `HOST[:PORT][/PATH]`, or `*.DOMAIN`.
    pub(super) prefix: String,
    /// The replacement of the prefix in the image's own location; empty if
    /// there is none.
    pub(super) location: String,
    pub(super) insecure: bool,
    pub(super) blocked: bool,
    pub(super) mirrors: Vec<Mirror>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    pub(super) location: String,
    pub(super) insecure: bool,
    pub(super) pull: PullFrom,
}

/// The references that a mirror applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PullFrom {
    All,
    Digest,
    Tag,
}

/// Checks a prefix, and writes its host in lower case.
pub(super) fn checked_prefix(text: &str) -> Result<String, String> {
    let (wildcard, rest) = match text.strip_prefix("*.") {
        Some(rest) => ("*.", rest),
        None => ("", text),
    };
    Ok(format!("{wildcard}{}", checked_location(rest)?))
}

/// Checks `HOST[:PORT][/PATH][:TAG|@DIGEST]`, without a slash at the end.
pub(super) fn checked_location(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    let rejected = |problem: &str| Err(format!("{:?} {problem}", shown(text)));
    if trimmed.contains("://") {
        return rejected("has to be written without a scheme");
    }
    let good = |c: char| c.is_ascii_alphanumeric() || "-._:/@[]".contains(c);
    if trimmed.is_empty() || trimmed.len() > MAX_LOCATION || !trimmed.chars().all(good) {
        return rejected("is no HOST[:PORT][/PATH]; only a prefix may begin with \"*.\"");
    }
    let (host, path) = trimmed.split_once('/').unwrap_or((trimmed, ""));
    if host
        .split_once('@')
        .is_some_and(|(_, behind)| !behind.starts_with("sha256:"))
    {
        return rejected("contains a user; write credentials into an auth file");
    }
    let host = host.to_ascii_lowercase();
    Ok(match path {
        "" => host,
        path => format!("{host}/{path}"),
    })
}

/// A text for messages, without a password.
pub(super) fn shown(text: &str) -> String {
    let text = without_user(text);
    text.chars().take(MAX_SHOWN).collect()
}
