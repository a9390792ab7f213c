//! Names of catalogs.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest name, as Kubernetes has it.
const MAX_NAME: usize = 253;

/// The name of a catalog: a lower-case RFC 1123 subdomain, as a
/// `ClusterCatalog` has, so that it can stand in a URL and a file name. Cheap
/// to clone.
///
/// ```
/// use almanac::name::CatalogName;
///
/// assert!("community-v4.20".parse::<CatalogName>().is_ok());
/// assert!("../etc".parse::<CatalogName>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogName(Arc<str>);

/// A text that is no catalog name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a catalog name: it takes at most 253 lower-case letters, digits, '-' and '.', \
     and each part between dots starts and ends with a letter or digit"
)]
pub struct NameError(String);

impl CatalogName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CatalogName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let good = text.len() <= MAX_NAME
            && text.split('.').all(|label| {
                let label = label.as_bytes();
                matches!((label.first(), label.last()), (Some(a), Some(b)) if alphanumeric(*a) && alphanumeric(*b))
                    && label.iter().all(|b| alphanumeric(*b) || *b == b'-')
            });
        if good {
            Ok(Self(text.into()))
        } else {
            Err(NameError(text.chars().take(MAX_NAME + 1).collect()))
        }
    }
}

impl fmt::Display for CatalogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CatalogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for CatalogName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for CatalogName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CatalogName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_rfc_1123_subdomain() {
        for good in ["a", "a-b", "v4.20", "0", &"a".repeat(253)] {
            assert!(good.parse::<CatalogName>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "A",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a_b",
            "a/b",
            "é",
            &"a".repeat(254),
        ] {
            assert!(bad.parse::<CatalogName>().is_err(), "{bad}");
        }
    }
}
