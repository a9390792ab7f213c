//! How large the messages about bundles become, and what is said of those
//! that clients refuse or soon will.
//!
//! `ListBundles` brings a bundle's manifests only when it has no image;
//! `GetBundleForChannel`, which OLM's packageserver asks for the head of each
//! channel, always does.

use std::collections::BTreeMap;

use crate::answers::grpc::entry::{put_entry, put_entry_membership};
use fbc::csv::FIXED;
use fbc::document::{Blobs, BundleBlob};
use fbc::graph::{Channel, Entry, Graph, Package, more, quoted, shown};
use fbc::message::{Ends, Manifests, Part, put_field_header};
use fbc::problem::{Code, Problem, Severity, Subject};

/// What stock gRPC clients refuse, in bytes.
const MAX_MESSAGE: u64 = 4 << 20;
/// From where on a message is near to that: 3.5 MiB.
const NEAR_LIMIT: u64 = 7 << 19;
/// Below this a message is not looked at closely.
const FAR_FROM_LIMIT: u64 = MAX_MESSAGE / 2;

/// How an entry's bundle stands in `ListBundles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listing {
    /// With all it should have.
    Whole,
    /// Without its manifests: clients would refuse the message with them.
    WithoutManifests,
    /// Not at all: clients would refuse it even so.
    Not,
}

impl Listing {
    pub(crate) fn of(
        bundle: &BundleBlob,
        package: &Package,
        channel: &Channel,
        entry: &Entry,
    ) -> Self {
        Self::measured(bundle, package, channel, entry).0
    }

    /// With the size of the whole message in bytes: a little less than that
    /// when it is far from the limit.
    fn measured(
        bundle: &BundleBlob,
        package: &Package,
        channel: &Channel,
        entry: &Entry,
    ) -> (Self, u64) {
        let common = u64::from(bundle.message.common.length);
        let manifests = match &bundle.message.manifests {
            Manifests::Objects { .. } if !bundle.has_image => manifests(bundle, Ends::default()),
            _ => 0,
        };
        let names: usize = entry.skips.iter().map(|skip| skip.len() + 6).sum();
        let names = (names + entry.replaces.len() + entry.skip_range.len()) as u64;
        let about = common + manifests + names;
        // Nearly all are far from the limit, and need no closer look.
        if about < FAR_FROM_LIMIT {
            return (Self::Whole, about);
        }
        let mut entry_part = Vec::new();
        put_entry(&mut entry_part, package, channel, entry);
        let rest = common + entry_part.len() as u64;
        let whole = rest + manifests;
        if whole < MAX_MESSAGE {
            (Self::Whole, whole)
        } else if rest < MAX_MESSAGE {
            (Self::WithoutManifests, whole)
        } else {
            (Self::Not, whole)
        }
    }
}

/// The size of the message that `GetBundleForChannel` answers, in bytes: a
/// little less than that when it is far from the limit.
fn answered(
    bundle: &BundleBlob,
    ends: Ends,
    package: &Package,
    channel: &Channel,
    entry: &Entry,
) -> u64 {
    let about = u64::from(bundle.message.common.length) + manifests(bundle, ends);
    if about + (entry.skip_range.len() as u64) < FAR_FROM_LIMIT {
        return about;
    }
    let mut membership = Vec::new();
    put_entry_membership(&mut membership, package, channel, entry);
    about + membership.len() as u64
}

/// The size of `csvJson` and `object` as fields of a message, in bytes.
fn manifests(bundle: &BundleBlob, ends: Ends) -> u64 {
    match &bundle.message.manifests {
        Manifests::None => 0,
        Manifests::Made { parts, described } => {
            let length = |part: &Part| match part {
                Part::Fixed(number) => {
                    FIXED.get(usize::from(*number)).map_or(0, |text| text.len()) as u64
                }
                Part::Metas(span) | Part::Messages(span) => u64::from(span.length),
            };
            let end = if *described {
                ends.plain
            } else {
                ends.described
            };
            let text = parts.iter().map(length).sum::<u64>() + u64::from(end.length);
            // It is `csvJson` and the only `object`.
            2 * field(text)
        }
        Manifests::Objects { objects, csv } => {
            u64::from(objects.length) + csv.map_or(0, |csv| field(u64::from(csv.length)))
        }
    }
}

/// The size of a field with a value of so many bytes.
fn field(length: u64) -> u64 {
    let mut header = Vec::with_capacity(8);
    put_field_header(&mut header, 1, length as usize);
    length + header.len() as u64
}

/// A problem for each bundle that does not fit into `ListBundles`, and two for
/// each package at most: of heads that clients refuse, and of bundles that are
/// near to that. `ends` are those of each `olm.package` blob.
pub(crate) fn problems(
    blobs: &Blobs,
    graph: &Graph,
    ends: &[Ends],
    paths: &[String],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in &graph.packages {
        let ends = ends.get(package.blob).copied().unwrap_or_default();
        let sizes = Sizes::of(blobs, package, ends);
        sizes.tell(
            &Telling {
                blobs,
                package,
                paths,
            },
            &mut problems,
        );
    }
    problems
}

