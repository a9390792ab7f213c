//! The records of packages and channels in answers to queries over HTTP. They are
//! written as JSON once, when a catalog is read, and sent unchanged. Queries
//! about entries read the record of a channel again.
//!
//! A test compares the records with the served description of the API. Empty
//! texts and lists are omitted.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use fbc::document::Gvk;
use fbc::presentation::Presentation;
use fbc::problem::Problem;

/// A package in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its display name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub display_name: &'a str,
    /// Its description in one or two sentences.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub summary: &'a str,
    /// The default channel.
    pub default_channel: &'a str,
    /// The head of that channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<&'a str>,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// Its channels, sorted by name.
    pub channels: Vec<ChannelSummary<'a>>,
    /// The reason of its deprecation, if it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
    /// Whether the registry API omits it for its errors.
    pub quarantined: bool,
    /// A link to its icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<IconLink<'a>>,
}

/// A channel in the record of its package.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// The entry that nothing replaces or skips, if there is exactly one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<&'a str>,
    /// The version of the head.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// The number of its entries.
    pub entries: usize,
    /// The reason of its deprecation, if it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
    /// The versions of its entries, in order; only in the full record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<&'a str>,
}

/// A link to a package's icon.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IconLink<'a> {
    /// A path on the same host.
    pub href: &'a str,
    /// The media type, as the package states it.
    pub media_type: &'a str,
}

/// The full record of a package.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageDetails<'a> {
    /// Its record in lists, with versions.
    #[serde(flatten)]
    pub summary: PackageSummary<'a>,
    /// The presentation of the head of its default channel.
    #[serde(flatten)]
    pub presentation: &'a Presentation,
    /// The APIs that this head provides.
    #[serde(skip_serializing_if = "<[Gvk]>::is_empty")]
    pub provided_apis: &'a [Gvk],
    /// Its problems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<&'a Problem>,
}

/// The full record of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord<'a> {
    /// Its package.
    #[serde(borrow)]
    pub package: Cow<'a, str>,
    /// Its name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Whether it is its package's default channel.
    pub default: bool,
    /// The entry that nothing replaces or skips, if there is exactly one.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Cow<'a, str>>,
    /// The version of the head.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// The reason of its deprecation, if it is deprecated.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// Whether the registry API omits its package for its errors.
    pub quarantined: bool,
    /// Its entries: first the head and its chain of `replaces`, then the others,
    /// the highest version first.
    #[serde(borrow)]
    pub entries: Vec<EntryRecord<'a>>,
}

/// An entry of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryRecord<'a> {
    /// Its name, which is its bundle's.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The version of its bundle as it was written; empty when there is no
    /// such bundle.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// The release of its bundle.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub release: Cow<'a, str>,
    /// The entry that it replaces.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub replaces: Cow<'a, str>,
    /// The entries that it skips.
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Cow<'a, str>>,
    /// The range of versions it skips.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub skip_range: Cow<'a, str>,
    /// The reason of its deprecation, if its bundle is deprecated.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// Whether OLM v0 never installs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prohibited: bool,
}

/// A text as a segment of a URL path or a value of a query.
pub fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_comes_back_as_it_was_written() {
        let channel = ChannelRecord {
            package: "a".into(),
            name: "stable \"1\"".into(),
            default: true,
            head: Some("a.v2".into()),
            version: "2.0.0".into(),
            deprecation: Some("old".into()),
            quarantined: false,
            entries: vec![EntryRecord {
                name: "a.v2".into(),
                version: "2.0.0".into(),
                skips: vec!["a.v1".into()],
                skip_range: "<2.0.0".into(),
                ..EntryRecord::default()
            }],
        };
        let text = serde_json::to_string(&channel).unwrap();
        assert!(!text.contains("release"), "{text}");
        assert_eq!(
            serde_json::from_str::<ChannelRecord<'_>>(&text).unwrap(),
            channel
        );
    }

    #[test]
    fn a_name_is_written_so_that_a_path_keeps_it() {
        assert_eq!(percent_encoded("a-b_c.d~1"), "a-b_c.d~1");
        assert_eq!(percent_encoded("a/b?ä"), "a%2Fb%3F%C3%A4");
    }
}
