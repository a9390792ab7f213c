//! The Operator Registry API of the running program, as its clients use it,
//! and as somebody uses it who does not.

use std::time::Duration;

use almanac::proto;
use prost::Message as _;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1 as reflection;

use crate::support::catalog::{Bundle, Catalog, Format, bundle, entry};
use crate::support::grpc::{Client, next, rest};
use crate::support::http;
use crate::support::program::PATIENCE;
use crate::support::served::{Folders, Served};

const LIST_PACKAGES: &str = "/api.Registry/ListPackages";
const LIST_BUNDLES: &str = "/api.Registry/ListBundles";
const GET_PACKAGE: &str = "/api.Registry/GetPackage";
const GET_BUNDLE: &str = "/api.Registry/GetBundle";
const FOR_CHANNEL: &str = "/api.Registry/GetBundleForChannel";
const THAT_REPLACES: &str = "/api.Registry/GetBundleThatReplaces";
const ENTRIES_THAT_REPLACE: &str = "/api.Registry/GetChannelEntriesThatReplace";
const THAT_PROVIDE: &str = "/api.Registry/GetChannelEntriesThatProvide";
const LATEST_THAT_PROVIDE: &str = "/api.Registry/GetLatestChannelEntriesThatProvide";
const DEFAULT_THAT_PROVIDES: &str = "/api.Registry/GetDefaultBundleThatProvides";
const CUSTOM_SCHEMAS: &str = "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

const GROUP: &str = "fruit.example.com";
const LIFECYCLE: &str = "io.example.lifecycle";

/// Two packages: one with two channels that share a bundle, one deprecated.
fn fruit() -> Catalog {
    Catalog::new()
        .package("pear", |package| {
            package
                .channel("stable", [entry("pear.v1.0.0")])
                .bundle(bundle("pear.v1.0.0").provides(GROUP, "v1", "Pear"))
                .deprecate("pears are out of season")
                .deprecate_channel("stable", "of all channels")
                .deprecate_bundle("pear.v1.0.0", "this one first")
        })
        .package("apple", |package| {
            package
                .channel(
                    "stable",
                    [
                        entry("apple.v1.0.0"),
                        entry("apple.v1.1.0")
                            .replaces("apple.v1.0.0")
                            .skips(["apple.v1.0.5", "apple.v1.0.0"])
                            .skip_range(">=1.0.0 <1.1.0"),
                    ],
                )
                .channel(
                    "alpha",
                    [
                        entry("apple.v1.1.0"),
                        entry("apple.v2.0.0").replaces("apple.v1.1.0"),
                    ],
                )
                .bundle(bundle("apple.v1.0.0").provides(GROUP, "v1", "Seed"))
                .bundle(bundle("apple.v1.1.0").provides(GROUP, "v1", "Apple"))
                .bundle(
                    bundle("apple.v2.0.0")
                        .image("example.com/apple:v2")
                        .provides(GROUP, "v1", "Apple")
                        .provides(GROUP, "v1", "Core")
                        .requires("tools.example.com", "v1", "Knife")
                        .requires_package("pear", ">=1.0.0"),
                )
                .custom(
                    LIFECYCLE,
                    json!({"name": "first", "phase": 1.5, "tags": ["a", null]}),
                )
                .custom(LIFECYCLE, json!({"name": "second", "on": true}))
        })
        .blob(json!({"schema": LIFECYCLE, "note": "of no package"}))
}

async fn names(client: &Client) -> Result<Vec<String>, Status> {
    let packages: Vec<proto::PackageName> = client
        .stream(LIST_PACKAGES, proto::ListPackageRequest {})
        .await?;
    Ok(packages.into_iter().map(|package| package.name).collect())
}

async fn bundles(client: &Client) -> Vec<proto::Bundle> {
    client
        .stream(LIST_BUNDLES, proto::ListBundlesRequest {})
        .await
        .unwrap()
}

fn get_bundle(package: &str, channel: &str, bundle: &str) -> proto::GetBundleRequest {
    proto::GetBundleRequest {
        pkg_name: package.into(),
        channel_name: channel.into(),
        csv_name: bundle.into(),
    }
}

fn for_channel(package: &str, channel: &str) -> proto::GetBundleInChannelRequest {
    proto::GetBundleInChannelRequest {
        pkg_name: package.into(),
        channel_name: channel.into(),
    }
}

fn replacing(bundle: &str, package: &str, channel: &str) -> proto::GetReplacementRequest {
    proto::GetReplacementRequest {
        csv_name: bundle.into(),
        pkg_name: package.into(),
        channel_name: channel.into(),
    }
}

fn providing(kind: &str) -> proto::GetAllProvidersRequest {
    proto::GetAllProvidersRequest {
        group: GROUP.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: "is not looked at".into(),
    }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}

/// The values of entries: package, channel, bundle, what it replaces.
fn told(entries: &[proto::ChannelEntry]) -> Vec<[&str; 4]> {
    fn one(entry: &proto::ChannelEntry) -> [&str; 4] {
        let names = [
            &entry.package_name,
            &entry.channel_name,
            &entry.bundle_name,
            &entry.replaces,
        ];
        names.map(String::as_str)
    }
    entries.iter().map(one).collect()
}

