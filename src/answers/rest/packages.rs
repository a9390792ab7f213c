//! The answers to queries over HTTP, and the texts to search by.
//!
//! Packages with errors have answers too, since HTTP also serves their blobs.
//! Each answer tells whether its package is valid.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use crate::answers::catalog::{AnswerInput, EncodedCatalog};
use crate::answers::chunks::ChunkWriter;
use crate::answers::grpc::bundle_message::Manifests;
use crate::answers::index::{PackageAnswers, QuarantinedApi, QueryIndex, SearchRow};
use crate::answers::rest::ordered::{OrderedChannel, OrderedPackage, quarantined, valid};
use crate::answers::rest::records::{IconLink, PackageDetails, PackageSummary, percent_encoded};
use crate::answers::span::Span;
use fbc::document::Blobs;
use fbc::presentation::{PackageView, Presentation};
use fbc::problem::Problem;
use fbc::read::is_base64;

/// The length in bytes of the chunks that are written.
const CHUNK: usize = 128 << 10;
/// The number of bytes of a text that are searched. A text starts with its
/// subject; installation and licence come further down.
const SEARCHED: usize = 1_000;

/// Where queries find their answers.
#[derive(Debug, Default)]
pub struct Queries {
    /// The part of the index.
    pub index: QueryIndex,
    /// The searched texts of each package.
    pub search: Vec<SearchRow>,
}

/// An answer that cannot be written as JSON: a defect of almanac.
#[derive(Debug, thiserror::Error)]
#[error("an answer about the package {package:?} cannot be encoded: {source}")]
pub struct EncodeError {
    /// The package.
    pub package: String,
    /// Why.
    pub source: serde_json::Error,
}

