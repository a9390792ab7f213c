//! The objects that install a package, for OLM v0 and OLM v1.

use axum::response::Response;
use maud::html;

use crate::answers::rest::install::{Install, namespace};
use crate::serve::http::pages::package::subject::{Subject, channel_field, version_field};
use crate::serve::http::pages::parts::{code, notice};
use crate::serve::http::pages::request;
use crate::serve::http::queries::problem::Problem;
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use fbc::presentation::BundleView;

/// The install modes of OLM v0.
const MODES: [&str; 4] = [
    "AllNamespaces",
    "OwnNamespace",
    "SingleNamespace",
    "MultiNamespace",
];

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &[
        "channel",
        "version",
        "mode",
        "namespace",
        "source",
        "watched",
    ];
    request::run(request, &LOOKUPS, KNOWN, |query| {
        let subject = Subject::of(query)?;
        let (record, parameters) = (&subject.record, &query.parameters);
        let stored = subject.channels();
        let all = read(&stored)?;
        let channel = parameters.get("channel").unwrap_or(&record.default_channel);
        let names = || all.iter().map(|one| &*one.name);
        let Some(shown) = all.iter().find(|one| one.name == channel) else {
            return Err(Problem::unknown("channel", channel, names()));
        };
        let own = std::slice::from_ref(shown);
        let pinned = parameters.get("version");
        let pinned = pinned.map(|version| subject.chosen(Some(version), own));
        let pinned = pinned.transpose()?.flatten();
        let head = shown.head.as_deref().unwrap_or_default();
        let bundle = pinned.as_ref().map_or(head, |pinned| &*pinned.name);
        let line = subject.line(bundle).unwrap_or_default();
        let view = BundleView::of(&line);
        let modes = &view.presentation.install_modes;
        let supports = |mode: &str| modes.iter().any(|one| one == mode);
        let default = MODES.into_iter().find(|mode| supports(mode)).unwrap_or(MODES[0]);
        let mode = parameters.get("mode").unwrap_or(default);
        let suggested = namespace(&record.suggested_namespace, &record.name);
        let install = Install {
            catalog: parameters.get("source").unwrap_or(subject.catalog.as_str()),
            source_namespace: "olm",
            package: &record.name,
            channel,
            pinned: pinned.as_ref().map(|pinned| (&*pinned.name, &*pinned.version)),
            namespace: parameters.get("namespace").unwrap_or(suggested),
            mode,
            watched: parameters.get("watched").unwrap_or("default"),
        };
        let with = query.loaded().filter(|(_, snapshot)| {
            snapshot.package_answers(&record.name).is_some()
        });
        let with = with.count();
        let refuses_dependencies = !view.dependencies.is_empty() || !view.requires.is_empty();
        let current = pinned.as_ref().map(|pinned| pinned.name.as_str());
        let body = html! {
            h2 { "Install" }
            form.fields {
                (channel_field(record, channel))
                (version_field("Version", "version", own, current, Some("head of the channel")))
                label { "Mode "
                    select name="mode" {
                        @for one in MODES {
                            option value=(one) selected[one == mode] disabled[!supports(one)] { (one) }
                        }
                    }
                }
                label { "Namespace " input name="namespace" value=(install.namespace) maxlength="63"; }
                label { "Watched namespace " input name="watched" value=(install.watched) maxlength="63"; }
                label { "CatalogSource " input name="source" value=(install.catalog) maxlength="63"; }
                button { "Update" }
            }
            @if !modes.is_empty() && !supports(mode) {
                (notice("warning", html! { p { "This version does not support the mode " (mode) ". It supports " (modes.join(", ")) "." } }))
            }
            div.pair {
                section { h3 { "OLM v0" } (code("Objects for OLM v0", &install.v0())) }
                section {
                    h3 { "OLM v1" }
                    (code("Objects for OLM v1", &install.v1()))
                    @if !supports("AllNamespaces") {
                        (notice("warning", html! { p { "OLM v1 needs the mode AllNamespaces, which this version does not support." } }))
                    }
                    @if refuses_dependencies {
                        (notice("warning", html! { p { "OLM v1 refuses bundles with dependencies, and this version has some. "
                            a href=(subject.tab("dependencies")) { "Dependencies" } } }))
                    }
                    @if with > 1 {
                        p.soft { (with) " catalogs here have this package. The selector names one, since two of equal priority would stop OLM v1." }
                    }
                }
            }
        };
        Ok(subject
            .page("install", &body)
            .twin(subject.api(&format!("packages/{}", record.name))))
    })
    .await
}
