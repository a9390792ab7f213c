//! Answering a registry's challenge, and remembering the answer, so that the
//! next poll is one request again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method};
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use crate::credentials;
use crate::credentials::{AuthFiles, Credentials, Secret};
use crate::error::{Error, redacted};
use crate::reference::Reference;
use crate::registry::challenge::{Bearer, Challenge};
use crate::registry::transport::{Request, Transport, body, is_ok, refusal};

/// The largest answer of a token service, in bytes.
const MAX_TOKEN: usize = 256 << 10;
/// How long a token holds when nothing is said (distribution specification).
const DEFAULT_LIFETIME: Duration = Duration::from_mins(1);
/// The longest that a token is kept.
const MAX_LIFETIME: Duration = Duration::from_hours(24);
/// The most repositories that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// What to send along, and whether there are credentials behind it.
#[derive(Clone, Default)]
pub(crate) struct Authorization {
    /// The value of the `Authorization` header; none for an anonymous request.
    pub(crate) header: Option<HeaderValue>,
    /// Whether credentials were used to make it.
    pub(crate) with_credentials: bool,
}

/// Answers challenges with tokens and passwords. Cheap to clone; clones share
/// what they remember.
#[derive(Clone)]
pub(crate) struct Authorizer {
    transport: Transport,
    files: AuthFiles,
    remembered: Arc<Mutex<HashMap<Key, Remembered>>>,
}

/// A registry and a repository of it: the scope of a token.
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
    pub(crate) fn new(transport: Transport, files: AuthFiles) -> Self {
        Self {
            transport,
            files,
            remembered: Arc::default(),
        }
    }

    /// The same over another transport, with nothing remembered.
    pub(crate) fn over(&self, transport: Transport) -> Self {
        Self::new(transport, self.files.clone())
    }

    /// What the first request for a repository should carry: whatever its
    /// registry asked for last time, or nothing.
    pub(crate) async fn remembered(&self, reference: &Reference) -> Result<Authorization, Error> {
        let known = self.lock().get(&key(reference)).cloned();
        match known {
            None => Ok(Authorization::default()),
            Some(Remembered {
                token: Some(token), ..
            }) if token.until > Instant::now() => Ok(token.authorization),
            Some(Remembered { challenge, .. }) => {
                let answer = self.answer(reference, challenge).await;
                if answer.is_err() {
                    // The registry may ask for something else by now, so the
                    // next request begins as a stranger's.
                    self.lock().remove(&key(reference));
                }
                answer
            }
        }
    }

    /// Answers a challenge of the registry and remembers the answer.
    pub(crate) async fn answer(
        &self,
        reference: &Reference,
        challenge: Challenge,
    ) -> Result<Authorization, Error> {
        let credentials = self
            .files
            .find(reference.registry(), reference.repository())
            .await
            .map_err(|source| Error::Credentials {
                reference: reference.clone(),
                source,
            })?;
        let with_credentials = credentials.is_some();
        let (header, lifetime) = match (&challenge, credentials) {
            (Challenge::Basic, Some(Credentials::Password { user, password })) => {
                // Read from the files each time, so that a rotated one counts.
                (credentials::basic(&user, &password), None)
            }
            (Challenge::Basic, _) => return Ok(Authorization::default()),
            (Challenge::Bearer(bearer), credentials) => {
                let (token, lifetime) = self.fetch(reference, bearer, credentials).await?;
                (credentials::bearer(&token), Some(lifetime))
            }
        };
        let authorization = Authorization {
            header,
            with_credentials,
        };
        let token = lifetime.map(|lifetime| Token {
            authorization: authorization.clone(),
            until: Instant::now() + lifetime,
        });
        let mut remembered = self.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(key(reference), Remembered { challenge, token });
        Ok(authorization)
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
        let with_credentials = credentials.is_some();
        let request = token_request(reference, bearer, realm, credentials)
            .ok_or_else(|| problem(&shown, "the credentials cannot be sent in a header"))?;
        let response = self.transport.send(request).await?;
        if !is_ok(&response) {
            return Err(refusal(reference, response, with_credentials).await);
        }
        let bytes = body(reference, response, MAX_TOKEN).await?;
        let answer: Answer = serde_json::from_slice(&bytes)
            .map_err(|_| problem(&shown, "its answer is no token document"))?;
        let lifetime = answer.lifetime();
        let token = [answer.token, answer.access_token]
            .into_iter()
            .flatten()
            .find(|token| !token.is_empty())
            .map(Secret::from)
            .ok_or_else(|| problem(&shown, "its answer holds no token"))?;
        if credentials::bearer(&token).is_none() {
            return Err(problem(&shown, "its token cannot be sent in a header"));
        }
        Ok((token, lifetime))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Remembered>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request for a token to pull from one repository. The scope is made
/// here and not taken from the challenge: nothing else is ever needed.
fn token_request<'a>(
    reference: &'a Reference,
    bearer: &Bearer,
    mut realm: Url,
    credentials: Option<Credentials>,
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
    };
    match credentials {
        Some(Credentials::IdentityToken(token)) => {
            parameters.push(("grant_type", "refresh_token".into()));
            parameters.push(("client_id", "almanac".into()));
            parameters.push(("refresh_token", token.expose().to_owned()));
            let mut form = realm;
            form.query_pairs_mut().clear().extend_pairs(parameters);
            request.form = form.query().map(Into::into);
            request.method = Method::POST;
        }
        credentials => {
            if let Some(Credentials::Password { user, password }) = credentials {
                request.authorization = Some(credentials::basic(&user, &password)?);
            }
            realm.query_pairs_mut().extend_pairs(parameters);
            request.url = realm;
        }
    }
    Some(request)
}

fn key(reference: &Reference) -> Key {
    (
        reference.registry().to_owned(),
        reference.repository().to_owned(),
    )
}

/// The answer of a token service; both names are in use.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Value,
}

impl Answer {
    /// How long to use the token: nine tenths of its time, as the clock of the
    /// registry goes on while the request travels.
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
        let answer: Answer = serde_json::from_str(document).unwrap();
        answer.lifetime().as_secs()
    }

    #[test]
    fn a_token_is_dropped_a_little_early() {
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
        let password = Credentials::Password {
            user: "me".into(),
            password: Secret::from("p".to_owned()),
        };
        let request = token_request(&reference, &bearer, realm.clone(), Some(password)).unwrap();
        assert_eq!(
            request.url.as_str(),
            "https://auth.example/token?account=x&scope=repository%3Aa%2Fb%3Apull&service=quay+io"
        );
        assert!(request.authorization.is_some());
        let token = Credentials::IdentityToken(Secret::from("r&t".to_owned()));
        let request = token_request(&reference, &bearer, realm.clone(), Some(token)).unwrap();
        assert_eq!(request.url, realm);
        assert_eq!(request.method, Method::POST);
        assert!(request.authorization.is_none());
        assert!(request.form.unwrap().ends_with("&refresh_token=r%26t"));
    }
}
