//! Packages, bundles and entries: the answers and refusals of the peers.

use almanac::proto;
use tonic::Code;

use super::{
    FOR_CHANNEL, GET_BUNDLE, GET_PACKAGE, GROUP, bundles, for_channel, fruit, get_bundle, names,
    refusal, told,
};
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::grpc::Client;
use crate::support::served::{Folders, Served};

const THAT_REPLACES: &str = "/api.Registry/GetBundleThatReplaces";
const ENTRIES_THAT_REPLACE: &str = "/api.Registry/GetChannelEntriesThatReplace";
const THAT_PROVIDE: &str = "/api.Registry/GetChannelEntriesThatProvide";
const LATEST_THAT_PROVIDE: &str = "/api.Registry/GetLatestChannelEntriesThatProvide";
const DEFAULT_THAT_PROVIDES: &str = "/api.Registry/GetDefaultBundleThatProvides";

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
