//! The images that a version needs.

use axum::response::Response;
use maud::html;

use crate::serve::http::pages::package::subject::{Subject, version_field};
use crate::serve::http::pages::parts::{badge, code, counted, empty, fold, notice, table};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use fbc::presentation::BundleView;

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &["version"], |query| {
        let subject = Subject::of(query)?;
        let stored = subject.channels();
        let all = read(&stored)?;
        let chosen = subject.chosen(query.parameters.get("version"), &all)?;
        let line = chosen.as_ref().and_then(|chosen| subject.line(&chosen.name));
        let line = line.unwrap_or_default();
        let view = BundleView::of(&line);
        let current = chosen.as_ref().map(|chosen| chosen.name.as_str());
        let mut images: Vec<(&str, Vec<&str>)> = Vec::new();
        let own = std::iter::once((view.image.as_str(), "the bundle itself"));
        let related = view.related_images.iter();
        let related = related.map(|image| (image.image.as_str(), image.name.as_str()));
        for (image, name) in own.chain(related).filter(|(image, _)| !image.is_empty()) {
            match images.iter_mut().find(|(known, _)| *known == image) {
                Some((_, names)) => names.push(name),
                None => images.push((image, vec![name])),
            }
        }
        let by_tag = images.iter().filter(|(image, _)| !image.contains('@')).count();
        let list: String = images.iter().flat_map(|(image, _)| [*image, "\n"]).collect();
        let body = html! {
            h2 { "Images " @if let Some(chosen) = &chosen { "of " (chosen.version) } }
            form.inline {
                (version_field("Version", "version", &all, current, None))
                button { "Show" }
            }
            @if images.is_empty() {
                (empty(html! { p { "This version names no image." } }))
            } @else {
                p { (counted(images.len(), "image")) ", " (images.len() - by_tag) " by digest" }
                @if by_tag > 0 {
                    (notice("warning", html! { p { (counted(by_tag, "image")) " by tag: what a tag names may change." } }))
                }
                (table("Images", &["Image", "Used as"], html! {
                    @for (image, names) in &images {
                        tr {
                            th scope="row" { code.break { (image) } @if !image.contains('@') { " " (badge("warning", "tag")) } }
                            td { (names.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(", ")) }
                        }
                    }
                }))
                (fold(html! { "As a list" }, code("Images", &list)))
                p { "For several packages: " a href=(links::with("/mirror", &[("pick", &format!("{}/{}", subject.catalog, subject.record.name))])) { "plan a mirror" } }
            }
        };
        // The images of a package with errors are not selected.
        let twin = subject.api(&if subject.record.quarantined {
            format!("packages/{}", subject.record.name)
        } else {
            format!("images?package={}&heads=true", subject.record.name)
        });
        Ok(subject.page("images", &body).twin(twin))
    })
    .await
}
