//! The client of a request, as far as the rules of catalogs are concerned.

use std::sync::Arc;

use http::HeaderMap;

use crate::serve::access::Authorization;
use crate::serve::access::rules::{Access, Credentials};
use crate::snapshot::{Catalog, Catalogs};

/// The client of a request: what it proves, and the rules that apply. The default
/// proves nothing where nothing is restricted.
#[derive(Clone, Default)]
pub(crate) struct Reader {
    access: Access,
    /// A bearer token, not verified yet.
    token: Option<Vec<u8>>,
    /// Whether the connection has a verified client certificate.
    certified: bool,
}

impl Reader {
    /// The client that sent these headers.
    pub(crate) fn of(access: &Access, headers: &HeaderMap, certified: bool) -> Self {
        let token = match Authorization::read(headers) {
            Some(Authorization::Bearer(token)) => Some(token.to_vec()),
            // Browsers cannot send a bearer token when they navigate. The user does
            // not matter.
            Some(Authorization::Basic { password, .. }) => Some(password),
            None => None,
        };
        Self {
            access: access.clone(),
            token,
            certified,
        }
    }

    /// The proofs it carries.
    pub(crate) fn credentials(&self) -> Credentials<'_> {
        Credentials {
            token: self.token.as_deref(),
            certified: self.certified,
        }
    }

    /// Whether nothing is restricted, or the client has proved something that grants
    /// access to some restricted catalog.
    pub(crate) fn is_known(&self) -> bool {
        !self.access.restricts_any() || self.access.rules().know(self.credentials())
    }

    /// Whether it sent a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The available catalogs that it may read, sorted by name.
    pub(crate) fn catalogs(&self, catalogs: &Catalogs) -> Vec<Arc<Catalog>> {
        // A reload sets rules before it adds catalogs. So the rules are taken
        // after the catalogs.
        let mut readable = catalogs.all();
        let rules = self.access.rules();
        readable.retain(|catalog| {
            !catalog.routing.withheld && rules.admit(catalog.name.as_str(), self.credentials())
        });
        readable
    }

    /// The catalog with a name, if the client may know of it by the rules of now: one that
    /// it may read, or could if it were not set unavailable. Others are absent for it.
    pub(crate) fn find(&self, catalogs: &Catalogs, name: &str) -> Option<Arc<Catalog>> {
        let catalog = catalogs.get(name)?;
        self.may_know(name).then_some(catalog)
    }

    /// The catalog with a name, if it is available and the client may read it by
    /// the rules of now.
    pub(crate) fn catalog(&self, catalogs: &Catalogs, name: &str) -> Option<Arc<Catalog>> {
        let found = self.find(catalogs, name)?;
        (!found.routing.withheld).then_some(found)
    }

    /// Whether it may know of a catalog of this name, if there is one.
    pub(crate) fn may_know(&self, name: &str) -> bool {
        self.access.rules().admit(name, self.credentials())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::CatalogName;
    use crate::serve::access::{AccessSettings, Rule};
    use crate::snapshot::{CatalogsPublisher, Routing};

    #[test]
    fn a_reader_loses_a_catalog_by_a_later_rule() {
        let name: CatalogName = "a".parse().unwrap();
        let (publisher, catalogs) = CatalogsPublisher::new();
        let (catalog, _publisher) = publisher.slot(name.clone(), Routing::default());
        publisher.set([Arc::new(catalog)], None);
        let access = Access::default();
        let reader = |certified| Reader::of(&access, &HeaderMap::new(), certified);
        let (anyone, certified) = (reader(false), reader(true));
        let reads = |reader: &Reader, name| reader.catalog(&catalogs, name).is_some();
        assert!(reads(&anyone, "a") && reads(&certified, "a"));
        assert!(!reads(&certified, "b"));
        let settings = AccessSettings {
            client_certificate: true,
            ..AccessSettings::default()
        };
        let (rule, _) = Rule::open(&name, &settings).unwrap();
        access.set([(name, rule)]);
        assert!(!reads(&anyone, "a"));
        assert!(reads(&certified, "a"));
    }
}
