//! Packages of all catalogs by facets: their names, and the count of each value.

use std::collections::BTreeMap;

use axum::response::{IntoResponse as _, Response};

use crate::answers::rest::facets::{FACETS, FacetFilter, FacetRow, counts, parameters};
use crate::queries::records::facets::{FacetRecord, FacetsRecord, ValueRecord};
use crate::serve::http::api::across::search::{Match, search};
use crate::serve::http::api::across::{AcrossQuery, respond};
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, json};
use crate::serve::http::api::response::QueryResponse;

/// The parameters that may be given several times.
pub(crate) static REPEATED: [&str; 9] = parameters(&["catalog"]);
/// The packages by name that a search found, and what they are filtered by.
pub(crate) struct Faceted<'a> {
    /// The packages that were found, by name.
    pub(crate) rows: Vec<FoundPackage<'a>>,
    /// The filter.
    pub(crate) filter: FacetFilter,
    /// The wanted catalogs; all if empty.
    pub(crate) catalogs: Vec<&'a str>,
    /// The facets of the packages of each catalog.
    facets: Vec<&'a [FacetRow]>,
    query: &'a AcrossQuery,
}

/// A package in the catalogs that have it.
pub(crate) struct FoundPackage<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The numbers of each catalog and of the package in it.
    pub(crate) places: Vec<(usize, usize)>,
    /// How well it matches; 0 is best.
    pub(crate) rank: Option<u32>,
}

impl<'a> Faceted<'a> {
    /// The packages that were found, or all; with the filter of the parameters.
    /// Each wanted catalog must exist.
    pub(crate) fn of(query: &'a AcrossQuery, found: Option<&[Match]>) -> Result<Self, Problem> {
        let catalogs: Vec<&str> = query.parameters.all("catalog").collect();
        let names = || query.catalogs.iter().map(|(one, _)| one.name.as_str());
        if let Some(name) = catalogs
            .iter()
            .find(|name| !names().any(|one| one == **name))
        {
            return Err(Problem::unknown("catalog", name, names()));
        }
        let facets = query.catalogs.iter().map(|(_, snapshot)| match snapshot {
            Some(snapshot) => snapshot.facets(),
            None => Ok(&[][..]),
        });
        let facets = facets.collect::<Result<_, _>>()?;
        let mut filter = FacetFilter::default();
        for facet in FACETS {
            let values = query.parameters.all(facet);
            values.for_each(|value| filter.add(facet, value));
        }
        Ok(Self {
            rows: rows(query, found),
            filter,
            catalogs,
            facets,
            query,
        })
    }

    /// Facets of a package, in one of its places.
    pub(crate) fn facets(&self, place: &(usize, usize)) -> Option<&'a FacetRow> {
        self.facets.get(place.0)?.get(place.1)
    }

    fn is_in_wanted_catalog(&self, place: &(usize, usize)) -> bool {
        let name = self.query.catalogs[place.0].0.name.as_str();
        self.catalogs.is_empty() || self.catalogs.contains(&name)
    }

    /// The packages that have all that is wanted.
    pub(crate) fn shown(&self) -> Vec<&FoundPackage<'a>> {
        let rows = self.rows.iter();
        rows.filter(|row| row.places.iter().any(|place| self.accepts(place)))
            .collect()
    }

    /// Whether a package has all that is wanted in one of its places.
    pub(crate) fn accepts(&self, place: &(usize, usize)) -> bool {
        let facets = self.facets(place);
        facets.is_some_and(|facets| self.filter.accepts(facets)) && self.is_in_wanted_catalog(place)
    }

    /// How many packages have each value of a facet.
    pub(crate) fn counts(&self, facet: &'static str) -> Vec<(&'a str, usize)> {
        let rows = self.rows.iter().enumerate().flat_map(|(at, row)| {
            let places = row.places.iter();
            let places = places.filter(|place| self.is_in_wanted_catalog(place));
            places.filter_map(move |place| Some((at, self.facets(place)?)))
        });
        counts(facet, rows, &self.filter)
    }

    /// How many packages each catalog has of those that have all that is wanted.
    pub(crate) fn catalog_counts(&self) -> Vec<(&'a str, usize)> {
        let mut found: BTreeMap<usize, usize> = BTreeMap::new();
        for place in self.rows.iter().flat_map(|row| &row.places) {
            let facets = self.facets(place);
            if facets.is_some_and(|facets| self.filter.accepts(facets)) {
                *found.entry(place.0).or_default() += 1;
            }
        }
        let name = |at: usize| self.query.catalogs[at].0.name.as_str();
        found
            .into_iter()
            .map(|(at, count)| (name(at), count))
            .collect()
    }
}

