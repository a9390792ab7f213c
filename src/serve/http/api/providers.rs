//! The channel entries that provide an API, one by one or by package, of one
//! catalog or of several.

use std::collections::BTreeSet;

use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

use crate::answers::index::PackageAnswers;
use crate::answers::rest::records::ChannelRecord;
use crate::queries::record::Record;
use crate::queries::records::providers::{ChannelProvider, PackageProvider, Provider};
use crate::serve::http::api::operation::{
    Answer, CONTINUE, FIELDS, LIMIT, Operation, Parameter, QueryAnswer,
};
use crate::serve::http::api::parameters::{Content, Page, Parameters};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::api::request::{LOOKUPS, QueryRequest, channels, json, read};
use crate::serve::http::api::response::HINTS;
use crate::serve::http::api::response::{Notes, QueryResponse};
use crate::snapshot::{Provided, Snapshot};
use fbc::document::Gvk;
use fbc::text::suggest;

/// The wanted API.
struct Wanted<'a> {
    group: Option<&'a str>,
    version: Option<&'a str>,
    kind: Option<&'a str>,
    only_heads: bool,
    by_package: bool,
}

/// A page of items, in the making: only the items of the page are kept, the
/// others are counted.
struct Items {
    page: Page,
    kept: Vec<Bytes>,
    total: usize,
}

/// The parameters over one catalog and over all.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::text("group", "The API group."),
    Parameter::text("version", "The API version."),
    Parameter::text("kind", "The kind.").example("Crossing"),
    Parameter::flag("heads", "Only heads of channels.").default("false"),
    Parameter::choice(
        "by",
        "One item for each entry, or for each package.",
        &["entry", "package"],
    )
    .default("entry"),
    LIMIT,
    CONTINUE,
    FIELDS,
];

/// `/catalogs/{catalog}/api/v1/providers`.
pub(crate) static PROVIDERS: Operation = Operation {
    id: "providers",
    summary: "Who provides an API",
    description: "The entries of channels whose bundles provide an API, by package, channel and the \
channel's order. `kind` or `group` has to be given.",
    parameters: PARAMETERS,
    answer: Answer::Query(QueryAnswer::list_of_either::<
        Provider<'_>,
        PackageProvider<'_>,
    >("ProviderList", HINTS)),
};

/// The entries that provide an API, by package, channel and position in the
/// channel; or the packages that have such entries.
pub(crate) async fn of_one(request: QueryRequest) -> Response {
    request
        .run(&LOOKUPS, &PROVIDERS, |query| {
            let page = query.parameters.page(Content::of(&query.snapshot))?;
            let catalog = [(None, &*query.snapshot)];
            list(&query.parameters, page, catalog, Notes::default())
        })
        .await
}

/// The same of several catalogs, whose names the items have.
pub(super) fn list<'a>(
    parameters: &Parameters,
    page: Page,
    catalogs: impl IntoIterator<Item = (Option<&'a str>, &'a Snapshot)>,
    mut notes: Notes,
) -> Result<QueryResponse, Problem> {
    let wanted = Wanted::read(parameters)?;
    let catalogs: Vec<_> = catalogs.into_iter().collect();
    let mut items = Items {
        page,
        kept: Vec::new(),
        total: 0,
    };
    for (catalog, snapshot) in &catalogs {
        wanted.find(*catalog, snapshot, &mut items)?;
    }
    let Items {
        kept: items, total, ..
    } = items;
    if total == 0 {
        let snapshots = catalogs.iter().map(|(_, snapshot)| *snapshot);
        (notes.hint, notes.suggestions) = wanted.hint(snapshots);
    }
    Ok(QueryResponse::List {
        items,
        total,
        next: page.next(total),
        fields: if wanted.by_package {
            PackageProvider::fields()
        } else {
            Provider::fields()
        },
        notes,
    })
}

impl<'a> Wanted<'a> {
    fn read(parameters: &'a Parameters) -> Result<Self, Problem> {
        let [group, version, kind] = ["group", "version", "kind"].map(|name| parameters.get(name));
        if group.is_none() && kind.is_none() {
            return Err(Problem::missing_parameter(
                "kind",
                "name the API by \"kind\" or \"group\", or by both, and by \"version\" if it \
                 matters",
            ));
        }
        let by_package = match parameters.get("by") {
            None | Some("entry") => false,
            Some("package") => true,
            Some(other) => {
                let detail = format!("by is entry or package, and not {:?}", cut(other));
                return Err(Problem::invalid_parameter("by", detail));
            }
        };
        Ok(Self {
            group,
            version,
            kind,
            only_heads: parameters.flag("heads")?,
            by_package,
        })
    }

    fn accepts(&self, api: &Gvk) -> bool {
        self.group.is_none_or(|group| api.group == group)
            && self.version.is_none_or(|version| api.version == version)
            && self.kind.is_none_or(|kind| api.kind == kind)
    }

