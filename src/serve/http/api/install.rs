//! The objects that install a package, for OLM v0 and OLM v1, with what either refuses.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;

use crate::answers::rest::install::{Install, is_label, namespace};
use crate::answers::rest::records::ChannelRecord;
use crate::queries::records::install::{InstallRecord, Warning};
use crate::serve::http::api::bundles::{entry, line};
use crate::serve::http::api::operation::{Answer, FIELDS, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{
    LOOKUPS, PackagePath, ParsedQuery, QueryRequest, json, read,
};
use crate::serve::http::api::response::QueryResponse;
use crate::snapshot::Snapshot;
use fbc::presentation::BundleView;

/// The install modes of OLM v0.
pub(crate) const MODES: [&str; 4] = [
    "AllNamespaces",
    "OwnNamespace",
    "SingleNamespace",
    "MultiNamespace",
];
/// The installed version, and the obstacles to its installation.
pub(crate) struct Installation<'a> {
    pub(crate) install: Install<'a>,
    /// The modes that the version supports.
    pub(crate) modes: Vec<String>,
    /// The bundle that is installed first, and its version.
    pub(crate) bundle: (&'a str, &'a str),
    pub(crate) warnings: Vec<Warning>,
    /// What is deprecated, the channel or the version, each with the reason.
    pub(crate) deprecations: Vec<(&'static str, &'a str)>,
}

