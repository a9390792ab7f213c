//! Who may read a catalog over HTTP: everybody, unless its configuration asks
//! for a bearer token or a client's certificate.
//!
//! This is a layer around all routes below `/catalogs/{name}/`, so none can be
//! forgotten. Tokens are kept and compared as digests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use metrics::counter;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use tokio::sync::watch;

use crate::name::CatalogName;
use crate::serve::Peer;
use crate::serve::http::refusal::Refusal;
use crate::serve::net::credential::{CredentialError, Followed};

/// Routes of which the first parameter is the name of a catalog begin so.
const CATALOGS: &str = "/catalogs/{";

/// What a catalog asks of its readers; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// Files with bearer tokens, one a line. Any of them lets a reader in.
    pub token_files: Vec<PathBuf>,
    /// Whether a verified certificate lets a reader in.
    pub client_certificate: bool,
}

/// Who may read which catalog. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Access(Arc<watch::Sender<Arc<Rules>>>);

/// Those of the catalogs that ask for something.
pub(crate) type Rules = BTreeMap<CatalogName, Rule>;

/// The catalogs that not everybody may read. Handlers find it in the request.
#[derive(Clone, Default)]
pub(crate) struct Closed(Arc<Rules>);

impl Closed {
    /// Whether this is one of them.
    pub(crate) fn has(&self, catalog: &str) -> bool {
        self.0.keys().any(|name| name.as_str() == catalog)
    }
}

/// What a catalog asks for: one of these is enough, and when there is none,
/// everybody may read it.
#[derive(Clone, Default)]
pub struct Rule {
    tokens: Option<watch::Receiver<Arc<Tokens>>>,
    certificate: bool,
}

/// Digests of tokens.
#[derive(Default)]
pub struct Tokens(Vec<[u8; 32]>);

impl Rule {
    /// Reads the tokens of a catalog. What is returned beside has to be
    /// followed for new files to count.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn open(
        catalog: &CatalogName,
        settings: &AccessSettings,
    ) -> Result<(Self, Option<Followed<Tokens>>), CredentialError> {
        let mut rule = Self {
            tokens: None,
            certificate: settings.client_certificate,
        };
        if settings.token_files.is_empty() {
            return Ok((rule, None));
        }
        let paths = settings.token_files.clone();
        let build = {
            let paths = paths.clone();
            move |contents: &[Vec<u8>]| Tokens::read(&paths, contents)
        };
        let (files, receiver) = Followed::open("tokens", catalog.as_str(), paths, Box::new(build))?;
        rule.tokens = Some(receiver);
        Ok((rule, Some(files)))
    }

    /// Whether it asks for a token.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    fn is_open(&self) -> bool {
        self.tokens.is_none() && !self.certificate
    }
}

impl Access {
    /// These rules hold from now on; a catalog without one may be read by
    /// everybody.
    pub fn set(&self, rules: impl IntoIterator<Item = (CatalogName, Rule)>) {
        let rules = rules.into_iter().filter(|(_, rule)| !rule.is_open());
        self.0.send_replace(Arc::new(rules.collect()));
    }

    /// Whether any catalog asks for something.
    pub fn asks_any(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Whether a catalog asks for something.
    pub fn asks(&self, catalog: &CatalogName) -> bool {
        self.0.borrow().contains_key(catalog)
    }

    /// Whether a catalog asks for a certificate, and nothing else would do.
    pub fn asks_only_certificate(&self, catalog: &CatalogName) -> bool {
        let rules = self.rules();
        let rule = rules.get(catalog);
        rule.is_some_and(|rule| rule.tokens.is_none())
    }

    /// Whether a catalog may be read by somebody with this secret, or with a
    /// certificate that was verified.
    pub fn admits(&self, catalog: &CatalogName, secret: Option<&[u8]>, certified: bool) -> bool {
        let rules = self.rules();
        let Some(rule) = rules.get(catalog) else {
            return true;
        };
        if rule.certificate && certified {
            return true;
        }
        match (&rule.tokens, secret) {
            (Some(tokens), Some(secret)) => tokens.borrow().contain(secret),
            _ => false,
        }
    }

    /// Whether a secret is a token of any catalog.
    pub fn knows(&self, secret: &[u8]) -> bool {
        let rules = self.rules();
        let tokens = rules.values().filter_map(|rule| rule.tokens.as_ref());
        tokens.fold(false, |known, tokens| {
            known | tokens.borrow().contain(secret)
        })
    }

    /// What is found while no rule comes, if there is none for a catalog.
    pub(crate) fn if_open<T>(&self, catalog: &str, find: impl FnOnce() -> Option<T>) -> Option<T> {
        let rules = self.0.borrow();
        let asks = rules.keys().any(|asking| asking.as_str() == catalog);
        if asks { None } else { find() }
    }

    /// The rules that hold now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.borrow())
    }
}

