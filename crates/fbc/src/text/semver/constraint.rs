//! Constraints on versions in `spec.source.catalog.version` of OLM v1 and in the ranges
//! of oc-mirror, with the syntax and the rules of Masterminds/semver v3.4.0. The ranges
//! of `skipRange` have other rules, see [`Range`](crate::text::semver::Range).
//!
//! A comma or a space joins comparisons by "and", `||` separates alternatives. Parts may
//! be missing or `x`, `X` or `*`; `~1.2` stays within a minor version, `^1.2` within a
//! major one, and `1.2 - 1.4` is from the one to the other. An alternative admits
//! pre-releases if one of its comparisons names a pre-release.

use crate::text::semver::version::{Version, VersionError, number};

/// The longest constraint that is read, in bytes.
pub const MAX_CONSTRAINT: usize = 1_024;

/// A constraint on versions.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// All comparisons of one of them must hold.
    alternatives: Vec<Vec<Comparison>>,
}

/// The reason why a text is no constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// More than [`MAX_CONSTRAINT`] bytes.
    #[error("a constraint of {0} bytes is longer than {MAX_CONSTRAINT}")]
    TooLong(usize),
    /// Nothing at all, or nothing beside a `||`.
    #[error("{0:?} has no comparison on one side of \"||\", or none at all")]
    Empty(String),
    /// An operator that constraints do not have.
    #[error(
        "{0:?} is not an operator of constraints (those are =, !=, >, >=, <, <=, ~ and ^, or none)"
    )]
    Operator(String),
    /// An operator without a version.
    #[error("{0:?} has no version behind its last operator")]
    NoVersion(String),
    /// Two comparisons with nothing between them.
    #[error("put a comma or a space between the comparisons in {0:?}")]
    Unseparated(String),
    /// A version that cannot be read, in the word named.
    #[error("{word:?}: {source}")]
    Version {
        /// The word.
        word: String,
        /// The problem of its version.
        source: VersionError,
    },
    /// More than three numbers in the word named.
    #[error("{0:?} has more parts than major.minor.patch")]
    Parts(String),
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// The first part that is missing or a wildcard.
    open: Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// From which part on a version is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Not,
    Patch,
    Minor,
    Major,
}

impl Constraint {
    /// Reads a constraint.
    ///
    /// ```
    /// use fbc::text::semver::{Constraint, Version};
    ///
    /// let constraint = Constraint::parse("~1.2, !=1.2.3 || 3.x").unwrap();
    /// assert!(constraint.contains(&Version::parse("1.2.9").unwrap()));
    /// assert!(!constraint.contains(&Version::parse("1.2.3").unwrap()));
    /// assert!(!constraint.contains(&Version::parse("3.0.0-rc.1").unwrap()));
    /// ```
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > MAX_CONSTRAINT {
            return Err(ConstraintError::TooLong(text.len()));
        }
        let alternatives = text
            .split("||")
            .map(|alternative| {
                let comparisons = comparisons(alternative)?;
                if comparisons.is_empty() {
                    return Err(ConstraintError::Empty(text.to_owned()));
                }
                Ok(comparisons)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Whether `version` lies within.
    pub fn contains(&self, version: &Version) -> bool {
        let names_pre = |one: &Comparison| !one.version.pre.is_empty();
        self.alternatives.iter().any(|all| {
            (version.pre.is_empty() || all.iter().any(names_pre))
                && all.iter().all(|one| one.holds(version))
        })
    }
}

impl Comparison {
    fn holds(&self, version: &Version) -> bool {
        use std::cmp::Ordering::{Greater, Less};
        let order = version.cmp(&self.version);
        let same_major = version.major == self.version.major;
        let same_minor = same_major && version.minor == self.version.minor;
        match (self.operator, self.open) {
            (Operator::Equal, Open::Not) => order.is_eq(),
            (Operator::Equal | Operator::Tilde, _) => match self.open {
                _ if order == Less => false,
                Open::Major => true,
                Open::Minor => same_major,
                Open::Patch => same_minor,
                // The lowest version matches all versions.
                Open::Not => same_minor || self.is_zero(),
            },
            (Operator::NotEqual, Open::Not | Open::Major) => order.is_ne(),
            (Operator::NotEqual, Open::Patch) => !same_minor || version.pre != self.version.pre,
            (Operator::NotEqual, Open::Minor) => !same_major,
            // The versions above 1.2 begin with 1.3, and those above 1 with 2.
            (Operator::Greater, Open::Patch) => order == Greater && !same_minor,
            (Operator::Greater, Open::Minor) => order == Greater && !same_major,
            (Operator::Greater, _) => order == Greater,
            (Operator::GreaterOrEqual, _) => order != Less,
            (Operator::Less, _) => order == Less,
            (Operator::LessOrEqual, Open::Not) => order != Greater,
            (Operator::LessOrEqual, Open::Minor) => order != Greater || same_major,
            (Operator::LessOrEqual, _) => order != Greater || same_minor,
            (Operator::Caret, _) if order == Less => false,
            (Operator::Caret, open) => {
                if self.version.major > 0 || open == Open::Minor {
                    same_major
                } else if self.version.minor > 0 || open == Open::Patch {
                    same_minor
                } else {
                    same_minor && version.patch == self.version.patch
                }
            }
        }
    }

    fn is_zero(&self) -> bool {
        (self.version.major, self.version.minor, self.version.patch) == (0, 0, 0)
    }
}

impl Operator {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" | "=" => Self::Equal,
            "!=" => Self::NotEqual,
            ">" => Self::Greater,
            ">=" | "=>" => Self::GreaterOrEqual,
            "<" => Self::Less,
            "<=" | "=<" => Self::LessOrEqual,
            "~" | "~>" => Self::Tilde,
            "^" => Self::Caret,
            _ => return None,
        })
    }
}

