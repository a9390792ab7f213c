//! A request: the packages, channels and versions to select.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::text::semver::{Constraint, Version};

/// Selections that make one catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The selections, each from catalogs of its own.
    pub selections: Vec<Selection>,
    /// Whether the dependencies of selected bundles are added.
    pub dependencies: bool,
    /// Whether a package may lose its default channel. Its last other channel then
    /// becomes the default. For lists that nobody installs from.
    pub any_default: bool,
}

/// A selection from one or more catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The indices of the catalogs, in order of precedence.
    pub from: Vec<usize>,
    /// Whether all entries of channels are taken instead of their heads.
    pub full: bool,
    /// The packages; with none, all.
    pub packages: Vec<PackageSelection>,
}

/// The part of a package to select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageSelection {
    /// Its name.
    pub name: String,
    /// The default channel that it gets, or empty to keep its own.
    pub default_channel: String,
    /// The channels; with none, all.
    pub channels: Vec<ChannelSelection>,
    /// The versions in each channel; without a range, the heads.
    pub range: VersionRange,
}

/// The part of a channel to select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelSelection {
    /// Its name.
    pub name: String,
    /// The versions; without a range, the head.
    pub range: VersionRange,
}

/// A range of versions, both ends included. As in oc-mirror, it contains
/// pre-releases if one of its ends is a pre-release, such as `1.0.0-0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRange {
    min: String,
    max: String,
}

/// Why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// An end that is no version.
    #[error(
        "{text:?} is not a version that a range could end at: {problem}; write it like \"1.2.3\""
    )]
    Version {
        /// The text.
        text: String,
        /// Its problem.
        problem: String,
    },
    /// Nothing can be in the range.
    #[error("the range {min} to {max} is empty; swap the ends, or leave one out")]
    EmptyRange {
        /// The lower end.
        min: String,
        /// The upper end.
        max: String,
    },
    /// A package without a name.
    #[error("a selected package has no name; give it the name of a package")]
    NoPackageName,
    /// A channel without a name.
    #[error("a selected channel of the package {0:?} has no name; give it one")]
    NoChannelName(String),
    /// A package that is selected twice.
    #[error("the package {0:?} is selected twice; put both selections into one")]
    PackageTwice(String),
    /// A package that is selected in two places.
    #[error(
        "the package {0:?} is selected from two catalogs, and one catalog can have it only once; \
         narrow with from, or make a catalog of each"
    )]
    PackageInTwo(String),
    /// A channel that is selected twice.
    #[error("the channel {channel:?} of the package {package:?} is selected twice; keep one")]
    ChannelTwice {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
    },
    /// A range beside `full`.
    #[error(
        "the package {0:?} has a range of versions, which cannot stand beside full: \
         full takes all versions; leave out one of them"
    )]
    FullAndRange(String),
    /// A range of the package beside one of a channel.
    #[error(
        "the package {package:?} has a range of versions, and its channel {channel:?} another; \
         leave out one of them"
    )]
    TwoRanges {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
    },
}

impl Request {
    /// All of one catalog.
    pub fn whole() -> Self {
        Self {
            selections: vec![Selection {
                from: vec![0],
                full: true,
                packages: Vec::new(),
            }],
            ..Self::default()
        }
    }

    /// Whether all that the catalogs have is wanted.
    pub fn is_whole(&self) -> bool {
        matches!(&self.selections[..], [only] if only.full && only.packages.is_empty())
    }

    /// Whether it contradicts itself, whatever the catalogs have.
    pub fn check(&self) -> Result<(), RequestError> {
        let mut packages = BTreeMap::new();
        for (number, selection) in self.selections.iter().enumerate() {
            for package in &selection.packages {
                let name = || package.name.clone();
                match packages.insert(package.name.as_str(), number) {
                    Some(first) if first == number => {
                        return Err(RequestError::PackageTwice(name()));
                    }
                    Some(_) => return Err(RequestError::PackageInTwo(name())),
                    None => package.check(selection.full)?,
                }
            }
        }
        Ok(())
    }
}