    /// Adds the items of a catalog.
    fn find(
        &self,
        catalog: Option<&str>,
        snapshot: &Snapshot,
        items: &mut Items,
    ) -> Result<(), Problem> {
        let provided = snapshot.provided(|api| self.accepts(api));
        for of_package in provided.chunk_by(|one, other| one.package == other.package) {
            let Some(package) = snapshot.package_answers(of_package[0].package) else {
                continue;
            };
            let stored = channels(snapshot, package);
            let channels = read(&stored)?;
            if self.by_package {
                self.package(catalog, package, &channels, of_package, items)?;
            } else {
                self.entries(catalog, package, &channels, of_package, items)?;
            }
        }
        Ok(())
    }

    /// Adds an item for each entry of a package and each API that it provides.
    fn entries(
        &self,
        catalog: Option<&str>,
        package: &PackageAnswers,
        channels: &[ChannelRecord<'_>],
        of_package: &[Provided<'_>],
        items: &mut Items,
    ) -> Result<(), Problem> {
        for channel in channels {
            for entry in &channel.entries {
                let head = channel.head.as_ref() == Some(&entry.name);
                if self.only_heads && !head {
                    continue;
                }
                for provided in of_bundle(of_package, &entry.name) {
                    items.add(|| Provider {
                        catalog,
                        package: &package.name,
                        channel: &channel.name,
                        bundle: &entry.name,
                        version: &entry.version,
                        head,
                        default_channel: channel.default,
                        deprecation: entry.deprecation.as_deref(),
                        quarantined: channel.quarantined,
                        api: provided.api,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Adds an item for a package, if it has such entries.
    fn package(
        &self,
        catalog: Option<&str>,
        package: &PackageAnswers,
        channels: &[ChannelRecord<'_>],
        of_package: &[Provided<'_>],
        items: &mut Items,
    ) -> Result<(), Problem> {
        let mut apis = BTreeSet::new();
        let mut with = Vec::new();
        for channel in channels {
            let is_head = |name: &str| channel.head.as_deref() == Some(name);
            let provides = |name: &str| !of_bundle(of_package, name).is_empty();
            let entries = channel.entries.iter().filter(|entry| {
                (!self.only_heads || is_head(&entry.name)) && provides(&entry.name)
            });
            let entries: Vec<_> = entries.collect();
            let Some(first) = entries.first() else {
                continue;
            };
            for entry in &entries {
                apis.extend(of_bundle(of_package, &entry.name).iter().map(|it| it.api));
            }
            with.push(ChannelProvider {
                name: &channel.name,
                default: channel.default,
                bundle: &first.name,
                version: &first.version,
                head: is_head(&first.name),
                entries: entries.len(),
            });
        }
        if with.is_empty() {
            return Ok(());
        }
        items.add(|| PackageProvider {
            catalog,
            package: &package.name,
            entries: with.iter().map(|channel| channel.entries).sum(),
            channels: with,
            quarantined: package.quarantined,
            apis,
        })
    }

    /// Why there are no items, and similar names.
    fn hint<'s>(
        &self,
        snapshots: impl Iterator<Item = &'s Snapshot>,
    ) -> (Option<String>, Vec<String>) {
        type Part = fn(&Gvk) -> &str;
        let apis: BTreeSet<&Gvk> = snapshots.flat_map(Snapshot::apis).collect();
        let mut left: Vec<&Gvk> = apis.into_iter().collect();
        let parts: [(&str, Option<&str>, Part); 3] = [
            ("kind", self.kind, |api| &api.kind),
            ("group", self.group, |api| &api.group),
            ("version", self.version, |api| &api.version),
        ];
        for (what, wanted, part) in parts {
            let Some(wanted) = wanted else { continue };
            let names: BTreeSet<&str> = left.iter().map(|api| part(api)).collect();
            left.retain(|api| part(api) == wanted);
            if left.is_empty() {
                let similar = suggest::similar(wanted, names.iter().copied());
                let end = suggest::proposal_or_all(wanted, names);
                let hint = format!(
                    "no bundle provides an API of the {what} {:?}{end}",
                    cut(wanted)
                );
                return (Some(hint), similar.into_iter().map(str::to_owned).collect());
            }
        }
        let hint = if self.only_heads {
            "no head of a channel provides this API; other entries do: leave out heads"
        } else {
            "no entry of a channel provides this API; only bundles outside of channels do"
        };
        (Some(hint.to_owned()), Vec::new())
    }
}

impl Items {
    /// Counts an item, and keeps it if it is on the page.
    fn add<T: Serialize>(&mut self, item: impl FnOnce() -> T) -> Result<(), Problem> {
        let last = self.page.offset.saturating_add(self.page.limit);
        if (self.page.offset..last).contains(&self.total) {
            self.kept.push(json(&item())?);
        }
        self.total += 1;
        Ok(())
    }
}

/// The APIs of a bundle, among those of its package, sorted by bundle.
fn of_bundle<'a, 'b>(of_package: &'b [Provided<'a>], bundle: &str) -> &'b [Provided<'a>] {
    let start = of_package.partition_point(|provided| provided.bundle < bundle);
    let end = of_package.partition_point(|provided| provided.bundle <= bundle);
    &of_package[start..end]
}
