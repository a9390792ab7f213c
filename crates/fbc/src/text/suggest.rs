//! Names that somebody may have meant: for messages about one that is not
//! there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How many names are proposed.
const MOST: usize = 3;
/// How many names are listed when none is near.
const LISTED: usize = 5;
/// Longer names are not compared, in characters.
const LONGEST: usize = 100;

/// A question to end a message with, such as `; did you mean "etcd"?`, or
/// nothing when no name is near.
pub fn proposal<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = near(wanted, names);
    let Some((last, others)) = near.split_last() else {
        return String::new();
    };
    let mut text = String::from("; did you mean ");
    for other in others {
        let _ = write!(text, "{other:?}, ");
    }
    if !others.is_empty() {
        text.truncate(text.len() - 2);
        text.push_str(" or ");
    }
    let _ = write!(text, "{last:?}?");
    text
}

/// The same, and when no name is near, those there are: `; there are "etcd" and
/// 12 others`.
pub fn proposal_or_all<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let proposal = proposal(wanted, names.iter().copied());
    if proposal.is_empty() {
        return listed(&names);
    }
    proposal
}

/// The names there are, as the end of a message; nothing when there are none.
pub fn listed(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown = names.iter().take(LISTED).map(|name| {
        let mut shown: String = name.chars().take(LONGEST).collect();
        if shown.len() < name.len() {
            shown.push('…');
        }
        format!("{shown:?}")
    });
    let shown: Vec<String> = shown.collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => format!("; there are {shown}"),
        more => format!("; there are {shown} and {more} others"),
    }
}

/// The nearest names, the nearest first: at most three.
pub fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = wanted.to_lowercase().chars().take(LONGEST + 1).collect();
    if wanted.is_empty() || wanted.len() > LONGEST {
        return Vec::new();
    }
    let text: String = wanted.iter().collect();
    // A few signs may be wrong, fewer in short names.
    let most = (wanted.len() / 4 + 1).min(3);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let contained = wanted.len() > 2 && lower.contains(&text);
            let signs: Vec<char> = lower.chars().take(LONGEST + 1).collect();
            let alike = signs.len().abs_diff(wanted.len()) <= most && signs.len() <= LONGEST;
            let distance = if alike {
                distance(&wanted, &signs)
            } else {
                usize::MAX
            };
            match (distance <= most, contained) {
                (true, _) => Some((distance, name)),
                (false, true) => Some((most + 1, name)),
                (false, false) => None,
            }
        })
        .collect();
    near.sort_unstable();
    near.truncate(MOST);
    near.into_iter().map(|(_, name)| name).collect()
}

/// How many signs have to be put in, left out or changed.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, sign) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (to, counterpart) in other.iter().enumerate() {
            let changed = diagonal + usize::from(sign != counterpart);
            diagonal = row[to + 1];
            row[to + 1] = changed.min(row[to] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_proposed() {
        let names = ["etcd", "etcd-operator", "kafka", "prometheus"];
        let proposal = |wanted| proposal(wanted, names);
        assert_eq!(proposal("etdc"), "; did you mean \"etcd\"?");
        assert_eq!(proposal("etcd2"), "; did you mean \"etcd\"?");
        assert_eq!(
            proposal("tcd"),
            "; did you mean \"etcd\" or \"etcd-operator\"?"
        );
        assert_eq!(proposal("Kafka"), "; did you mean \"kafka\"?");
        assert_eq!(proposal("zookeeper"), "");
        assert_eq!(proposal(""), "");
    }

    #[test]
    fn distances_are_counted() {
        let distance = |one: &str, other: &str| {
            let signs = |text: &str| text.chars().collect::<Vec<_>>();
            distance(&signs(one), &signs(other))
        };
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
