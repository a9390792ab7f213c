//! Who may pull what.
//!
//! A catalog that asks its readers for something over HTTP asks for the same
//! here; its bearer token may come as a password, with any user, since that is
//! all that clients of registries can be told. Other catalogs ask for a user
//! when there are users, else for nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use metrics::counter;

use crate::name::CatalogName;
use crate::serve::Peer;
use crate::serve::access::Access;
use crate::serve::net::credential::{CredentialError, Followed};
use crate::serve::oci::content::text;
use crate::serve::oci::refusal::Refusal;
use crate::serve::oci::token::{Grant, Signer};
use crate::serve::oci::users::{Checker, Users};

/// What whoever pulls is asked for; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateSettings {
    /// Files with users, as `htpasswd -B` writes them.
    pub user_files: Vec<PathBuf>,
    /// How clients show who they are.
    pub flow: Flow,
}

/// How clients show who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// With a user and a password for each request.
    #[default]
    Basic,
    /// With a token, for which they show a user and a password once.
    Token,
}

/// Decides who may pull what.
pub struct Gate {
    access: Access,
    users: Option<Checker>,
    flow: Flow,
    signer: Signer,
}

/// Who asks.
#[derive(Default)]
pub(super) struct Caller {
    /// Whether a user was named, with the right password.
    user: bool,
    /// What came that may be a catalog's bearer token.
    secret: Option<Vec<u8>>,
    grant: Option<Grant>,
    certified: bool,
}

impl Gate {
    /// Opens the files. What is returned beside has to be followed for new
    /// ones to count.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn open(
        settings: &GateSettings,
        access: Access,
    ) -> Result<(Self, Option<Followed<Users>>), CredentialError> {
        let (users, files) = if settings.user_files.is_empty() {
            (None, None)
        } else {
            let (users, files) = Checker::open(settings.user_files.clone())?;
            (Some(users), Some(files))
        };
        let gate = Self {
            access,
            users,
            flow: settings.flow,
            signer: Signer::new().ok_or(CredentialError::Random)?,
        };
        Ok((gate, files))
    }

    /// Who sends these headers.
    pub(super) async fn caller(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Caller, Refusal> {
        let mut caller = Caller {
            certified: peer.is_some_and(|peer| peer.certified),
            ..Caller::default()
        };
        match credentials(headers) {
            Some(Credentials::Bearer(token)) => {
                caller.grant = self.signer.read(&token);
                caller.secret = Some(token);
            }
            Some(Credentials::Basic(user, password)) => {
                if let Some(users) = &self.users {
                    caller.user = users.check(&user, &password).await?;
                }
                caller.secret = Some(password);
            }
            None => {}
        }
        Ok(caller)
    }

    /// Whether anything is asked of anybody.
    pub(super) fn asks(&self) -> bool {
        self.users.is_some() || self.access.asks_any()
    }

    /// Whether the caller may pull a catalog.
    pub(super) fn admits(&self, caller: &Caller, catalog: &CatalogName) -> bool {
        let granted = |grant: &Grant| grant.catalogs.contains(catalog.as_str());
        if caller.grant.as_ref().is_some_and(granted) {
            return true;
        }
        if self.access.asks(catalog) {
            let secret = caller.secret.as_deref();
            return self.access.admits(catalog, secret, caller.certified);
        }
        self.users.is_none() || caller.user
    }

    /// Whether the caller has shown anything that is good.
    pub(super) fn knows(&self, caller: &Caller) -> bool {
        let token = |secret: &[u8]| self.access.knows(secret);
        caller.user
            || caller.grant.is_some()
            || caller.certified
            || caller.secret.as_deref().is_some_and(token)
    }

    /// What somebody is told who may not have what they ask for; `name` is the
    /// repository, and `here` the address of this registry.
    pub(super) fn refusal(
        &self,
        name: Option<&str>,
        catalogs: &[CatalogName],
        here: &str,
    ) -> Refusal {
        for catalog in catalogs {
            let labels = [("catalog", catalog.to_string())];
            counter!("almanac_http_denied_total", &labels).increment(1);
        }
        let certificates = |catalog| self.access.asks_only_certificate(catalog);
        if !catalogs.is_empty() && catalogs.iter().all(certificates) {
            return Refusal::Denied;
        }
        Refusal::Unauthorized(self.challenge(name, here))
    }

    fn challenge(&self, name: Option<&str>, here: &str) -> HeaderValue {
        match (self.flow, name) {
            (Flow::Basic, _) => HeaderValue::from_static("Basic realm=\"almanac\""),
            (Flow::Token, None) => text(format!(
                "Bearer realm=\"{here}/v2/token\",service=\"almanac\""
            )),
            (Flow::Token, Some(name)) => text(format!(
                "Bearer realm=\"{here}/v2/token\",service=\"almanac\",\
                 scope=\"repository:{name}:pull\""
            )),
        }
    }

    /// What asks for a user and a password.
    pub(super) fn basic_challenge() -> HeaderValue {
        HeaderValue::from_static("Basic realm=\"almanac\"")
    }

    /// A token for these catalogs.
    pub(super) fn token(&self, catalogs: BTreeSet<String>) -> String {
        self.signer.sign(catalogs)
    }

    /// Whether there are tokens at all.
    pub(super) fn gives_tokens(&self) -> bool {
        self.flow == Flow::Token
    }
}

impl Caller {
    /// Whether a user and password, or a token, came at all.
    pub(super) fn has_shown(&self) -> bool {
        self.secret.is_some()
    }
}

enum Credentials {
    Bearer(Vec<u8>),
    Basic(String, Vec<u8>),
}

/// What `Authorization` holds.
fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, value) = value.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Bearer(value.into()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64_STANDARD.decode(value).ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    let user = std::str::from_utf8(&pair[..colon]).ok()?;
    Some(Credentials::Basic(
        user.to_owned(),
        pair[colon + 1..].to_vec(),
    ))
}
