//! The images that a version needs.

use std::collections::HashMap;

use axum::response::Response;
use maud::html;

use crate::serve::http::api::request::{LOOKUPS, QueryRequest};
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::parts::{badge, code, counted, empty, fold, notice, table};
use crate::serve::http::pages::{links, request};

/// How many images a page lists. Real packages have 300.
const SHOWN: usize = 2_000;

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        subject.of_version(query, |shown| {
            let view = &shown.view;
            let mut images: Vec<(&str, Vec<&str>)> = Vec::new();
            let mut numbers: HashMap<&str, usize> = HashMap::new();
            let own = std::iter::once((view.image.as_str(), "the bundle itself"));
            let related = view.related_images.iter();
            let related = related.map(|image| (image.image.as_str(), image.name.as_str()));
            for (image, name) in own.chain(related).filter(|(image, _)| !image.is_empty()) {
                let number = *numbers.entry(image).or_insert(images.len());
                match images.get_mut(number) {
                    Some((_, names)) => names.push(name),
                    None => images.push((image, vec![name])),
                }
            }
            let by_tag = images.iter().filter(|(image, _)| !image.contains('@')).count();
            let shown_images = &images[..images.len().min(SHOWN)];
            let list: String = shown_images.iter().flat_map(|(image, _)| [*image, "\n"]).collect();
            // The images of a package with errors are not selected.
            let whole = (!subject.record.summary.quarantined).then(|| {
                let name = &*subject.record.summary.name;
                links::with(&subject.api("images"), &[("package", name), ("heads", "true")])
            });
            let body = html! {
                (shown.heading("Images"))
                @if images.is_empty() {
                    (empty(html! { p { "This version names no image." } }))
                } @else {
                    p { (counted(images.len(), "image")) ", " (images.len() - by_tag) " by digest" }
                    @if by_tag > 0 {
                        (notice("warning", html! { p { (counted(by_tag, "image")) " by tag: a tag may name another image later." } }))
                    }
                    (table("Images", &["Image", "Used as"], html! {
                        @for (image, names) in shown_images {
                            tr {
                                th scope="row" { code.break { (image) } @if !image.contains('@') { " " (badge("warning", "tag")) } }
                                td { (names.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(", ")) }
                            }
                        }
                    }))
                    @if images.len() > SHOWN { p { "The first " (SHOWN) " are shown and listed; the JSON has all." } }
                    (fold(html! { "As a list" }, code("Images", &list)))
                    @if let Some(whole) = &whole {
                        p { "The heads of all channels: "
                            a href=(format!("{whole}&format=list")) { "list" } " · "
                            a href=(format!("{whole}&format=skopeo")) { "for skopeo" } " · "
                            a href=(whole) { "as JSON" }
                        }
                        p { "For several packages: " a href=(subject.plan()) data-pick=(links::pick(subject.catalog.as_str(), &subject.record.summary.name)) { "add it to the mirror plan" }
                            span.soft { " (without a script, this begins a new plan)" } }
                    }
                }
            };
            let twin = match shown.name() {
                Some(name) => subject.bundle_api(name, &[("fields", "name,image,relatedImages")]),
                None => subject.own_api(""),
            };
            Ok(subject.page("images", &body).twin(twin))
        })
    })
    .await
}
