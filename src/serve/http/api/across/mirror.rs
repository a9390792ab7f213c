//! The basket of a mirror plan: packages of several catalogs, the images that they need,
//! and the files that copying tools read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::response::Response;
use serde_json::{Value, json};

use crate::answers::images::{Form, ImageListRecord, MirrorSet, Mirrors};
use crate::answers::rest::install::documents;
use crate::queries::records::mirror::{Kept, MirrorRecord, MirroredBundle, MirroredPackage};
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::history::image;
use crate::serve::http::api::operation::{
    Answer, Content, FIELDS, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{QueryRequest, SCANS, json as to_json};
use crate::serve::http::api::response::QueryResponse;
use crate::serve::http::headers::vary_by_host;
use crate::snapshot::Catalog;
use fbc::image_list::{ImageList, ImageVersion};
use fbc::select::{
    self, ChannelSelection, PackageSelection, Reason, Request, Selected, Selection, VersionRange,
};

/// How many packages a basket has at most.
const MOST: usize = 100;
/// An item of the basket: `CATALOG/PACKAGE[/CHANNEL][@MIN..MAX]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pick<'a> {
    pub(crate) text: &'a str,
    pub(crate) catalog: &'a str,
    pub(crate) package: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) min: &'a str,
    pub(crate) max: &'a str,
}

impl<'a> Pick<'a> {
    /// Reads an item; `None` if it is none.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let (name, range) = text.split_once('@').unwrap_or((text, ".."));
        let (min, max) = range.split_once("..")?;
        let (catalog, rest) = name.split_once('/')?;
        let (package, channel) = rest.split_once('/').unwrap_or((rest, ""));
        let good = !catalog.is_empty() && !package.is_empty();
        good.then_some(Self {
            text,
            catalog,
            package,
            channel,
            min,
            max,
        })
    }

    /// Whether both select from one channel. A package without a channel has all.
    fn overlaps(&self, other: &Self) -> bool {
        let is_all = self.channel.is_empty() || other.channel.is_empty();
        (self.catalog, self.package) == (other.catalog, other.package)
            && (is_all || self.channel == other.channel)
    }
}

impl Pick<'_> {
    /// The remark of a problem that is its own.
    fn remark(&self) -> String {
        format!("the item is {:?}", cut(self.text))
    }

    /// The same with a name that the problem proposes.
    pub(crate) fn renamed(&self, problem: &Problem, name: &str) -> String {
        if problem.kind() == "unknown-catalog" {
            let rest = self.text.split_once('/').map_or("", |(_, rest)| rest);
            return format!("{name}/{rest}");
        }
        let start = self.catalog.len() + 1 + self.package.len();
        format!(
            "{}/{name}{}",
            self.catalog,
            self.text.get(start..).unwrap_or_default()
        )
    }

    /// Whether a problem is its own.
    pub(crate) fn has(&self, problem: &Problem) -> bool {
        let detail = problem.detail();
        let of_catalog = format!("there is no catalog {:?}", cut(self.catalog));
        detail.contains(&self.remark())
            || (problem.kind() == "unknown-catalog" && detail.starts_with(&of_catalog))
    }
}

/// A basket: what is mirrored, and where to.
pub(crate) struct Basket<'a> {
    pub(crate) picks: Vec<Pick<'a>>,
    pub(crate) dependencies: bool,
    pub(crate) to: Option<&'a str>,
    query: &'a AcrossQuery,
}

/// The selection of a basket.
pub(crate) struct Plan {
    pub(crate) selected: Vec<Selected>,
    pub(crate) list: ImageList,
}

impl<'a> Basket<'a> {
    /// Reads it. An item that is given twice counts once. `added` are further ones.
    pub(crate) fn read(
        query: &'a AcrossQuery,
        added: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Problem> {
        let parameters = &query.parameters;
        let mut texts: Vec<&str> = parameters.all("pick").collect();
        texts.extend(added);
        let mut seen = std::collections::HashSet::new();
        texts.retain(|text| seen.insert(*text));
        if texts.len() > MOST {
            let detail = format!("a basket has at most {MOST} packages");
            return Err(Problem::invalid_parameter("pick", detail));
        }
        let mut picks = Vec::new();
        for text in &texts {
            picks.push(Pick::read(text).ok_or_else(|| {
                let detail = format!(
                    "{:?} is no CATALOG/PACKAGE[/CHANNEL][@MIN..MAX], such as \
                     community/etcd/stable@0.9.0..; a range needs its two points, also \
                     without a version on one side",
                    cut(text)
                );
                Problem::invalid_parameter("pick", detail)
            })?);
        }
        Ok(Self {
            picks,
            dependencies: parameters.flag("dependencies")?,
            to: parameters.get("to"),
            query,
        })
    }

    /// Selects what is in it.
    pub(crate) fn plan(&self) -> Result<Plan, Problem> {
        let selected = selected(self.query, &self.picks, self.dependencies)?;
        let list = ImageList::from_selections(&selected);
        Ok(Plan { selected, list })
    }

    /// The items by catalog and package.
    fn by_package(&self) -> BTreeMap<&'a str, BTreeMap<&'a str, Vec<&Pick<'a>>>> {
        let mut found: BTreeMap<&str, BTreeMap<&str, Vec<&Pick<'_>>>> = BTreeMap::new();
        for pick in &self.picks {
            let packages = found.entry(pick.catalog).or_default();
            packages.entry(pick.package).or_default().push(pick);
        }
        found
    }

