//! Authorisation: who may read a catalog.
//!
//! The HTTP and OCI APIs both decide with [`Access`], and each words its own
//! refusals. gRPC calls and admin requests are not restricted: OLM's gRPC
//! clients send no credentials.

mod reader;
mod rules;
mod tokens;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;

pub(crate) use reader::Reader;
pub use rules::{Access, AccessSettings, Rule};
pub(crate) use rules::{Credentials, Denied, count_denied};
pub use tokens::Tokens;

/// The credentials in an `Authorization` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authorization<'a> {
    /// `Bearer TOKEN` (RFC 6750).
    Bearer(&'a [u8]),
    /// `Basic BASE64` (RFC 7617), decoded.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Vec<u8>,
    },
}

impl<'a> Authorization<'a> {
    /// Reads the header. Other schemes and malformed values count as absent.
    pub(crate) fn read(headers: &'a HeaderMap) -> Option<Self> {
        let value = headers.get(AUTHORIZATION)?.as_bytes();
        let space = value.iter().position(|&byte| byte == b' ')?;
        let (scheme, value) = value.split_at(space);
        let value = value.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return Some(Self::Bearer(value));
        }
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return None;
        }
        let pair = BASE64_STANDARD.decode(value).ok()?;
        let colon = pair.iter().position(|&byte| byte == b':')?;
        let user = std::str::from_utf8(&pair[..colon]).ok()?;
        Some(Self::Basic {
            user: user.to_owned(),
            password: pair[colon + 1..].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn credentials_follow_their_scheme() {
        let basic = |user: &str, password: &str| Authorization::Basic {
            user: user.to_owned(),
            password: password.into(),
        };
        for (value, wanted) in [
            ("Bearer abc", Some(Authorization::Bearer(b"abc"))),
            ("bearer  abc ", Some(Authorization::Bearer(b"abc"))),
            ("Basic YTpiOmM=", Some(basic("a", "b:c"))),
            ("BASIC Og==", Some(basic("", ""))),
            ("Basic abc", None),
            ("Basic YQ==", None),
            ("Digest abc", None),
            ("Bearer", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(Authorization::read(&headers), wanted, "{value}");
        }
        assert_eq!(Authorization::read(&HeaderMap::new()), None);
    }
}
