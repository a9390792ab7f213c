//! The other commands of opm.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{Place, end, half_good, opm, packages, put_program};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::Image;
use crate::support::program::Start;
use crate::support::tls::Pair;
use crate::support::upstream::Upstream;

#[test]
fn other_verbs_have_their_equivalents() {
    let place = Place::of(&Catalog::small());
    let configs = place.configs();
    let configs = configs.to_str().unwrap();
    let valid = opm(["validate", configs]).run();
    assert!(
        valid.status.success() && valid.stdout.is_empty(),
        "{valid:?}"
    );

    let rendered = opm(["render", configs, "-o", "yaml"]).run();
    assert!(rendered.status.success(), "{rendered:?}");
    assert!(
        rendered.stdout.contains("schema: olm.bundle"),
        "{rendered:?}"
    );
    let rendered = opm(["render", configs]).run();
    assert!(
        rendered.stdout.contains(r#""schema":"olm.bundle""#),
        "{rendered:?}"
    );

    let listed = opm(["alpha", "list", "bundles", configs, "etcd", "-o", "json"]).run();
    assert!(listed.stdout.contains("etcd.v1.1.0"), "{listed:?}");
    let version = opm(["version"]).run();
    let start = concat!(
        "Version: version.Version{OpmVersion:\"v",
        env!("CARGO_PKG_VERSION"),
        "\", GitCommit:\"\""
    );
    assert!(version.stdout.starts_with(start), "{version:?}");

    place.write(&half_good());
    let invalid = opm(["validate", configs]).run();
    assert_eq!(invalid.status.code(), Some(1), "{invalid:?}");
    assert!(
        invalid.stderr.contains("channel-multiple-heads"),
        "{invalid:?}"
    );

    for words in [
        &["index", "add", "--bundles", "a"][..],
        &["alpha", "bundle", "extract", "-m", "/bundle/"],
        &["render", "a", "b"],
        &["render", configs, "-o", "mermaid"],
        &["render", "/nowhere"],
        &["alpha", "list", "sundries", configs],
    ] {
        let run = opm(words.iter().copied()).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.len() > 20, "{run:?}");
    }
}