    /// The image of a catalog: that of its source, if it is one and may be told, else the
    /// one that this server has.
    fn reference(&self, catalog: &str) -> String {
        let site = &self.query.site;
        let mut all = self.query.catalogs.iter();
        let found = all.find(|(one, _)| one.name.as_str() == catalog);
        let source = found.and_then(|(one, _)| source(one));
        source.filter(|_| site.options.sources).unwrap_or_else(|| {
            let (_, host) = site.origin.split_once("://").unwrap_or(("", &site.origin));
            format!("{host}/{catalog}:latest")
        })
    }

    /// An `ImageSetConfiguration` (v2) that selects the same.
    pub(crate) fn image_set(&self) -> String {
        let by_package = self.by_package();
        let operators = by_package.iter().map(|(catalog, packages)| {
            let packages = packages.iter().map(|(name, picks)| {
                let mut package = json!({ "name": name });
                let channels = picks.iter().filter(|pick| !pick.channel.is_empty());
                let channels = channels.map(|pick| ranged(json!({ "name": pick.channel }), pick));
                let channels: Vec<Value> = channels.collect();
                if !channels.is_empty() {
                    package["channels"] = channels.into();
                }
                match picks.iter().find(|pick| pick.channel.is_empty()) {
                    Some(whole) => ranged(package, whole),
                    None => package,
                }
            });
            json!({
                "catalog": self.reference(catalog),
                "packages": packages.collect::<Vec<_>>(),
            })
        });
        documents(&[json!({
            "apiVersion": "mirror.openshift.io/v2alpha1",
            "kind": "ImageSetConfiguration",
            "mirror": { "operators": operators.collect::<Vec<_>>() },
        })])
    }

    /// A configuration of almanac that serves what is selected as catalogs.
    pub(crate) fn config(&self) -> String {
        let mut out = String::new();
        for (catalog, packages) in self.by_package() {
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "[[catalog]]\nname = {}\nsource = {}\n\n[[catalog]]\nname = {}\nfrom = [{}]\n",
                text(catalog),
                text(&self.reference(catalog)),
                text(&format!("{catalog}-mirror")),
                text(catalog),
            );
            if self.dependencies {
                out.push_str("dependencies = true\n");
            }
            for (name, picks) in packages {
                let _ = write!(out, "\n[[catalog.packages]]\nname = {}\n", text(name));
                if let Some(whole) = picks.iter().find(|pick| pick.channel.is_empty()) {
                    for (key, version) in ends(whole) {
                        let _ = writeln!(out, "{key} = {}", text(version));
                    }
                }
                let channels = picks.iter().filter(|pick| !pick.channel.is_empty());
                let channels = channels.map(|pick| {
                    let mut table = format!("{{ name = {}", text(pick.channel));
                    for (key, version) in ends(pick) {
                        let _ = write!(table, ", {key} = {}", text(version));
                    }
                    table + " }"
                });
                let channels: Vec<String> = channels.collect();
                if !channels.is_empty() {
                    let _ = writeln!(out, "channels = [{}]", channels.join(", "));
                }
            }
            out.push('\n');
        }
        out
    }
}

/// The ends of a range, as settings name them.
fn ends<'a>(pick: &Pick<'a>) -> impl Iterator<Item = (&'static str, &'a str)> {
    let ends = [("min_version", pick.min), ("max_version", pick.max)];
    ends.into_iter().filter(|(_, version)| !version.is_empty())
}

fn ranged(mut value: Value, pick: &Pick<'_>) -> Value {
    for (key, version) in [("minVersion", pick.min), ("maxVersion", pick.max)] {
        if !version.is_empty() {
            value[key] = version.into();
        }
    }
    value
}