impl PackageSelection {
    /// All channels of the package of that name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn check(&self, full: bool) -> Result<(), RequestError> {
        if self.name.is_empty() {
            return Err(RequestError::NoPackageName);
        }
        let mut ranges = self.channels.iter().map(|channel| &channel.range);
        if full && (!self.range.is_open() || ranges.any(|range| !range.is_open())) {
            return Err(RequestError::FullAndRange(self.name.clone()));
        }
        let mut channels = BTreeSet::new();
        for channel in &self.channels {
            if channel.name.is_empty() {
                return Err(RequestError::NoChannelName(self.name.clone()));
            }
            let both = || (self.name.clone(), channel.name.clone());
            if !channels.insert(channel.name.as_str()) {
                let (package, channel) = both();
                return Err(RequestError::ChannelTwice { package, channel });
            }
            if !self.range.is_open() && !channel.range.is_open() {
                let (package, channel) = both();
                return Err(RequestError::TwoRanges { package, channel });
            }
        }
        Ok(())
    }
}

impl VersionRange {
    /// The range between two versions; an empty text leaves that end open. A `v` before
    /// a version does not count.
    pub fn new(min: &str, max: &str) -> Result<Self, RequestError> {
        for end in [min, max].into_iter().filter(|end| !end.is_empty()) {
            check_end(end)?;
        }
        let [min, max] = [min, max].map(without_v);
        let reversed = match (Version::parse(min), Version::parse(max)) {
            (Ok(low), Ok(high)) => low > high,
            _ => match (numbers(min, 0), numbers(max, u64::MAX)) {
                (Some(low), Some(high)) => low > high,
                _ => false,
            },
        };
        let (min, max) = (min.to_owned(), max.to_owned());
        if reversed {
            return Err(RequestError::EmptyRange { min, max });
        }
        Ok(Self { min, max })
    }

    /// Whether both ends are open. The range then means the head.
    pub fn is_open(&self) -> bool {
        self.min.is_empty() && self.max.is_empty()
    }

    /// The range as a constraint; none when it is open.
    pub(crate) fn constraint(&self) -> Option<Constraint> {
        if self.is_open() {
            return None;
        }
        // Both ends were tried.
        Constraint::parse(&self.to_string()).ok()
    }
}

/// As constraints have it: `>=1.0.0 <=2.0.0`.
impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = [(">=", &self.min), ("<=", &self.max)];
        let mut between = "";
        for (operator, end) in ends.into_iter().filter(|(_, end)| !end.is_empty()) {
            write!(f, "{between}{operator}{end}")?;
            between = " ";
        }
        Ok(())
    }
}

/// The numbers of an end, with what stands for those that it lacks: the lowest
/// version begins at it, the highest is the last that begins with it.
fn numbers(end: &str, lacking: u64) -> Option<[u64; 3]> {
    let numbers = end.split(['-', '+']).next()?;
    let mut all = [lacking; 3];
    let mut parts = numbers.split('.');
    for (place, part) in all.iter_mut().zip(&mut parts) {
        *place = part.parse().ok()?;
    }
    parts.next().is_none().then_some(all)
}

/// A version without the `v` that may be before it.
fn without_v(text: &str) -> &str {
    text.strip_prefix('v').unwrap_or(text)
}