/// Reads how a package is installed, and hands it to `work`.
pub(crate) fn installation<T>(
    snapshot: &Snapshot,
    (catalog, package): (&str, &str),
    all: &[ChannelRecord<'_>],
    parameters: &Parameters,
    work: impl FnOnce(&Installation<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let default = all.iter().find(|one| one.default).or(all.first());
    let wanted = parameters.get("channel");
    let found = match wanted {
        None => default,
        Some(name) => all.iter().find(|one| one.name == name),
    };
    let channel = found.ok_or_else(|| {
        if all.is_empty() {
            let detail = format!("the package {package} has no channel to install from");
            return Problem::new(StatusCode::NOT_FOUND, "unknown-channel", detail);
        }
        let names = all.iter().map(|one| &*one.name);
        Problem::unknown("channel", wanted.unwrap_or_default(), names)
    })?;
    let pinned = match parameters.get("version") {
        Some(version) => {
            let own = entry(std::slice::from_ref(channel), Some(version));
            own.map_err(|problem| elsewhere(channel, all, version).unwrap_or(problem))?
        }
        None => None,
    };
    let head = channel.entries.iter();
    let mut head = head.filter(|entry| Some(&entry.name) == channel.head.as_ref());
    let first = pinned.or_else(|| head.next());
    let bundle = first.map_or(("", ""), |entry| (&*entry.name, &*entry.version));
    let deprecations = [
        ("channel", channel.deprecation.as_deref()),
        (
            "version",
            first.and_then(|entry| entry.deprecation.as_deref()),
        ),
    ];
    let deprecations = deprecations.into_iter();
    let deprecations = deprecations.filter_map(|(what, reason)| Some((what, reason?)));
    let deprecations: Vec<(&'static str, &str)> = deprecations.collect();
    let line = line(snapshot, package, bundle.0).unwrap_or_default();
    let view = BundleView::new(&line);
    let (modes, suggested) = (
        view.presentation.install_modes,
        view.presentation.suggested_namespace,
    );
    let template = view.presentation.namespace_template;
    let supports = |mode: &str| modes.iter().any(|one| one == mode);
    let best = MODES.into_iter().find(|mode| supports(mode));
    let mode = match parameters.get("mode") {
        None => best.unwrap_or(MODES[0]),
        Some(mode) if MODES.contains(&mode) => mode,
        Some(other) => {
            let detail = format!(
                "mode is one of {}, and not {:?}",
                MODES.join(", "),
                cut(other)
            );
            return Err(Problem::invalid_parameter("mode", detail));
        }
    };
    check_names(parameters)?;
    let install = Install {
        catalog: parameters.get("source").unwrap_or(catalog),
        source_namespace: parameters.get("sourceNamespace").unwrap_or("olm"),
        package,
        channel: &channel.name,
        pinned: pinned.map(|entry| (&*entry.name, &*entry.version)),
        namespace: (parameters.get("namespace")).unwrap_or_else(|| namespace(&suggested, package)),
        mode,
        watched: parameters.get("watched").unwrap_or("default"),
        template: Some(&template),
    };
    // Without any mode, the catalog does not tell them.
    let refuses = |mode: &str| !modes.is_empty() && !supports(mode);
    let mut warnings = Vec::new();
    for (is_so, warning) in [
        (channel.quarantined, Warning::V0LeavesOut),
        (!deprecations.is_empty(), Warning::Deprecated),
        (refuses(mode), Warning::ModeUnsupported),
        (refuses(MODES[0]), Warning::V1NeedsAllNamespaces),
        (
            !view.dependencies.is_empty() || !view.requires.is_empty(),
            Warning::V1RefusesDependencies,
        ),
        // The permissions of the operator are seldom known.
        (true, Warning::V1AccountIsClusterAdmin),
    ] {
        if is_so {
            warnings.push(warning);
        }
    }
    work(&Installation {
        install,
        modes,
        bundle,
        warnings,
        deprecations,
    })
}

/// Refuses names that a cluster would refuse.
fn check_names(parameters: &Parameters) -> Result<(), Problem> {
    for key in ["namespace", "sourceNamespace", "watched", "source"] {
        // The name of a catalog is the value of a label: it has no slash and 63 bytes.
        let good = |text: &str| match key {
            "source" => text.len() <= 63 && text.split('.').all(is_label),
            _ => is_label(text),
        };
        if let Some(given) = parameters.get(key).filter(|text| !good(text)) {
            let detail = format!(
                "{key} is a name of lower-case letters, digits and hyphens, and not {:?}",
                cut(given)
            );
            return Err(Problem::invalid_parameter(key, detail));
        }
    }
    Ok(())
}

/// The problem with a version that other channels have.
fn elsewhere(
    channel: &ChannelRecord<'_>,
    all: &[ChannelRecord<'_>],
    version: &str,
) -> Option<Problem> {
    let has = |one: &&ChannelRecord<'_>| {
        let found = entry(std::slice::from_ref(*one), Some(version));
        found.is_ok_and(|found| found.is_some())
    };
    let others: Vec<&str> = all.iter().filter(has).map(|one| &*one.name).collect();
    let detail = format!(
        "the channel {:?} has no version {:?}; it is in {}",
        cut(&channel.name),
        cut(version),
        cut(&others.join(", "))
    );
    let problem = Problem::new(StatusCode::NOT_FOUND, "unknown-version", detail);
    (!others.is_empty()).then(|| problem.about("version"))
}

/// `/catalogs/{catalog}/api/v1/packages/{package}/install`.
pub(crate) static INSTALL: Operation = Operation {
    id: "install",
    summary: "The objects that install a package",
    description: "For OLM v0 and OLM v1, with what stands against it.",
    parameters: &[
        Parameter::text("channel", "The channel; by default the default channel."),
        Parameter::text(
            "version",
            "The version to begin with, by its number or its bundle; then updates wait for \
approval.",
        ),
        Parameter::choice(
            "mode",
            "The install mode; by default the first that the version supports.",
            &[
                "AllNamespaces",
                "OwnNamespace",
                "SingleNamespace",
                "MultiNamespace",
            ],
        ),
        Parameter::text(
            "namespace",
            "The namespace of the operator; by default the suggested one.",
        ),
        Parameter::text(
            "source",
            "The name of the CatalogSource or ClusterCatalog; by default that of the catalog.",
        ),
        Parameter::text("sourceNamespace", "The namespace of the CatalogSource.").default("olm"),
        Parameter::text(
            "watched",
            "The watched namespace of the modes `SingleNamespace` and `MultiNamespace`.",
        )
        .default("default"),
        FIELDS,
    ],
    answer: Answer::Query(QueryAnswer::object::<InstallRecord<'_>>()),
};

/// How a package is installed.
pub(crate) async fn one(request: QueryRequest, Path(path): Path<PackagePath>) -> Response {
    let work = move |query: &ParsedQuery| work(query, &path);
    request.run(&LOOKUPS, &INSTALL, work).await
}

fn work(query: &ParsedQuery, path: &PackagePath) -> Result<QueryResponse, Problem> {
    let package = query.package(&path.package)?;
    let stored = query.channels(package);
    let all = read(&stored)?;
    let names = (query.catalog(), &*package.name);
    installation(&query.snapshot, names, &all, &query.parameters, |found| {
        let install = &found.install;
        let record = InstallRecord {
            package: install.package,
            channel: install.channel,
            bundle: found.bundle.0,
            version: found.bundle.1,
            pinned: install.pinned.is_some(),
            mode: install.mode,
            modes: &found.modes,
            namespace: install.namespace,
            v0: install.v0(),
            v1: install.v1(),
            v1_without_account: install.v1_without_account(),
            warnings: &found.warnings,
        };
        Ok(QueryResponse::object::<InstallRecord<'_>>(json(&record)?))
    })
}
