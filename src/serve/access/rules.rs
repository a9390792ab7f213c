//! The rules of catalogs and the decision they lead to.

use std::collections::{BTreeMap, BTreeSet};
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
#[derive(Clone, Default)]
pub(crate) struct Rules {
    all: BTreeMap<CatalogName, Rule>,
    /// The removed catalogs that were open until then.
    removed_open: BTreeSet<CatalogName>,
}

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

/// Why a client that has proved nothing gets no catalog. The reason is the same for
/// every name: it depends on the rules of all catalogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The request has no bearer token, and one may grant access.
    TokenMissing,
    /// The bearer token is one of no catalog.
    TokenInvalid,
    /// Only client certificates grant access.
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
    fn admits(&self, credentials: Credentials<'_>) -> bool {
        if self.is_open() || (self.certificate && credentials.certified) {
            return true;
        }
        match (&self.tokens, credentials.token) {
            (Some(tokens), Some(token)) => tokens.borrow().contain(token),
            _ => false,
        }
    }
}

impl Rules {
    /// Whether a catalog requires anything.
    pub(crate) fn restrict(&self, catalog: &str) -> bool {
        self.all.contains_key(catalog)
    }

    /// Whether a catalog was open until it was removed: it is no secret that there was one.
    pub(crate) fn was_open(&self, catalog: &str) -> bool {
        self.removed_open.contains(catalog)
    }

    /// Whether a client with these credentials may read a catalog.
    pub(crate) fn admit(&self, catalog: &str, credentials: Credentials<'_>) -> bool {
        let rule = self.all.get(catalog);
        rule.is_none_or(|rule| rule.admits(credentials))
    }

    /// Whether these credentials grant access to any restricted catalog.
    pub(crate) fn know(&self, credentials: Credentials<'_>) -> bool {
        let rules = self.all.values();
        // All are asked, so that the time shows nothing.
        rules.fold(false, |known, rule| known | rule.admits(credentials))
    }

    /// Why a client whose credentials no rule knows gets no restricted catalog.
    pub(crate) fn denial(&self, credentials: Credentials<'_>) -> Denied {
        let takes_tokens = self.all.values().any(|rule| rule.tokens.is_some());
        match credentials.token {
            _ if !takes_tokens => Denied::CertificateMissing,
            None => Denied::TokenMissing,
            Some(_) => Denied::TokenInvalid,
        }
    }
}

impl Access {
    /// Replaces all rules. Catalogs without one are open.
    pub fn set(&self, rules: impl IntoIterator<Item = (CatalogName, Rule)>) {
        let rules = rules.into_iter().filter(|(_, rule)| !rule.is_open());
        let all = rules.collect();
        self.0.send_modify(|rules| Arc::make_mut(rules).all = all);
    }

    /// Notes the last rules of removed catalogs.
    pub fn note_removed(&self, removed: impl IntoIterator<Item = (CatalogName, Rule)>) {
        let removed: Vec<_> = removed.into_iter().collect();
        self.0.send_modify(|rules| {
            let noted = &mut Arc::make_mut(rules).removed_open;
            for (name, rule) in removed {
                if rule.is_open() {
                    noted.insert(name);
                } else {
                    noted.remove(&name);
                }
            }
        });
    }

    /// The current rules.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.borrow())
    }

    /// Whether any catalog requires anything.
    pub(crate) fn restricts_any(&self) -> bool {
        !self.0.borrow().all.is_empty()
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
            ("unknown", [true, true, true, true, true]),
            ("open", [true, true, true, true, true]),
            ("token", [false, false, true, false, false]),
            ("certificate", [false, false, false, true, true]),
            ("either", [false, false, true, true, true]),
        ] {
            let rules = access.rules();
            let decided = presented.map(|credentials| rules.admit(catalog, credentials));
            assert_eq!(decided, wanted, "{catalog}");
            let open = access.if_open(catalog, || Some(())).is_some();
            assert_eq!(open, decided[0], "{catalog}");
            assert_eq!(rules.restrict(catalog), !open, "{catalog}");
        }
        assert!(access.restricts_any());
        let known = presented.map(|credentials| access.rules().know(credentials));
        assert_eq!(known, [false, false, true, true, true]);
    }

    #[test]
    fn whoever_proves_nothing_is_denied_alike_for_every_name() {
        use Denied::{CertificateMissing, TokenInvalid, TokenMissing};
        let name = |text: &str| text.parse::<CatalogName>().unwrap();
        let (nothing, bad) = (Credentials::default(), b"bad".as_slice());
        let bad = Credentials {
            token: Some(bad),
            certified: false,
        };
        for (rules, wanted) in [
            (
                vec![rule(Some("good"), false)],
                [TokenMissing, TokenInvalid],
            ),
            (
                vec![rule(None, true), rule(Some("good"), true)],
                [TokenMissing, TokenInvalid],
            ),
            (
                vec![rule(None, true)],
                [CertificateMissing, CertificateMissing],
            ),
        ] {
            let access = Access::default();
            let names = ["a", "b"].map(name).into_iter();
            access.set(names.zip(rules));
            let rules = access.rules();
            assert_eq!([nothing, bad].map(|one| rules.denial(one)), wanted);
            assert!(!rules.know(nothing) && !rules.know(bad));
        }
    }

    #[test]
    fn a_certificate_proves_nothing_where_only_tokens_count() {
        let access = Access::default();
        access.set([("a".parse().unwrap(), rule(Some("good"), false))]);
        let certified = Credentials {
            token: None,
            certified: true,
        };
        assert!(!access.rules().know(certified));
    }
}