/// The comparisons of one alternative.
fn comparisons(text: &str) -> Result<Vec<Comparison>, ConstraintError> {
    let unseparated = || ConstraintError::Unseparated(text.to_owned());
    let no_version = || ConstraintError::NoVersion(text.to_owned());
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut rest = text.trim();
    let mut may_begin_range = true;
    while !rest.is_empty() {
        let (sign, behind) = word(rest, |sign| "=!<>~^".contains(sign));
        let Some(operator) = Operator::parse(sign) else {
            return Err(ConstraintError::Operator(sign.to_owned()));
        };
        let in_version = |sign: char| !sign.is_whitespace() && !",=!<>~^".contains(sign);
        let (version, mut behind) = word(behind.trim_start(), in_version);
        if version.is_empty() {
            return Err(no_version());
        }
        let upper = hyphen(behind).filter(|_| sign.is_empty());
        if let Some(upper) = upper {
            // The library loses the space between a comparison and such a range.
            if !may_begin_range {
                return Err(unseparated());
            }
            let (upper, end) = word(upper, in_version);
            comparisons.push(comparison(Operator::GreaterOrEqual, version)?);
            comparisons.push(comparison(Operator::LessOrEqual, upper)?);
            behind = end;
        } else {
            comparisons.push(comparison(operator, version)?);
        }
        let next = behind.trim_start();
        let comma = next.strip_prefix(',').map(str::trim_start);
        let is_separated = comma.is_some() || upper.is_some() || next.len() < behind.len();
        if comma == Some("") {
            return Err(no_version());
        }
        if !next.is_empty() && !is_separated {
            return Err(unseparated());
        }
        may_begin_range = comma.is_some() || upper.is_some();
        rest = comma.unwrap_or(next);
    }
    Ok(comparisons)
}

/// The text behind a hyphen with space on both sides.
fn hyphen(text: &str) -> Option<&str> {
    let inner = text.trim_start();
    let behind = inner.strip_prefix('-')?;
    let upper = behind.trim_start();
    let spaced = inner.len() < text.len() && upper.len() < behind.len();
    (spaced && !upper.is_empty()).then_some(upper)
}

/// The longest start of `text` that `part` takes sign by sign, and the rest.
fn word(text: &str, part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|sign| !part(sign)).unwrap_or(text.len());
    text.split_at(end)
}

