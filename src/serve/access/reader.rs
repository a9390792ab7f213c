//! The client of a request, as far as the rules of catalogs are concerned.

use std::sync::Arc;

use http::HeaderMap;

use crate::serve::access::rules::{Access, Credentials};
use crate::serve::access::{Authorization, Rules};
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
            _ => None,
        };
        Self {
            access: access.clone(),
            token,
            certified,
        }
    }

    /// What it proves.
    pub(crate) fn credentials(&self) -> Credentials<'_> {
        Credentials {
            token: self.token.as_deref(),
            certified: self.certified,
        }
    }

    /// The available catalogs that it may read, sorted by name.
    pub(crate) fn catalogs(&self, catalogs: &Catalogs) -> Vec<Arc<Catalog>> {
        // A reload sets rules before it adds catalogs. So the rules are taken
        // after the catalogs.
        let mut readable = catalogs.all();
        let rules: Arc<Rules> = self.access.rules();
        readable.retain(|catalog| {
            let name = catalog.name.as_str();
            !catalog.routing.withheld && rules.check(name, self.credentials()).is_ok()
        });
        readable
    }
}
