use std::fs;

use crate::config_files::AwaitedFile;
use crate::mirrors::matching::Mirrors;
use crate::mirrors::read::MirrorFiles;
use crate::mirrors::{kubernetes, registries_conf};
use crate::reference::Reference;

fn mirrors(text: &str) -> Mirrors {
    Mirrors {
        rules: registries_conf::parse(text).unwrap().rules,
        ..Mirrors::default()
    }
}

fn locations(mirrors: &Mirrors, image: &str) -> Vec<String> {
    let reference: Reference = image.parse().unwrap();
    let digest = reference.digest().map(ToString::to_string);
    mirrors
        .locations(&reference)
        .into_iter()
        .map(|location| match location {
            Err(bad) => format!("bad {}", bad.text),
            Ok(location) => {
                let mut text = location.reference.to_string();
                if let Some(digest) = &digest {
                    text = text.replace(digest, "D");
                }
                if location.insecure {
                    text += " insecure";
                }
                if let Some(prefix) = location.blocked {
                    text = format!("{text} blocked by {prefix}");
                }
                text
            }
        })
        .collect()
}

fn by_digest(name: &str) -> String {
    format!("{name}@sha256:{}", "0".repeat(64))
}

#[test]
fn an_image_without_a_rule_has_its_own_location() {
    let mirrors = mirrors("");
    assert_eq!(locations(&mirrors, "quay.io/a/b:v1"), ["quay.io/a/b:v1"]);
}

#[test]
fn the_longest_prefix_applies_and_ends_at_a_part() {
    let mirrors = mirrors(
        r#"
        [[registry]]
        location = "quay.io"
        [[registry.mirror]]
        location = "short.example"
        [[registry]]
        prefix = "quay.io/a"
        location = "elsewhere.example/x/a"
        [[registry.mirror]]
        location = "m.example:5000/long"
        insecure = true
        [[registry]]
        prefix = "*.example.com"
        [[registry.mirror]]
        location = "m.example/sub"
        "#,
    );
    assert_eq!(
        locations(&mirrors, "quay.io/a/b:v1"),
        [
            "m.example:5000/long/b:v1 insecure",
            "elsewhere.example/x/a/b:v1"
        ]
    );
    assert_eq!(
        locations(&mirrors, "quay.io/a:v1"),
        [
            "m.example:5000/long:v1 insecure",
            "elsewhere.example/x/a:v1"
        ]
    );
    assert_eq!(
        locations(&mirrors, "quay.io/ab:v1"),
        ["short.example/ab:v1", "quay.io/ab:v1"]
    );
    assert_eq!(
        locations(&mirrors, "quay.io:443/a:v1")[0],
        "short.example:443/a:v1"
    );
    assert_eq!(
        locations(&mirrors, "a.b.example.com/c/d:v1"),
        ["m.example/sub/c/d:v1", "a.b.example.com/c/d:v1"]
    );
    assert_eq!(
        locations(&mirrors, "example.com/c:v1"),
        ["example.com/c:v1"]
    );
    assert_eq!(
        locations(&mirrors, "x.org/a.example.com:v1"),
        ["x.org/a.example.com:v1"]
    );
}

#[test]
fn a_mirror_applies_to_digests_or_tags() {
    let mirrors = mirrors(
        r#"
        [[registry]]
        location = "quay.io"
        [[registry.mirror]]
        location = "all.example"
        [[registry.mirror]]
        location = "digest.example"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "tag.example"
        pull-from-mirror = "tag-only"
        [[registry]]
        location = "quay.io/b"
        mirror-by-digest-only = true
        [[registry.mirror]]
        location = "digest.example/b"
        "#,
    );
    assert_eq!(
        locations(&mirrors, "quay.io/a:v1"),
        ["all.example/a:v1", "tag.example/a:v1", "quay.io/a:v1"]
    );
    assert_eq!(
        locations(&mirrors, &by_digest("quay.io/a")),
        ["all.example/a@D", "digest.example/a@D", "quay.io/a@D"]
    );
    assert_eq!(locations(&mirrors, "quay.io/b:v1"), ["quay.io/b:v1"]);
    assert_eq!(
        locations(&mirrors, &by_digest("quay.io/b")),
        ["digest.example/b@D", "quay.io/b@D"]
    );
}

#[test]
fn a_blocked_registry_is_so_under_each_name_and_an_insecure_one_under_its_own() {
    let mirrors = mirrors(
        r#"
        [[registry]]
        location = "quay.io"
        blocked = true
        [[registry.mirror]]
        location = "m.example"
        [[registry.mirror]]
        location = "bad.example"
        [[registry]]
        location = "m.example"
        insecure = true
        [[registry]]
        location = "bad.example"
        blocked = true
        "#,
    );
    assert_eq!(
        locations(&mirrors, "quay.io/a:v1"),
        [
            "m.example/a:v1",
            "bad.example/a:v1 blocked by bad.example",
            "quay.io/a:v1 blocked by quay.io",
        ]
    );
    assert_eq!(
        locations(&mirrors, "m.example/a:v1"),
        ["m.example/a:v1 insecure"]
    );
}