#[test]
fn a_verdict_has_the_form_of_opm() {
    let place = Place::of(&Catalog::small());
    let configs = place.configs();
    let configs = configs.to_str().unwrap();
    let passed = opm(["validate", configs, "-o", "json"]).run();
    assert!(
        passed.status.success() && passed.stderr.is_empty(),
        "{passed:?}"
    );
    assert_eq!(passed.stdout, "{\n  \"passed\": true\n}\n");
    let passed = opm(["validate", configs, "--output=yaml"]).run();
    assert_eq!(passed.stdout, "passed: true\n", "{passed:?}");

    place.write(&half_good());
    let failed = opm(["validate", configs, "-o", "json"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stderr.is_empty(), "{failed:?}");
    let verdict: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(verdict["passed"], false);
    let message = verdict["error"]["message"].as_str().unwrap();
    assert!(message.contains("channel-multiple-heads"), "{message}");
    let failed = opm(["validate", configs, "-oyaml"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.contains("passed: false\n"), "{failed:?}");
    // Files that are no catalog.
    fs::write(place.configs().join(".indexignore"), "**/*").unwrap();
    let failed = opm(["validate", configs, "-o", "json"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.contains("\"passed\": false"), "{failed:?}");
    // What could not be read has no verdict.
    for words in [["/nowhere", "-ojson"], [configs, "-oxml"]] {
        let run = opm(["validate"].into_iter().chain(words)).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stdout.is_empty() && run.stderr.len() > 20, "{run:?}");
    }
}

#[test]
fn several_catalogs_are_rendered_one_after_the_other() {
    let place = Place::of(&Catalog::one("etcd"));
    let other = place.path("other");
    Catalog::one("fig").write_to(&other, Format::Yaml);
    let (configs, other) = (place.configs(), other.to_str().unwrap().to_owned());
    let configs = configs.to_str().unwrap();
    let alone = |source: &str| opm(["render", source]).run().stdout;
    let both = opm(["render", &other, configs]).run();
    assert!(both.status.success(), "{both:?}");
    assert_eq!(both.stdout, alone(&other) + &alone(configs));
    // Nothing is printed of those before one that fails.
    let failed = opm(["render", configs, "/nowhere"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.is_empty(), "{failed:?}");
    for flag in [
        "--migrate",
        "--migrate-level=bundle-object-to-csv-metadata",
        "--alpha-image-ref-template={{.Name}}",
    ] {
        let run = opm(["render", configs, flag]).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.contains("opm-upstream"), "{run:?}");
    }
    let same = opm(["render", configs, "--migrate=false", "--migrate-level=none"]).run();
    assert_eq!(same.stdout, alone(configs), "{same:?}");
}

#[test]
fn flags_for_pulling_count_where_something_is_pulled() {
    let upstream = Upstream::start_at("127.0.0.1:0", Some(Pair::of_itself().server(None)));
    let image = Image::of_catalog(&Catalog::one("etcd")).build();
    upstream.push("a/b", "v1", &image);
    let secured = upstream.reference("a/b", "v1");
    let plain = Upstream::start();
    plain.push("a/b", "v1", &image);
    let plain = plain.reference("a/b", "v1");
    let refused = opm(["render", &secured]).run();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for source in [&secured, &plain] {
        for flag in ["--skip-tls-verify", "--use-http", "--skip-tls=true"] {
            let rendered = opm(["render", source, flag]).run();
            assert!(
                rendered.stdout.contains("\"name\":\"etcd\""),
                "{flag}: {rendered:?}"
            );
            assert!(!rendered.stderr.contains("ignored"), "{rendered:?}");
            let listed = opm(["alpha", "list", "packages", source, flag]).run();
            assert!(listed.stdout.contains("etcd"), "{flag}: {listed:?}");
        }
    }
    let both = opm(["render", &plain, "--use-http", "--skip-tls-verify"]).run();
    assert_eq!(both.status.code(), Some(1), "{both:?}");
    assert!(both.stderr.contains("cannot be combined"), "{both:?}");
}

#[test]
fn lists_and_images_are_those_of_opm() {
    let place = Place::of(&Catalog::new());
    fs::write(
        place.configs().join("catalog.yaml"),
        r"
schema: olm.package
name: lantern
defaultChannel: stable
---
schema: olm.channel
package: lantern
name: stable
entries:
- {name: lantern.v1.9.0, replaces: lantern.v1.10.0, skips: [a, b], skipRange: <1.9.0}
- {name: lantern.v1.10.0}
---
schema: olm.bundle
package: lantern
name: lantern.v1.9.0
image: example.com/lantern:1.9
relatedImages: [{name: z, image: example.com/z}, {name: a, image: example.com/a}]
properties:
- {type: olm.package, value: {packageName: lantern, version: 1.9.0}}
- {type: olm.csv.metadata, value: {displayName: Lantern}}
---
schema: olm.bundle
package: lantern
name: lantern.v1.10.0
properties:
- {type: olm.package, value: {packageName: lantern, version: 1.10.0}}
- {type: olm.bundle.object, value: {data: e30=}}
",
    )
    .unwrap();
    let configs = place.configs();
    let configs = configs.to_str().unwrap();
    let list = |what: &str| opm(["alpha", "list", what, configs]).run().stdout;
    assert_eq!(
        list("packages"),
        "NAME     DISPLAY NAME  DEFAULT CHANNEL\nlantern                stable\n"
    );
    assert_eq!(
        list("bundles"),
        "PACKAGE  CHANNEL  BUNDLE           REPLACES         SKIPS  SKIP RANGE  IMAGE\n\
         lantern  stable   lantern.v1.10.0                                      \n\
         lantern  stable   lantern.v1.9.0   lantern.v1.10.0  a,b    <1.9.0      example.com/lantern:1.9\n"
    );
    let own = Start::new(["list", "packages", &format!("file:{configs}")]).run();
    assert!(
        own.stdout.contains("lantern  Lantern       stable"),
        "{own:?}"
    );

    let sorted = r#""relatedImages":[{"image":"example.com/a","name":"a"},{"image":"example.com/z","name":"z"}]"#;
    let rendered = opm(["render", configs]).run();
    assert!(rendered.stdout.contains(sorted), "{rendered:?}");
    let own = Start::new(["render", &format!("file:{configs}")]).run();
    assert!(!own.stdout.contains(sorted), "{own:?}");
}

#[test]
fn what_is_not_ours_is_handed_on_to_the_real_opm() {
    let place = Place::of(&Catalog::small());
    let program = place.path("opm");
    put_program(&program);
    let upstream = place.path("opm-upstream");
    fs::write(&upstream, "#!/bin/sh\necho \"upstream: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&upstream, fs::Permissions::from_mode(0o755)).unwrap();

    for words in [
        "alpha bundle extract -m /bundle/ -n olm -c config -z",
        "registry serve --port 1",
        "validate a",
    ] {
        let run = opm(words.split(' ')).program(&program).run();
        assert_eq!(run.status.code(), Some(7), "{run:?}");
        assert_eq!(run.stdout, format!("upstream: {words}\n"));
    }
    let mut served = place.serve().program(&program).start();
    assert_eq!(packages(&mut served), ["etcd"]);
    end(served);
    // Under its own name it is almanac.
    let run = opm(["--version"]).program(&program).called("almanac").run();
    assert!(run.stdout.starts_with("almanac "), "{run:?}");
}
