//! A mirror plan: the images of a basket of packages. The address is the basket.

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::images::Form;
use crate::answers::rest::records::percent_encoded;
use crate::serve::http::api::across::AcrossQuery;
use crate::serve::http::api::across::mirror::{Basket, Pick, Plan};
use crate::serve::http::api::parameters::MAX_PARAMETERS;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{QueryRequest, SCANS};
use crate::serve::http::pages::frame::Page;
use crate::serve::http::pages::parts::{badge, code, counted, empty, fold, notice, table};
use crate::serve::http::pages::{links, request};
use crate::serve::http::query::unescape;
use fbc::image_list::ImageVersion;
use fbc::text::display::clip;

/// How many images, and how many kept versions, a page lists.
const SHOWN: usize = 200;
/// How many lines of a file a page shows; the download has all.
const LINES: usize = 100;

pub(crate) async fn show(request: QueryRequest) -> Response {
    // Addresses made before the item had fields name one by `add`.
    const KNOWN: &[&str] = &[
        "pick",
        "add",
        "package",
        "channel",
        "min",
        "max",
        "dependencies",
        "to",
    ];
    let request = request.repeating(&["pick", "add"]);
    request::run(request, &SCANS, KNOWN, |query| {
        let own = added(query)?;
        let added = query.parameters.all("add").chain(own.as_deref());
        let basket = Basket::read(query, added)?;
        let plan = basket.plan()?;
        let parameters = parameters(&basket, None);
        let body = html! {
            h1 { "Mirror plan" }
            p.lead { "The images that a set of packages needs, to copy them into another registry." }
            (form(query, &basket))
            @if basket.picks.is_empty() {
                (empty(html! { p { "The basket is empty. Add a package, or follow “+ plan” beside one. " a href="/search" { "All packages" } } }))
            } @else {
                (outputs(&basket, &plan, &parameters)?)
            }
        };
        let page = Page::new("Mirror plan", body);
        Ok(if basket.picks.is_empty() {
            page
        } else {
            page.twin(links::with("/api/v1/mirror", &parameters))
        })
    })
    .await
}

/// The basket as parameters, without one of its items.
fn parameters<'a>(basket: &Basket<'a>, without: Option<&str>) -> Vec<(&'static str, &'a str)> {
    let picks = basket
        .picks
        .iter()
        .filter(|pick| Some(pick.text) != without);
    let mut all: Vec<(&str, &str)> = picks.map(|pick| ("pick", pick.text)).collect();
    if basket.dependencies {
        all.push(("dependencies", "true"));
    }
    all.push(("to", basket.to.unwrap_or_default()));
    all
}

/// The item that the fields of the form name.
fn added(query: &AcrossQuery) -> Result<Option<String>, Problem> {
    let given = |key: &str| query.parameters.get(key).unwrap_or_default().trim();
    let [package, channel, min, max] = ["package", "channel", "min", "max"].map(given);
    if package.is_empty() {
        let is_empty = [channel, min, max].iter().all(|text| text.is_empty());
        let detail = "name the package of the channel or of the versions";
        let missing = || Problem::missing_parameter("package", detail);
        return if is_empty { Ok(None) } else { Err(missing()) };
    }
    let mut item = if package.contains('/') {
        package.to_owned()
    } else {
        format!("{}/{package}", only_catalog(query, package)?)
    };
    if !channel.is_empty() {
        item = format!("{item}/{channel}");
    }
    if !min.is_empty() || !max.is_empty() {
        item = format!("{item}@{min}..{max}");
    }
    Ok(Some(item))
}

/// The catalog of a package that is named without one.
fn only_catalog<'a>(query: &'a AcrossQuery, package: &str) -> Result<&'a str, Problem> {
    let with = query
        .loaded()
        .filter(|(_, snapshot)| snapshot.package_answers(package).is_some());
    let with: Vec<&str> = with.map(|(name, _)| name.as_str()).collect();
    match with[..] {
        [name] => Ok(name),
        [] => {
            let names = query.loaded().flat_map(|(_, snapshot)| snapshot.packages());
            let names = names.map(|one| &*one.name);
            Err(Problem::unknown("package", package, names))
        }
        _ => {
            let items: Vec<String> = with.iter().map(|name| links::pick(name, package)).collect();
            let detail = format!(
                "several catalogs have {:?}; write {}",
                cut(package),
                items.join(" or ")
            );
            Err(Problem::invalid_parameter("package", detail))
        }
    }
}

