use std::fs;

use crate::mirrors::matching::Mirrors;
use crate::mirrors::read::MirrorFiles;
use crate::mirrors::registries_conf;
use crate::reference::Reference;

fn mirrors(text: &str) -> Mirrors {
    Mirrors {
        rules: registries_conf::parse(text).unwrap(),
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
fn a_blocked_or_insecure_registry_is_so_under_each_name() {
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
            "m.example/a:v1 insecure",
            "bad.example/a:v1 blocked by bad.example",
            "quay.io/a:v1 blocked by quay.io",
        ]
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
        "main.conf",
        &(rule("a.b", "main.example") + &rule("c.d", "main.example")),
    );
    put("d/1.conf", &rule("a.b", "one.example"));
    put("d/2.conf", &rule("a.b", "two.example"));
    put("d/3.txt", &rule("a.b", "three.example"));
    put(
        "sets/idms.yaml",
        "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nspec:\n  \
         imageDigestMirrors: [{source: a.b, mirrors: [set.example]}]\n",
    );
    put("sets/other.yaml", "kind: Secret\n");
    let mut files = MirrorFiles {
        usual: vec![folder.path().join("missing.conf"), main.clone()],
        usual_folders: vec![folder.path().join("d"), folder.path().join("missing.d")],
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

    // A file from the settings must exist and be valid.
    files.kubernetes = vec![folder.path().join("sets/other.yaml")];
    let error = Mirrors::read(&files).unwrap_err().to_string();
    assert!(error.contains("no ImageDigestMirrorSet"), "{error}");
    files.kubernetes.clear();
    files.named = vec![folder.path().join("missing.conf")];
    assert!(Mirrors::read(&files).unwrap_err().is_missing());
    files.named = vec![main];
    let read = Mirrors::read(&files).unwrap();
    assert_eq!(locations(&read, "a.b/x:v1"), ["main.example/x:v1"]);
    put("main.conf", "[[registry]]");
    let error = Mirrors::read(&files).unwrap_err();
    assert_eq!(error.reason(), "mirrors");
}
