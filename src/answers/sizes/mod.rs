//! Problems of bundles whose messages clients refuse, or soon will.
//!
//! `ListBundles` contains a bundle's manifests only when it has no image.
//! `GetBundleForChannel` always contains them; OLM's packageserver calls it for
//! the head of each channel.

mod listing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds};
pub(crate) use crate::answers::sizes::listing::Listing;
use crate::answers::sizes::listing::{MAX_MESSAGE, answered};
use fbc::document::Blobs;
use fbc::graph::{Channel, Graph, Package};
use fbc::problem::{Code, Problem, Severity, Subject};
use fbc::text::display::{more, quoted, shown};

/// From this size on, a message is near the limit: 3.5 MiB.
const NEAR_LIMIT: u64 = 7 << 19;

/// A problem for each bundle that does not fit into `ListBundles`, and at most
/// two for each package: one about heads that clients refuse, and one about
/// bundles near the limit. `messages` and `ends` belong to the bundles and
/// packages in `blobs`.
pub(crate) fn problems(
    blobs: &Blobs,
    graph: &Graph,
    messages: &[BundleMessage],
    ends: &[CsvEnds],
    paths: &[String],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in &graph.packages {
        let sizes = Sizes::of(blobs, package, messages, ends[package.blob]);
        sizes.report(paths, &mut problems);
    }
    problems
}

/// Bundles of a package with large messages, by their index in the catalog's.
struct Sizes<'a> {
    blobs: &'a Blobs,
    package: &'a Package,
    /// Those that `ListBundles` cannot show completely.
    listed: BTreeMap<usize, (Listing, &'a str)>,
    /// Heads whose answer to `GetBundleForChannel` is too large.
    refused: BTreeMap<usize, Large<'a>>,
    /// Those near the limit.
    near: BTreeMap<usize, Large<'a>>,
}

/// A large message.
#[derive(Clone, Copy)]
struct Large<'a> {
    bytes: u64,
    channel: &'a str,
    call: &'static str,
}

impl<'a> Sizes<'a> {
    fn of(
        blobs: &'a Blobs,
        package: &'a Package,
        messages: &[BundleMessage],
        ends: CsvEnds,
    ) -> Self {
        let mut sizes = Self {
            blobs,
            package,
            listed: BTreeMap::new(),
            refused: BTreeMap::new(),
            near: BTreeMap::new(),
        };
        for channel in &package.channels {
            for (number, entry) in channel.entries.iter().enumerate() {
                let has_image = blobs.bundles[entry.bundle].blob.has_image;
                let message = &messages[entry.bundle];
                let (listing, bytes) =
                    Listing::measured(has_image, message, package, channel, entry);
                if listing != Listing::Whole {
                    let worst = sizes.listed.entry(entry.bundle);
                    let worst = worst.or_insert((listing, &channel.name));
                    if worst.0 < listing {
                        *worst = (listing, &channel.name);
                    }
                } else if bytes >= NEAR_LIMIT {
                    note(&mut sizes.near, entry.bundle, bytes, channel, "ListBundles");
                }
                if number != channel.head {
                    continue;
                }
                let bytes = answered(message, ends, package, channel, entry);
                let large = if bytes >= MAX_MESSAGE {
                    &mut sizes.refused
                } else if bytes >= NEAR_LIMIT {
                    &mut sizes.near
                } else {
                    continue;
                };
                note(large, entry.bundle, bytes, channel, "GetBundleForChannel");
            }
        }
        let Self {
            listed,
            refused,
            near,
            ..
        } = &mut sizes;
        near.retain(|bundle, _| !listed.contains_key(bundle) && !refused.contains_key(bundle));
        sizes
    }

    fn report(&self, paths: &[String], problems: &mut Vec<Problem>) {
        for (bundle, (listing, channel)) in &self.listed {
            let consequence = match listing {
                Listing::Not => "ListBundles leaves it out",
                _ => "ListBundles leaves out its manifests",
            };
            let text = format!(
                "makes a message of 4 MiB or more, which clients refuse, so {consequence}; make \
                 its properties smaller, or give it an image"
            );
            problems.push(self.problem(paths, Code::BundleTooLarge, *bundle, channel, &text));
        }
        if let Some((bundle, large)) = largest(&self.refused) {
            let text = format!(
                "makes a GetBundleForChannel message of {}, and clients refuse 4 MiB: OLM's \
                 packageserver leaves out the channel of which it is the head; make its manifests \
                 or the package's icon smaller{}",
                mebibytes(large.bytes),
                others(&self.refused)
            );
            problems.push(self.problem(paths, Code::BundleTooLarge, bundle, large.channel, &text));
        }
        if let Some((bundle, large)) = largest(&self.near) {
            let text = format!(
                "makes a {} message of {}, and clients refuse 4 MiB; make its properties and \
                 manifests or the package's icon smaller before they grow{}",
                large.call,
                mebibytes(large.bytes),
                others(&self.near)
            );
            problems.push(self.problem(paths, Code::BundleNearLimit, bundle, large.channel, &text));
        }
    }

    fn problem(
        &self,
        paths: &[String],
        code: Code,
        bundle: usize,
        channel: &str,
        text: &str,
    ) -> Problem {
        let located = &self.blobs.bundles[bundle];
        let (package, bundle) = (&self.package.name, &located.blob.name);
        Problem {
            code,
            severity: Severity::Warning,
            subject: Subject {
                package: shown(package),
                channel: shown(channel),
                bundle: shown(bundle),
                ..Subject::default()
            },
            position: located.position(paths),
            message: format!(
                "package {}: channel {}: bundle {} {text}",
                quoted(package),
                quoted(channel),
                quoted(bundle)
            ),
        }
    }
}

/// Keeps the largest message of each bundle.
fn note<'a>(
    large: &mut BTreeMap<usize, Large<'a>>,
    bundle: usize,
    bytes: u64,
    channel: &'a Channel,
    call: &'static str,
) {
    let found = Large {
        bytes,
        channel: &channel.name,
        call,
    };
    let known = large.entry(bundle).or_insert(found);
    if known.bytes < bytes {
        *known = found;
    }
}

fn largest<'a>(large: &BTreeMap<usize, Large<'a>>) -> Option<(usize, Large<'a>)> {
    let all = large.iter().map(|(bundle, large)| (*bundle, *large));
    all.max_by_key(|(_, large)| large.bytes)
}

/// The end of a sentence about one of several bundles.
fn others(large: &BTreeMap<usize, Large<'_>>) -> String {
    match large.len() {
        0 | 1 => String::new(),
        count => format!("; so do {} of the package", more(count - 1, "bundle")),
    }
}

fn mebibytes(bytes: u64) -> String {
    // Rounded down: a size below the limit is never shown as the limit.
    let hundredths = (bytes * 100) >> 20;
    format!("{}.{:02} MiB", hundredths / 100, hundredths % 100)
}
