//! Blobs of other schemas, and packages that are not valid.

use almanac::proto;
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Code;

use super::{GET_PACKAGE, LIFECYCLE, bundles, fruit, names, refusal};
use crate::support::catalog::{Catalog, entry};
use crate::support::grpc::Client;
use crate::support::served::{Folders, Served};

const CUSTOM_SCHEMAS: &str = "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";

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
