//! The Operator Registry API of the running program, as its clients use it,
//! and as somebody uses it who does not.

mod answers;
mod connections;
mod messages;
mod names;
mod schemas;

use almanac::proto;
use serde_json::json;
use tonic::{Code, Status};

use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::grpc::Client;

const LIST_PACKAGES: &str = "/api.Registry/ListPackages";
const LIST_BUNDLES: &str = "/api.Registry/ListBundles";
const GET_PACKAGE: &str = "/api.Registry/GetPackage";
const GET_BUNDLE: &str = "/api.Registry/GetBundle";
const FOR_CHANNEL: &str = "/api.Registry/GetBundleForChannel";

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