/// Bundles of a package with large messages, by their index in the catalog's.
#[derive(Default)]
struct Sizes<'a> {
    /// Those that `ListBundles` cannot show as they are.
    listed: BTreeMap<usize, (Listing, &'a str)>,
    /// Heads that `GetBundleForChannel` answers with a message too large.
    refused: BTreeMap<usize, Large<'a>>,
    /// Those that are near to the limit.
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
    fn of(blobs: &Blobs, package: &'a Package, ends: Ends) -> Self {
        let mut sizes = Self::default();
        for channel in &package.channels {
            for (number, entry) in channel.entries.iter().enumerate() {
                let bundle = &blobs.bundles[entry.bundle].blob;
                let (listing, bytes) = Listing::measured(bundle, package, channel, entry);
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
                let bytes = answered(bundle, ends, package, channel, entry);
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
        } = &mut sizes;
        near.retain(|bundle, _| !listed.contains_key(bundle) && !refused.contains_key(bundle));
        sizes
    }

    fn tell(&self, telling: &Telling<'_>, problems: &mut Vec<Problem>) {
        for (bundle, (listing, channel)) in &self.listed {
            let consequence = match listing {
                Listing::Not => "ListBundles leaves it out",
                _ => "ListBundles leaves out its manifests",
            };
            let text = format!(
                "makes a message of 4 MiB or more, which clients refuse, so {consequence}; make \
                 its properties smaller, or give it an image"
            );
            problems.push(telling.problem(Code::BundleTooLarge, *bundle, channel, &text));
        }
        if let Some((bundle, large)) = largest(&self.refused) {
            let text = format!(
                "makes a GetBundleForChannel message of {}, and clients refuse 4 MiB: OLM's \
                 packageserver leaves out the channel of which it is the head; make its manifests \
                 or the package's icon smaller{}",
                mebibytes(large.bytes),
                others(&self.refused)
            );
            problems.push(telling.problem(Code::BundleTooLarge, bundle, large.channel, &text));
        }
        if let Some((bundle, large)) = largest(&self.near) {
            let text = format!(
                "makes a {} message of {}, and clients refuse 4 MiB; make its properties and \
                 manifests or the package's icon smaller before they grow{}",
                large.call,
                mebibytes(large.bytes),
                others(&self.near)
            );
            problems.push(telling.problem(Code::BundleNearLimit, bundle, large.channel, &text));
        }
    }
}

/// What problems about a package's bundles have in common.
struct Telling<'a> {
    blobs: &'a Blobs,
    package: &'a Package,
    paths: &'a [String],
}

