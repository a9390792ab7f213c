//! The grammar of references (distribution-spec).

use std::net::Ipv6Addr;

/// The longest host name (DNS), in bytes.
pub(super) const MAX_HOST: usize = 253;
/// The longest repository at most registries, in bytes.
pub(super) const MAX_REPOSITORY: usize = 255;
/// The longest tag, in bytes.
pub(super) const MAX_TAG: usize = 128;

/// Whether a text is `HOST[:PORT]`, with an IPv6 address in brackets.
pub(crate) fn is_registry(text: &str) -> bool {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, rest)) = rest.split_once(']') else {
            return false;
        };
        if address.parse::<Ipv6Addr>().is_err() {
            return false;
        }
        match rest.strip_prefix(':') {
            None if rest.is_empty() => return true,
            None => return false,
            Some(port) => ("ipv6", Some(port)),
        }
    } else {
        match text.split_once(':') {
            None => (text, None),
            Some((host, port)) => (host, Some(port)),
        }
    };
    let host_is_good = host.len() <= MAX_HOST
        && host.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b'-')
                && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
                && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        });
    let port_is_good = port.is_none_or(|port| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    host_is_good && port_is_good
}

/// Whether a text is a repository: `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/...)*`, at
/// most 255 bytes (distribution-spec).
pub fn is_repository(text: &str) -> bool {
    text.len() <= MAX_REPOSITORY && text.split('/').all(is_path_component)
}

fn is_path_component(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let word = rest.iter().take_while(|b| alphanumeric(**b)).count();
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        if rest.is_empty() {
            return true;
        }
        let separator = rest.iter().take_while(|b| !alphanumeric(**b)).count();
        let good = matches!(&rest[..separator], b"." | b"_" | b"__")
            || rest[..separator].iter().all(|b| *b == b'-');
        if !good {
            return false;
        }
        rest = &rest[separator..];
    }
}

/// Whether a text is a tag: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`
/// (distribution-spec).
pub fn is_tag(text: &str) -> bool {
    text.len() <= MAX_TAG
        && text.bytes().enumerate().all(|(at, b)| {
            b.is_ascii_alphanumeric() || b == b'_' || (at > 0 && (b == b'.' || b == b'-'))
        })
        && !text.is_empty()
}

/// The scheme or transport of a text, such as `docker`, and what follows its `://`,
/// without a user and password.
pub fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(is_scheme);
    is_scheme.then(|| (scheme, without_user(rest)))
}

/// A text without a user and password before the host.
pub fn without_user(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) if !rest[at + 1..].starts_with("sha256:") => &rest[at + 1..],
        _ => text,
    }
}
