//! Filters of packages: a row of values for each package, made from its stored record.
//!
//! Spellings are folded so that one thing has one value: the first spelling that the
//! catalog has stays to be shown.

use std::collections::{BTreeMap, HashMap};

use crate::answers::rest::records::PackageDetails;

/// The facets, as parameters name them, in the order of pages.
pub const FACETS: [&str; 8] = [
    "category",
    "provider",
    "level",
    "mode",
    "architecture",
    "feature",
    "subscription",
    "state",
];

/// The parameters of a route: its own ones, and behind them all facets. `N` is the number
/// of both.
///
/// # Panics
/// When `N` is another number, as the program is compiled.
pub const fn parameters<const N: usize>(own: &[&'static str]) -> [&'static str; N] {
    assert!(N == own.len() + FACETS.len());
    let mut all = [""; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < own.len() {
            own[at]
        } else {
            FACETS[at - own.len()]
        };
        at += 1;
    }
    all
}

/// The capability levels in their order.
const LEVELS: [&str; 5] = [
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
];

/// The values of a package, by the number of the facet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FacetRow {
    values: [Vec<String>; FACETS.len()],
}

impl FacetRow {
    /// The values of a package.
    pub fn new(package: PackageDetails<'_>) -> Self {
        let problems = package.problems;
        let (summary, presentation) = (package.summary, package.presentation.into_owned());
        let level = LEVELS
            .iter()
            .find(|level| fold(level) == fold(&presentation.capabilities));
        let level = level.map_or("other", |level| *level);
        let mut states = Vec::new();
        for (is_so, state) in [
            (summary.deprecation.is_some(), "deprecated"),
            (summary.quarantined, "left out"),
            (!problems.is_empty(), "with problems"),
        ] {
            if is_so {
                states.push(state.to_owned());
            }
        }
        let provider = presentation.provider.name.trim();
        let values = [
            presentation.categories,
            vec![provider.to_owned()],
            vec![level.to_owned()],
            presentation.install_modes,
            presentation.architectures,
            presentation.infrastructure_features,
            presentation.subscriptions,
            states,
        ];
        let values = values.map(|mut values| {
            values.retain(|value| !value.is_empty());
            values
        });
        Self { values }
    }