fn rows<'a>(query: &'a AcrossQuery, found: Option<&[Match]>) -> Vec<FoundPackage<'a>> {
    let mut rows: BTreeMap<&str, FoundPackage<'_>> = BTreeMap::new();
    let mut add = |catalog: usize, package: usize, rank: Option<u32>| {
        let snapshot = query.catalogs[catalog].1.as_ref();
        let Some(package_answers) = snapshot.and_then(|one| one.packages().get(package)) else {
            return;
        };
        let name = &*package_answers.name;
        let row = rows.entry(name).or_insert_with(|| FoundPackage {
            name,
            places: Vec::new(),
            rank,
        });
        row.rank = row.rank.min(rank);
        row.places.push((catalog, package));
    };
    match found {
        Some(found) => {
            for one in found {
                add(
                    one.catalog,
                    one.found.package as usize,
                    Some(one.found.rank),
                );
            }
        }
        None => {
            for (catalog, (_, snapshot)) in query.catalogs.iter().enumerate() {
                let count = snapshot.as_ref().map_or(0, |one| one.packages().len());
                (0..count).for_each(|package| add(catalog, package, None));
            }
        }
    }
    rows.into_values().collect()
}

/// Searches if there are words; `None` stands for all packages.
pub(crate) async fn found(query: &mut AcrossQuery) -> Result<Option<Vec<Match>>, Problem> {
    match query.parameters.get("q") {
        Some(_) => Ok(Some(search(query).await?)),
        None => Ok(None),
    }
}

/// `/api/v1/facets`.
pub(crate) static FACETED: Operation = Operation {
    id: "facets",
    summary: "Packages of all catalogs by facets",
    description: "The packages that match words, if there are any, and all facets; and how many \
packages have each value of a facet. Values of one facet are alternatives, facets \
add up.",
    parameters: &[
        Parameter::text("q", "Words.").longest(1024),
        Parameter::repeated(
            "catalog",
            "Only these catalogs; may be given several times.",
        ),
        FIELDS,
        Parameter::repeated("category", "A category; may be given several times."),
        Parameter::repeated(
            "provider",
            "A provider; its spellings are folded; may be given several times.",
        ),
        Parameter::repeated("level", "A capability level; may be given several times."),
        Parameter::repeated("mode", "An install mode; may be given several times."),
        Parameter::repeated(
            "architecture",
            "An architecture; may be given several times.",
        ),
        Parameter::repeated(
            "feature",
            "A feature of the cluster that it supports; may be given several times.",
        ),
        Parameter::repeated(
            "subscription",
            "A subscription that it needs; may be given several times.",
        ),
        Parameter::repeated(
            "state",
            "`deprecated`, `left out` or `with problems`; may be given several times.",
        ),
    ],
    answer: Answer::Query(QueryAnswer::object::<FacetsRecord<'_>>().undated()),
};

/// The names of the packages, and the values of each facet.
pub(crate) async fn list(request: QueryRequest) -> Response {
    let searched = async {
        let (mut query, context) = request.parse_across((&FACETED).into())?;
        let found = found(&mut query).await?;
        Ok::<_, Problem>((query, context, found))
    };
    let (query, context, found) = match searched.await {
        Ok(searched) => searched,
        Err(problem) => return problem.into_response(),
    };
    let work = move |query: &AcrossQuery| {
        let faceted = Faceted::of(query, found.as_deref())?;
        let shown = faceted.shown();
        let value = |(value, packages)| ValueRecord { value, packages };
        let mut facets = vec![FacetRecord {
            name: "catalog",
            values: faceted.catalog_counts().into_iter().map(value).collect(),
        }];
        facets.extend(FACETS.map(|name| FacetRecord {
            name,
            values: faceted.counts(name).into_iter().map(value).collect(),
        }));
        let answer = FacetsRecord {
            total: shown.len(),
            packages: shown.iter().map(|row| row.name).collect(),
            facets,
        };
        Ok(QueryResponse::object::<FacetsRecord<'_>>(json(&answer)?))
    };
    respond(&LOOKUPS, query, context, Box::new(work)).await
}
