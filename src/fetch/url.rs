//! URLs of catalogs.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

use crate::fetch::error::CatalogUrlError;

/// The path of the whole catalog, below the catalog's URL.
const ALL: &str = "/api/v1/all";

/// The URL of a catalog that is served over HTTP.
///
/// ```
/// use almanac::fetch::CatalogUrl;
///
/// let url: CatalogUrl = "http://127.0.0.1:8080/catalogs/a".parse().unwrap();
/// assert_eq!(url.all(), "http://127.0.0.1:8080/catalogs/a/api/v1/all");
/// assert!("http://127.0.0.1:8080".parse::<CatalogUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogUrl {
    /// The text it was parsed from.
    text: String,
    /// The URL of the whole catalog.
    pub(super) all: Url,
}

impl CatalogUrl {
    /// The URL of the whole catalog.
    pub fn all(&self) -> &str {
        self.all.as_str()
    }
}

impl FromStr for CatalogUrl {
    type Err = CatalogUrlError;

    fn from_str(text: &str) -> Result<Self, CatalogUrlError> {
        let mut all = Url::parse(text).map_err(|error| CatalogUrlError::Url {
            text: text.to_owned(),
            problem: error.to_string(),
        })?;
        if !all.username().is_empty()
            || all.password().is_some()
            || all.query().is_some()
            || all.fragment().is_some()
        {
            return Err(CatalogUrlError::Parts);
        }
        if !matches!(all.scheme(), "http" | "https") {
            return Err(CatalogUrlError::Scheme(text.to_owned()));
        }
        let path = all.path().trim_end_matches('/');
        let path = path.strip_suffix(ALL).unwrap_or(path);
        // Every catalog is below `/catalogs`.
        if path.is_empty() || path == "/catalogs" {
            return Err(CatalogUrlError::NoCatalog(text.to_owned()));
        }
        let path = format!("{path}{ALL}");
        all.set_path(&path);
        Ok(Self {
            text: text.to_owned(),
            all,
        })
    }
}

impl fmt::Display for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