/// Hands the answers to `store`, which appends them to an empty file. `name` is the
/// name of the catalog.
pub fn build<E: From<EncodeError>>(
    name: &str,
    source: &AnswerInput<'_>,
    store: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Queries, E> {
    let EncodedCatalog {
        blobs,
        graph,
        problems,
        ..
    } = source.catalog;
    let mut of_package: HashMap<&str, Vec<&Problem>> = HashMap::new();
    for problem in problems {
        let package = problem.subject.package.as_str();
        of_package.entry(package).or_default().push(problem);
    }
    let mut packages: Vec<_> = (graph.packages.iter())
        .map(|package| valid(package, blobs))
        .collect();
    packages.extend(quarantined(blobs, &graph.quarantined));
    packages.sort_unstable_by_key(|package| package.name);

    let mut out = ChunkWriter::new(0, CHUNK, store);
    let mut queries = Queries::default();
    for (number, package) in (0_u32..).zip(&packages) {
        // Most packages have no problems.
        let problems = of_package.remove(package.name).unwrap_or_default();
        let (answers, row) = put_package(name, source, number, package, problems, &mut out)?;
        queries.index.packages.push(answers);
        queries.search.push(row);
    }
    out.flush()?;
    queries.index.quarantined_apis = quarantined_apis(blobs, &queries.index.packages);
    Ok(queries)
}

/// Appends an answer about a package as a line, and returns where it lies without
/// its line end.
fn put_answer<E: From<EncodeError>>(
    out: &mut ChunkWriter<'_, E>,
    package: &str,
    answer: &impl Serialize,
) -> Result<Span, E> {
    let mut span = out.span(|out| {
        serde_json::to_writer(&mut *out, answer).map_err(|source| EncodeError {
            package: package.to_owned(),
            source,
        })?;
        out.push(b'\n');
        Ok(())
    })?;
    span.length -= 1;
    Ok(span)
}

fn put_package<E: From<EncodeError>>(
    catalog: &str,
    source: &AnswerInput<'_>,
    number: u32,
    package: &OrderedPackage<'_>,
    problems: Vec<&Problem>,
    out: &mut ChunkWriter<'_, E>,
) -> Result<(PackageAnswers, SearchRow), E> {
    let blobs = &source.catalog.blobs;
    let view = PackageView::new((source.lines)(package.meta));
    let default = package
        .channels
        .iter()
        .find(|channel| channel.name == package.default_channel);
    let head = default.and_then(OrderedChannel::head);
    let bundle = head.and_then(|head| head.bundle);
    let mut presentation =
        bundle.map_or_else(Presentation::default, |bundle| presentation(source, bundle));
    if presentation.description.is_empty() {
        presentation.description = view.description;
    }
    let short = presentation.summary(&presentation.description);
    let href = format!(
        "/catalogs/{catalog}/api/v1/packages/{}/icon",
        percent_encoded(package.name)
    );
    // An icon that is not base64 cannot be sent, so nothing links to it.
    let icon = view.icon.as_ref().filter(|(data, _)| is_base64(data));
    let icon = icon.map(|(_, media_type)| IconLink {
        href: href.as_str().into(),
        media_type: media_type.as_str().into(),
    });
    let summary = |versions: bool| PackageSummary {
        name: package.name.into(),
        display_name: presentation.display_name.as_str().into(),
        summary: short.as_str().into(),
        default_channel: package.default_channel.into(),
        head: head.map(|head| head.name.into()),
        version: head.map_or("", |head| head.version(blobs)).into(),
        channels: (package.channels.iter())
            .map(|channel| channel.summary(blobs, versions))
            .collect(),
        deprecation: package.deprecation.map(Cow::Borrowed),
        quarantined: package.quarantined,
        icon: icon.clone(),
    };
    let in_list = put_answer(out, package.name, &summary(false))?;
    let provided = bundle.map_or(&[][..], |bundle| &blobs.bundles[bundle].blob.provides);
    let details = PackageDetails {
        summary: summary(true),
        presentation: Cow::Borrowed(&presentation),
        provided_apis: Cow::Borrowed(provided),
        problems: problems.into_iter().map(Cow::Borrowed).collect(),
    };
    let details = put_answer(out, package.name, &details)?;
    let mut channels: Vec<(Box<str>, Span)> = Vec::with_capacity(package.channels.len());
    for channel in &package.channels {
        let span = put_answer(out, package.name, &channel.record(package, blobs))?;
        channels.push((channel.name.into(), span));
    }
    let answers = PackageAnswers {
        name: package.name.into(),
        meta: package.meta,
        quarantined: package.quarantined,
        summary: in_list,
        details,
        channels,
    };
    let row = SearchRow {
        package: number,
        name: package.name.to_owned(),
        display_name: searched(&presentation.display_name),
        keywords: searched(&presentation.keywords.join(" ")),
        kinds: searched(&kinds(package, blobs)),
        provider: searched(&presentation.provider.name),
        description: searched(&format!("{short} {}", presentation.description)),
    };
    Ok((answers, row))
}

fn presentation(source: &AnswerInput<'_>, bundle: usize) -> Presentation {
    let csv = match &source.catalog.messages[bundle].manifests {
        Manifests::Objects {
            csv: Some(span), ..
        } => span.of(source.messages),
        _ => None,
    };
    let meta = source.catalog.blobs.bundles[bundle].meta;
    Presentation::from_bundle((source.lines)(meta), csv)
}

/// The kinds that heads provide, each also split into its words.
fn kinds(package: &OrderedPackage<'_>, blobs: &Blobs) -> String {
    let heads = package.channels.iter().filter_map(OrderedChannel::head);
    let kinds: BTreeSet<&str> = heads
        .filter_map(|head| head.bundle)
        .flat_map(|bundle| &*blobs.bundles[bundle].blob.provides)
        .map(|api| api.kind.as_str())
        .collect();
    let mut text = String::new();
    for kind in kinds {
        text.push(' ');
        text.push_str(kind);
        let mut before = ' ';
        for sign in kind.chars() {
            if sign.is_uppercase() && !before.is_uppercase() {
                text.push(' ');
            }
            text.push(sign);
            before = sign;
        }
        if text.len() > SEARCHED {
            break;
        }
    }
    text
}

/// The searched part of a text.
fn searched(text: &str) -> String {
    text[..text.floor_char_boundary(SEARCHED)].to_owned()
}

/// The APIs that bundles of quarantined packages provide.
fn quarantined_apis(blobs: &Blobs, packages: &[PackageAnswers]) -> Vec<QuarantinedApi> {
    let numbers: HashMap<&str, u32> = (packages.iter().zip(0..))
        .filter(|(package, _)| package.quarantined)
        .map(|(package, number)| (&*package.name, number))
        .collect();
    let mut apis = Vec::new();
    for located in blobs.bundles.iter().filter(|_| !numbers.is_empty()) {
        let blob = &located.blob;
        let Some(package) = numbers.get(blob.package.as_str()) else {
            continue;
        };
        apis.extend(blob.provides.iter().map(|api| QuarantinedApi {
            api: api.clone(),
            package: *package,
            bundle: blob.name.as_str().into(),
        }));
    }
    apis.sort_unstable();
    apis
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_encoded_is_an_error_and_leaves_nothing_behind() {
        let mut file = Vec::new();
        let mut store = |bytes: &[u8]| {
            file.extend_from_slice(bytes);
            Ok::<_, EncodeError>(())
        };
        let mut out = ChunkWriter::new(0, CHUNK, &mut store);
        // JSON has no keys that are lists.
        let error = put_answer(&mut out, "a", &BTreeMap::from([([1], 2)])).unwrap_err();
        assert!(error.to_string().contains("\"a\""), "{error}");
        let span = put_answer(&mut out, "a", &"x").unwrap();
        out.flush().unwrap();
        assert_eq!(file, b"\"x\"\n");
        assert_eq!(span.of(&file), Some(&b"\"x\""[..]));
    }
}
