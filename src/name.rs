//! Names of catalogs.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use ::images::digest::Digest;

/// The longest name, as Kubernetes has it.
const MAX_NAME: usize = 253;
/// The longest name of a Service, and the longest value of a label.
const MAX_LABEL: usize = 63;
/// The hexadecimal digits that tell shortened names apart.
const DIGITS: usize = 8;
/// Before a name that begins with a digit, as that of a Service may not.
const PREFIX: &str = "catalog-";

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

    /// The name of its Service and `CatalogSource` in a cluster, an RFC 1035 label: `-`
    /// for each dot, `catalog-` before a digit at the beginning, and at most 63 characters,
    /// the last eight of a longer name being digits of its SHA-256.
    ///
    /// ```
    /// use almanac::name::CatalogName;
    ///
    /// let name: CatalogName = "3scale-v4.20".parse()?;
    /// assert_eq!(name.service_name(), "catalog-3scale-v4-20");
    /// # Ok::<(), almanac::name::NameError>(())
    /// ```
    pub fn service_name(&self) -> String {
        let label = self.0.replace('.', "-");
        let label = match label.bytes().next() {
            Some(b'0'..=b'9') => format!("{PREFIX}{label}"),
            _ => label,
        };
        self.shortened(label)
    }

    /// The name of its `ClusterCatalog`, which must fit into the value of a label.
    pub fn cluster_catalog_name(&self) -> String {
        self.shortened(self.0.to_string())
    }

    fn shortened(&self, label: String) -> String {
        if label.len() <= MAX_LABEL {
            return label;
        }
        let digits = Digest::of(self.0.as_bytes()).hex();
        let begin = &label[..MAX_LABEL - DIGITS - 1];
        format!(
            "{}-{}",
            begin.trim_end_matches(['-', '.']),
            &digits[..DIGITS]
        )
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

    #[test]
    fn a_service_has_a_name_that_kubernetes_takes() {
        let service = |name: &str| name.parse::<CatalogName>().unwrap().service_name();
        assert_eq!(service("community"), "community");
        assert_eq!(service("community-v4.20"), "community-v4-20");
        assert_eq!(service("3scale"), "catalog-3scale");
        assert_eq!(service(&"a".repeat(63)), "a".repeat(63));
        let begin = |name: &str| name.len() - DIGITS - 1;
        let long = ["a", "b"].map(|end| service(&format!("{}{end}", "x".repeat(63))));
        assert_ne!(long[0], long[1]);
        let dashed = service(&format!("{}.{}", "x".repeat(53), "y".repeat(63)));
        let digits = service(&"1".repeat(253));
        for name in long
            .iter()
            .chain([&dashed, &digits, &service(&"0".repeat(56))])
        {
            let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let bytes = name.as_bytes();
            assert!(bytes.len() <= 63 && bytes[0].is_ascii_lowercase(), "{name}");
            assert!(alphanumeric(bytes[bytes.len() - 1]), "{name}");
            assert!(
                bytes
                    .iter()
                    .all(|byte| alphanumeric(*byte) || *byte == b'-')
            );
            assert!(!name[..begin(name)].ends_with('-'), "{name}");
        }
        assert_eq!(service(&"0".repeat(55)).len(), 63);
        let catalog = |name: &str| name.parse::<CatalogName>().unwrap().cluster_catalog_name();
        assert_eq!(catalog("3scale.v4"), "3scale.v4");
        assert_eq!(catalog(&"a".repeat(64)).len(), 63);
        assert!(
            catalog(&format!("{}.b", "a".repeat(62)))
                .parse::<CatalogName>()
                .is_ok()
        );
    }
}
