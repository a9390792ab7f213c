//! Answering the challenges of registries with tokens and passwords. Answers
//! are kept, so that the next poll is one request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method};
use quick_cache::sync::Cache;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use crate::credentials::{AuthFiles, Credentials, Secret, basic_header, bearer_header};
use crate::error::{Error, Login};
use crate::reference::Reference;
use crate::registry::challenge::{Bearer, Challenge};
use crate::registry::outside::OutsideHost;
use crate::registry::response::{body, is_ok, status_error};
use crate::registry::transport::{Request, Transport};
use crate::registry::url::redacted;

/// The largest response of a token service, in bytes.
const MAX_TOKEN: usize = 256 << 10;
/// The lifetime of a token without `expires_in` (distribution-spec).
const DEFAULT_LIFETIME: Duration = Duration::from_mins(1);
/// The longest time that a token is kept.
const MAX_LIFETIME: Duration = Duration::from_hours(24);
/// The most repositories whose challenge is kept. Further ones replace those
/// used least.
const MAX_REMEMBERED: usize = 4096;

/// The authorization of a request.
#[derive(Clone, Default)]
pub(super) struct Authorization {
    /// The value of the `Authorization` header; none for an anonymous request.
    pub(super) header: Option<HeaderValue>,
    /// What became of credentials.
    pub(super) login: Login,
}

/// Answers challenges. Cheap to clone; clones share tokens.
#[derive(Clone)]
pub(super) struct Authorizer {
    transport: Transport,
    files: AuthFiles,
    client_id: Arc<str>,
    remembered: Arc<Cache<Key, Remembered>>,
}

/// A registry and a repository: the scope of a token.
type Key = (String, String);

#[derive(Clone)]
struct Remembered {
    challenge: Challenge,
    token: Option<Token>,
}

#[derive(Clone)]
struct Token {
    authorization: Authorization,
    until: Instant,
}

impl Authorizer {
    pub(super) fn new(transport: Transport, files: AuthFiles, client_id: &str) -> Self {
        Self {
            transport,
            files,
            client_id: client_id.into(),
            remembered: Arc::new(Cache::new(MAX_REMEMBERED)),
        }
    }

    /// The same over another transport, without tokens.
    pub(super) fn over(&self, transport: Transport) -> Self {
        Self::new(transport, self.files.clone(), &self.client_id)
    }

    /// The authorization for the first request to a repository: the one that
    /// its registry wanted last time, or none.
    pub(super) async fn remembered(&self, reference: &Reference) -> Result<Authorization, Error> {
        match self.remembered.get(&key(reference)) {
            None => Ok(Authorization::default()),
            Some(Remembered {
                token: Some(token), ..
            }) if token.until > Instant::now() => Ok(token.authorization),
            Some(Remembered { challenge, .. }) => {
                let answer = self.answer(reference, challenge).await;
                if answer.is_err() {
                    // The registry may want something else by now, so the
                    // next request is anonymous.
                    self.remembered.remove(&key(reference));
                }
                answer
            }
        }
    }

    /// Answers a challenge and keeps the answer.
    pub(super) async fn answer(
        &self,
        reference: &Reference,
        challenge: Challenge,
    ) -> Result<Authorization, Error> {
        let credentials = self.find(reference).await?;
        let login = login_with(credentials.as_ref());
        let (header, lifetime) = match (&challenge, credentials) {
            (
                Challenge::Basic,
                Some(Credentials {
                    basic: Some(pair), ..
                }),
            ) => {
                // Read from the files each time, in case it is rotated.
                (basic_header(&pair), None)
            }
            (Challenge::Basic, credentials) => {
                let login = if credentials.is_some() {
                    Login::OnlyToken
                } else {
                    Login::NotConfigured
                };
                return Ok(Authorization {
                    header: None,
                    login,
                });
            }
            (Challenge::Bearer(bearer), credentials) => {
                let (token, lifetime) = self.fetch(reference, bearer, credentials).await?;
                (bearer_header(&token), Some(lifetime))
            }
        };
        let authorization = Authorization { header, login };
        let token = lifetime.map(|lifetime| Token {
            authorization: authorization.clone(),
            until: Instant::now() + lifetime,
        });
        let remembered = Remembered { challenge, token };
        self.remembered.insert(key(reference), remembered);
        Ok(authorization)
    }

    /// What became of credentials at a registry that refused a request without naming
    /// a way to log in.
    pub(super) async fn unasked(&self, reference: &Reference) -> Result<Login, Error> {
        let found = self.find(reference).await?;
        Ok(found.map_or(Login::NotConfigured, |_| Login::NotAsked))
    }

    async fn find(&self, reference: &Reference) -> Result<Option<Credentials>, Error> {
        let found = self
            .files
            .find(reference.registry(), reference.repository());
        found.await.map_err(|source| Error::File {
            reference: reference.clone(),
            source,
        })
    }

