//! Ranges of versions in the syntax of blang/semver v4. A space joins comparisons by
//! "and", `||` separates alternatives, and `x` as the last number matches any number.
//! Commas, `~`, `^`, `v` and versions with fewer than three parts have no meaning.

use std::cmp::Ordering;

use crate::text::semver::version::{Version, VersionError};

/// The longest range that is read, in bytes.
pub const MAX_RANGE: usize = 1_024;

/// A range of versions.
#[derive(Clone, Debug)]
pub struct Range {
    /// All comparisons of one of them must hold.
    pub(super) alternatives: Vec<Vec<Comparison>>,
}

/// The reason why a text is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No comparison at all.
    #[error("the range is empty")]
    Empty,
    /// More than [`MAX_RANGE`] bytes.
    #[error("a range of {0} bytes is longer than {MAX_RANGE}")]
    TooLong(usize),
    /// A `||` with nothing before or behind it.
    #[error("the range {0:?} has a \"||\" with no comparison on one side")]
    EmptyAlternative(String),
    /// A comparison without any digit.
    #[error("{0:?} in the range has no version")]
    NoVersion(String),
    /// An operator (named first) that ranges do not have.
    #[error(
        "{0:?} in {1:?} is not an operator of ranges (those are =, ==, !, !=, >, >=, < and <=)"
    )]
    Operator(String, String),
    /// A version that cannot be read, in the comparison named.
    #[error("{comparison:?} in the range: {source}")]
    Version {
        /// The comparison.
        comparison: String,
        /// The problem of its version.
        source: VersionError,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// The test of a version, compared to this one.
    pub(super) holds: fn(Ordering) -> bool,
    pub(super) version: Version,
}

impl Range {
    /// Reads a range. Differs from the Go library in one case: two `||` with
    /// nothing between them are refused here, and crash there when the range
    /// is used.
    ///
    /// ```
    /// use fbc::text::semver::{Range, Version};
    ///
    /// let range = Range::parse(">=1.2.0 <1.3.0 || 2.x").unwrap();
    /// assert!(range.contains(&Version::parse("1.2.9").unwrap()));
    /// assert!(!range.contains(&Version::parse("1.3.0").unwrap()));
    /// assert!(Range::parse("~1.2").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        if text.len() > MAX_RANGE {
            return Err(RangeError::TooLong(text.len()));
        }
        let words = words(text);
        if words.is_empty() {
            return Err(RangeError::Empty);
        }
        let alternatives = words
            .split(|word| word == "||")
            .map(|words| {
                if words.is_empty() {
                    return Err(RangeError::EmptyAlternative(text.to_owned()));
                }
                let mut comparisons = Vec::with_capacity(words.len());
                for word in words {
                    comparisons_of(word, &mut comparisons)?;
                }
                Ok(comparisons)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Whether `version` lies in the range. Pre-releases are compared like
    /// any other version: `1.0.0-rc.1` lies in `<1.0.0`.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives
            .iter()
            .any(|all| all.iter().all(|one| (one.holds)(version.cmp(&one.version))))
    }
}

/// The test of an operator.
fn operator(text: &str) -> Option<fn(Ordering) -> bool> {
    Some(match text {
        "" | "=" | "==" => Ordering::is_eq,
        "!" | "!=" => Ordering::is_ne,
        ">" => Ordering::is_gt,
        ">=" => Ordering::is_ge,
        "<" => Ordering::is_lt,
        "<=" => Ordering::is_le,
        _ => return None,
    })
}

/// The comparisons and `||` of a range. A space behind `>`, `<` or `=` belongs
/// to the comparison; a word of one byte is passed over, as in Go.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    let mut length = 0;
    for character in text.chars().chain([' ']) {
        if character != ' ' {
            word.push(character);
            before = character;
        }
        if character == ' ' && !matches!(before, '>' | '<' | '=') {
            if length > 1 {
                words.push(std::mem::take(&mut word));
            }
            word.clear();
            length = 0;
        } else {
            length += character.len_utf8();
        }
    }
    // The last space does not close a word that ends with an operator.
    if length > 2 {
        words.push(word);
    }
    words
}

/// The comparisons of one word of a range: two if `x` makes it an interval.
fn comparisons_of(word: &str, out: &mut Vec<Comparison>) -> Result<(), RangeError> {
    let (operator, version) = split(word)?;
    if !word.contains(".x") {
        out.push(comparison(operator, version)?);
        return Ok(());
    }
    let lowest = lowest(version);
    let above = || above(version, &lowest).unwrap_or_default();
    match operator {
        ">" => out.push(comparison(">=", &above())?),
        ">=" => out.push(comparison(">=", &lowest)?),
        "<" => out.push(comparison("<", &lowest)?),
        "<=" => out.push(comparison("<", &above())?),
        "" | "=" | "==" => {
            out.push(comparison(">=", &lowest)?);
            out.push(comparison("<", &above())?);
        }
        // The Go library asks for both, which nothing fulfils; kept, because
        // the answer has to be the same everywhere.
        "!" | "!=" => {
            out.push(comparison("<", &lowest)?);
            out.push(comparison(">=", &above())?);
        }
        // Any other operator is lost there, and an exact version is left.
        _ => out.push(comparison("", &lowest)?),
    }
    Ok(())
}

/// Operator and version: the version starts at the first digit.
fn split(word: &str) -> Result<(&str, &str), RangeError> {
    let digit = word
        .find(|character: char| character.is_ascii_digit())
        .ok_or_else(|| RangeError::NoVersion(word.to_owned()))?;
    let (operator, version) = word.split_at(digit);
    Ok((operator.trim(), version))
}