/// A string of TOML. Its escapes are those of JSON, but for the sign 127.
fn text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The image that a catalog follows.
fn source(catalog: &Catalog) -> Option<String> {
    image(&catalog.status().source)
}

impl Plan {
    /// How many images are named by a tag.
    pub(crate) fn tags(&self) -> usize {
        let images = self.list.images.iter();
        images
            .filter(|image| matches!(image.version, ImageVersion::Tag(_)))
            .count()
    }

    /// The bundles between the ends of ranges.
    pub(crate) fn kept(&self) -> Vec<Kept<'_>> {
        let packages = self.selected.iter().flat_map(|one| &one.packages);
        let bundles = packages.flat_map(|package| {
            let bundles = package.bundles.iter();
            bundles.map(move |bundle| (package.name.as_str(), bundle))
        });
        let on_the_way = bundles.filter(|(_, bundle)| {
            let mut reasons = bundle.channels.iter();
            reasons.any(|(_, reason)| *reason == Reason::OnTheWay)
        });
        let kept = on_the_way.map(|(package, bundle)| Kept {
            package,
            bundle: &bundle.name,
            version: &bundle.version,
        });
        kept.collect()
    }

    /// The list in a form.
    pub(crate) fn written(&self, form: Form, to: Option<&str>) -> Result<Vec<u8>, Problem> {
        let bytes = form.write(&self.list, to);
        bytes.map_err(|error| Problem::invalid_parameter("to", error.to_string()))
    }

    /// The objects by which a cluster finds the images in the mirror.
    pub(crate) fn manifests(&self, to: Option<&str>) -> Result<String, Problem> {
        // A mapping leads to the same places, and tells what is wrong with them.
        self.written(Form::Mapping, to)?;
        let mirrors = Mirrors::of([&self.list], to.unwrap_or_default());
        let mirrors =
            mirrors.map_err(|error| Problem::invalid_parameter("to", error.to_string()))?;
        let sets = [MirrorSet::Digests, MirrorSet::Tags].into_iter();
        let objects = sets.filter_map(|set| mirrors.manifest(set, "almanac"));
        Ok(documents(&objects.collect::<Vec<_>>()))
    }

    fn record(&self) -> MirrorRecord<'_> {
        let list = ImageListRecord::new(&self.list);
        let packages = self.selected.iter().flat_map(|one| &one.packages);
        let packages = packages.map(|package| {
            let bundles = package.bundles.iter();
            let bundles = bundles.map(|one| MirroredBundle {
                name: &one.name,
                version: &one.version,
            });
            MirroredPackage {
                catalog: &package.catalog,
                name: &package.name,
                bundles: bundles.collect(),
            }
        });
        let notes = self.selected.iter().flat_map(|one| &one.notes);
        MirrorRecord {
            packages: packages.collect(),
            images: list.images,
            digests: list.digests,
            tags: list.tags,
            kept: self.kept(),
            notes: notes.map(String::as_str).collect(),
            refused: list.refused,
        }
    }
}