    /// The values of a facet.
    pub fn values(&self, facet: &str) -> &[String] {
        let at = FACETS.iter().position(|name| *name == facet);
        at.and_then(|at| self.values.get(at))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether it has one of the wanted values. Without any, all have.
    fn has(&self, facet: &str, wanted: &[String]) -> bool {
        let values = self.values(facet);
        let has = |wanted: &String| values.iter().any(|value| key(facet, value) == *wanted);
        wanted.is_empty() || wanted.iter().any(has)
    }
}

/// The values that packages shall have: those of one facet are alternatives.
#[derive(Clone, Debug, Default)]
pub struct FacetFilter(BTreeMap<&'static str, Vec<String>>);

impl FacetFilter {
    /// Adds a value of a facet.
    pub fn add(&mut self, facet: &'static str, value: &str) {
        self.0.entry(facet).or_default().push(key(facet, value));
    }

    /// Whether a value is wanted.
    pub fn wants(&self, facet: &str, value: &str) -> bool {
        let wanted = self.0.get(facet);
        wanted.is_some_and(|wanted| wanted.contains(&key(facet, value)))
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a package has all that is wanted.
    pub fn accepts(&self, row: &FacetRow) -> bool {
        self.0.iter().all(|(facet, wanted)| row.has(facet, wanted))
    }

    /// The same for all facets but one, which tells how many packages a further value
    /// of it would add.
    fn accepts_but(&self, row: &FacetRow, without: &str) -> bool {
        let mut others = self.0.iter().filter(|(facet, _)| **facet != without);
        others.all(|(facet, wanted)| row.has(facet, wanted))
    }
}

/// How many packages have each value of a facet, the most frequent first. A package
/// counts once, in however many catalogs it is. `rows` has the number of the package
/// with each row.
pub fn counts<'a>(
    facet: &'static str,
    rows: impl IntoIterator<Item = (usize, &'a FacetRow)>,
    filter: &FacetFilter,
) -> Vec<(&'a str, usize)> {
    let mut found: HashMap<String, (&'a str, Vec<usize>)> = HashMap::new();
    for (package, row) in rows {
        if !filter.accepts_but(row, facet) {
            continue;
        }
        for value in row.values(facet) {
            let (_, packages) = found
                .entry(key(facet, value))
                .or_insert_with(|| (value, Vec::new()));
            if packages.last() != Some(&package) {
                packages.push(package);
            }
        }
    }
    let mut counts: Vec<(&str, usize)> = found
        .into_values()
        .map(|(value, mut packages)| {
            packages.sort_unstable();
            packages.dedup();
            (value, packages.len())
        })
        .collect();
    if facet == "level" {
        let place = |value: &str| LEVELS.iter().position(|level| *level == value);
        counts.sort_by_key(|(value, _)| place(value).unwrap_or(LEVELS.len()));
    } else {
        counts.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    }
    counts
}

/// The value as it is compared.
fn key(facet: &str, value: &str) -> String {
    match facet {
        "provider" => provider(value),
        _ => fold(value),
    }
}

fn fold(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

/// A provider without its legal form.
fn provider(name: &str) -> String {
    let folded = fold(name).replace([',', '.'], "");
    let mut words: Vec<&str> = folded.split(' ').collect();
    while words.len() > 1
        && let Some(last) = words.last()
        && [
            "inc",
            "llc",
            "ltd",
            "gmbh",
            "corp",
            "corporation",
            "limited",
        ]
        .contains(last)
    {
        words.pop();
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use fbc::presentation::{Link, Presentation};

    fn row(provider: &str, categories: &str, level: &str) -> FacetRow {
        let presentation = Presentation {
            provider: Link {
                name: provider.to_owned(),
                url: String::new(),
            },
            categories: categories.split(',').map(str::to_owned).collect(),
            capabilities: level.to_owned(),
            ..Presentation::default()
        };
        FacetRow::new(PackageDetails {
            presentation: Cow::Owned(presentation),
            ..PackageDetails::default()
        })
    }

    fn rows() -> Vec<FacetRow> {
        vec![
            row("Red Hat", "Database", "deep insights"),
            row("Red Hat, Inc.", "database,Networking", "Basic Install"),
            row("Acme LLC", "Networking", "unheard"),
        ]
    }

    fn counted(facet: &'static str, filter: &FacetFilter) -> Vec<(String, usize)> {
        let rows = rows();
        let counts = counts(facet, rows.iter().enumerate(), filter);
        counts
            .into_iter()
            .map(|(value, count)| (value.to_owned(), count))
            .collect()
    }

    #[test]
    fn spellings_of_one_value_are_counted_together() {
        let none = FacetFilter::default();
        let providers = counted("provider", &none);
        assert_eq!(
            providers,
            [("Red Hat".to_owned(), 2), ("Acme LLC".to_owned(), 1)]
        );
        assert_eq!(counted("category", &none)[0], ("Database".to_owned(), 2));
        let levels: Vec<_> = counted("level", &none)
            .into_iter()
            .map(|(level, _)| level)
            .collect();
        assert_eq!(levels, ["Basic Install", "Deep Insights", "other"]);
    }

    #[test]
    fn values_of_one_facet_are_alternatives_and_facets_add_up() {
        let mut filter = FacetFilter::default();
        filter.add("provider", "red hat inc");
        let accepted =
            |filter: &FacetFilter| rows().iter().filter(|row| filter.accepts(row)).count();
        assert_eq!(accepted(&filter), 2);
        // Its own facet still counts the others.
        assert_eq!(counted("provider", &filter).len(), 2);
        assert_eq!(
            counted("category", &filter)[1],
            ("Networking".to_owned(), 1)
        );
        filter.add("category", "Networking");
        assert_eq!(accepted(&filter), 1);
        filter.add("provider", "acme");
        assert_eq!(accepted(&filter), 2);
        assert!(filter.wants("provider", "ACME, Ltd."));
    }
}
