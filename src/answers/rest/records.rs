//! What queries over HTTP answer about packages and channels: written as JSON
//! once, when a catalog is read, and sent as it lies. Channels are read again
//! where a query needs to know their entries.
//!
//! The schemas in the served description of the API say the same; a test
//! holds them together. Empty texts and lists are left out.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use fbc::document::Gvk;
use fbc::presentation::Presentation;
use fbc::problem::Problem;

/// A package as it stands in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// What people call it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub display_name: &'a str,
    /// What it is, in a sentence or two.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub summary: &'a str,
    /// The channel that is taken when nobody names one.
    pub default_channel: &'a str,
    /// The head of that channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<&'a str>,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// Its channels, sorted by name.
    pub channels: Vec<ChannelSummary<'a>>,
    /// Why it is deprecated, when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
    /// Whether it is left out of the registry API for its errors.
    pub quarantined: bool,
    /// Where its picture is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<IconLink<'a>>,
}

/// A channel as its package tells of it.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// The entry that nothing replaces or skips; none when there is no single
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<&'a str>,
    /// The version of the head.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// How many entries it has.
    pub entries: usize,
    /// Why it is deprecated, when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
    /// The versions of its entries in their order; only in the whole package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<&'a str>,
}

/// Where a package's picture is, and of what type.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IconLink<'a> {
    /// A path on the same host.
    pub href: &'a str,
    /// As the package has it.
    pub media_type: &'a str,
}

/// A whole package.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageDetails<'a> {
    /// What lists have of it, with versions.
    #[serde(flatten)]
    pub summary: PackageSummary<'a>,
    /// What the head of its default channel says to people.
    #[serde(flatten)]
    pub presentation: &'a Presentation,
    /// The APIs that this head provides.
    #[serde(skip_serializing_if = "<[Gvk]>::is_empty")]
    pub provided_apis: &'a [Gvk],
    /// What was found wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<&'a Problem>,
}

/// A whole channel.
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
    /// The entry that nothing replaces or skips; none when there is no single
    /// one.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Cow<'a, str>>,
    /// The version of the head.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// Why it is deprecated, when it is.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// Whether its package is left out of the registry API for its errors.
    pub quarantined: bool,
    /// Its entries: first the head and what follows along `replaces`, then the
    /// others, the highest version first.
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
    /// What it replaces.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub replaces: Cow<'a, str>,
    /// What it skips.
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Cow<'a, str>>,
    /// The range of versions it skips.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub skip_range: Cow<'a, str>,
    /// Why its bundle is deprecated, when it is.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Cow<'a, str>>,
    /// Whether OLM v0 never installs it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prohibited: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde hands it over")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A text as a segment of a URL's path or a value of its query.
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