/// An end may lack its last numbers, and stands alone.
fn check_end(text: &str) -> Result<(), RequestError> {
    let refused = |problem: String| RequestError::Version {
        text: text.chars().take(100).collect(),
        problem,
    };
    let good = |sign: char| sign.is_ascii_alphanumeric() || ".+-".contains(sign);
    if !without_v(text).starts_with(|first: char| first.is_ascii_digit()) || !text.chars().all(good)
    {
        return Err(refused("it does not begin with a number, or has other signs than letters, digits, '.', '-' and '+'".to_owned()));
    }
    match Constraint::parse(&format!(">={text}")) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_that_are_versions() {
        let shown = |min, max| VersionRange::new(min, max).unwrap().to_string();
        assert_eq!(shown("1.0.0", "2.0.0"), ">=1.0.0 <=2.0.0");
        assert_eq!(shown("", "2.1"), "<=2.1");
        assert_eq!(shown("", ""), "");
        assert!(VersionRange::new("", "").unwrap().constraint().is_none());
        assert_eq!(shown("v1.27.0", "v1.28"), ">=1.27.0 <=1.28");
        assert!(VersionRange::new("v2.0.0", "v1.0.0").is_err());
        for bad in ["x", ">=1.0.0", "vv1.0.0", "1.0.0 2.0.0", "1..2", "1.2.3.4"] {
            let error = VersionRange::new(bad, "").unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
        let error = VersionRange::new("2.0.0", "1.0.0").unwrap_err();
        assert!(error.to_string().contains("swap"), "{error}");
        for (min, max) in [
            ("9", "1"),
            ("1.2", "1.1.7"),
            ("1.0.1-3", "1.0"),
            ("2", "1.9.0"),
        ] {
            let reversed = VersionRange::new(min, max).is_err();
            assert_eq!(reversed, min != "1.0.1-3", "{min} to {max}");
        }
        for (min, max) in [("1", "1"), ("1.5", "1"), ("1", "1.0.0"), ("", "0")] {
            assert!(VersionRange::new(min, max).is_ok(), "{min} to {max}");
        }
    }

    #[test]
    fn a_pre_release_is_only_in_ranges_that_name_one() {
        let holds = |min, max, version: &str| {
            let range = VersionRange::new(min, max).unwrap().constraint().unwrap();
            range.contains(&Version::parse(version).unwrap())
        };
        assert!(!holds("5.6.0", "", "5.6.1-3"));
        assert!(holds("5.6.0", "", "5.6.1+0.1"));
        assert!(holds("5.6.0-0", "", "5.6.1-3"));
        assert!(holds("0.4.0-0", "0.4.1", "0.4.1-2"));
        assert!(holds("0.4.0", "0.4.2-0", "0.4.1-2"));
        assert!(!holds("0.4.0", "0.4.2", "0.4.1-2"));
        assert!(holds("", "5.6", "5.6.9"));
    }

    #[test]
    fn contradictions_are_named() {
        let range = VersionRange::new("1.0.0", "").unwrap();
        let channel = |name: &str, range: &VersionRange| ChannelSelection {
            name: name.to_owned(),
            range: range.clone(),
        };
        let open = VersionRange::default();
        let package = |channels, range: &VersionRange| PackageSelection {
            name: "etcd".to_owned(),
            channels,
            range: range.clone(),
            ..PackageSelection::default()
        };
        let check = |full, packages| {
            let selection = Selection {
                from: vec![0],
                full,
                packages,
            };
            let request = Request {
                selections: vec![selection],
                ..Request::default()
            };
            request.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(false, vec![package(Vec::new(), &range)]), Ok(()));
        let whole = package(Vec::new(), &open);
        for (full, packages, wanted) in [
            (false, vec![whole.clone(), whole.clone()], "selected twice"),
            (true, vec![package(Vec::new(), &range)], "full"),
            (
                true,
                vec![package(vec![channel("a", &range)], &open)],
                "full",
            ),
            (
                false,
                vec![package(vec![channel("a", &range)], &range)],
                "another",
            ),
            (
                false,
                vec![package(
                    vec![channel("a", &open), channel("a", &open)],
                    &open,
                )],
                "selected twice",
            ),
            (false, vec![PackageSelection::default()], "no name"),
            (
                false,
                vec![package(vec![channel("", &open)], &open)],
                "no name",
            ),
        ] {
            let error = check(full, packages).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let selection = |from| Selection {
            from: vec![from],
            full: false,
            packages: vec![whole.clone()],
        };
        let request = Request {
            selections: vec![selection(0), selection(1)],
            ..Request::default()
        };
        let error = request.check().unwrap_err().to_string();
        for part in ["two catalogs", "narrow with from", "a catalog of each"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
