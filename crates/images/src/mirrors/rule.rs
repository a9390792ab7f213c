//! The rule for all images under one prefix.

use crate::display::clip;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PullFrom {
    All,
    Digest,
    Tag,
}

/// Checks a prefix, and writes its host in lower case.
pub(super) fn checked_prefix(text: &str) -> Result<String, String> {
    let Some(domain) = text.strip_prefix("*.") else {
        return checked_location(text);
    };
    let domain = checked_location(domain)?;
    if domain.contains(['/', ':', '@']) {
        let problem = "is not a wildcard: it has to be written \"*.DOMAIN\", without port and path";
        return Err(format!("{:?} {problem}", shown(text)));
    }
    Ok(format!("*.{domain}"))
}

/// Whether a prefix or location is `outer` or lies in it.
pub(super) fn is_nested(inner: &str, outer: &str) -> bool {
    if let Some(domain) = outer.strip_prefix('*') {
        let host = inner.split([':', '/']).next();
        return host.is_some_and(|host| host.ends_with(domain));
    }
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
        return rejected("is not a HOST[:PORT][/PATH]; only a prefix may begin with \"*.\"");
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
    clip(without_user(text), MAX_SHOWN)
}
