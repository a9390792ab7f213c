//! The records of packages and channels in answers to queries over HTTP. They are
//! written as JSON once, when a catalog is read, and sent unchanged. Pages and queries
//! read them again.
//!
//! These types are the only declaration of the records: the served description of the API
//! and the lists of fields are made from them. Empty texts and lists are omitted.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use fbc::document::Gvk;
use fbc::presentation::Presentation;
use fbc::problem::Problem;

/// A package in lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageSummary<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its display name.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub display_name: Cow<'a, str>,
    /// Its description in one or two sentences.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub summary: Cow<'a, str>,
    /// The default channel: the one that is used if a subscription names none.
    pub default_channel: Cow<'a, str>,
    /// The head of the default channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Cow<'a, str>>,
    /// The version of that head.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// Its channels, sorted by name.
    pub channels: Vec<ChannelSummary<'a>>,
    /// The reason of its deprecation; absent if it is not deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// Whether the registry API omits it for its errors.
    pub quarantined: bool,
    /// A link to its icon; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<IconLink<'a>>,
}

/// A channel in the record of its package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChannelSummary<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// The entry that nothing replaces or skips; absent unless there is exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Cow<'a, str>>,
    /// The version of the head.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// The number of its entries.
    pub entries: usize,
    /// The reason of its deprecation; absent if it is not deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// The versions of its entries, in the order of the channel; only in the full record of
    /// a package.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Cow<'a, str>>,
}

/// A link to a package's icon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Icon)]
pub struct IconLink<'a> {
    /// A path on the same host.
    pub href: Cow<'a, str>,
    /// The media type, as the package states it.
    pub media_type: Cow<'a, str>,
}

/// The full record of a package. The presentation is that of the head of its default
/// channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Package)]
pub struct PackageDetails<'a> {
    /// Its record in lists, with versions.
    #[serde(flatten)]
    pub summary: PackageSummary<'a>,
    /// The presentation of the head of its default channel.
    #[serde(flatten)]
    pub presentation: Cow<'a, Presentation>,
    /// The APIs that the head of the default channel provides.
    #[serde(default, skip_serializing_if = "<[Gvk]>::is_empty")]
    pub provided_apis: Cow<'a, [Gvk]>,
    /// Its problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Cow<'a, Problem>>,
}

impl PackageSummary<'_> {
    /// The name to display.
    pub fn title(&self) -> &str {
        match self.display_name.trim() {
            "" => &self.name,
            name => name,
        }
    }
}

/// The full record of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Channel)]
pub struct ChannelRecord<'a> {
    /// Its package.
    #[serde(borrow)]
    pub package: Cow<'a, str>,
    /// Its name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Whether it is its package's default channel.
    pub default: bool,
    /// The entry that nothing replaces or skips; absent unless there is exactly one.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Cow<'a, str>>,
    /// The version of the head.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// The reason of its deprecation; absent if it is not deprecated.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Entry)]
pub struct EntryRecord<'a> {
    /// Its name, which is its bundle's.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The version of its bundle as it was written; absent when there is no such
    /// bundle.
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
    /// The reason of its bundle's deprecation; absent if that is not deprecated.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// Whether OLM v0 never installs it, since its bundle has the property
    /// `olm.deprecated`; absent if not.
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
