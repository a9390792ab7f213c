//! Cases of mirror sets: almanac reads the objects, skopeo reads what the
//! operator writes from them.

use std::fmt::Write as _;

use fastrand::Rng;

use super::case::Case;
use super::conf_cases::{CONF, one_of, world};
use super::operator::{Entry, Kind, render};
use super::registry::common;

const SOURCES: [&str; 6] = [
    "a.test",
    "a.test/team",
    "a.test/team/app",
    "*.c.test",
    "b.test:5000/team",
    "x.c.test",
];
const MIRRORS: [&str; 6] = [
    "m1.test",
    "m1.test/mirrored/team",
    "m2.test:8443/team",
    "m3.test",
    "x.c.test/team",
    "a.test/team",
];

pub(super) fn case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let host = one_of(&mut rng, &["a.test", "x.c.test", "b.test:5000"]);
    let path = one_of(&mut rng, &["team/app", "team/app", "app"]);
    let image = if rng.u8(..3) == 0 {
        format!("{host}/{path}:v1")
    } else {
        format!("{host}/{path}@{}", common().0)
    };
    let mut case = Case {
        name: format!("mirror sets {seed}"),
        image,
        world: world(&mut rng),
        ..Case::default()
    };
    let mut all = Vec::new();
    let mut text = String::new();
    for number in 0..rng.u8(1..5) {
        let form = one_of(
            &mut rng,
            &[
                "ImageDigestMirrorSet",
                "ImageTagMirrorSet",
                "ImageContentSourcePolicy",
            ],
        );
        let entries: Vec<Entry> = (0..rng.u8(1..4)).map(|_| entry(&mut rng, form)).collect();
        text.push_str(&object(form, number, &entries));
        all.extend(entries);
    }
    let mut base = String::new();
    let mut insecure = Vec::new();
    for scope in ["m1.test", "m2.test:8443", "*.c.test"] {
        if rng.u8(..6) == 0 {
            insecure.push(scope);
            let key = if scope.starts_with('*') {
                "prefix"
            } else {
                "location"
            };
            writeln!(base, "[[registry]]\n{key} = {scope:?}\ninsecure = true").unwrap();
        }
    }
    case.file("sets.yaml", text);
    case.file("base.conf", base);
    case.file(CONF, render(&all, &insecure));
    case.global_flags = vec![format!("--registries-conf={{folder}}/{CONF}")];
    case.settings = "registries_conf = [\"{folder}/base.conf\"]\n\
                     mirror_files = [\"{folder}/sets.yaml\"]\n"
        .into();
    case
}

fn entry(rng: &mut Rng, form: &str) -> Entry {
    let source = one_of(rng, &SOURCES).to_owned();
    let mut mirrors: Vec<String> = Vec::new();
    for _ in 0..rng.u8(..4) {
        let mirror = match rng.u8(..10) {
            0 => source.clone(),
            _ => one_of(rng, &MIRRORS).to_owned(),
        };
        if !mirrors.contains(&mirror) && !mirror.starts_with('*') {
            mirrors.push(mirror);
        }
    }
    let is_old = form == "ImageContentSourcePolicy";
    Entry {
        kind: match form {
            "ImageTagMirrorSet" => Kind::Tag,
            _ => Kind::Digest,
        },
        source,
        mirrors,
        never_source: !is_old && rng.u8(..5) == 0,
    }
}

fn object(form: &str, number: u8, entries: &[Entry]) -> String {
    let (version, key) = match form {
        "ImageDigestMirrorSet" => ("config.openshift.io/v1", "imageDigestMirrors"),
        "ImageTagMirrorSet" => ("config.openshift.io/v1", "imageTagMirrors"),
        _ => ("operator.openshift.io/v1alpha1", "repositoryDigestMirrors"),
    };
    let mut text = format!(
        "---\napiVersion: {version}\nkind: {form}\nmetadata:\n  name: set-{number}\nspec:\n  {key}:\n"
    );
    for entry in entries {
        writeln!(
            text,
            "  - source: {:?}\n    mirrors: {:?}",
            entry.source, entry.mirrors
        )
        .unwrap();
        if entry.never_source {
            text.push_str("    mirrorSourcePolicy: NeverContactSource\n");
        }
    }
    text
}