#[tokio::test]
async fn packages_and_bundles_are_listed_in_order() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);
    assert_eq!(names(&client).await.unwrap(), ["apple", "pear"]);

    let bundles = bundles(&client).await;
    let listed: Vec<_> = bundles
        .iter()
        .map(|bundle| {
            [&bundle.channel_name, &bundle.package_name, &bundle.csv_name].map(String::as_str)
        })
        .collect();
    assert_eq!(
        listed,
        [
            ["alpha", "apple", "apple.v1.1.0"],
            ["alpha", "apple", "apple.v2.0.0"],
            ["stable", "apple", "apple.v1.0.0"],
            ["stable", "apple", "apple.v1.1.0"],
            ["stable", "pear", "pear.v1.0.0"],
        ]
    );
    // What the resolver builds its graph of.
    let [first, second, _, head, _] = &bundles[..] else {
        unreachable!()
    };
    assert_eq!((first.replaces.as_str(), first.skips.len()), ("", 0));
    assert_eq!(second.replaces, "apple.v1.1.0");
    assert_eq!(head.replaces, "apple.v1.0.0");
    assert_eq!(head.skips, ["apple.v1.0.5", "apple.v1.0.0"]);
    assert_eq!(head.skip_range, ">=1.0.0 <1.1.0");
    for bundle in &bundles {
        assert!(!bundle.bundle_path.is_empty());
        assert_eq!(bundle.csv_json, "");
        assert_eq!(bundle.object, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_package_is_told_with_its_channels_and_deprecations() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);
    let get = async |name: &str| -> proto::Package {
        let request = proto::GetPackageRequest { name: name.into() };
        client.unary(GET_PACKAGE, request).await.unwrap()
    };
    let deprecation = |message: &str| {
        Some(proto::Deprecation {
            message: message.into(),
        })
    };
    let channel = |name: &str, head: &str, deprecation| proto::Channel {
        name: name.into(),
        csv_name: head.into(),
        deprecation,
    };
    assert_eq!(
        get("apple").await,
        proto::Package {
            name: "apple".into(),
            channels: vec![
                channel("alpha", "apple.v2.0.0", None),
                channel("stable", "apple.v1.1.0", None),
            ],
            default_channel_name: "stable".into(),
            deprecation: None,
        }
    );
    assert_eq!(
        get("pear").await,
        proto::Package {
            name: "pear".into(),
            channels: vec![channel(
                "stable",
                "pear.v1.0.0",
                deprecation("of all channels")
            )],
            default_channel_name: "stable".into(),
            deprecation: deprecation("pears are out of season"),
        }
    );
    let pear: proto::Bundle = client
        .unary(FOR_CHANNEL, for_channel("pear", "stable"))
        .await
        .unwrap();
    assert_eq!(pear.deprecation, deprecation("this one first"));
}

#[tokio::test]
async fn a_bundle_is_told_as_the_peers_tell_it() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);
    let api = |group: &str, kind: &str| proto::GroupVersionKind {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: String::new(),
    };
    let property = |kind: &str, value: &str| proto::Property {
        r#type: kind.into(),
        value: value.into(),
    };
    let dependency = |kind: &str, value: &str| proto::Dependency {
        r#type: kind.into(),
        value: value.into(),
    };
    let apple = r#"{"group":"fruit.example.com","kind":"Apple","version":"v1"}"#;
    let core = r#"{"group":"fruit.example.com","kind":"Core","version":"v1"}"#;
    let knife = r#"{"group":"tools.example.com","kind":"Knife","version":"v1"}"#;
    let pear = r#"{"packageName":"pear","versionRange":">=1.0.0"}"#;
    let own = r#"{"packageName":"apple","version":"2.0.0"}"#;
    let wanted = proto::Bundle {
        csv_name: "apple.v2.0.0".into(),
        package_name: "apple".into(),
        channel_name: "alpha".into(),
        bundle_path: "example.com/apple:v2".into(),
        provided_apis: vec![api(GROUP, "Apple"), api(GROUP, "Core")],
        required_apis: vec![api("tools.example.com", "Knife")],
        version: "2.0.0".into(),
        dependencies: vec![
            dependency("olm.gvk", knife),
            dependency(
                "olm.package",
                r#"{"packageName":"pear","version":">=1.0.0"}"#,
            ),
        ],
        properties: vec![
            property("olm.package", own),
            property("olm.gvk", apple),
            property("olm.gvk", core),
            property("olm.gvk.required", knife),
            property("olm.package.required", pear),
        ],
        ..proto::Bundle::default()
    };
    // A unary answer never has the edges.
    let got: proto::Bundle = client
        .unary(GET_BUNDLE, get_bundle("apple", "alpha", "apple.v2.0.0"))
        .await
        .unwrap();
    assert_eq!(got, wanted);
    let head: proto::Bundle = client
        .unary(FOR_CHANNEL, for_channel("apple", "alpha"))
        .await
        .unwrap();
    assert_eq!(head, wanted);
    let next: proto::Bundle = client
        .unary(THAT_REPLACES, replacing("apple.v1.1.0", "apple", "alpha"))
        .await
        .unwrap();
    assert_eq!(next, wanted);
    let mut listed = bundles(&client).await.swap_remove(1);
    assert_eq!(listed.replaces, "apple.v1.1.0");
    listed.replaces.clear();
    assert_eq!(listed, wanted);

    // By what is skipped as well.
    let next: proto::Bundle = client
        .unary(THAT_REPLACES, replacing("apple.v1.0.5", "apple", "stable"))
        .await
        .unwrap();
    assert_eq!(next.csv_name, "apple.v1.1.0");
    assert_eq!(next.skip_range, ">=1.0.0 <1.1.0");
    assert_eq!((next.replaces.as_str(), next.skips.len()), ("", 0));
}

#[tokio::test]
async fn entries_are_found_by_what_they_replace_and_provide() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);
    let replacing = async |name: &str| -> Vec<proto::ChannelEntry> {
        let csv_name = name.to_owned();
        let request = proto::GetAllReplacementsRequest { csv_name };
        client.stream(ENTRIES_THAT_REPLACE, request).await.unwrap()
    };
    assert_eq!(
        told(&replacing("apple.v1.1.0").await),
        [["apple", "alpha", "apple.v2.0.0", "apple.v1.1.0"]]
    );
    // Found by what it skips, and told with what it replaces.
    assert_eq!(
        told(&replacing("apple.v1.0.5").await),
        [["apple", "stable", "apple.v1.1.0", "apple.v1.0.0"]]
    );
    assert_eq!(
        told(&replacing("").await),
        [
            ["apple", "alpha", "apple.v1.1.0", ""],
            ["apple", "stable", "apple.v1.0.0", ""],
            ["pear", "stable", "pear.v1.0.0", ""],
        ]
    );

    let all: Vec<proto::ChannelEntry> = client
        .stream(THAT_PROVIDE, providing("Apple"))
        .await
        .unwrap();
    assert_eq!(
        told(&all),
        [
            ["apple", "alpha", "apple.v1.1.0", ""],
            ["apple", "alpha", "apple.v2.0.0", "apple.v1.1.0"],
            ["apple", "stable", "apple.v1.1.0", "apple.v1.0.0"],
            ["apple", "stable", "apple.v1.1.0", "apple.v1.0.5"],
        ]
    );
    // What is skipped without being in the channel does not count here.
    let latest: Vec<proto::ChannelEntry> = client
        .stream(LATEST_THAT_PROVIDE, providing("Apple"))
        .await
        .unwrap();
    assert_eq!(
        told(&latest),
        [
            ["apple", "alpha", "apple.v2.0.0", "apple.v1.1.0"],
            ["apple", "stable", "apple.v1.1.0", "apple.v1.0.0"],
        ]
    );
    let default: proto::Bundle = client
        .unary(DEFAULT_THAT_PROVIDES, providing("Apple"))
        .await
        .unwrap();
    assert_eq!(
        [default.channel_name, default.csv_name],
        ["stable", "apple.v1.1.0"]
    );
}