    async fn fetch(
        &self,
        reference: &Reference,
        bearer: &Bearer,
        credentials: Option<Credentials>,
    ) -> Result<(Secret, Duration), Error> {
        let registry = self.transport.url(reference, "")?;
        let problem = |url: &str, problem| Error::Token {
            reference: reference.clone(),
            url: url.to_owned(),
            problem,
        };
        let realm = Url::parse(&bearer.realm)
            .map_err(|_| problem(reference.registry(), "its token service has no valid URL"))?;
        let shown = redacted(&realm);
        self.transport
            .may_ask(&registry, &realm)
            .map_err(|reason| problem(&shown, reason))?;
        let outside = OutsideHost::new(&registry, &realm).await;
        outside.map_err(|reason| problem(&shown, reason))?;
        let login = login_with(credentials.as_ref());
        let requested = realm.clone();
        let request = token_request(reference, bearer, realm, credentials, &self.client_id)
            .ok_or_else(|| problem(&shown, "the credentials cannot be sent in a header"))?;
        let response = self.transport.send(request).await?;
        if !is_ok(&response) {
            return Err(status_error(reference, &requested, response, login).await);
        }
        let bytes = body(reference, response, MAX_TOKEN).await?;
        let answer: TokenDocument = serde_json::from_slice(&bytes)
            .map_err(|_| problem(&shown, "its response is not a token document"))?;
        let lifetime = answer.lifetime();
        let token = [answer.token, answer.access_token]
            .into_iter()
            .flatten()
            .find(|token| !token.is_empty())
            .map(Secret::from)
            .ok_or_else(|| problem(&shown, "its response contains no token"))?;
        if bearer_header(&token).is_none() {
            return Err(problem(&shown, "its token cannot be sent in a header"));
        }
        Ok((token, lifetime))
    }
}

/// The request for a token to pull from one repository. The scope is not taken
/// from the challenge: no other scope is needed.
fn token_request<'a>(
    reference: &'a Reference,
    bearer: &Bearer,
    mut realm: Url,
    credentials: Option<Credentials>,
    client_id: &str,
) -> Option<Request<'a>> {
    let scope = format!("repository:{}:pull", reference.repository());
    let mut parameters = vec![("scope", scope)];
    if let Some(service) = &bearer.service {
        parameters.push(("service", service.clone()));
    }
    let mut request = Request {
        reference,
        method: Method::GET,
        url: realm.clone(),
        accept: "application/json",
        authorization: None,
        headers: HeaderMap::new(),
        form: None,
        is_configured: false,
    };
    let (basic, token) = credentials.map_or((None, None), |credentials| {
        (credentials.basic, credentials.identity_token)
    });
    if let Some(token) = token {
        parameters.push(("grant_type", "refresh_token".into()));
        parameters.push(("client_id", client_id.to_owned()));
        parameters.push(("refresh_token", token.expose().to_owned()));
        let mut form = realm;
        form.query_pairs_mut().clear().extend_pairs(parameters);
        request.form = form.query().map(Into::into);
        request.method = Method::POST;
    } else {
        if let Some(pair) = basic {
            request.authorization = Some(basic_header(&pair)?);
        }
        realm.query_pairs_mut().extend_pairs(parameters);
        request.url = realm;
    }
    Some(request)
}

/// What becomes of credentials in a request that takes them.
fn login_with(credentials: Option<&Credentials>) -> Login {
    credentials.map_or(Login::NotConfigured, |_| Login::Sent)
}

fn key(reference: &Reference) -> Key {
    (
        reference.registry().to_owned(),
        reference.repository().to_owned(),
    )
}

/// The response of a token service. Both names of the token are in use.
#[derive(Deserialize)]
struct TokenDocument {
    token: Option<String>,
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Value,
}

impl TokenDocument {
    /// How long to use the token: nine tenths of its lifetime, which passes
    /// while a request travels.
    fn lifetime(&self) -> Duration {
        let stated = self
            .expires_in
            .as_f64()
            .filter(|seconds| *seconds > 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        stated.unwrap_or(DEFAULT_LIFETIME).min(MAX_LIFETIME) * 9 / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(document: &str) -> u64 {
        let answer: TokenDocument = serde_json::from_str(document).unwrap();
        answer.lifetime().as_secs()
    }

    #[test]
    fn a_token_is_dropped_before_it_expires() {
        assert_eq!(lifetime(r#"{"expires_in":300}"#), 270);
        assert_eq!(lifetime(r#"{"expires_in":null}"#), 54);
        assert_eq!(lifetime("{}"), 54);
        assert_eq!(lifetime(r#"{"expires_in":-5}"#), 54);
        assert_eq!(lifetime(r#"{"expires_in":"soon"}"#), 54);
        assert_eq!(lifetime(r#"{"expires_in":1e300}"#), 54);
        assert_eq!(lifetime(r#"{"expires_in":100000000}"#), 77760);
    }

    #[test]
    fn a_password_goes_into_a_header_and_a_refresh_token_into_a_form() {
        let reference: Reference = "quay.io/a/b".parse().unwrap();
        let bearer = Bearer {
            realm: String::new(),
            service: Some("quay io".into()),
        };
        let realm = Url::parse("https://auth.example/token?account=x").unwrap();
        let password = Credentials {
            basic: Some(Secret::from("bWU6cA==".to_owned())),
            identity_token: None,
        };
        let given = Some(password.clone());
        let request = token_request(&reference, &bearer, realm.clone(), given, "test").unwrap();
        assert_eq!(
            request.url.as_str(),
            "https://auth.example/token?account=x&scope=repository%3Aa%2Fb%3Apull&service=quay+io"
        );
        assert!(request.authorization.is_some());
        let token = Credentials {
            identity_token: Some(Secret::from("r&t".to_owned())),
            ..password.clone()
        };
        let request =
            token_request(&reference, &bearer, realm.clone(), Some(token), "test").unwrap();
        assert_eq!(request.url, realm);
        assert_eq!(request.method, Method::POST);
        assert!(request.authorization.is_none());
        assert!(request.form.unwrap().ends_with("&refresh_token=r%26t"));
    }
}
