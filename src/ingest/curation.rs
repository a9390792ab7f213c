//! The definition of a curated catalog: its sources and its selection.

use std::fmt;

use crate::name::CatalogName;
use ::images::digest::Digest;
use fbc::select::{ChannelSelection, PackageSelection, Request, SelectError, Selection};

/// The definition of a curated catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curation {
    /// The catalogs. The request refers to them by position.
    pub from: Vec<CatalogName>,
    /// The selection.
    pub request: Request,
    /// In a fleet, the [`track_identity`](fn@crate::ingest::track_identity) of each of the catalogs.
    pub track_identities: Vec<String>,
}

/// Why a curated catalog cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CurateError {
    /// A source catalog without a revision.
    #[error("the catalog {0} has no content to select from yet")]
    Nothing(CatalogName),
    /// A source catalog whose current revision has not come to this replica of a fleet.
    #[error(
        "the current revision of the catalog {0} has not come to this replica yet; the log and \
         /status show why"
    )]
    Behind(CatalogName),
    /// The selection cannot be fulfilled.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// There are no other catalogs.
    #[error("a curated catalog is made of other catalogs, and there are none here")]
    Alone,
}

impl CurateError {
    /// A short label for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Nothing(_) | Self::Alone => "no_catalog",
            Self::Behind(_) => "fleet",
            Self::Select(_) => "selection",
        }
    }
}

impl Curation {
    /// Whether it is one whole catalog, problems included.
    pub(super) fn is_copy(&self) -> bool {
        self.request.is_whole() && self.from.len() == 1
    }

    /// The digest of the track identities of the catalogs.
    pub(super) fn digest_of_track_identities(&self) -> Digest {
        Digest::of(self.track_identities.join("\n").as_bytes())
    }

    /// The digest of the selection: of `selection_document`'s bytes. It is
    /// stored with each revision, so another selection is another catalog.
    pub fn digest(&self) -> Digest {
        Digest::of(selection_document(&self.request).as_bytes())
    }
}

/// `curated:` and the names of the catalogs.
impl fmt::Display for Curation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "curated:";
        for name in &self.from {
            write!(f, "{before}{name}")?;
            before = ",";
        }
        Ok(())
    }
}

/// A selection as text, one line per element, in the order of the
/// configuration. The form is stable across versions, since digests of it are
/// stored; `""` is an open range or no default channel, and strings are quoted
/// as in JSON:
///
/// ```text
/// request dependencies=false any_default=false
/// selection from=0,1 full=false
/// package "a" default_channel="stable" range=""
/// channel "stable" range=">=1.0.0 <=2.0.0"
/// ```
///
/// A key that is added later must be left out at its default value.
fn selection_document(request: &Request) -> String {
    let mut lines = vec![format!(
        "request dependencies={} any_default={}",
        request.dependencies, request.any_default
    )];
    for Selection {
        from,
        full,
        packages,
    } in &request.selections
    {
        let from: Vec<String> = from.iter().map(ToString::to_string).collect();
        lines.push(format!("selection from={} full={full}", from.join(",")));
        for PackageSelection {
            name,
            default_channel,
            channels,
            range,
        } in packages
        {
            lines.push(format!(
                "package {} default_channel={} range={}",
                quoted(name),
                quoted(default_channel),
                quoted(&range.to_string())
            ));
            for ChannelSelection { name, range } in channels {
                let range = quoted(&range.to_string());
                lines.push(format!("channel {} range={range}", quoted(name)));
            }
        }
    }
    lines.join("\n")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fbc::select::VersionRange;

    #[test]
    fn the_digest_of_a_selection_is_of_a_stable_text() {
        let range = VersionRange::new("1.0.0", "2.0.0").unwrap();
        let channel = ChannelSelection {
            name: "stable\nb".into(),
            range,
        };
        let package = PackageSelection {
            name: "a".into(),
            default_channel: "stable".into(),
            channels: vec![channel],
            range: VersionRange::default(),
        };
        let selection = Selection {
            from: vec![0, 1],
            full: false,
            packages: vec![package],
        };
        let request = Request {
            selections: vec![selection],
            dependencies: true,
            any_default: false,
        };
        let text = "request dependencies=true any_default=false\n\
                    selection from=0,1 full=false\n\
                    package \"a\" default_channel=\"stable\" range=\"\"\n\
                    channel \"stable\\nb\" range=\">=1.0.0 <=2.0.0\"";
        assert_eq!(selection_document(&request), text);
        let curation = Curation {
            from: Vec::new(),
            request,
            track_identities: Vec::new(),
        };
        assert_eq!(curation.digest(), Digest::of(text.as_bytes()));
    }
}