#[test]
fn a_host_comes_before_a_wildcard_of_the_same_length() {
    for order in [
        ["*.example.com", "a.example.com"],
        ["a.example.com", "*.example.com"],
    ] {
        let tables = order.map(|prefix| {
            let location = prefix.replace('*', "b");
            format!(
                "[[registry]]\nprefix = {prefix:?}\nlocation = {location:?}\n\
                     [[registry.mirror]]\nlocation = \"m.example/{location}\"\n"
            )
        });
        let mirrors = mirrors(&tables.concat());
        assert_eq!(
            locations(&mirrors, "a.example.com/c:v1"),
            ["m.example/a.example.com/c:v1", "a.example.com/c:v1"]
        );
    }
}

#[test]
fn a_prefix_with_a_tag_or_digest_matches_no_image() {
    let text = format!(
        "[[registry]]\nprefix = \"quay.io/a:v1\"\nlocation = \"m.example/a\"\n\
         [[registry]]\nlocation = {:?}\nblocked = true\n",
        by_digest("quay.io/a")
    );
    let file = registries_conf::parse(&text).unwrap();
    assert_eq!(file.remarks.len(), 2);
    let mirrors = mirrors(&text);
    assert_eq!(locations(&mirrors, "quay.io/a:v1"), ["quay.io/a:v1"]);
    assert_eq!(
        locations(&mirrors, &by_digest("quay.io/a")),
        ["quay.io/a@D"]
    );
}

#[test]
fn docker_hub_has_its_mirrors_under_each_of_its_names() {
    let mirrors = mirrors(
        "[[registry]]\nlocation = \"docker.io\"\n\
         [[registry.mirror]]\nlocation = \"m.example/hub\"\n",
    );
    for image in [
        "docker.io/x:v1",
        "index.docker.io/x:v1",
        "index.docker.io/library/x:v1",
    ] {
        assert_eq!(
            locations(&mirrors, image),
            ["m.example/hub/library/x:v1", "docker.io/library/x:v1"]
        );
    }
}

/// The mirrors of a `registries.conf` with mirror sets.
fn with_sets(conf: &str, sets: &str) -> Mirrors {
    let mut mirrors = mirrors(conf);
    mirrors.add_sets(&kubernetes::parse(sets).unwrap().sets);
    mirrors
}

fn digest_set(entries: &str) -> String {
    format!(
        "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nspec:\n  \
         imageDigestMirrors: [{entries}]\n---\n"
    )
}

#[test]
fn the_sets_of_one_source_are_merged_in_their_orders() {
    let sets = digest_set("{source: s.example, mirrors: [c.example, d.example]}")
        + &digest_set("{source: s.example, mirrors: [a.example, b.example, c.example]}");
    assert_eq!(
        locations(&with_sets("", &sets), &by_digest("s.example/x")),
        [
            "a.example/x@D",
            "b.example/x@D",
            "c.example/x@D",
            "d.example/x@D",
            "s.example/x@D"
        ]
    );
}

#[test]
fn a_set_without_mirrors_is_none() {
    let never = "mirrorSourcePolicy: NeverContactSource";
    let sets = digest_set(&format!(
        "{{source: s.example, mirrors: [m.example]}}, {{source: s.example/a, {never}}}, \
         {{source: t.example, mirrors: [t.example], {never}}}"
    ));
    let mirrors = with_sets("", &sets);
    assert_eq!(
        locations(&mirrors, &by_digest("s.example/a")),
        ["m.example/a@D", "s.example/a@D"]
    );
    assert_eq!(locations(&mirrors, "t.example/a:v1"), ["t.example/a:v1"]);
}

#[test]
fn the_files_apply_to_the_sources_and_mirrors_of_sets_below_them() {
    let conf = "[[registry]]\nlocation = \"m.example\"\ninsecure = true\n\
                [[registry]]\nlocation = \"s.example\"\nblocked = true\n\
                [[registry]]\nlocation = \"t.example/a/b\"\ninsecure = true\n";
    let sets = digest_set(
        "{source: s.example/a, mirrors: [m.example/a, mm.example/a]}, \
         {source: t.example, mirrors: [m.example/t]}",
    );
    let mirrors = with_sets(conf, &sets);
    assert_eq!(
        locations(&mirrors, &by_digest("s.example/a")),
        [
            "m.example/a@D insecure",
            "mm.example/a@D",
            "s.example/a@D blocked by s.example/a"
        ]
    );
    // Only the longest prefix applies, so it gets the mirrors of the source.
    assert_eq!(
        locations(&mirrors, &by_digest("t.example/a/b")),
        ["m.example/t/a/b@D insecure", "t.example/a/b@D insecure"]
    );
}

