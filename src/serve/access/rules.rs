//! The rules of catalogs and the decision they lead to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use metrics::counter;
use tokio::sync::watch;

use crate::name::CatalogName;
use crate::serve::access::tokens::Tokens;
use crate::serve::net::credential::{CredentialError, Followed};

/// Requirements of a catalog for its readers; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// Files with bearer tokens, one a line. Any of them grants access.
    pub token_files: Vec<PathBuf>,
    /// Whether a verified client certificate grants access.
    pub client_certificate: bool,
}

/// The rules of all catalogs. Clones share them.
#[derive(Clone, Default)]
pub struct Access(Arc<watch::Sender<Arc<Rules>>>);

/// The rules of the restricted catalogs at one moment.
#[derive(Default)]
pub(crate) struct Rules(BTreeMap<CatalogName, Rule>);

/// Requirements of a catalog: any one of these. Without any, it is open.
#[derive(Clone, Default)]
pub struct Rule {
    tokens: Option<watch::Receiver<Arc<Tokens>>>,
    certificate: bool,
}

/// Proofs of a request about its client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credentials<'a> {
    /// A bearer token, not verified yet.
    pub(crate) token: Option<&'a [u8]>,
    /// Whether the connection has a verified client certificate.
    pub(crate) certified: bool,
}

/// Why a client may not read a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The request has no bearer token, and one would grant access.
    TokenMissing,
    /// The bearer token is not one of the catalog's.
    TokenInvalid,
    /// Only a client certificate grants access.
    CertificateMissing,
}

impl Rule {
    /// Reads the tokens of a catalog. The returned [`Followed`] has to run for
    /// changed files to take effect.
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
        let (paths, build) = (settings.token_files.clone(), Box::new(Tokens::read));
        let (files, tokens) = Followed::open("tokens", catalog.as_str(), paths, build)?;
        rule.tokens = Some(tokens);
        Ok((rule, Some(files)))
    }

    /// Whether tokens grant access.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Whether tokens alone grant access, and there is none.
    pub fn admits_nobody(&self) -> bool {
        let tokens = self.tokens.as_ref();
        !self.certificate && tokens.is_some_and(|tokens| tokens.borrow().is_empty())
    }

    fn is_open(&self) -> bool {
        self.tokens.is_none() && !self.certificate
    }

    /// The authorisation decision, the only one there is.
    fn check(&self, credentials: Credentials<'_>) -> Result<(), Denied> {
        if self.is_open() || (self.certificate && credentials.certified) {
            return Ok(());
        }
        match (&self.tokens, credentials.token) {
            (None, _) => Err(Denied::CertificateMissing),
            (Some(_), None) => Err(Denied::TokenMissing),
            (Some(tokens), Some(token)) if tokens.borrow().contain(token) => Ok(()),
            (Some(_), Some(_)) => Err(Denied::TokenInvalid),
        }
    }
}

impl Rules {
    /// Whether a catalog requires anything.
    pub(crate) fn restrict(&self, catalog: &str) -> bool {
        self.0.contains_key(catalog)
    }

    /// Whether a client with these credentials may read a catalog.
    pub(crate) fn check(&self, catalog: &str, credentials: Credentials<'_>) -> Result<(), Denied> {
        let rule = self.0.get(catalog);
        rule.map_or(Ok(()), |rule| rule.check(credentials))
    }
}

impl Access {
    /// Replaces all rules. Catalogs without one are open.
    pub fn set(&self, rules: impl IntoIterator<Item = (CatalogName, Rule)>) {
        let rules = rules.into_iter().filter(|(_, rule)| !rule.is_open());
        self.0.send_replace(Arc::new(Rules(rules.collect())));
    }

    /// The current rules.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.borrow())
    }

    /// Whether any catalog requires anything.
    pub(crate) fn restricts_any(&self) -> bool {
        !self.0.borrow().0.is_empty()
    }

    /// Whether this is a token of any catalog.
    pub(crate) fn knows_token(&self, token: &[u8]) -> bool {
        let rules = self.rules();
        let tokens = rules.0.values().filter_map(|rule| rule.tokens.as_ref());
        tokens.fold(false, |known, tokens| {
            known | tokens.borrow().contain(token)
        })
    }

    /// Calls `find` if a catalog is open. The rules cannot change meanwhile.
    pub(crate) fn if_open<T>(&self, catalog: &str, find: impl FnOnce() -> Option<T>) -> Option<T> {
        let rules = self.0.borrow();
        if rules.restrict(catalog) {
            None
        } else {
            find()
        }
    }
}

/// Counts a request that was denied access to a catalog.
pub(crate) fn count_denied(catalog: &str) {
    counter!("almanac_http_denied_total", "catalog" => catalog.to_owned()).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(tokens: Option<&str>, certificate: bool) -> Rule {
        let tokens = tokens.map(|text| {
            let tokens = Tokens::read(&[PathBuf::from("tokens")], &[text.into()]).unwrap();
            watch::channel(Arc::new(tokens)).1
        });
        Rule {
            tokens,
            certificate,
        }
    }

    #[test]
    fn a_token_or_a_certificate_grants_access_where_it_is_required() {
        use Denied::{CertificateMissing, TokenInvalid, TokenMissing};
        let access = Access::default();
        let name = |text: &str| text.parse::<CatalogName>().unwrap();
        access.set([
            (name("open"), rule(None, false)),
            (name("token"), rule(Some("good"), false)),
            (name("certificate"), rule(None, true)),
            (name("either"), rule(Some("good"), true)),
        ]);
        let credentials = |token: Option<&'static str>, certified| Credentials {
            token: token.map(str::as_bytes),
            certified,
        };
        let presented = [
            credentials(None, false),
            credentials(Some("bad"), false),
            credentials(Some("good"), false),
            credentials(None, true),
            credentials(Some("bad"), true),
        ];
        for (catalog, wanted) in [
            ("unknown", [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
            ("open", [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
            (
                "token",
                [
                    Err(TokenMissing),
                    Err(TokenInvalid),
                    Ok(()),
                    Err(TokenMissing),
                    Err(TokenInvalid),
                ],
            ),
            (
                "certificate",
                [
                    Err(CertificateMissing),
                    Err(CertificateMissing),
                    Err(CertificateMissing),
                    Ok(()),
                    Ok(()),
                ],
            ),
            (
                "either",
                [Err(TokenMissing), Err(TokenInvalid), Ok(()), Ok(()), Ok(())],
            ),
        ] {
            let rules = access.rules();
            let decided = presented.map(|credentials| rules.check(catalog, credentials));
            assert_eq!(decided, wanted, "{catalog}");
            let open = access.if_open(catalog, || Some(())).is_some();
            assert_eq!(open, decided[0].is_ok(), "{catalog}");
            assert_eq!(rules.restrict(catalog), !open, "{catalog}");
        }
        assert!(access.restricts_any());
        assert!(access.knows_token(b"good") && !access.knows_token(b"bad"));
    }
}
