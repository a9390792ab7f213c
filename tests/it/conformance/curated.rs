//! Selections of a real catalog, each a row of what oc-mirror means by an
//! `ImageSetConfiguration`: what has to come of it, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::corpus::{COMMUNITY, compare, path, python, shared_with_clients, unpack};
use crate::support::almanac::Almanac;
use crate::support::needs::{shared, skip_without};
use crate::support::program::Start;

/// The catalogs, each curated from `community`.
const SELECTIONS: &str = r#"
# No packages: the head of every channel of every package.
[[catalog]]
name = "heads"
from = ["community"]

# No packages and full: the catalog as it is.
[[catalog]]
name = "full"
from = ["community"]
full = true

# Packages: the head of every channel of those.
[[catalog]]
name = "named"
from = ["community"]
packages = [{ name = "project-quay" }, { name = "kairos-operator" }]

# Packages and full: all entries of all their channels.
[[catalog]]
name = "named-full"
from = ["community"]
full = true
packages = [{ name = "sailoperator" }, { name = "infinispan" }]

# A range of a package: in each of its channels.
[[catalog]]
name = "ranged"
from = ["community"]
packages = [{ name = "sailoperator", min_version = "1.27.0", max_version = "1.28.3" }]

# Channels: their heads, and the default channel has to be one of them.
[[catalog]]
name = "channels"
from = ["community"]
[[catalog.packages]]
name = "project-quay"
default_channel = "stable-3.16"
channels = [{ name = "stable-3.15" }, { name = "stable-3.16" }]

# Channels with ranges of their own.
[[catalog]]
name = "channel-ranges"
from = ["community"]
[[catalog.packages]]
name = "kairos-operator"
channels = [{ name = "candidate-v2", min_version = "2.0.1", max_version = "2.1.1" }]
[[catalog.packages]]
name = "slurm-operator"
channels = [{ name = "release-1.0", min_version = "1.0.0" }]

# What is needed comes along.
[[catalog]]
name = "closed"
from = ["community"]
dependencies = true
packages = [{ name = "rabbitmq-messaging-topology-operator" }]
"#;

const NAMES: [&str; 8] = [
    "heads",
    "full",
    "named",
    "named-full",
    "ranged",
    "channels",
    "channel-ranges",
    "closed",
];

/// A catalog as its channels and default channels.
#[derive(Debug, Default, PartialEq)]
struct Content {
    /// Package and default channel.
    packages: BTreeMap<String, String>,
    /// Package and channel, and the entries as they stand there.
    channels: BTreeMap<(String, String), Vec<Value>>,
    /// Package and bundle.
    bundles: Vec<(String, String)>,
}

impl Content {
    fn of(almanac: &mut Almanac, catalog: &str) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut content = Self::default();
        for line in almanac.all(catalog).text().lines() {
            let blob: Value = serde_json::from_str(line).unwrap();
            let name = || text(&blob["name"]);
            let key = || (text(&blob["package"]), name());
            match blob["schema"].as_str().unwrap() {
                "olm.package" => {
                    let default = text(&blob["defaultChannel"]);
                    content.packages.insert(name(), default);
                }
                "olm.channel" => {
                    let entries = blob["entries"].as_array().unwrap().clone();
                    content.channels.insert(key(), entries);
                }
                "olm.bundle" => content.bundles.push(key()),
                _ => {}
            }
        }
        content.bundles.sort();
        content
    }

    /// The names of a channel's entries.
    fn entries(&self, package: &str, channel: &str) -> Vec<&str> {
        let entries = &self.channels[&(package.to_owned(), channel.to_owned())];
        let names = entries.iter().map(|entry| entry["name"].as_str().unwrap());
        names.collect()
    }

    fn channels_of(&self, package: &str) -> Vec<&str> {
        let keys = self.channels.keys();
        let keys = keys.filter(|(of, _)| of == package);
        keys.map(|(_, channel)| channel.as_str()).collect()
    }

    /// The bundles that channels have entries for: no more and no fewer may be
    /// in the catalog.
    fn listed(&self) -> Vec<(String, String)> {
        let entries = self.channels.iter().flat_map(|((package, _), entries)| {
            let names = entries.iter().map(|entry| entry["name"].as_str().unwrap());
            names.map(|name| (package.clone(), name.to_owned()))
        });
        let mut listed: Vec<_> = entries.collect();
        listed.sort();
        listed.dedup();
        listed
    }
}

/// The entry of a channel that no other replaces or skips.
fn head(entries: &[Value]) -> &Value {
    let follows = |entry: &Value, name: &Value| {
        entry["replaces"] == *name
            || entry["skips"]
                .as_array()
                .is_some_and(|skips| skips.contains(name))
    };
    let mut heads = entries.iter().filter(|entry| {
        let mut others = entries.iter();
        !others.any(|other| follows(other, &entry["name"]))
    });
    let head = heads.next().unwrap();
    assert!(heads.next().is_none());
    head
}

fn started(folder: &Path) -> Almanac {
    let community = format!(
        "poll = \"never\"\n[[catalog]]\nname = \"community\"\nsource = \"file:{}\"\n",
        folder.display()
    );
    let mut almanac = Almanac::start(&(community + SELECTIONS));
    almanac.program.wait_until_ready();
    almanac
}

