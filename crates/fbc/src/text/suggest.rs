//! Proposals of similar names, for messages about a name that does not exist.

use std::collections::BTreeSet;

use crate::text::display::quoted;

/// The number of names that are proposed.
const MOST: usize = 3;
/// The number of names that are listed if none is similar.
const LISTED: usize = 5;
/// The longest name that is compared, in characters.
const LONGEST: usize = 100;

/// A question at the end of a message, such as `; did you mean "etcd"?`. Empty if
/// no name is similar.
pub fn proposal<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let similar = similar(wanted, names).into_iter();
    let similar: Vec<String> = similar.map(|name| format!("{name:?}")).collect();
    match similar.split_last() {
        None => String::new(),
        Some((last, [])) => format!("; did you mean {last}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

/// The same. If no name is similar, the existing names: `; there are "etcd" and 12
/// others`.
pub fn proposal_or_all<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let proposal = proposal(wanted, names.iter().copied());
    if proposal.is_empty() {
        return listed(&names);
    }
    proposal
}

/// The existing names, as the end of a message. Empty if there are none.
pub fn listed(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| quoted(name)).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => format!("; there are {shown}"),
        1 => format!("; there are {shown} and 1 other"),
        more => format!("; there are {shown} and {more} others"),
    }
}

/// At most three similar names, the most similar first.
pub fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().take(LONGEST + 1).count();
    if length == 0 || length > LONGEST {
        return Vec::new();
    }
    // Short names may have fewer typing errors.
    let most = (length / 4 + 1).min(3);
    let mut similar: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let contained = length > 2 && lower.contains(&wanted);
            let other = lower.chars().take(LONGEST + 1).count();
            let distance = if other <= LONGEST && other.abs_diff(length) <= most {
                strsim::osa_distance(&wanted, &lower)
            } else {
                usize::MAX
            };
            match (distance <= most, contained) {
                (true, _) => Some((distance, name)),
                (false, true) => Some((most + 1, name)),
                (false, false) => {
                    near_word(&wanted, length, &lower).map(|far| (most + 1 + far, name))
                }
            }
        })
        .collect();
    similar.sort_unstable();
    // Words are compared only when no name is similar as a whole.
    if similar
        .first()
        .is_some_and(|(distance, _)| *distance <= most + 1)
    {
        similar.retain(|(distance, _)| *distance <= most + 1);
    }
    similar.truncate(MOST);
    similar.into_iter().map(|(_, name)| name).collect()
}

/// The distance to the nearest word of a name of several words. One letter of a short
/// word may be wrong, two of a longer one.
fn near_word(wanted: &str, length: usize, name: &str) -> Option<usize> {
    let most = match length {
        0..4 => return None,
        4..6 => 1,
        _ => 2,
    };
    let words = name.split(|sign: char| !sign.is_alphanumeric());
    let words =
        words.filter(|word| word.chars().take(LONGEST + 1).count().abs_diff(length) <= most);
    let distances = words.map(|word| strsim::osa_distance(wanted, word));
    distances.filter(|distance| *distance <= most).min()
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
        // Two letters that changed places are one typing error.
        assert_eq!(super::similar("sgv", ["mermaid", "svg"]), ["svg"]);
        assert_eq!(proposal("zookeeper"), "");
        assert_eq!(proposal(""), "");
    }

    #[test]
    fn a_typing_error_in_a_word_of_a_name_is_no_hindrance() {
        let names = [
            "ferry-operator",
            "kepler-operator",
            "strimzi-kafka-operator",
        ];
        for (wanted, near) in [
            ("keplr", vec!["kepler-operator"]),
            ("kafak", vec!["strimzi-kafka-operator"]),
            ("fery", vec!["ferry-operator"]),
            ("kit", vec![]),
            ("zookeeper", vec![]),
        ] {
            assert_eq!(similar(wanted, names), near, "{wanted}");
        }
    }
}
