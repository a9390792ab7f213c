//! Curated catalogs: resolves `from`, `image_set`, `full`, `dependencies` and
//! `[[catalog.packages]]` to sources and selections.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::error::{ConfigError, CuratedError};
use crate::config::resolved::CatalogConfig;
use crate::config::settings::{CatalogSettings, PackageSettings, Settings, read_text};
use crate::config::template::KubeVersion;
use crate::config::unread_document::UnreadDocument;
use crate::ingest::{Curation, Source, SourceError};
use crate::name::CatalogName;
use fbc::select::image_set::ImageSet;
use fbc::select::{
    ChannelSelection, PackageSelection, Request, RequestError, Selection, VersionRange, image_set,
};
use fbc::text::suggest;

/// The source of a catalog; [`resolve`] completes a curated one. The second
/// value is the reason why an image template was not used.
pub(super) fn source(
    written: &CatalogSettings,
    version: Option<&KubeVersion>,
) -> Result<(Source, Option<String>), ConfigError> {
    let template = written.image_template.as_ref();
    let resolved = written.source.resolve(template, version);
    let (source, fallback) = resolved.map_err(|problem| ConfigError::Template { problem })?;
    let curated = matches!(source, Source::Curated(_));
    let only = [
        ("from", !written.from.is_empty()),
        ("image_set", written.image_set.is_some()),
        ("full", written.full),
        ("dependencies", written.dependencies),
        ("packages", !written.packages.is_empty()),
    ];
    let first = only.into_iter().find_map(|(key, set)| set.then_some(key));
    let problem = match (curated, first) {
        (false, Some(key)) => CuratedError::SourceToo(key),
        (true, Some("from" | "image_set")) if written.name.is_none() => CuratedError::NoName,
        (true, Some("from" | "image_set")) | (false, None) => return Ok((source, fallback)),
        (true, _) => CuratedError::NoSource,
    };
    let name = written.name.as_ref().map(CatalogName::as_str);
    Err(ConfigError::curated(
        name.unwrap_or("without a name"),
        problem,
    ))
}

/// Completes the sources of curated catalogs, once the names and sources of all
/// catalogs are known.
pub(super) fn resolve(
    settings: &Settings,
    catalogs: &mut [CatalogConfig],
) -> Result<(), ConfigError> {
    for (number, written) in settings.catalogs.iter().enumerate() {
        if matches!(catalogs[number].source, Source::Curated(_)) {
            let curation = curation(written, catalogs);
            let (curation, unread) = curation
                .map_err(|problem| ConfigError::curated(&catalogs[number].name, problem))?;
            catalogs[number].source = Source::Curated(curation);
            catalogs[number].unread_document = unread;
        }
    }
    for catalog in &*catalogs {
        if let Some(circle) = circle(catalog, catalogs) {
            let circle = CuratedError::Circle(circle);
            return Err(ConfigError::curated(&catalog.name, circle));
        }
    }
    // Elsewhere nothing depends on them, and a changed source restarts no other catalog.
    if settings.database.is_some() {
        set_track_identities(catalogs);
    }
    Ok(())
}

/// Sets the track identities of the sources of curated catalogs.
fn set_track_identities(catalogs: &mut [CatalogConfig]) {
    let mut identities: BTreeMap<CatalogName, String> = BTreeMap::new();
    loop {
        let before = identities.len();
        for catalog in &mut *catalogs {
            if identities.contains_key(&catalog.name) {
                continue;
            }
            if let Source::Curated(curation) = &mut catalog.source {
                let known = curation
                    .from
                    .iter()
                    .map(|name| identities.get(name).cloned());
                let Some(known) = known.collect() else {
                    continue;
                };
                curation.track_identities = known;
            }
            identities.insert(catalog.name.clone(), catalog.track_identity());
        }
        if identities.len() == before {
            return;
        }
    }
}

fn curation(
    written: &CatalogSettings,
    catalogs: &[CatalogConfig],
) -> Result<(Curation, Option<UnreadDocument>), CuratedError> {
    for name in &written.from {
        if !catalogs.iter().any(|catalog| catalog.name == *name) {
            let names = catalogs.iter().map(|catalog| catalog.name.as_str());
            return Err(CuratedError::Unknown {
                proposal: suggest::proposal(name.as_str(), names),
                name: name.clone(),
            });
        }
    }
    let mut from = written.from.clone();
    let mut unread = None;
    let selections = match &written.image_set {
        Some(path) => {
            let beside = [
                ("full", written.full),
                ("packages", !written.packages.is_empty()),
            ];
            if let Some((key, _)) = beside.into_iter().find(|(_, set)| *set) {
                return Err(CuratedError::ImageSetToo(key));
            }
            let set = read_image_set(path)?;
            unread = UnreadDocument::new(path, &set);
            selections_from_image_set(path, &set, &mut from, catalogs)?
        }
        None => vec![Selection {
            from: (0..from.len()).collect(),
            full: written.full,
            packages: (written.packages.iter())
                .map(package)
                .collect::<Result<_, _>>()?,
        }],
    };
    let request = Request {
        selections,
        dependencies: written.dependencies,
        any_default: false,
    };
    request.check()?;
    let curation = Curation {
        from,
        request,
        track_identities: Vec::new(),
    };
    Ok((curation, unread))
}