#[test]
fn selections_of_a_real_catalog_are_what_oc_mirror_means_by_them() {
    if skip_without("shared") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let catalog = unpack(&shared().unwrap(), COMMUNITY, folder.path());
    let mut almanac = started(&catalog);
    let whole = Content::of(&mut almanac, "community");
    let mut of = |name: &str| {
        let content = Content::of(&mut almanac, name);
        assert_eq!(content.bundles, content.listed(), "{name}");
        content
    };

    // Without packages: all 37 packages and 85 channels, each with its head alone.
    let heads = of("heads");
    assert_eq!(heads.packages, whole.packages);
    assert!(heads.channels.keys().eq(whole.channels.keys()));
    for (key, entries) in &heads.channels {
        // The entry is the head's, with its replaces and skips.
        assert_eq!(*entries, [head(&whole.channels[key]).clone()], "{key:?}");
    }

    // All of it is all of it.
    assert_eq!(of("full"), whole);

    let named = of("named");
    assert!(
        named
            .packages
            .keys()
            .eq(["kairos-operator", "project-quay"])
    );
    assert_eq!(named.channels_of("project-quay").len(), 12);
    assert_eq!(
        named.entries("project-quay", "stable-3.16"),
        ["quay-operator.v3.16.5"]
    );
    assert_eq!(
        named.entries("kairos-operator", "candidate-v2"),
        ["kairos-operator.v2.2.0"]
    );

    let named_full = of("named-full");
    assert!(
        named_full
            .packages
            .keys()
            .eq(["infinispan", "sailoperator"])
    );
    assert_eq!(named_full.channels.len(), 4 + 10);
    for (key, entries) in &named_full.channels {
        assert_eq!(*entries, whole.channels[key], "{key:?}");
    }

    // Channels without a version in the range are gone, the default channel
    // has some; the tail goes on naming what it replaced.
    let ranged = of("ranged");
    assert_eq!(
        ranged.channels_of("sailoperator"),
        ["stable", "stable-1.27", "stable-1.28"]
    );
    assert_eq!(
        ranged.entries("sailoperator", "stable"),
        [
            "sailoperator.v1.27.0",
            "sailoperator.v1.27.1",
            "sailoperator.v1.27.2",
            "sailoperator.v1.27.3",
            "sailoperator.v1.28.0",
            "sailoperator.v1.28.1",
            "sailoperator.v1.28.2",
            "sailoperator.v1.28.3",
        ]
    );
    let stable = &ranged.channels[&("sailoperator".into(), "stable".into())];
    assert_eq!(stable[0]["replaces"], "sailoperator.v1.26.3");
    assert_eq!(head(stable)["name"], "sailoperator.v1.28.3");

    let channels = of("channels");
    assert_eq!(channels.packages["project-quay"], "stable-3.16");
    assert_eq!(channels.channels.len(), 2);
    assert_eq!(
        channels.entries("project-quay", "stable-3.15"),
        ["quay-operator.v3.15.7"]
    );

    // 2.1.1 replaces 2.0.1 and skips 2.1.0, which is in the range. 1.0.1-1 is
    // a pre-release of 1.0.1, so it is in no range that names none.
    let of_channels = of("channel-ranges");
    assert_eq!(
        of_channels.entries("kairos-operator", "candidate-v2"),
        [
            "kairos-operator.v2.0.1",
            "kairos-operator.v2.1.0",
            "kairos-operator.v2.1.1",
        ]
    );
    assert_eq!(
        of_channels.entries("slurm-operator", "release-1.0"),
        ["slurm-operator.v1.0.0", "slurm-operator.v1.0.1"]
    );

    // The head of the topology operator asks for rabbitmq-cluster-operator
    // above 2.0.0 and for the API that it provides: its head does for both.
    let closed = of("closed");
    assert_eq!(
        closed.entries("rabbitmq-cluster-operator", "stable"),
        ["rabbitmq-cluster-operator.v2.22.3"]
    );
    assert_eq!(closed.packages.len(), 2);

    // All of them pass the check, by the way that users have.
    for name in NAMES {
        let url = format!("http://{}/catalogs/{name}", almanac.program.address("http"));
        let checked = Start::new(["check", &url]).run();
        assert!(checked.status.success(), "{name}: {checked:?}");
    }
}

/// What the registry API says of a curated catalog is what it says of the same
/// catalog as a folder; and of one that is taken whole, what the peers say.
#[test]
fn the_registry_api_of_a_curated_catalog_is_consistent() {
    let Some(shared) = shared_with_clients() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let catalog = unpack(&shared, COMMUNITY, folder.path());
    let mut almanac = started(&catalog);
    let grpc = almanac.program.address("grpc").to_string();
    let authority = |name: &str| vec!["--authority".to_owned(), name.to_owned(), "--full".into()];
    let report = compare(
        &shared,
        folder.path(),
        "grpc",
        std::slice::from_ref(&grpc),
        &authority("full"),
    );
    assert!(report.ends_with("0 differ of 2852\n"), "{report}");

    let mut config = String::from("poll = \"never\"\n");
    for name in NAMES {
        let file = folder.path().join(format!("{name}.json"));
        std::fs::write(&file, almanac.all(name).body).unwrap();
        writeln!(
            config,
            "[[catalog]]\nname = {name:?}\nsource = \"file:{}\"",
            file.display()
        )
        .unwrap();
    }
    let mut copied = Almanac::start(&config);
    copied.program.wait_until_ready();
    let other = copied.program.address("grpc").to_string();
    for name in ["heads", "ranged", "channel-ranges", "closed"] {
        let dump = |server: &str, file: &str| {
            let file = path(&folder.path().join(file));
            let mut words = vec!["dump".to_owned(), server.to_owned(), file.clone()];
            words.extend(authority(name));
            python(&shared, "grpcdump.py", &words);
            file
        };
        let (ours, theirs) = (dump(&grpc, "ours.jsonl"), dump(&other, "theirs.jsonl"));
        let report = python(&shared, "grpcdump.py", &["diff".into(), ours, theirs]);
        assert!(report.contains("0 differ of"), "{name}: {report}");
    }
}
