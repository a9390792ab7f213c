//! A mirror plan: the images of a basket of packages. The address is the basket.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::images::Form;
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, code, counted, empty, fold, notice, table};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::across::AcrossQuery;
use crate::serve::http::queries::parameters::Parameters;
use crate::serve::http::queries::problem::{Problem, cut};
use crate::serve::http::queries::request::{QueryRequest, SCANS};
use fbc::image_list::{ImageList, ImageVersion};
use fbc::select::{
    self, ChannelSelection, PackageSelection, Request, Selected, Selection, VersionRange,
};

/// How many packages a basket has at most.
const MOST: usize = 50;
/// How many images a page lists.
const SHOWN: usize = 200;

/// An item of the basket: `CATALOG/PACKAGE[/CHANNEL][@MIN..MAX]`.
#[derive(Debug, PartialEq, Eq)]
struct Pick<'a> {
    text: &'a str,
    catalog: &'a str,
    package: &'a str,
    channel: &'a str,
    min: &'a str,
    max: &'a str,
}

impl<'a> Pick<'a> {
    fn read(text: &'a str) -> Option<Self> {
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
}

pub(super) async fn show(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["pick", "add", "dependencies", "to"];
    request::run(request, &SCANS, KNOWN, |query| {
        let parameters = &query.parameters;
        // A form adds one; an item that is given twice counts once.
        let mut texts: Vec<&str> = parameters.all("pick").collect();
        texts.extend(parameters.get("add"));
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
                     community/etcd/stable@0.9.0..",
                    cut(text)
                );
                Problem::invalid_parameter("pick", detail)
            })?);
        }
        let dependencies = parameters.flag("dependencies")?;
        let to = parameters.get("to");
        let selected = selected(query, &picks, dependencies)?;
        let list = ImageList::of(&selected);
        let body = html! {
            h1 { "Mirror plan" }
            p.lead { "The images that a set of packages needs, to copy them into another registry." }
            (basket(parameters, &picks, dependencies, to))
            @if picks.is_empty() {
                (empty(html! { p { "The basket is empty. Add a package as " code { "CATALOG/PACKAGE" } ", or open a package and follow “plan a mirror” on its images." } }))
            } @else {
                (outputs(&selected, &list, to)?)
            }
        };
        Ok(Page::new("Mirror plan", body))
    })
    .await
}

/// What the basket selects, by catalog.
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
        let (name, snapshot) = query
            .loaded()
            .find(|(name, _)| name.as_str() == catalog)
            .ok_or_else(|| {
                let names = query.loaded().map(|(name, _)| name.as_str());
                Problem::unknown("catalog", catalog, names)
            })?;
        let mut packages: BTreeMap<&str, PackageSelection> = BTreeMap::new();
        for pick in &picks {
            if snapshot.package_answers(pick.package).is_none() {
                let names = snapshot.packages().iter().map(|package| &*package.name);
                return Err(Problem::unknown("package", pick.package, names));
            }
            let range = VersionRange::new(pick.min, pick.max)
                .map_err(|error| Problem::invalid_parameter("pick", error.to_string()))?;
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

fn basket(
    parameters: &Parameters,
    picks: &[Pick<'_>],
    dependencies: bool,
    to: Option<&str>,
) -> Markup {
    let without = |text: &str| {
        let mut rest: Vec<(&str, &str)> = picks
            .iter()
            .filter(|pick| pick.text != text)
            .map(|pick| ("pick", pick.text))
            .collect();
        if dependencies {
            rest.push(("dependencies", "true"));
        }
        rest.push(("to", parameters.get("to").unwrap_or_default()));
        links::with("/mirror", &rest)
    };
    html! {
        h2 { "Basket" }
        form.fields action="/mirror" {
            @if !picks.is_empty() {
                ul.basket {
                    @for pick in picks {
                        li {
                            input type="hidden" name="pick" value=(pick.text);
                            a href=(links::package(pick.catalog, pick.package)) { (pick.catalog) "/" (pick.package) }
                            @if !pick.channel.is_empty() { " " (pick.channel) }
                            @if pick.min.is_empty() && pick.max.is_empty() { " heads" } @else { " " (pick.min) " … " (pick.max) }
                            " " a href=(without(pick.text)) aria-label={"Remove " (pick.text)} { "remove" }
                        }
                    }
                }
            }
            label { "Add " input name="add" maxlength="300" placeholder="community/etcd/stable@0.9.0.."; }
            label.box { input type="checkbox" name="dependencies" value="true" checked[dependencies]; " with dependencies" }
            label { "Mirror to " input name="to" value=(to.unwrap_or_default()) maxlength="300" placeholder="mirror.example.com/operators"; }
            button { "Plan" }
        }
    }
}

fn outputs(selected: &[Selected], list: &ImageList, to: Option<&str>) -> Result<Markup, Problem> {
    let packages: usize = selected.iter().map(|one| one.packages.len()).sum();
    let of_catalogs = selected.iter().flat_map(|one| &one.packages);
    let bundles: usize = of_catalogs.map(|package| package.bundles.len()).sum();
    let is_tag = |version: &ImageVersion| matches!(version, ImageVersion::Tag(_));
    let tags = list
        .images
        .iter()
        .filter(|image| is_tag(&image.version))
        .count();
    let written = |form: Form| {
        let bytes = form.write(list, to);
        bytes
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| Problem::invalid_parameter("to", error.to_string()))
    };
    Ok(html! {
        h2 { "Plan" }
        p.lead {
            (counted(packages, "package")) " · " (counted(bundles, "bundle")) " · "
            (counted(list.images.len(), "image"))
        }
        @if tags > 0 {
            (notice("warning", html! { p { (counted(tags, "image")) " by tag: what a tag names may change." } }))
        }
        @for note in selected.iter().flat_map(|one| &one.notes) { (notice("plain", html! { p { (note) } })) }
        @for text in &list.refused { (notice("warning", html! { p { (text) } })) }
        (fold(html! { "ImageSetConfiguration for oc-mirror" }, code("ImageSetConfiguration", &written(Form::ImageSet)?)))
        (fold(html! { "Image list" }, code("Image list", &written(Form::List)?)))
        @if to.is_some() {
            (fold(html! { "Mapping for oc image mirror" }, code("Mapping", &written(Form::Mapping)?)))
        }
        (table("Images", &["Image", "Used by"], html! {
            @for image in list.images.iter().take(SHOWN) {
                tr {
                    th scope="row" {
                        code.break { (image.pull_spec()) }
                        @if is_tag(&image.version) { " " (badge("warning", "tag")) }
                    }
                    td { @for (at, one) in image.uses.iter().take(3).enumerate() {
                        @if at > 0 { ", " }
                        (one.bundle) @if let Some(name) = &one.related { " (" (name) ")" }
                    } @if image.uses.len() > 3 { " …" } }
                }
            }
        }))
        @if list.images.len() > SHOWN { p { "The first " (SHOWN) " are shown; the list above has all." } }
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