fn form(query: &AcrossQuery, basket: &Basket<'_>) -> Markup {
    // An added package stands in the basket, so its fields are empty.
    let only = query.catalogs.len() == 1;
    let example = if only { "etcd" } else { "community/etcd" };
    html! {
        h2 { "Basket" }
        // The script keeps this basket: an address may be refused.
        form #basket.fields action="/mirror" data-plan=(links::with("", &parameters(basket, None))) {
            @if !basket.picks.is_empty() {
                ul.basket {
                    @for pick in &basket.picks {
                        li {
                            input type="hidden" name="pick" value=(pick.text);
                            a href=(links::package(pick.catalog, pick.package)) { (pick.catalog) "/" (pick.package) }
                            @if !pick.channel.is_empty() { " " (pick.channel) }
                            @if pick.min.is_empty() && pick.max.is_empty() { " heads" } @else { " " (pick.min) " … " (pick.max) }
                            " " a href=(links::with("/mirror", &parameters(basket, Some(pick.text)))) aria-label={"Remove " (pick.text)} { "remove" }
                        }
                    }
                }
            }
            fieldset.item {
                legend { "Add a package" }
                label { @if only { "Package " } @else { "Catalog/package " } input name="package" maxlength="300" size="24" placeholder=(example); }
                label { "Channel " input name="channel" maxlength="200" size="12" placeholder="all"; }
                label { "From version " input name="min" maxlength="100" size="10" placeholder="head"; }
                label { "To version " input name="max" maxlength="100" size="10" placeholder="head"; }
            }
            label.box { input type="checkbox" name="dependencies" value="true" checked[basket.dependencies]; " with dependencies" }
            label { "Mirror to " input name="to" value=(basket.to.unwrap_or_default()) maxlength="300" size="32" placeholder="mirror.example.com/operators"; }
            button { "Plan" }
        }
        p.soft { "Without versions, the head of each channel is mirrored; with one of them, all from it or up to it. In the address, an item is "
            code { "pick=CATALOG/PACKAGE[/CHANNEL][@MIN..MAX]" } "." }
    }
}

/// The items of a refused address, each with a link that removes it, and similar names
/// for those that are wrong.
pub(super) fn removable(query: &str, problem: &Problem) -> Markup {
    let pairs: Vec<&str> = query.split('&').take(MAX_PARAMETERS).collect();
    let items = pairs.iter().enumerate().filter_map(|(at, pair)| {
        let (key, value) = pair.split_once('=')?;
        let is_item = matches!(key, "pick" | "add") && !value.is_empty();
        let text = is_item.then(|| unescape(value).ok()).flatten()?;
        let rest = [&pairs[..at], &pairs[at + 1..]].concat().join("&");
        let pick = Pick::read(&text);
        let wrong = pick.as_ref().is_none_or(|pick| pick.has(problem));
        let named = pick.filter(|_| wrong).into_iter().flat_map(|pick| {
            let names = problem.suggestions().iter();
            let names = names.map(|name| pick.renamed(problem, name));
            names.collect::<Vec<_>>()
        });
        let instead: Vec<(String, String)> = named
            .map(|new| {
                let pair = format!("pick={}", percent_encoded(&new));
                let all = [&pairs[..at], &[&*pair], &pairs[at + 1..]].concat();
                (new, format!("/mirror?{}", all.join("&")))
            })
            .collect();
        let shown = clip(&text, SHOWN);
        Some((shown, format!("/mirror?{rest}"), wrong, instead))
    });
    let items: Vec<_> = items.collect();
    html! {
        @if !items.is_empty() {
            h2 { "Basket" }
            ul.basket {
                @for (text, link, wrong, instead) in &items {
                    li {
                        (text) " "
                        @if *wrong { (badge("error", "wrong")) " " }
                        a href=(link) aria-label={"Remove " (text)} { "remove" }
                        @for (new, link) in instead { " · " a href=(link) { "take " (new) " instead" } }
                    }
                }
            }
        }
    }
}