fn comparison(operator: Operator, word: &str) -> Result<Comparison, ConstraintError> {
    let broken = |source| ConstraintError::Version {
        word: word.to_owned(),
        source,
    };
    let text = word.strip_prefix('v').unwrap_or(word);
    let (numbers, mut version) = Version::suffixes(text).map_err(broken)?;
    let mut open = Open::Not;
    let mut parts = numbers.split('.');
    for (name, place, without) in [
        ("major", &mut version.major, Open::Major),
        ("minor", &mut version.minor, Open::Minor),
        ("patch", &mut version.patch, Open::Patch),
    ] {
        match parts.next() {
            Some("x" | "X" | "*") | None if open == Open::Not => open = without,
            None | Some("x" | "X" | "*") => {}
            Some(part) => {
                let number = number(name, part).map_err(broken)?;
                // Parts behind an open part do not count.
                if open == Open::Not {
                    *place = number;
                }
            }
        }
    }
    if parts.next().is_some() {
        return Err(ConstraintError::Parts(word.to_owned()));
    }
    Ok(Comparison {
        operator,
        version,
        open,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn constraints_hold_as_olm_v1_reads_them() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("*", &["0.0.1", "9.9.9"], &["1.0.0-rc.1"]),
            ("1.2.3", &["1.2.3", "1.2.3+build"], &["1.2.4", "1.2.3-rc.1"]),
            ("=1.2.3-rc.1", &["1.2.3-rc.1"], &["1.2.3"]),
            ("v1.2.3", &["1.2.3"], &["1.2.2"]),
            ("1", &["1.0.0", "1.9.9"], &["0.9.0", "2.0.0", "1.0.0-a"]),
            ("1.x", &["1.0.0", "1.9.9"], &["2.0.0"]),
            ("1.2.*", &["1.2.0", "1.2.9"], &["1.3.0"]),
            ("1.2", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.9"]),
            (
                ">=1.0.0, <2.0.0",
                &["1.0.0", "1.9.9"],
                &["2.0.0", "2.0.0-rc.1"],
            ),
            (">=1.0.0 <2.0.0", &["1.5.0"], &["2.0.0"]),
            (">= 1.0.0 , < 2.0.0", &["1.5.0"], &["2.0.0"]),
            (">1", &["2.0.0"], &["1.9.9", "1.0.0"]),
            (">1.2", &["1.3.0", "2.0.0"], &["1.2.9"]),
            (">1.2.3", &["1.2.4"], &["1.2.3"]),
            ("<1.2", &["1.1.9"], &["1.2.0"]),
            ("<=1.2", &["1.2.9", "0.1.0"], &["1.3.0"]),
            ("<=1", &["1.9.9"], &["2.0.0"]),
            ("=<1.2.3", &["1.2.3"], &["1.2.4"]),
            ("=>1.2.3", &["1.2.3"], &["1.2.2"]),
            ("!=1.2.3", &["1.2.4"], &["1.2.3", "1.2.3+1", "1.2.3-rc.1"]),
            ("!=1.2", &["1.3.0"], &["1.2.0", "1.2.9"]),
            ("!=1", &["2.0.0"], &["1.2.0"]),
            ("~1.2.3", &["1.2.3", "1.2.9"], &["1.2.2", "1.3.0"]),
            ("~1.2", &["1.2.0"], &["1.3.0"]),
            ("~>1", &["1.9.0"], &["2.0.0"]),
            ("~0.0.0", &["0.0.0", "5.0.0"], &[]),
            ("^1.2.3", &["1.2.3", "1.9.0"], &["1.2.2", "2.0.0"]),
            ("^0.2.3", &["0.2.9"], &["0.3.0", "1.2.3"]),
            ("^0.0.3", &["0.0.3"], &["0.0.4"]),
            ("^0.0", &["0.0.9"], &["0.1.0"]),
            ("^0", &["0.9.0"], &["1.0.0"]),
            ("1.2 - 1.4.5", &["1.2.0", "1.4.5"], &["1.1.9", "1.4.6"]),
            ("1.2 - 1.4", &["1.4.9"], &["1.5.0"]),
            ("~1.2 || ^3.1", &["1.2.1", "3.4.0"], &["1.3.0", "3.0.0"]),
            ("^*", &["0.0.0"], &["0.0.1", "1.0.0"]),
            ("<=*", &["0.0.0", "0.0.9"], &["0.1.0", "1.0.0"]),
            (
                ">=1.0.0-0",
                &["1.0.0-rc.1", "2.0.0-rc.1", "2.0.0"],
                &["0.9.0"],
            ),
        ];
        for (text, within, without) in table {
            let constraint = Constraint::parse(text).unwrap();
            let contains = |version: &&&str| constraint.contains(&Version::parse(version).unwrap());
            let missing: Vec<_> = within.iter().filter(|v| !contains(v)).collect();
            assert!(missing.is_empty(), "{text} lacks {missing:?}");
            let wrong: Vec<_> = without.iter().filter(contains).collect();
            assert!(wrong.is_empty(), "{text} has {wrong:?}");
        }
    }

    #[test]
    fn one_pre_release_admits_pre_releases_to_all_comparisons_joined_with_it() {
        let contains = |text: &str, version: &str| {
            let constraint = Constraint::parse(text).unwrap();
            constraint.contains(&Version::parse(version).unwrap())
        };
        for (text, version, wanted) in [
            (">=0.4.0-0 <=0.4.1", "0.4.0", true),
            (">=0.4.0-0 <=0.4.1", "0.4.1-1", true),
            (">=0.4.0-0 <=0.4.1", "0.4.2-1", false),
            (">=0.4.0 <=0.4.1", "0.4.1-1", false),
            ("~1.2 !=2.0.0-0", "1.2.5-rc.1", true),
            ("~1.2 !=2.0.0-0", "1.3.0-rc.1", false),
            ("1.0.0-0 - 1.2.3", "1.2.0-rc.1", true),
            ("1.0.0-0 - 1.2.3", "1.2.3", true),
            ("1.0.0 - 1.2.3", "1.2.0-rc.1", false),
            ("!=1.2.0", "1.3.0-rc.1", false),
            ("!=1.2.0-0", "1.3.0-rc.1", true),
            // Only within an alternative.
            ("~1.2 || >=2.0.0-0", "1.2.5-rc.1", false),
            ("~1.2 || >=2.0.0-0", "2.0.0-rc.1", true),
        ] {
            assert_eq!(contains(text, version), wanted, "{version} in {text}");
        }
    }

    #[test]
    fn a_comma_separates_a_hyphen_range_from_a_comparison_before_it() {
        for good in [
            "1.0 - 2.0",
            "1.0 - 2.0 !=1.5",
            "1.0 - 2.0, !=1.5",
            "1.0 - 2.0!=1.5",
            "!=1.5, 1.0 - 2.0",
            "1.0 - 2.0 3.0 - 4.0",
            "3 || 1.0 - 2.0",
        ] {
            assert!(Constraint::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "!=1.5 1.0 - 2.0",
            "=1.0 - 2.0",
            ">1.0 - 2.0",
            "1.0 - 2.0 - 3.0",
        ] {
            assert!(Constraint::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_constraint_is_refused() {
        let long = "1".repeat(MAX_CONSTRAINT + 1);
        for text in [
            "",
            " ",
            "||",
            "1 ||",
            "|| 1",
            ">",
            ">=1,",
            ",1",
            "==1",
            "<>1",
            ">>1",
            "a",
            "1.a",
            "1.2.3.4",
            "1.2.3-",
            "1.2.3-a_b",
            ">1<2",
            "1|2",
            "01.x.y",
            "1 - ",
            &long,
        ] {
            assert!(Constraint::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_a_constraint_never_panics(text in "[0-9xX*.,|<>=!~^v+ a-]{0,30}|\\PC{0,20}") {
            if let Ok(constraint) = Constraint::parse(&text) {
                constraint.contains(&Version::default());
            }
        }
    }
}
