//! The objects that install a package, for OLM v0 and OLM v1.

use axum::response::Response;
use maud::{Markup, html};

use crate::answers::rest::install::documents;
use crate::answers::rest::records::ChannelRecord;
use crate::queries::records::install::Warning;
use crate::serve::http::api::install::{INSTALL, Installation, MODES, installation};
use crate::serve::http::api::parameters::Known;
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, read};
use crate::serve::http::pages::package::subject::{Subject, channel_field, version_field};
use crate::serve::http::pages::parts::{code, empty, fold, notice};
use crate::serve::http::pages::{links, request};

pub(crate) async fn show(request: QueryRequest) -> Response {
    request::run(request, &LOOKUPS, &INSTALL, |query| {
        let subject = Subject::of(query)?;
        let (record, parameters) = (&subject.record, &query.parameters);
        let stored = subject.channels();
        let all = read(&stored)?;
        if all.is_empty() {
            let body = html! {
                h2 { "Install" }
                (empty(html! { p { "This package has no channel, so nobody can install it." } }))
            };
            return Ok(subject.page("install", &body));
        }
        let names = (subject.catalog.as_str(), &*record.summary.name);
        installation(subject.snapshot, names, &all, parameters, |found| {
            let with = query
                .loaded()
                .filter(|(_, snapshot)| snapshot.package_answers(&record.summary.name).is_some());
            let with = with.count();
            let body = html! {
                h2 { "Install" }
                (form(&subject, &all, found))
                (remarks(found))
                div.pair {
                    section { (v0(&subject, found)) }
                    section { (v1(&subject, found, with)) }
                }
            };
            let given: Vec<(&str, &str)> = Known::from(&INSTALL)
                .names()
                .into_iter()
                .filter_map(|key| Some((key, parameters.get(key)?)))
                .collect();
            let twin = links::with(&subject.own_api("/install"), &given);
            Ok(subject.page("install", &body).twin(twin))
        })
    })
    .await
}

/// The choices of an installation.
fn form(subject: &Subject<'_>, all: &[ChannelRecord<'_>], found: &Installation<'_>) -> Markup {
    let (install, modes) = (&found.install, &found.modes);
    let own = all.iter().filter(|one| one.name == install.channel);
    let own: Vec<_> = own.cloned().collect();
    let pinned = install.pinned.map(|(name, _)| name);
    let is_refused = |mode: &str| !modes.is_empty() && !modes.iter().any(|one| one == mode);
    html! {
        form.fields {
            (channel_field(&subject.record.summary, install.channel))
            (version_field("Version", "version", &own, pinned, Some("head of the channel")))
            label { "Mode "
                select name="mode" {
                    @for one in MODES {
                        option value=(one) selected[one == install.mode] disabled[is_refused(one)] { (one) }
                    }
                }
            }
            @for (label, name, value) in [
                ("Namespace ", "namespace", install.namespace),
                ("Watched namespace ", "watched", install.watched),
                ("CatalogSource ", "source", install.catalog),
                ("Its namespace ", "sourceNamespace", install.source_namespace),
            ] {
                label { (label) input name=(name) value=(value) maxlength="63"; }
            }
            button { "Update" }
        }
    }
}

/// What to know before, under both versions of Operator Lifecycle Manager.
fn remarks(found: &Installation<'_>) -> Markup {
    let (install, modes) = (&found.install, &found.modes);
    let template = install.template.filter(|one| one.name == install.namespace);
    html! {
        @if let Some(template) = template {
            p.soft { "The author of the operator suggests the namespace " code { (template.name) } ", with its labels and annotations." }
        }
        @for (what, reason) in &found.deprecations {
            (notice("warning", html! { p { "This " (what) " is deprecated: " (reason) } }))
        }
        @if found.warnings.contains(&Warning::ModeUnsupported) {
            (notice("warning", html! { p { "This version does not support the mode " (install.mode) ". It supports " (modes.join(", ")) "." } }))
        }
    }
}

fn v0(subject: &Subject<'_>, found: &Installation<'_>) -> Markup {
    html! {
        h3 { "OLM v0" }
        @if found.warnings.contains(&Warning::V0LeavesOut) {
            (notice("error", html! { p { "OLM v0 does not see this package: its errors leave it out of the gRPC API. "
                a href=(subject.tab("problems")) { "See the problems" } } }))
        }
        (code("Objects for OLM v0", &documents(&found.install.v0())))
    }
}

/// `with` is the number of catalogs that have the package.
fn v1(subject: &Subject<'_>, found: &Installation<'_>, with: usize) -> Markup {
    let warns = |warning| found.warnings.contains(&warning);
    let dependencies = subject.tab("dependencies");
    html! {
        h3 { "OLM v1" }
        (code("Objects for OLM v1", &documents(&found.install.v1())))
        @if warns(Warning::V1NeedsAllNamespaces) {
            (notice("warning", html! { p { "OLM v1 needs the mode AllNamespaces, which this version does not support." } }))
        }
        @if warns(Warning::V1RefusesDependencies) {
            (notice("warning", html! { p { "OLM v1 refuses bundles with dependencies, and this version has some. "
                a href=(dependencies) { "Dependencies" } } }))
        }
        @if with > 1 {
            p.soft { (with) " catalogs here have this package. The selector names one, since two of equal priority would stop OLM v1." }
        }
        @if warns(Warning::V1AccountIsClusterAdmin) {
            (notice("warning", html! { p { "The account has all rights: it is bound to the role cluster-admin. Narrower ones are enough where the "
                a href=(dependencies) { "permissions of the operator" } " are known." } }))
        }
        (fold(html! { "Newer OLM v1, without an account" }, html! {
            p { "Releases since the middle of 2026 install with an account of their own, and warn of another one. Earlier ones, such as those of OpenShift 4.18 to 4.20, refuse an extension without it." }
            (code("Objects for newer OLM v1", &documents(&found.install.v1_without_account())))
        }))
    }
}