/// The selection of the basket, by catalog.
fn selected(
    query: &AcrossQuery,
    picks: &[Pick<'_>],
    dependencies: bool,
) -> Result<Vec<Selected>, Problem> {
    let mut of_catalog: BTreeMap<&str, Vec<&Pick<'_>>> = BTreeMap::new();
    for pick in picks {
        of_catalog.entry(pick.catalog).or_default().push(pick);
    }
    let mut all = Vec::new();
    for (catalog, picks) in of_catalog {
        let (name, snapshot) = query.loaded_named(catalog)?;
        let mut packages: BTreeMap<&str, PackageSelection> = BTreeMap::new();
        for (at, pick) in picks.iter().enumerate() {
            if let Some(other) = picks[..at].iter().find(|other| other.overlaps(pick)) {
                let detail = format!(
                    "{:?} and {:?} select from the same channels; remove one of them",
                    cut(other.text),
                    cut(pick.text)
                );
                return Err(Problem::invalid_parameter("pick", detail));
            }
            if snapshot.package_answers(pick.package).is_none() {
                let names = snapshot.packages().iter().map(|package| &*package.name);
                let problem = Problem::unknown("package", pick.package, names);
                return Err(problem.remarking(&pick.remark()));
            }
            let range = VersionRange::new(pick.min, pick.max)
                .map_err(|error| Problem::invalid_parameter("pick", error.to_string()))
                .map_err(|problem| problem.remarking(&pick.remark()))?;
            let package = packages
                .entry(pick.package)
                .or_insert_with(|| PackageSelection {
                    name: pick.package.to_owned(),
                    ..PackageSelection::default()
                });
            if pick.channel.is_empty() {
                package.range = range;
            } else {
                package.channels.push(ChannelSelection {
                    name: pick.channel.to_owned(),
                    range,
                });
            }
        }
        let names: Vec<&str> = packages.keys().copied().collect();
        // Dependencies may be anywhere in the catalog.
        let wanted: &[&str] = if dependencies { &[] } else { &names };
        let input = snapshot.selection_input(name.as_str(), wanted);
        let request = Request {
            selections: vec![Selection {
                from: vec![0],
                full: false,
                packages: packages.into_values().collect(),
            }],
            dependencies,
            any_default: true,
        };
        let selected = select::select(&[input], &request)
            .map_err(|error| Problem::invalid_parameter("pick", error.to_string()))?;
        all.push(selected);
    }
    Ok(all)
}

/// `/api/v1/mirror`.
pub(crate) static MIRROR: Operation = Operation {
    id: "mirror",
    summary: "The images of a basket of packages",
    description: "As a list, or as a file for a tool that copies images.",
    parameters: &[
        Parameter::repeated(
            "pick",
            "`CATALOG/PACKAGE[/CHANNEL][@MIN..MAX]`, at most 100 times. Without a channel, all \
channels; without a range, their heads.",
        )
        .required()
        .example("community/ferry-operator"),
        Parameter::flag("dependencies", "What the bundles need as well."),
        Parameter::text(
            "to",
            "The registry that a mapping and manifests lead to, with or without a path.",
        )
        .example("mirror.example.com:5000"),
        Parameter::choice(
            "format",
            "How the answer is written: `image-set` is an `ImageSetConfiguration`, `config` a \
configuration of almanac, `manifests` the mirror sets of a cluster.",
            &[
                "json",
                "image-set",
                "config",
                "list",
                "mapping",
                "manifests",
                "skopeo",
            ],
        )
        .default("json"),
        FIELDS,
    ],
    answer: Answer::Query(
        QueryAnswer::object::<MirrorRecord<'_>>()
            .or(&[
                Content::Text("text/plain"),
                Content::Any("application/yaml"),
                Content::Any("application/toml"),
            ])
            .undated(),
    ),
};

/// The images of a basket, or a file for a tool.
pub(crate) async fn list(request: QueryRequest) -> Response {
    let options = request.site.options.clone();
    let mut response = request.run_across(&SCANS, &MIRROR, work).await;
    vary_by_host(response.headers_mut(), &options);
    response
}

fn work(query: &AcrossQuery) -> Result<QueryResponse, Problem> {
    let basket = Basket::read(query, None)?;
    if basket.picks.is_empty() {
        let detail = "name packages, each by pick=CATALOG/PACKAGE[/CHANNEL][@MIN..MAX]";
        return Err(Problem::missing_parameter("pick", detail));
    }
    let plan = basket.plan()?;
    let (bytes, media_type) = match query.parameters.get("format") {
        None | Some("json") => {
            // The fields of its objects are sorted by name.
            let record = json!(plan.record());
            return Ok(QueryResponse::object::<MirrorRecord<'_>>(to_json(&record)?));
        }
        Some("image-set") => (basket.image_set().into_bytes(), "application/yaml"),
        Some("config") => (basket.config().into_bytes(), "application/toml"),
        Some("list") => (plan.written(Form::List, None)?, "text/plain; charset=utf-8"),
        Some("mapping") => (
            plan.written(Form::Mapping, basket.to)?,
            "text/plain; charset=utf-8",
        ),
        Some("manifests") => (plan.manifests(basket.to)?.into_bytes(), "application/yaml"),
        Some("skopeo") => (plan.written(Form::Skopeo, None)?, "application/yaml"),
        Some(other) => {
            let detail = format!(
                "format is json, image-set, config, list, mapping, manifests or skopeo, and not {:?}",
                cut(other)
            );
            return Err(Problem::invalid_parameter("format", detail));
        }
    };
    Ok(QueryResponse::Text {
        bytes: bytes.into(),
        media_type,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_names_a_catalog_and_a_package_and_narrows_both() {
        let read = |text: &'static str| {
            let pick = Pick::read(text)?;
            Some((pick.catalog, pick.package, pick.channel, pick.min, pick.max))
        };
        assert_eq!(read("a/b"), Some(("a", "b", "", "", "")));
        assert_eq!(read("a/b/c@1.0.0.."), Some(("a", "b", "c", "1.0.0", "")));
        assert_eq!(
            read("a/b@1.0.0..2.0.0"),
            Some(("a", "b", "", "1.0.0", "2.0.0"))
        );
        for bad in ["", "a", "a/", "/b", "a/b@1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