#[test]
fn a_users_file_sets_the_systems_files_aside() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, location: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let prefix = name.replace('/', ".");
        let rule = format!("[[registry]]\nprefix = \"{prefix}\"\nlocation = \"{location}\"\n");
        fs::write(&path, rule).unwrap();
    };
    put("system/registries.conf", "system.example");
    put("system/registries.conf.d/1.conf", "system.example");
    put("user/registries.conf.d/.z.conf", "user.example");
    let files = MirrorFiles {
        usual: ["user", "system"]
            .map(|name| folder.path().join(name))
            .into(),
        ..MirrorFiles::default()
    };
    let prefixes = || {
        let read = Mirrors::read(&files).unwrap();
        read.rules.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(
        prefixes(),
        [
            "system.registries.conf",
            "system.registries.conf.d.1.conf",
            "user.registries.conf.d..z.conf"
        ]
    );
    put("user/registries.conf", "user.example");
    assert_eq!(
        prefixes(),
        ["user.registries.conf", "user.registries.conf.d..z.conf"]
    );
}

#[test]
fn later_files_override_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    };
    let rule = |prefix: &str, location: &str| {
        format!("[[registry]]\nprefix = {prefix:?}\nlocation = {location:?}\n")
    };
    let main = put(
        "etc/registries.conf",
        &(rule("a.b", "main.example") + &rule("c.d", "main.example")),
    );
    put("etc/registries.conf.d/1.conf", &rule("a.b", "one.example"));
    put("etc/registries.conf.d/2.conf", &rule("a.b", "two.example"));
    put("etc/registries.conf.d/3.txt", &rule("a.b", "three.example"));
    put(
        "sets/idms.yaml",
        "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nspec:\n  \
         imageDigestMirrors: [{source: a.b, mirrors: [set.example]}]\n",
    );
    put("sets/other.yaml", "kind: Secret\n");
    let mut files = MirrorFiles {
        usual: vec![folder.path().join("missing"), folder.path().join("etc")],
        kubernetes: vec![folder.path().join("sets")],
        ..MirrorFiles::default()
    };
    let read = Mirrors::read(&files).unwrap();
    assert_eq!(locations(&read, "a.b/x:v1"), ["two.example/x:v1"]);
    assert_eq!(
        locations(&read, &by_digest("a.b/x")),
        ["set.example/x@D", "two.example/x@D"]
    );
    assert_eq!(locations(&read, "c.d/x:v1"), ["main.example/x:v1"]);

    // A set in another version works, and is remarked on.
    assert!(read.remarks().is_empty());
    put(
        "sets/older.yaml",
        "apiVersion: operator.openshift.io/v1\nkind: ImageTagMirrorSet\nspec:\n  \
         imageTagMirrors: [{source: e.f, mirrors: [tags.example]}]\n",
    );
    let read = Mirrors::read(&files).unwrap();
    assert_eq!(
        locations(&read, "e.f/x:v1"),
        ["tags.example/x:v1", "e.f/x:v1"]
    );
    assert_eq!(read.remarks().len(), 1);

    // A file from the settings must exist and be valid.
    files.kubernetes = vec![folder.path().join("sets/other.yaml")];
    let error = Mirrors::read(&files).unwrap_err().to_string();
    assert!(error.contains("no ImageDigestMirrorSet"), "{error}");
    // One that is still to come says so.
    files.kubernetes.clear();
    let path = folder.path().join("later");
    files.awaited = Some(AwaitedFile {
        path: path.clone(),
        unknown: "not read yet".to_owned(),
    });
    let error = Mirrors::read(&files).unwrap_err();
    assert!(!error.is_missing() && error.to_string().contains("not read yet"));
    std::fs::write(&path, r#"{"kind":"List","items":[]}"#).unwrap();
    assert!(Mirrors::read(&files).is_ok());
    files.awaited = None;
    files.named = vec![folder.path().join("missing.conf")];
    assert!(Mirrors::read(&files).unwrap_err().is_missing());
    files.usual.clear();
    files.named = vec![main];
    let read = Mirrors::read(&files).unwrap();
    assert_eq!(locations(&read, "a.b/x:v1"), ["main.example/x:v1"]);
    put("etc/registries.conf", "[[registry]]");
    let error = Mirrors::read(&files).unwrap_err();
    assert_eq!(error.reason(), "mirrors");
}