fn outputs(
    basket: &Basket<'_>,
    plan: &Plan,
    parameters: &[(&str, &str)],
) -> Result<Markup, Problem> {
    let (selected, list) = (&plan.selected, &plan.list);
    let packages: usize = selected.iter().map(|one| one.packages.len()).sum();
    let of_catalogs = selected.iter().flat_map(|one| &one.packages);
    let bundles: usize = of_catalogs.map(|package| package.bundles.len()).sum();
    let (tags, kept) = (plan.tags(), plan.kept());
    Ok(html! {
        h2 { "Plan" }
        p.lead {
            (counted(packages, "package")) " · " (counted(bundles, "bundle")) " · "
            (counted(list.images.len(), "image"))
            " (" (list.images.len() - tags) " by digest, " (tags) " by tag) · size unknown"
        }
        @if tags > 0 {
            (notice("warning", html! { p { (counted(tags, "image")) " by tag: a tag may name another image later." } }))
        }
        @if !kept.is_empty() {
            p { "Kept between the ends, on the way: "
                @for (at, one) in kept.iter().take(SHOWN).enumerate() {
                    @if at > 0 { ", " }
                    (one.package) " " @if one.version.is_empty() { (one.bundle) } @else { (one.version) }
                }
                @if kept.len() > SHOWN { " …" }
            }
        }
        @for note in selected.iter().flat_map(|one| &one.notes) { (notice("plain", html! { p { (note) } })) }
        @for text in list.refused.iter().take(SHOWN) { (notice("warning", html! { p { (text) } })) }
        (files(basket, plan, parameters)?)
        (table("Images", &["Image", "Used by"], html! {
            @for image in list.images.iter().take(SHOWN) {
                tr {
                    th scope="row" {
                        code.break { (image.pull_spec()) }
                        @if matches!(image.version, ImageVersion::Tag(_)) { " " (badge("warning", "tag")) }
                    }
                    td { @for (at, one) in image.uses.iter().take(3).enumerate() {
                        @if at > 0 { ", " }
                        (one.bundle) @if let Some(name) = one.related.as_ref().filter(|name| !name.is_empty()) { " (" (name) ")" }
                    } @if image.uses.len() > 3 { " …" } }
                }
            }
        }))
        @if list.images.len() > SHOWN { p { "The first " (SHOWN) " are shown; the downloaded list has all." } }
    })
}

/// The files for copying tools.
fn files(basket: &Basket<'_>, plan: &Plan, parameters: &[(&str, &str)]) -> Result<Markup, Problem> {
    let text = |form: Form| {
        let bytes = plan.written(form, basket.to)?;
        Ok::<_, Problem>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let file = |label: &str, form: &'static str, name: &str, content: Markup| {
        let all = [parameters, &[("format", form)]].concat();
        fold(
            html! { (label) },
            html! {
                (content)
                p { a href=(links::with("/api/v1/mirror", &all)) download=(name) { "Download " (name) } }
            },
        )
    };
    // The first two are as long as the basket, the others as all its images.
    let whole =
        |label: &str, form, name: &str, text: &str| file(label, form, name, code(label, text));
    let long =
        |label: &str, form, name: &str, text: &str| file(label, form, name, beginning(label, text));
    Ok(html! {
        (whole("ImageSetConfiguration for oc-mirror", "image-set", "imageset.yaml", &basket.image_set()))
        (whole("Configuration of almanac", "config", "almanac.toml", &basket.config()))
        (long("Image list", "list", "images.txt", &text(Form::List)?))
        @if basket.to.is_some() {
            (long("Mapping for oc image mirror", "mapping", "mapping.txt", &text(Form::Mapping)?))
            (long("Manifests by which a cluster finds the images", "manifests", "mirrors.yaml", &plan.manifests(basket.to)?))
        } @else {
            p.soft { "With a registry to mirror to, there are a mapping and the manifests for a cluster, too." }
        }
    })
}

/// A file, or the beginning of a long one. Only a whole one has a button that copies it.
fn beginning(label: &str, text: &str) -> Markup {
    let mut lines = text.split_inclusive('\n');
    let length: usize = lines.by_ref().take(LINES).map(str::len).sum();
    let rest = lines.count();
    html! {
        @if rest == 0 { (code(label, text)) } @else {
            pre tabindex="0" aria-label=(label) { code { (text[..length]) } }
            p { "… and " (counted(rest, "more line")) }
        }
    }
}
