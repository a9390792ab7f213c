//! Access control of pulls.
//!
//! The rules of catalogs apply as over HTTP (`access` decides). The bearer token
//! of a catalog may come as a password, with any user: clients of registries
//! cannot be configured otherwise. Other catalogs require a user if there are
//! users, else nothing.

use std::path::PathBuf;

use http::{HeaderMap, HeaderValue};

use crate::name::CatalogName;
use crate::serve::access::{Access, Authorization, Credentials};
use crate::serve::fields::header;
use crate::serve::net::credential::{CredentialError, Followed};
use crate::serve::net::listen::Peer;
use crate::serve::oci::rejection::OciRejection;
use crate::serve::oci::token::{Grant, Repositories, Signer, TokenKeys};
use crate::serve::oci::users::{Checker, Users};

/// The credentials that pulls require; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizerSettings {
    /// Files with users, as `htpasswd -B` writes them.
    pub user_files: Vec<PathBuf>,
    /// How clients authenticate.
    pub flow: Flow,
    /// Files with the keys of tokens: the first one signs, all verify. Without any, this
    /// process makes a key of its own.
    pub token_key_files: Vec<PathBuf>,
}

/// How clients authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// With a user and password in each request.
    #[default]
    Basic,
    /// With a token that they get for a user and password.
    Token,
}

/// An authorizer, and its files of users and of keys, if it has any.
pub type OpenedAuthorizer = (
    Authorizer,
    Option<Followed<Users>>,
    Option<Followed<TokenKeys>>,
);

/// Decides who may pull what.
pub struct Authorizer {
    access: Access,
    users: Option<Checker>,
    flow: Flow,
    signer: Signer,
}

/// The sender of a request.
#[derive(Default)]
pub(super) struct Caller {
    /// Whether the request has a user and the right password.
    user: bool,
    /// A possible bearer token of a catalog.
    secret: Option<Vec<u8>>,
    grant: Option<Grant>,
    certified: bool,
}

impl Authorizer {
    /// Opens the files. Each returned [`Followed`] has to run for changed files to
    /// take effect.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn open(
        settings: &AuthorizerSettings,
        access: Access,
    ) -> Result<OpenedAuthorizer, CredentialError> {
        let (checker, users) = if settings.user_files.is_empty() {
            (None, None)
        } else {
            let (checker, users) = Checker::open(settings.user_files.clone())?;
            (Some(checker), Some(users))
        };
        let (signer, keys) = if settings.token_key_files.is_empty() {
            (Signer::new().ok_or(CredentialError::Random)?, None)
        } else {
            let (signer, keys) = Signer::of_files(settings.token_key_files.clone())?;
            (signer, Some(keys))
        };
        let authorizer = Self {
            access,
            users: checker,
            flow: settings.flow,
            signer,
        };
        Ok((authorizer, users, keys))
    }

    /// The sender of these headers.
    pub(super) async fn caller(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Caller, OciRejection> {
        let mut caller = Caller {
            certified: peer.is_some_and(|peer| peer.certified),
            ..Caller::default()
        };
        match Authorization::read(headers) {
            Some(Authorization::Bearer(token)) => {
                caller.grant = self.signer.read(token);
                caller.secret = Some(token.to_vec());
            }
            Some(Authorization::Basic { user, password }) => {
                if let Some(users) = &self.users {
                    let address = peer.map(|peer| peer.address.ip());
                    caller.user = users.check(&user, &password, address).await?;
                }
                caller.secret = Some(password);
            }
            None => {}
        }
        Ok(caller)
    }

    /// Whether any pull requires credentials.
    pub(super) fn requires_any(&self) -> bool {
        self.users.is_some() || self.access.restricts_any()
    }

    /// Whether the caller may pull a catalog under this name of a repository.
    pub(super) fn admits(&self, caller: &Caller, repository: &str, catalog: &CatalogName) -> bool {
        let name = catalog.as_str();
        if (caller.grant.as_ref()).is_some_and(|grant| grant.allows(repository, name)) {
            return true;
        }
        let rules = self.access.rules();
        if rules.restrict(name) {
            return rules.admit(name, caller.credentials());
        }
        self.users.is_none() || caller.user
    }

    /// Whether a repository needed no credentials until its catalog was removed.
    pub(super) fn was_open(&self, repository: &str) -> bool {
        self.users.is_none() && self.access.rules().was_open(repository)
    }

    /// Whether the caller has valid credentials, or a token that was given for such.
    pub(super) fn knows(&self, caller: &Caller) -> bool {
        caller.user
            || caller.grant.as_ref().is_some_and(|grant| grant.known)
            || self.access.rules().know(caller.credentials())
    }

    /// The rejection of a caller without valid credentials. `name` is the repository, and
    /// `here` the address of this registry.
    pub(super) fn unauthorized(&self, name: Option<&str>, here: &str) -> OciRejection {
        OciRejection::Unauthorized(self.challenge(name, here))
    }

    fn challenge(&self, name: Option<&str>, here: &str) -> HeaderValue {
        match (self.flow, name) {
            (Flow::Basic, _) => HeaderValue::from_static("Basic realm=\"almanac\""),
            (Flow::Token, None) => header(format!(
                "Bearer realm=\"{here}/v2/token\",service=\"almanac\""
            )),
            (Flow::Token, Some(name)) => header(format!(
                "Bearer realm=\"{here}/v2/token\",service=\"almanac\",\
                 scope=\"repository:{name}:pull\""
            )),
        }
    }

    /// The challenge for a user and password.
    pub(super) fn basic_challenge() -> HeaderValue {
        HeaderValue::from_static("Basic realm=\"almanac\"")
    }

    /// A token for these repositories.
    pub(super) fn token(
        &self,
        repositories: Repositories,
        caller: &Caller,
    ) -> Result<String, OciRejection> {
        let signed = self.signer.sign(repositories, self.knows(caller));
        signed.map_err(|error| {
            tracing::error!(%error, "a token cannot be written as JSON");
            OciRejection::Failed
        })
    }

    /// Whether the token flow is active.
    pub(super) fn gives_tokens(&self) -> bool {
        self.flow == Flow::Token
    }
}

impl Caller {
    /// Whether the request has any credentials.
    pub(super) fn has_credentials(&self) -> bool {
        self.secret.is_some()
    }

    /// Whether the request has a valid token, also one for everybody.
    pub(super) fn has_token(&self) -> bool {
        self.grant.is_some()
    }

    /// The caller without the token.
    pub(super) fn without_token(self) -> Self {
        Self {
            grant: None,
            ..self
        }
    }

    /// The credentials for the rules of catalogs. A catalog's bearer token may
    /// come as a password.
    fn credentials(&self) -> Credentials<'_> {
        Credentials {
            token: self.secret.as_deref(),
            certified: self.certified,
        }
    }
}