fn package(written: &PackageSettings) -> Result<PackageSelection, RequestError> {
    let channels = written.channels.iter().map(|channel| {
        Ok(ChannelSelection {
            name: channel.name.clone(),
            range: VersionRange::new(&channel.min_version, &channel.max_version)?,
        })
    });
    Ok(PackageSelection {
        name: written.name.clone(),
        default_channel: written.default_channel.clone(),
        channels: channels.collect::<Result<_, RequestError>>()?,
        range: VersionRange::new(&written.min_version, &written.max_version)?,
    })
}

/// The selections of a file. A `from` with names narrows them to these
/// catalogs; an empty one receives all catalogs of the file.
fn selections_from_image_set(
    path: &Path,
    set: &ImageSet,
    from: &mut Vec<CatalogName>,
    catalogs: &[CatalogConfig],
) -> Result<Vec<Selection>, CuratedError> {
    let narrow = !from.is_empty();
    let (mut selections, mut numbers) = (Vec::new(), Vec::new());
    for (number, operators) in set.operators.iter().enumerate() {
        let source = match image_set_source(path, set, number) {
            Ok(source) => source.absolute(),
            // A catalog outside of `from` need not be configured.
            Err(_) if narrow => continue,
            Err(error) => return Err(error),
        };
        let mut matching = catalogs.iter();
        let found = matching.find(|catalog| catalog.source == source);
        let name = match found {
            Some(catalog) => &catalog.name,
            None if narrow => continue,
            None => {
                return Err(CuratedError::NotFollowed {
                    path: path.to_owned(),
                    place: set.catalog_place(number),
                    catalog: operators.catalog.clone(),
                });
            }
        };
        let index = match from.iter().position(|other| other == name) {
            Some(index) => index,
            None if narrow => continue,
            None => {
                from.push(name.clone());
                from.len() - 1
            }
        };
        let mut selection = operators.selection.clone();
        selection.from = vec![index];
        selections.push(selection);
        numbers.push(number);
    }
    if selections.is_empty() {
        return Err(CuratedError::NoneOfFrom(path.to_owned()));
    }
    check_as_one(path, set, numbers)?;
    Ok(selections)
}

/// Checks that these operators of an `ImageSetConfiguration` can make one catalog.
pub fn check_as_one(
    path: &Path,
    set: &ImageSet,
    operators: impl IntoIterator<Item = usize>,
) -> Result<(), CuratedError> {
    let checked = set.check_as_one(operators);
    checked.map_err(|problem| CuratedError::ImageSet {
        path: path.to_owned(),
        problem: Box::new(problem),
    })
}

/// Reads an `ImageSetConfiguration`.
pub fn read_image_set(path: &Path) -> Result<ImageSet, CuratedError> {
    let text = read_text(path).map_err(|source| CuratedError::Read {
        path: path.to_owned(),
        source,
    })?;
    image_set::read(text.as_bytes()).map_err(|problem| CuratedError::ImageSet {
        path: path.to_owned(),
        problem: Box::new(problem),
    })
}

/// The source that `catalog` of these operators of an `ImageSetConfiguration` means.
pub fn image_set_source(
    path: &Path,
    set: &ImageSet,
    number: usize,
) -> Result<Source, CuratedError> {
    let catalog = set.operators.get(number);
    let catalog = catalog.map_or("", |operators| &operators.catalog);
    let source: Result<Source, SourceError> = match catalog.strip_prefix("oci://") {
        Some(path) => format!("oci:{path}").parse(),
        None => catalog.parse(),
    };
    source.map_err(|problem| CuratedError::ImageSetCatalog {
        path: path.to_owned(),
        place: set.catalog_place(number),
        problem: Box::new(problem),
    })
}

/// The catalog through which another one is made of itself, if any.
fn circle(catalog: &CatalogConfig, catalogs: &[CatalogConfig]) -> Option<CatalogName> {
    let mut left: Vec<&CatalogName> = from(catalog).iter().collect();
    let mut seen = Vec::new();
    while let Some(name) = left.pop() {
        if *name == catalog.name {
            return Some(seen.last().map_or(name, |last| *last).clone());
        }
        if !seen.contains(&name) {
            seen.push(name);
            let next = catalogs.iter().find(|other| other.name == *name);
            left.extend(next.map_or(&[][..], from));
        }
    }
    None
}

fn from(catalog: &CatalogConfig) -> &[CatalogName] {
    match &catalog.source {
        Source::Curated(curation) => &curation.from,
        _ => &[],
    }
}