impl Telling<'_> {
    fn problem(&self, code: Code, bundle: usize, channel: &str, text: &str) -> Problem {
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
            place: located.place(self.paths),
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

/// The end of a sentence about one of some bundles.
fn others(large: &BTreeMap<usize, Large<'_>>) -> String {
    match large.len() {
        0 | 1 => String::new(),
        count => format!("; so do {} of the package", more(count - 1, "bundle")),
    }
}

fn mebibytes(bytes: u64) -> String {
    // Cut off, not rounded: what is below the limit is never shown as it.
    let hundredths = (bytes * 100) >> 20;
    format!("{}.{:02} MiB", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fbc::document::{ChannelBlob, EntryBlob, Located, PackageBlob};
    use fbc::graph;
    use fbc::message::{BundleMessage, Span};

    const MIB: u32 = 1 << 20;

    fn at<T>(blob: T, meta: u32) -> Located<T> {
        Located {
            blob,
            meta,
            file: 0,
            document: meta + 1,
            line: 1,
        }
    }

    fn span(length: u32) -> Span {
        Span { start: 0, length }
    }

    fn bundle(common: u32, manifests: Manifests, has_image: bool) -> BundleBlob {
        BundleBlob {
            has_image,
            has_objects: !has_image,
            has_csv_metadata: true,
            message: BundleMessage {
                common: span(common),
                manifests,
            },
            ..BundleBlob::default()
        }
    }

    fn objects(objects: u32, csv: u32) -> Manifests {
        Manifests::Objects {
            objects: span(objects),
            csv: Some(span(csv)),
        }
    }

    fn made(length: u32) -> Manifests {
        Manifests::Made {
            parts: [Part::Fixed(0), Part::Metas(span(length))].into(),
            described: false,
        }
    }

    /// The problems of a package whose bundles, the head first, are these.
    fn found(bundles: Vec<BundleBlob>, icon: u32) -> Vec<(Code, String)> {
        let mut blobs = Blobs::default();
        blobs.packages.push(at(
            PackageBlob {
                name: "foo".into(),
                default_channel: "beta".into(),
                ..PackageBlob::default()
            },
            0,
        ));
        let mut channel = ChannelBlob {
            name: "beta".into(),
            package: "foo".into(),
            ..ChannelBlob::default()
        };
        let count = bundles.len();
        for (number, mut blob) in bundles.into_iter().enumerate() {
            let name = |number: usize| format!("foo.v{}", count - number);
            blob.name = name(number);
            blob.package = "foo".into();
            blob.version = format!("{}.0.0", count - number);
            channel.entries.push(EntryBlob {
                name: blob.name.clone(),
                replaces: name(number + 1),
                ..EntryBlob::default()
            });
            blobs.bundles.push(at(blob, number as u32 + 2));
        }
        blobs.channels.push(at(channel, 1));
        let paths = ["foo.json".to_owned()];
        let (graph, problems) = graph::build(&blobs, &paths);
        assert_eq!(problems, []);
        let ends = Ends {
            plain: Span::default(),
            described: span(icon),
        };
        let problems = super::problems(&blobs, &graph, &[ends], &paths);
        for problem in &problems {
            assert_eq!(problem.severity, Severity::Warning);
            assert_eq!(problem.subject.package, "foo");
            assert_eq!(problem.subject.channel, "beta");
            assert!(problem.message.contains(&problem.subject.bundle));
            assert!(problem.place.is_some());
        }
        let told = |problem: Problem| (problem.code, problem.message);
        problems.into_iter().map(told).collect()
    }

    #[test]
    fn messages_that_are_far_from_the_limit_are_no_problem() {
        assert_eq!(found(vec![bundle(1_000, made(1_000), true)], 1_000), []);
        let large = bundle(3 * MIB, objects(MIB / 8, MIB / 8), false);
        assert_eq!(found(vec![large], 0), []);
        // What only `GetBundle` answers, nobody asks for.
        let head = bundle(
            1_000,
            Manifests::Objects {
                objects: span(1),
                csv: Some(span(1)),
            },
            true,
        );
        assert_eq!(found(vec![head, bundle(1_000, made(4 * MIB), true)], 0), []);
    }

    #[test]
    fn a_message_near_the_limit_is_told_of_once_a_package() {
        let near = || bundle(1_000, objects(2 * MIB, 7 * MIB / 4), false);
        let nearer = bundle(1_000, objects(2 * MIB, 15 * MIB / 8), false);
        assert_eq!(
            found(vec![near(), nearer, near()], 0),
            [(
                Code::BundleNearLimit,
                "package \"foo\": channel \"beta\": bundle \"foo.v2\" makes a ListBundles message of \
                 3.87 MiB, and clients refuse 4 MiB; make its properties and manifests or the \
                 package's icon smaller before they grow; so do 2 more bundles of the package"
                    .to_owned()
            )]
        );
        // The text and the icon are there twice.
        let made = bundle(1_000, made(MIB), true);
        let problems = found(vec![made], MIB * 7 / 8);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].0, Code::BundleNearLimit);
        assert!(
            problems[0]
                .1
                .contains("makes a GetBundleForChannel message of 3.75 MiB")
        );
    }

    #[test]
    fn a_head_that_clients_refuse_is_told_of_though_it_is_listed() {
        assert_eq!(
            found(vec![bundle(1_000, made(MIB), true)], MIB),
            [(
                Code::BundleTooLarge,
                "package \"foo\": channel \"beta\": bundle \"foo.v1\" makes a GetBundleForChannel \
                 message of 4.00 MiB, and clients refuse 4 MiB: OLM's packageserver leaves out the \
                 channel of which it is the head; make its manifests or the package's icon smaller"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn what_list_bundles_cannot_show_is_told_of_each_bundle() {
        let old = |common, manifests| bundle(common, manifests, false);
        let problems = found(
            vec![
                bundle(1_000, made(1), true),
                old(1_000, objects(2 * MIB, 2 * MIB)),
                old(4 * MIB, objects(1, 1)),
            ],
            0,
        );
        let ends = ["leaves out its manifests", "leaves it out"];
        assert_eq!(problems.len(), ends.len());
        for ((code, message), end) in problems.iter().zip(ends) {
            assert_eq!(*code, Code::BundleTooLarge);
            assert!(message.contains(end), "{message}");
        }
    }

    #[test]
    fn what_an_entry_adds_counts() {
        let foo = bundle(1_000, made(1), true);
        let entry = |length: usize| Entry {
            name: "foo.v1".into(),
            bundle: 0,
            replaces: String::new(),
            skips: vec!["x".repeat(length)],
            skip_range: String::new(),
        };
        let channel = Channel {
            name: "beta".into(),
            head: 0,
            entries: Vec::new(),
            deprecation: None,
        };
        let package = Package {
            name: "foo".into(),
            meta: 0,
            blob: 0,
            default_channel: 0,
            channels: Vec::new(),
            deprecation: None,
            deprecated_bundles: BTreeMap::new(),
        };
        let listing = |length| Listing::of(&foo, &package, &channel, &entry(length));
        assert_eq!(listing(1_000), Listing::Whole);
        assert_eq!(listing(4 << 20), Listing::Not);
    }
}