/// Whether a request that comes with these headers from this peer may read a
/// catalog; else the answer to it.
fn check(
    rules: &Rules,
    catalog: &str,
    headers: &HeaderMap,
    peer: Option<&Peer>,
) -> Result<(), Box<Response>> {
    let found = rules.iter().find(|(name, _)| name.as_str() == catalog);
    let Some((_, rule)) = found else {
        return Ok(());
    };
    if rule.certificate && peer.is_some_and(|peer| peer.certified) {
        return Ok(());
    }
    let given = bearer(headers);
    if let (Some(tokens), Some(given)) = (&rule.tokens, given)
        && tokens.borrow().contain(given)
    {
        return Ok(());
    }
    counter!("almanac_http_denied_total", "catalog" => catalog.to_owned()).increment(1);
    Err(Box::new(refusal(rule, given.is_some())))
}

/// Lets requests for a catalog through to its routes when they may read it.
pub(crate) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match Place::of(&mut parts).await {
        // What no route takes has nothing to protect.
        Place::Elsewhere => {}
        Place::Catalog(name) => {
            let peer: Option<Peer> = parts.extensions.get().copied();
            let rules = access.rules();
            if let Err(refusal) = check(&rules, &name, &parts.headers, peer.as_ref()) {
                return *refusal;
            }
            parts.extensions.insert(Closed(Arc::clone(&rules)));
            let headers = parts.headers.clone();
            let response = next.run(Request::from_parts(parts, body)).await;
            // The catalog may have come while this was on its way, and its
            // rule with it.
            let now = access.rules();
            if !Arc::ptr_eq(&rules, &now)
                && let Err(refusal) = check(&now, &name, &headers, peer.as_ref())
            {
                return *refusal;
            }
            return response;
        }
        Place::NoName => {
            let response = next.run(Request::from_parts(parts, body)).await;
            // Routes refuse it in words of their own. One that would not
            // could be asked for any catalog.
            return if response.status().is_success() {
                StatusCode::BAD_REQUEST.into_response()
            } else {
                response
            };
        }
    }
    next.run(Request::from_parts(parts, body)).await
}

/// What a request's path leads to.
pub(crate) enum Place {
    /// Something of the catalog of this name, be there one or not.
    Catalog(String),
    /// Something of a catalog whose name is no text.
    NoName,
    /// Anything else.
    Elsewhere,
}

impl Place {
    /// Reads the name as the routes do, escapes included.
    pub(crate) async fn of(parts: &mut Parts) -> Self {
        let route = parts.extensions.get::<MatchedPath>();
        if !route.is_some_and(|route| route.as_str().starts_with(CATALOGS)) {
            return Self::Elsewhere;
        }
        let Ok(parameters) = RawPathParams::from_request_parts(parts, &()).await else {
            return Self::NoName;
        };
        match parameters.iter().next() {
            Some((_, name)) => Self::Catalog(name.to_owned()),
            None => Self::NoName,
        }
    }
}

fn refusal(rule: &Rule, given: bool) -> Response {
    let (status, text) = match (&rule.tokens, given) {
        (Some(_), false) => (StatusCode::UNAUTHORIZED, "a bearer token is needed"),
        (Some(_), true) => (StatusCode::UNAUTHORIZED, "the bearer token is not valid"),
        // There is nothing that a client could send in a header.
        (None, _) => (StatusCode::FORBIDDEN, "a client certificate is needed"),
    };
    let mut response = Refusal::Text(status, text).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = if given {
            "Bearer realm=\"almanac\", error=\"invalid_token\""
        } else {
            "Bearer realm=\"almanac\""
        };
        let challenge = HeaderValue::from_static(challenge);
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

impl Tokens {
    /// One a line; lines that are empty or begin with `#` do not count.
    fn read(paths: &[PathBuf], contents: &[Vec<u8>]) -> Result<Self, CredentialError> {
        let mut tokens = Vec::new();
        for (path, content) in paths.iter().zip(contents) {
            for (at, line) in content.split(|&byte| byte == b'\n').enumerate() {
                let line = line.trim_ascii();
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                tokens.push(token(path, at + 1, line)?);
            }
        }
        Ok(Self(tokens))
    }

    /// Takes as long whichever token it is, and if it is none.
    fn contain(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        let mut found = Choice::from(0);
        for token in &self.0 {
            found |= token.ct_eq(&given);
        }
        found.into()
    }
}

/// The digest of a token (`b64token` of RFC 6750, section 2.1).
fn token(path: &Path, line: usize, token: &[u8]) -> Result<[u8; 32], CredentialError> {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    if token.iter().all(good) {
        return Ok(Sha256::digest(token).into());
    }
    Err(CredentialError::Token {
        path: path.to_owned(),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<Tokens, String> {
        let paths = [PathBuf::from("tokens")];
        Tokens::read(&paths, &[content.into()]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_known_by_its_whole() {
        let tokens = read("# ours\n\nfirst-token\r\n  second.Token== \n").unwrap();
        for (given, wanted) in [
            ("first-token", true),
            ("second.Token==", true),
            ("first-toke", false),
            ("first-token2", false),
            ("", false),
            ("# ours", false),
        ] {
            assert_eq!(tokens.contain(given.as_bytes()), wanted, "{given}");
        }
        assert!(!read("").unwrap().contain(b""));
    }

    #[test]
    fn a_line_that_is_no_token_is_named_and_not_shown() {
        let error = read("good\nnot a s3cret\n").err().unwrap();
        assert!(error.starts_with("line 2 of tokens"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_token_comes_behind_its_scheme() {
        for (value, wanted) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer(&headers), wanted.map(str::as_bytes), "{value}");
        }
    }
}