fn comparison(sign: &str, version: &str) -> Result<Comparison, RangeError> {
    let word = || format!("{sign}{version}");
    let holds = operator(sign).ok_or_else(|| RangeError::Operator(sign.to_owned(), word()))?;
    let version = Version::parse(version).map_err(|source| RangeError::Version {
        comparison: word(),
        source,
    })?;
    Ok(Comparison { holds, version })
}

/// The lowest version that a version with `x` matches.
fn lowest(version: &str) -> String {
    let lowest = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if lowest.matches('.').count() == 1 {
        lowest + ".0"
    } else {
        lowest
    }
}

/// The lowest version above all that a version with `x` matches: the number before the
/// `x` plus one. `1.x.x` counts as `1.0.x`, as in Go.
fn above(version: &str, lowest: &str) -> Option<String> {
    let parts = version.split('.').count();
    if version.rsplit('.').next() != Some("x") || !(2..=3).contains(&parts) {
        return None;
    }
    let mut numbers: Vec<String> = lowest.split('.').map(ToOwned::to_owned).collect();
    let number = numbers.get_mut(parts - 2)?;
    *number = number.parse::<i64>().ok()?.checked_add(1)?.to_string();
    Some(numbers.join("."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(range: &str, inside: &[&str], outside: &[&str]) {
        let range = Range::parse(range).unwrap();
        for version in inside {
            assert!(
                range.contains(&Version::parse(version).unwrap()),
                "{version}"
            );
        }
        for version in outside {
            assert!(
                !range.contains(&Version::parse(version).unwrap()),
                "{version}"
            );
        }
    }

    #[test]
    fn every_operator_compares() {
        check("1.2.3", &["1.2.3", "1.2.3+b"], &["1.2.4", "1.2.3-a"]);
        check("==1.2.3", &["1.2.3"], &["1.2.4"]);
        check("!=1.2.3", &["1.2.4"], &["1.2.3"]);
        check("!1.2.3", &["1.2.4"], &["1.2.3"]);
        check(">1.2.3", &["1.2.4"], &["1.2.3", "1.2.3-a"]);
        check(">=1.2.3", &["1.2.3"], &["1.2.2", "1.2.3-a"]);
        check("<1.2.3", &["1.2.2", "1.2.3-a"], &["1.2.3"]);
        check("<=1.2.3", &["1.2.3", "0.0.0"], &["1.2.4"]);
    }

    #[test]
    fn a_space_joins_and_two_bars_part() {
        check(
            ">1.0.0 <2.0.0 !1.5.0 || >3.0.0",
            &["1.0.1", "3.0.1"],
            &["1.5.0", "2.0.0", "3.0.0"],
        );
        check("  >= 1.0.0   <   2.0.0  ", &["1.0.0"], &["2.0.0"]);
        check(">\t1.0.0", &["1.0.1"], &["1.0.0"]);
    }

    #[test]
    fn x_in_the_last_place_stands_for_any_number() {
        check("1.2.x", &["1.2.0", "1.2.9"], &["1.1.9", "1.3.0"]);
        check("1.x", &["1.0.0", "1.9.9"], &["0.9.9", "2.0.0"]);
        check(">1.2.x", &["1.3.0"], &["1.2.9"]);
        check("<=1.2.x", &["1.2.9"], &["1.3.0"]);
        check("<1.x", &["0.9.9"], &["1.0.0"]);
        check(">=1.x", &["1.0.0"], &["0.9.9"]);
        check("!=1.x", &[], &["0.9.9", "1.0.0", "2.0.0"]);
        check("1.x.x", &["1.0.5"], &["1.1.0"]);
    }

    #[test]
    fn the_ranges_of_real_catalogs_are_read() {
        for good in [
            "!0.1.1",
            "==0.1.0",
            "!=0.1.0",
            "<0.1.0 || >=0.1.5",
            ">=0.0.1 <0.2.0",
        ] {
            assert!(Range::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for bad in [
            "",
            " ",
            ">=0.1",
            "~0.1",
            "^1.2.3",
            "<v0.2.0",
            ">=0.1.0, <0.2.0",
            ">=0.1.0,<0.2.0",
            "=>1.0.0",
            "1.X",
            "1.*",
            "*",
            "x",
            "|| 1.0.0",
            "1.0.0 ||",
            "1.0.0 || || 2.0.0",
            "1.0.0||2.0.0",
            "1.0.0-a.x",
            "9223372036854775807.x",
            ">=1.0.0 >=",
            &"1.0.0 ".repeat(1_000),
        ] {
            assert!(Range::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_word_of_one_byte_is_passed_over() {
        check("1.0.0 - 1.0.0", &["1.0.0"], &["1.0.1"]);
    }

    #[test]
    fn an_error_names_what_is_wrong() {
        for (range, message) in [
            (
                ">=0.1.0, <0.2.0",
                "\">=0.1.0,\" in the range: the patch number \"0,\" of the version does not \
                 consist of digits",
            ),
            (
                "<v0.2.0",
                "\"<v\" in \"<v0.2.0\" is not an operator of ranges (those are =, ==, !, !=, >, >=, < \
                 and <=)",
            ),
        ] {
            assert_eq!(Range::parse(range).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn reading_a_range_never_panics(text in "[0-9x.<>=!| v-]{0,24}|\\PC{0,24}") {
            if let Ok(range) = Range::parse(&text) {
                range.contains(&Version::default());
            }
        }
    }
}