/// Each entry skips one bundle that there is nowhere, one of its channel, and
/// once more what it replaces.
#[tokio::test]
async fn answers_about_entries_are_whole_and_in_order_however_many_they_are() {
    const ENTRIES: usize = 400;
    let name = |number: usize| format!("plum.v{}.0.0", 1000 + number);
    let absent = |number: usize| format!("plum.v{}.0.1", 1000 + number);
    let replaces = |number: usize, step: usize| number.checked_sub(step).map(name);
    let skips = |number: usize, step: usize| {
        let other = number.checked_sub(2 * step).map(name);
        let all = [Some(absent(number)), other, replaces(number, step)];
        all.into_iter().flatten().collect::<Vec<_>>()
    };
    let channels = [("all", 1), ("some", 2)];
    let catalog = Catalog::new().package("plum", |package| {
        let package = channels.iter().fold(package, |package, (channel, step)| {
            let entries = (0..ENTRIES).step_by(*step).map(|number| {
                let skips = skips(number, *step);
                let entry = entry(&name(number)).skips(skips.iter().map(String::as_str));
                match replaces(number, *step) {
                    Some(replaces) => entry.replaces(&replaces),
                    None => entry,
                }
            });
            package.channel(channel, entries)
        });
        (0..ENTRIES).fold(package, |package, number| {
            package.bundle(bundle(&name(number)).provides(GROUP, "v1", "Plum"))
        })
    });
    let served = Served::catalogs(&Folders::of("plum", &catalog));
    let client = Client::new(served.grpc);
    let told_of = |number: usize, channel: &str, target: &str| {
        ["plum", channel, &name(number), target].map(str::to_owned)
    };
    let mut wanted = Vec::new();
    let mut latest = Vec::new();
    for (channel, step) in channels {
        for number in (0..ENTRIES).step_by(step) {
            let replaces = replaces(number, step).unwrap_or_default();
            wanted.push(told_of(number, channel, &replaces));
            let skips = skips(number, step);
            for skip in skips.iter().filter(|skip| **skip != replaces) {
                wanted.push(told_of(number, channel, skip));
            }
        }
        let head = (0..ENTRIES).step_by(step).next_back().unwrap();
        for before in [head - step, head - 2 * step] {
            latest.push(told_of(head, channel, &name(before)));
        }
    }
    let providing = async |path: &str| -> Vec<proto::ChannelEntry> {
        client.stream(path, providing("Plum")).await.unwrap()
    };
    assert!(told(&providing(THAT_PROVIDE).await) == wanted);
    assert_eq!(told(&providing(LATEST_THAT_PROVIDE).await), latest);
    for (target, wanted) in [
        // Skipped and replaced by one is once.
        (
            name(100),
            vec![
                told_of(101, "all", &name(100)),
                told_of(102, "all", &name(101)),
                told_of(102, "some", &name(100)),
                told_of(104, "some", &name(102)),
            ],
        ),
        (
            absent(0),
            vec![told_of(0, "all", ""), told_of(0, "some", "")],
        ),
        (absent(7), vec![told_of(7, "all", &name(6))]),
    ] {
        let request = proto::GetAllReplacementsRequest {
            csv_name: target.clone(),
        };
        let found = client.stream(ENTRIES_THAT_REPLACE, request).await.unwrap();
        assert_eq!(told(&found), wanted, "{target}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_the_texts_of_the_peers() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = &Client::new(served.grpc);
    let package = async |name: &str| {
        let request = proto::GetPackageRequest { name: name.into() };
        refusal(
            client
                .unary::<_, proto::Package>(GET_PACKAGE, request)
                .await,
        )
    };
    let bundle = async |package: &str, channel: &str, bundle: &str| {
        let request = get_bundle(package, channel, bundle);
        refusal(client.unary::<_, proto::Bundle>(GET_BUNDLE, request).await)
    };
    let head = async |package: &str, channel: &str| {
        let request = for_channel(package, channel);
        refusal(client.unary::<_, proto::Bundle>(FOR_CHANNEL, request).await)
    };
    let replacement = async |bundle: &str, package: &str, channel: &str| {
        let request = replacing(bundle, package, channel);
        refusal(
            client
                .unary::<_, proto::Bundle>(THAT_REPLACES, request)
                .await,
        )
    };
    let entries = async |path: &str, kind: &str| {
        let request = providing(kind);
        refusal(client.stream::<_, proto::ChannelEntry>(path, request).await)
    };
    let default = async |kind: &str| {
        let request = providing(kind);
        refusal(
            client
                .unary::<_, proto::Bundle>(DEFAULT_THAT_PROVIDES, request)
                .await,
        )
    };
    let replaced = async |name: &str| {
        let csv_name = name.to_owned();
        let request = proto::GetAllReplacementsRequest { csv_name };
        let answer = client.stream::<_, proto::ChannelEntry>(ENTRIES_THAT_REPLACE, request);
        refusal(answer.await)
    };
    for ((code, message), wanted) in [
        (package("X").await, r#"package "X" not found"#),
        (package("").await, r#"package "" not found"#),
        (package("no\"pe").await, r#"package "no\"pe" not found"#),
        (package("käse").await, r#"package "käse" not found"#),
        (package("\u{1}\t").await, r#"package "\x01\t" not found"#),
        (bundle("X", "C", "B").await, r#"package "X" not found"#),
        (
            bundle("apple", "C", "B").await,
            r#"package "apple", channel "C" not found"#,
        ),
        (
            bundle("apple", "stable", "apple.v2.0.0").await,
            r#"package "apple", channel "stable", bundle "apple.v2.0.0" not found"#,
        ),
        (head("X", "C").await, r#"package "X" not found"#),
        (
            head("apple", "").await,
            r#"package "apple", channel "" not found"#,
        ),
        (replacement("B", "X", "C").await, "package X not found"),
        (
            replacement("B", "apple", "C").await,
            r#"package "apple", channel "C" not found"#,
        ),
        (
            replacement("apple.v2.0.0", "apple", "alpha").await,
            r#"no entry found for package "apple", channel "alpha""#,
        ),
        (
            replaced("X").await,
            "no channel entries found that replace X",
        ),
        (
            entries(THAT_PROVIDE, "Nope").await,
            r#"no channel entries found that provide group:"fruit.example.com" version:"v1" kind:"Nope""#,
        ),
        (
            entries(LATEST_THAT_PROVIDE, "Nope").await,
            r#"no channel entries found that provide group:"fruit.example.com" version:"v1" kind:"Nope""#,
        ),
        // Provided, but by no head.
        (
            entries(LATEST_THAT_PROVIDE, "Seed").await,
            r#"no channel entries found that provide group:"fruit.example.com" version:"v1" kind:"Seed""#,
        ),
        (
            default("Nope").await,
            r#"no channel entries found that provide group:"fruit.example.com" version:"v1" kind:"Nope""#,
        ),
        // By a head, but not by that of a default channel.
        (
            default("Core").await,
            r#"no entry found that provides group:"fruit.example.com" version:"v1" kind:"Core""#,
        ),
    ] {
        assert_eq!((code, message.as_str()), (Code::Unknown, wanted));
    }
}

#[tokio::test]
async fn a_catalog_without_packages_is_not_served() {
    let catalog = Catalog::new().blob(json!({"schema": LIFECYCLE}));
    let served = Served::catalogs(&Folders::of("nothing", &catalog));
    let client = Client::new(served.grpc);
    let refused = names(&client).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn the_authority_chooses_the_catalog() {
    let of = |name: &str| {
        let version = format!("{name}.v1.0.0");
        Catalog::new().package(name, |package| package.channel("stable", [entry(&version)]))
    };
    let folders = ["one", "two", "three"]
        .iter()
        .fold(Folders::new(), |folders, name| {
            folders.catalog(name, &of(name))
        });
    let config = tempfile::NamedTempFile::new().unwrap();
    let written = |default: &str| {
        let catalog = |name: &str, more: &str| {
            let path = folders.path(name);
            format!(
                "[[catalog]]\nname = {name:?}\nsource = \"file:{}\"\n{more}\n",
                path.display()
            )
        };
        let text = [
            default,
            &catalog("one", ""),
            &catalog("two", "authorities = [\"operators.example.com\"]"),
            // The name of another catalog, as an authority of one's own.
            &catalog("three", "authorities = [\"one.elsewhere\"]"),
        ];
        std::fs::write(config.path(), text.join("\n")).unwrap();
        [
            "--config".to_owned(),
            config.path().to_str().unwrap().to_owned(),
        ]
    };
    let served = Served::start(written(""));
    let asked = async |server, authority: &str| names(&Client::called(server, authority)).await;
    for (authority, wanted) in [
        ("one", "one"),
        ("one.olm.svc:50051", "one"),
        ("ONE.olm.svc.cluster.local", "one"),
        ("two.olm", "two"),
        ("operators.example.com:443", "two"),
        ("Operators.Example.com", "two"),
        ("one.elsewhere:50051", "three"),
    ] {
        let found = asked(served.grpc, authority).await.unwrap();
        assert_eq!(found, [wanted], "{authority}");
    }
    for authority in ["localhost:50051", "example.com", "[::1]:50051"] {
        let (code, message) = refusal(asked(served.grpc, authority).await);
        assert_eq!(code, Code::NotFound);
        assert_eq!(
            message,
            format!("no catalog answers to {authority:?}; there are: one, three, two")
        );
        // Probes and tools ask under names of their own.
        let client = Client::called(served.grpc, authority);
        assert_eq!(health(&client, "").await, ServingStatus::Serving);
        assert!(!services(&client).await.is_empty());
    }
    drop(served);

    let served = Served::start(written("default_catalog = \"two\""));
    assert_eq!(asked(served.grpc, "localhost").await.unwrap(), ["two"]);
    assert_eq!(asked(served.grpc, "one").await.unwrap(), ["one"]);
}

#[tokio::test]
async fn a_name_that_is_an_authority_of_another_catalog_is_warned_of() {
    let folders = Folders::of("one", &Catalog::one("one")).catalog("two", &Catalog::one("two"));
    let config = tempfile::NamedTempFile::new().unwrap();
    let catalog = |name: &str, more: &str| {
        let source = folders.path(name);
        let source = source.display();
        format!("[[catalog]]\nname = {name:?}\nsource = \"file:{source}\"\n{more}\n")
    };
    let text = catalog("one", "authorities = [\"Two\"]") + &catalog("two", "");
    std::fs::write(config.path(), text).unwrap();
    let served = Served::start(["--config", config.path().to_str().unwrap()]);
    for (authority, wanted) in [("two:50051", "one"), ("two.olm.svc", "two")] {
        let found = names(&Client::called(served.grpc, authority))
            .await
            .unwrap();
        assert_eq!(found, [wanted], "{authority}");
    }
    let log = served.program.log();
    let mut lines = log.lines().filter(|line| line.contains("WARN"));
    let warned = |line: &str| line.contains("catalog=one") && line.contains("other=two");
    assert!(lines.any(warned), "{log}");
}

async fn health(client: &Client, service: &str) -> ServingStatus {
    let service = service.to_owned();
    let answer: HealthCheckResponse = client
        .unary(CHECK, HealthCheckRequest { service })
        .await
        .unwrap();
    answer.status()
}

// The client has to go on while the test waits for the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn health_is_told_for_every_name_and_watched() {
    let folders = Folders::of("fruit", &fruit());
    let missing = folders.path("later");
    let later = format!("later=file:{}", missing.display());
    let sources = folders.sources().into_iter().chain([later]);
    let mut served = Served::start(sources.chain(["--poll".into(), "100ms".into()]));
    let client = Client::new(served.grpc);
    for service in [
        "",
        "Registry",
        "api.Registry",
        "api.ExperimentalRegistry",
        "fruit",
        "anything",
    ] {
        let status = health(&client, service).await;
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    assert_eq!(health(&client, "later").await, ServingStatus::NotServing);

    let service = "later".to_owned();
    let mut watched = client
        .open::<_, HealthCheckResponse>(WATCH, HealthCheckRequest { service })
        .await
        .unwrap();
    let first = next(&mut watched).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::NotServing);
    Catalog::small().write_to(&missing, Format::JsonLines);
    let second = next(&mut watched).await.unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::Serving);
    // A client that only watches hears of the end, and does not hold it up.
    served.program.terminate();
    let last = rest(&mut watched).await.unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].status(), ServingStatus::NotServing);
    // Well before open streams would be cut.
    assert!(served.program.wait(Duration::from_secs(15)).success());
}

/// The services that reflection lists.
async fn services(client: &Client) -> Vec<String> {
    use reflection::server_reflection_response::MessageResponse;
    match reflect(client, reflection_request("")).await {
        Some(MessageResponse::ListServicesResponse(list)) => {
            let mut names: Vec<_> = list.service.into_iter().map(|s| s.name).collect();
            names.sort();
            names
        }
        other => panic!("{other:?}"),
    }
}

/// Asks for a symbol's file, or for all services.
fn reflection_request(symbol: &str) -> reflection::ServerReflectionRequest {
    use reflection::server_reflection_request::MessageRequest;
    reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(if symbol.is_empty() {
            MessageRequest::ListServices(String::new())
        } else {
            MessageRequest::FileContainingSymbol(symbol.into())
        }),
    }
}

async fn reflect(
    client: &Client,
    request: reflection::ServerReflectionRequest,
) -> Option<reflection::server_reflection_response::MessageResponse> {
    let answer =
        reflection::server_reflection_client::ServerReflectionClient::new(client.channel())
            .server_reflection_info(futures_util::stream::iter([request]))
            .await
            .unwrap();
    let mut answers = rest(&mut answer.into_inner()).await.unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0).message_response
}

#[tokio::test]
async fn reflection_lists_the_services_and_gives_their_files() {
    use reflection::server_reflection_response::MessageResponse;

    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);
    assert_eq!(
        services(&client).await,
        [
            "api.ExperimentalRegistry",
            "api.Registry",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
    );
    let file = reflect(&client, reflection_request("api.Registry")).await;
    let Some(MessageResponse::FileDescriptorResponse(files)) = file else {
        panic!("{file:?}");
    };
    let files: Vec<_> = files
        .file_descriptor_proto
        .iter()
        .map(|file| prost_types::FileDescriptorProto::decode(&file[..]).unwrap())
        .collect();
    let registry = files.iter().find(|file| file.name() == "registry.proto");
    assert_eq!(registry.unwrap().package(), "api");
}

#[tokio::test]
async fn blobs_of_other_schemas_are_listed_for_whoever_acknowledges() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let asked = async |client: &Client, schema: &str, package: &str| {
        let request = proto::ExperimentalListPackageCustomSchemasRequest {
            schema: schema.into(),
            package_name: package.into(),
        };
        client
            .stream::<_, prost_types::Struct>(CUSTOM_SCHEMAS, request)
            .await
    };
    // Without the header, or with another word in it, nothing is looked at.
    let stranger = Client::new(served.grpc);
    for client in [
        stranger.clone(),
        stranger
            .clone()
            .header("x-acknowledge-experimental", "True"),
        stranger.clone().header("x-acknowledge-experimental", "1"),
    ] {
        for (schema, package) in [(LIFECYCLE, "apple"), ("", ""), ("a/b", "a b")] {
            assert!(asked(&client, schema, package).await.unwrap().is_empty());
        }
    }

    let client = stranger.header("x-acknowledge-experimental", "true");
    let found = asked(&client, LIFECYCLE, "apple").await.unwrap();
    let found: Vec<Value> = found.into_iter().map(to_json).collect();
    let common = |mut fields: Value| {
        fields["schema"] = LIFECYCLE.into();
        fields["package"] = "apple".into();
        fields
    };
    assert_eq!(
        found,
        [
            common(json!({"name": "first", "phase": 1.5, "tags": ["a", null]})),
            common(json!({"name": "second", "on": true})),
        ]
    );
    let found = asked(&client, LIFECYCLE, "").await.unwrap();
    assert_eq!(
        found.into_iter().map(to_json).collect::<Vec<_>>(),
        [json!({"schema": LIFECYCLE, "note": "of no package"})]
    );
    for (schema, package) in [
        ("nope", ""),
        (LIFECYCLE, "nope"),
        ("olm.bundle", "apple"),
        ("olm.package", ""),
    ] {
        let found = asked(&client, schema, package).await.unwrap();
        assert!(found.is_empty(), "{schema} {package}: {found:?}");
    }
    for (schema, package, message) in [
        ("", "a b", "schema is required"),
        (
            "a/b",
            "",
            r#"invalid custom schema query: invalid schema "a/b": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$"#,
        ),
        (
            "a",
            "a b",
            r#"invalid custom schema query: invalid packageName "a b": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$"#,
        ),
    ] {
        let wanted = (Code::InvalidArgument, message.to_owned());
        assert_eq!(refusal(asked(&client, schema, package).await), wanted);
    }
}

/// Whatever they hold, and whatever is wrong with their package.
#[tokio::test]
async fn blobs_of_other_schemas_are_listed_by_package_in_the_order_of_the_catalog() {
    const DEPTH: usize = 400;
    let deep = (0..DEPTH).fold(json!(1), |value, _| json!([value]));
    let blob = |schema: &str, package: &str, number: usize| json!({"schema": schema, "package": package, "number": number});
    let catalog = Catalog::new()
        .package("broken", |package| {
            package
                .channel("stable", [entry("broken.v1.0.0")])
                .default_channel("nope")
        })
        .package("sound", |package| {
            package.channel("stable", [entry("sound.v1.0.0")])
        });
    let schemas = ["b.example.com", "a.example.com"];
    let packages = ["sound", "broken", "of-no-package-blob"];
    let catalog = (0..60).fold(catalog, |catalog, number| {
        catalog.blob(blob(schemas[number % 2], packages[number % 3], number))
    });
    let catalog = catalog.blob(json!({"schema": "deep", "value": deep}));
    let served = Served::catalogs(&Folders::of("a", &catalog));
    let client = Client::new(served.grpc).header("x-acknowledge-experimental", "true");
    assert_eq!(names(&client).await.unwrap(), ["sound"]);
    let asked = |schema: &str, package: &str| proto::ExperimentalListPackageCustomSchemasRequest {
        schema: schema.into(),
        package_name: package.into(),
    };
    for (of_schema, schema) in schemas.iter().enumerate() {
        for (of_package, package) in packages.iter().enumerate() {
            let found = client.stream(CUSTOM_SCHEMAS, asked(schema, package));
            let found: Vec<_> = found.await.unwrap().into_iter().map(to_json).collect();
            let all = (0..60).filter(|number| number % 2 == of_schema && number % 3 == of_package);
            // Numbers are floats there.
            let wanted = all.map(|number| {
                let mut blob = blob(schema, package, number);
                blob["number"] = (number as f64).into();
                blob
            });
            assert_eq!(found, wanted.collect::<Vec<_>>(), "{schema} {package}");
        }
    }
    // Deeper than the client of this test reads.
    let request = asked("deep", "").encode_to_vec();
    let found = client.raw(CUSTOM_SCHEMAS, &request).await.unwrap();
    assert!(found.windows(8).any(|bytes| bytes == 1_f64.to_le_bytes()));
    assert!(found.len() > 3 * DEPTH, "{}", found.len());
}

fn to_json(message: prost_types::Struct) -> Value {
    use prost_types::value::Kind;
    fn value(message: prost_types::Value) -> Value {
        match message.kind.unwrap() {
            Kind::NullValue(_) => Value::Null,
            Kind::NumberValue(number) => number.into(),
            Kind::StringValue(text) => text.into(),
            Kind::BoolValue(flag) => flag.into(),
            Kind::StructValue(fields) => to_json(fields),
            Kind::ListValue(list) => list.values.into_iter().map(value).collect(),
        }
    }
    let fields = message.fields.into_iter();
    fields.map(|(name, field)| (name, value(field))).collect()
}

#[tokio::test]
async fn a_package_that_is_not_valid_is_left_out_here_and_served_over_http() {
    let catalog = fruit().package("quince", |package| {
        // Two heads.
        package.channel("stable", [entry("quince.v1.0.0"), entry("quince.v2.0.0")])
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let client = Client::new(served.grpc);
    assert_eq!(names(&client).await.unwrap(), ["apple", "pear"]);
    let listed = bundles(&client).await;
    assert!(listed.iter().all(|bundle| bundle.package_name != "quince"));
    let request = proto::GetPackageRequest {
        name: "quince".into(),
    };
    let (code, message) = refusal(
        client
            .unary::<_, proto::Package>(GET_PACKAGE, request)
            .await,
    );
    assert_eq!(code, Code::Unknown);
    assert_eq!(message, r#"package "quince" not found"#);

    let http = served.get("/catalogs/fruit/api/v1/metas?package=quince");
    assert_eq!(http.text().lines().count(), 3, "{}", http.text());
    let status = served.status("fruit");
    let problems = status["problems"].as_array().unwrap();
    assert!(
        problems.iter().any(|problem| {
            problem["code"] == "channel-multiple-heads" && problem["package"] == "quince"
        }),
        "{problems:?}"
    );
    assert_eq!(status["revision"]["counts"]["quarantined"], 1);
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_as_the_peers_do() {
    let served = Served::catalogs(&Folders::of("fruit", &fruit()));
    let client = Client::new(served.grpc);

    // The name of a package and that of a service have the same number.
    let name = "x".repeat((6 << 20) + 1 - 5);
    let large = proto::GetPackageRequest { name }.encode_to_vec();
    for (path, limit) in [(GET_PACKAGE, 4_194_304), (CHECK, 16_384), (WATCH, 16_384)] {
        assert_eq!(
            refusal(client.raw(path, &large).await),
            (
                Code::ResourceExhausted,
                format!("grpc: received message larger than max (6291457 vs. {limit})")
            )
        );
        for malformed in [&b"\xff\xff\xff"[..], b"\x0a\x05x", b"\x0b"] {
            assert_eq!(
                refusal(client.raw(path, malformed).await),
                (
                    Code::Internal,
                    "grpc: error unmarshalling request: proto:\u{a0}cannot parse invalid wire-format data"
                        .to_owned()
                )
            );
        }
    }
    for (path, message) in [
        (
            "/api.Registry/Nope",
            "unknown method Nope for service api.Registry",
        ),
        (
            "/api.ExperimentalRegistry/Nope",
            "unknown method Nope for service api.ExperimentalRegistry",
        ),
        ("/api.Nope/ListPackages", "unknown service api.Nope"),
        ("/api.Registry/", "unknown method  for service api.Registry"),
        (
            "/api.Registry/ListPackages/",
            "unknown service api.Registry/ListPackages",
        ),
        (
            "/grpc.health.v1.Health/Nope",
            "unknown method Nope for service grpc.health.v1.Health",
        ),
        (
            "/grpc.reflection.v1.ServerReflection/Nope",
            "unknown method Nope for service grpc.reflection.v1.ServerReflection",
        ),
        ("/nope", "malformed method name: \"/nope\""),
    ] {
        let wanted = (Code::Unimplemented, message.to_owned());
        assert_eq!(refusal(client.raw(path, b"").await), wanted);
    }
    // Also where the answer has begun.
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let (code, message) = refusal(client.raw(&path, &large).await);
        assert_eq!(code, Code::ResourceExhausted);
        assert!(message.ends_with("(6291457 vs. 16384)"), "{message}");
        let (code, message) = refusal(client.raw(&path, b"\xff\xff\xff").await);
        assert_eq!(code, Code::Internal);
        assert!(message.ends_with("invalid wire-format data"), "{message}");
    }
    // The connection is as good as before.
    assert_eq!(names(&client).await.unwrap(), ["apple", "pear"]);
}

#[tokio::test]
async fn a_catalog_that_is_not_loaded_is_unavailable_and_holds_nobody_back() {
    let folders = Folders::of("fruit", &fruit());
    let later = format!("later=file:{}", folders.path("later").display());
    let served = Served::start(folders.sources().into_iter().chain([later]));
    let later = Client::called(served.grpc, "later");
    assert_eq!(
        refusal(names(&later).await),
        (
            Code::Unavailable,
            "catalog \"later\" is not loaded yet".to_owned()
        )
    );
    let fruit = Client::called(served.grpc, "fruit");
    assert_eq!(names(&fruit).await.unwrap().len(), 2);
}

/// One package of many bundles, all with a long property.
fn long(package: &str) -> Catalog {
    let name = |number: usize| format!("{package}.v{number}.0.0");
    let entries: Vec<_> = (1..=200)
        .map(|number| match number {
            1 => entry(&name(1)),
            _ => entry(&name(number)).replaces(&name(number - 1)),
        })
        .collect();
    Catalog::new().package(package, |filled| {
        let filled = filled.channel("stable", entries);
        (1..=200).fold(filled, |filled, number| {
            filled.bundle(bundle(&name(number)).property("x", "y".repeat(4000)))
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_content_comes_with_a_new_connection_and_the_old_one_ends_well() {
    let folders = Folders::of("fruit", &long("old"));
    let mut served = Served::start(
        folders
            .sources()
            .into_iter()
            .chain(["--poll".into(), "100ms".into()]),
    );
    let window = Some(1 << 16);
    let client = Client::with_window(served.grpc, "fruit", window);
    assert_eq!(names(&client).await.unwrap(), ["old"]);
    // A stream that is begun, and that the client does not read on.
    let mut stream = client
        .open::<_, proto::Bundle>(LIST_BUNDLES, proto::ListBundlesRequest {})
        .await
        .unwrap();
    let first = next(&mut stream).await.unwrap().unwrap();
    assert_eq!(first.package_name, "old");

    folders.replace("fruit", &long("new"));
    served.wait_for_status("fruit", |status| status["revision"]["id"] == 2);
    // Whoever comes now gets the new content ...
    let other = Client::new(served.grpc);
    assert_eq!(names(&other).await.unwrap(), ["new"]);
    // ... the old client not while it reads a list: what it asks meanwhile
    // belongs together with that ...
    assert_eq!(names(&client).await.unwrap(), ["old"]);
    let others = rest(&mut stream).await.unwrap();
    assert_eq!(others.len(), 199);
    assert!(others.iter().all(|bundle| bundle.package_name == "old"));
    // ... and is then asked to connect again.
    let begin = std::time::Instant::now();
    loop {
        match names(&client).await {
            Ok(found) if found == ["new"] => break,
            Ok(found) => assert_eq!(found, ["old"]),
            // The call was on its way when the connection was about to end.
            Err(error) => assert_ne!(error.code(), Code::Ok),
        }
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let metrics = http::get(served.admin, "/metrics").unwrap().text();
    assert!(
        metrics.contains("almanac_grpc_goaways_total 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn content_of_another_catalog_leaves_a_connection_alone() {
    let folders = Folders::of("fruit", &fruit()).catalog("other", &Catalog::small());
    let mut served = Served::start(
        folders
            .sources()
            .into_iter()
            .chain(["--poll".into(), "100ms".into()]),
    );
    let client = Client::called(served.grpc, "fruit");
    assert_eq!(names(&client).await.unwrap().len(), 2);
    folders.replace("other", &long("new"));
    served.wait_for_status("other", |status| {
        status["revision"]["counts"]["bundles"] == 200
    });
    assert_eq!(names(&client).await.unwrap().len(), 2);
    let metrics = http::get(served.admin, "/metrics").unwrap().text();
    assert!(!metrics.contains("almanac_grpc_goaways_total"), "{metrics}");
}

#[tokio::test]
async fn a_bundle_of_objects_is_served_with_them() {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "plum.v1.0.0"},
        "spec": {"displayName": "<Plum>", "install": {"strategy": "deployment"}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "plums.example.com"},
    });
    let catalog = Catalog::new().package("plum", |package| {
        package
            .channel(
                "stable",
                [
                    entry("plum.v1.0.0"),
                    entry("plum.v2.0.0").replaces("plum.v1.0.0"),
                ],
            )
            .bundle(bundle("plum.v1.0.0").no_image().object(&crd).object(&csv))
            .bundle(bundle("plum.v2.0.0").object(&csv))
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let client = Client::new(served.grpc);
    let parse = |text: &String| serde_json::from_str::<Value>(text).unwrap();

    let get = async |name: &str| -> proto::Bundle {
        let request = get_bundle("plum", "stable", name);
        client.unary(GET_BUNDLE, request).await.unwrap()
    };
    let plain = get("plum.v1.0.0").await;
    assert_eq!(plain.bundle_path, "");
    assert_eq!(parse(&plain.csv_json), csv);
    let objects: Vec<Value> = plain.object.iter().map(parse).collect();
    assert_eq!(objects, [crd, csv.clone()]);
    let kinds: Vec<&str> = plain.properties.iter().map(|p| p.r#type.as_str()).collect();
    assert_eq!(kinds, ["olm.package"]);
    let with_image = get("plum.v2.0.0").await;
    assert_eq!(parse(&with_image.csv_json), csv);

    // OLM makes such a bundle of what is listed, and pulls no image; where
    // there is one, the manifests are left out.
    let listed = bundles(&client).await;
    assert_eq!(listed[0].csv_json, plain.csv_json);
    assert_eq!(listed[0].object, plain.object);
    assert_eq!(listed[1].csv_json, "");
    assert!(listed[1].object.is_empty());
}

#[tokio::test]
async fn no_listed_message_is_too_large_for_clients() {
    const MIB: usize = 1 << 20;
    let csv = json!({"apiVersion": "v1", "kind": "ClusterServiceVersion", "spec": {}});
    let object = |length: usize| json!({"kind": "ConfigMap", "data": "y".repeat(length)});
    let one = |catalog: Catalog, name: &str, filled: Bundle| {
        catalog.package(name, |package| {
            let channel = package.channel("stable", [entry(&format!("{name}.v1.0.0"))]);
            channel.bundle(filled)
        })
    };
    let catalog = one(fruit(), "near", {
        let near = bundle("near.v1.0.0").no_image().object(&csv);
        near.object(&object(4 * MIB - MIB / 4))
    });
    let catalog = one(catalog, "objects", {
        let over = bundle("objects.v1.0.0").no_image().object(&csv);
        over.object(&object(2 * MIB)).object(&object(2 * MIB))
    });
    let text = "y".repeat(4 * MIB);
    let catalog = one(catalog, "properties", {
        bundle("properties.v1.0.0").property("x", text)
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    // What gRPC's own library takes unless it is told otherwise.
    let client = Client::new(served.grpc).taking(4 * MIB);
    let listed = bundles(&client).await;
    let found = |name: &str| listed.iter().find(|bundle| bundle.package_name == name);
    let near = found("near").unwrap();
    assert_eq!(near.object.len(), 2);
    assert!(!near.csv_json.is_empty());
    let over = found("objects").unwrap();
    assert_eq!((over.object.len(), over.csv_json.as_str()), (0, ""));
    assert_eq!(over.version, "1.0.0");
    assert_eq!(found("properties"), None);
    assert_eq!(listed.len(), 5 + 2, "and all others are there");
    assert!(listed.iter().all(|bundle| bundle.encoded_len() < 4 * MIB));
    // Both are there for who takes more.
    let taking = Client::new(served.grpc);
    for (name, objects) in [("objects", 3), ("properties", 0)] {
        let all: proto::Bundle = taking
            .unary(FOR_CHANNEL, for_channel(name, "stable"))
            .await
            .unwrap();
        assert_eq!(all.object.len(), objects, "{name}");
    }

    let status = served.status("fruit");
    let problems = status["problems"].as_array().unwrap();
    let log = served.program.log();
    for (package, code) in [
        ("near", "bundle-near-limit"),
        ("objects", "bundle-too-large"),
        ("properties", "bundle-too-large"),
    ] {
        let told = |problem: &&Value| problem["package"] == package && problem["code"] == code;
        let problem = problems.iter().find(told);
        let problem = problem.unwrap_or_else(|| panic!("{package}: {problems:?}"));
        let message = problem["message"].as_str().unwrap();
        let mut warnings = log.lines().filter(|line| line.contains("WARN"));
        assert!(warnings.any(|line| line.contains(message)), "{log}");
    }
}

#[tokio::test]
async fn a_cluster_service_version_is_made_of_its_metadata() {
    let crds = json!({"owned": [{"kind": "Fig", "name": "figs.example.com", "version": "v1"}]});
    let described = json!({
        "displayName": "Fig & Co",
        "annotations": {"capabilities": "Full Lifecycle"},
        "labels": {"operatorframework.io/arch.arm64": "supported"},
        "crdDescriptions": crds,
        "minKubeVersion": "1.25.0",
    });
    let mut silent = described.clone();
    silent["description"] = Value::Null;
    let catalog = Catalog::new().package("fig", |package| {
        package
            .description("Of the whole package.")
            .icon("image/svg+xml", b"<svg/>")
            .channel(
                "stable",
                [
                    entry("fig.v1.0.0"),
                    entry("fig.v1.1.0").replaces("fig.v1.0.0"),
                ],
            )
            .bundle(
                bundle("fig.v1.0.0")
                    .csv_metadata(described)
                    .related_image("fig", "example.com/fig:v1"),
            )
            .bundle(bundle("fig.v1.1.0").csv_metadata(silent))
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let client = Client::new(served.grpc);
    let get = async |name: &str| -> proto::Bundle {
        let request = get_bundle("fig", "stable", name);
        client.unary(GET_BUNDLE, request).await.unwrap()
    };
    let fig = get("fig.v1.0.0").await;
    assert_eq!(fig.object, [fig.csv_json.as_str()]);
    assert!(bundles(&client).await[0].csv_json.is_empty());
    let csv: Value = serde_json::from_str(&fig.csv_json).unwrap();
    assert_eq!(
        csv,
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": "fig.v1.0.0",
                "annotations": {"capabilities": "Full Lifecycle"},
                "labels": {"operatorframework.io/arch.arm64": "supported"},
            },
            "spec": {
                "apiservicedefinitions": {},
                "cleanup": {"enabled": false},
                "customresourcedefinitions": crds,
                "description": "An operator of a test.",
                "displayName": "Fig & Co",
                "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
                "install": {"spec": {"deployments": null}, "strategy": "deployment"},
                "installModes": [
                    {"supported": false, "type": "OwnNamespace"},
                    {"supported": false, "type": "SingleNamespace"},
                    {"supported": false, "type": "MultiNamespace"},
                    {"supported": true, "type": "AllNamespaces"},
                ],
                "keywords": ["test"],
                "links": [{"name": "Source", "url": "https://example.com/source"}],
                "maintainers": [{"email": "nobody@example.com", "name": "Nobody"}],
                "maturity": "alpha",
                "minKubeVersion": "1.25.0",
                "provider": {"name": "Example"},
                "relatedImages": [{"image": "example.com/fig:v1", "name": "fig"}],
                "version": "1.0.0",
            },
            "status": {"cleanup": {}},
        })
    );
    let silent: Value = serde_json::from_str(&get("fig.v1.1.0").await.csv_json).unwrap();
    assert_eq!(silent["spec"]["description"], "Of the whole package.");
}
