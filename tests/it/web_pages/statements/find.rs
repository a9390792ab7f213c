//! Finding: home, search, facets, kinds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::real;
use super::real::{links, words};

#[test]
fn home_shows_counts_problems_and_content_of_a_real_catalog() {
    let Some(real) = real() else { return };
    let text = real.text("/");
    let row = text.split("<tr>").find(|row| row.contains(">large</a>"));
    let row = row.unwrap();
    for part in ["9f255ee2a6e7", ">325<", ">6,871<", ">2 warnings<"] {
        assert!(row.contains(part), "{part}: {row}");
    }
}

#[test]
fn kafka_finds_twelve_packages_those_named_so_first() {
    let Some(real) = real() else { return };
    let text = real.text("/search?q=kafka&catalog=large");
    assert!(text.contains("<small>12 packages</small>"), "{text}");
    let names = text.split("<p class=\"name\">").skip(1);
    let names: Vec<&str> = names
        .map(|part| {
            part.split("<code>")
                .nth(1)
                .unwrap()
                .split('<')
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(names.len(), 12);
    assert_eq!(
        names[..2],
        ["ack-kafka-controller", "strimzi-kafka-operator"]
    );
}

/// The values of all facets with their numbers.
fn facets(text: &str) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut found = BTreeMap::new();
    for part in text.split("<section class=\"facet\">").skip(1) {
        let part = part.split("</section>").next().unwrap();
        let title = words(&format!("<main>{}", part.split("</h2>").next().unwrap()));
        let lines = part.split("<li>").skip(1).map(|line| {
            let (value, count) = line.split_once("<span class=\"count\">").unwrap();
            let value = words(&format!("<main>{value}"));
            (value, count.split('<').next().unwrap().parse().unwrap())
        });
        found.insert(title, lines.collect());
    }
    found
}

#[test]
fn facets_count_the_packages_of_a_real_catalog() {
    let Some(real) = real() else { return };
    let facets = facets(&real.text("/search?catalog=large"));
    let all: Vec<(&String, usize)> = facets.values().flatten().map(|(k, v)| (k, *v)).collect();
    for (value, count) in [
        ("Database", 27),
        ("Deep Insights", 34),
        ("AllNamespaces", 275),
        ("arm64", 111),
    ] {
        let found: Vec<usize> = all
            .iter()
            .filter(|(k, _)| *k == value)
            .map(|(_, v)| *v)
            .collect();
        assert_eq!(found, [count], "{value}");
    }
    for (parameter, count) in [
        ("category=Database", 27),
        ("level=Deep%20Insights", 34),
        ("mode=AllNamespaces", 275),
        ("architecture=arm64", 111),
    ] {
        let text = real.text(&format!("/search?catalog=large&{parameter}"));
        let wanted = format!("<small>{count} packages</small>");
        assert!(text.contains(&wanted), "{parameter}: {text}");
    }
}

#[test]
fn spellings_of_a_feature_and_of_a_provider_are_one_value() {
    let Some(real) = real() else { return };
    let facets = facets(&real.text("/search?catalog=large"));
    let all: Vec<(&String, usize)> = facets.values().flatten().map(|(k, v)| (k, *v)).collect();
    let of = |wanted: &str| -> Vec<usize> {
        let is_so = |name: &String| name.to_lowercase() == wanted;
        all.iter()
            .filter(|(name, _)| is_so(name))
            .map(|(_, count)| *count)
            .collect()
    };
    assert_eq!(of("disconnected"), [61]);
    assert_eq!(of("red hat"), [45]);
    for spelling in ["red hat, inc.", "red hat inc.", "red hat, inc"] {
        assert!(of(spelling).is_empty(), "{spelling}");
    }
}

#[test]
fn a_kind_leads_to_its_group_and_package() {
    let Some(real) = real() else { return };
    let text = real.text("/apis?q=Kafka");
    assert!(
        text.contains("href=\"/apis/kafka.strimzi.io/Kafka\""),
        "{text}"
    );
    let text = real.text("/apis/kafka.strimzi.io/Kafka");
    assert_eq!(
        links(&text, "/packages/"),
        ["/packages/strimzi-kafka-operator"]
    );
    let text = real.text("/search?q=Kafka&catalog=large");
    assert!(text.contains("strimzi-kafka-operator"), "{text}");
}

/// Over all bundles twelve kinds have two providers. (Over the heads of channels, ten.)
#[test]
fn a_kind_with_several_providers_lists_all_of_them() {
    let Some(real) = real() else { return };
    let mut providers: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for bundle in real.documents("olm.bundle") {
        for property in bundle["properties"].as_array().into_iter().flatten() {
            if property["type"] != "olm.gvk" {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let value = &property["value"];
            let kind = (text(&value["group"]), text(&value["kind"]));
            providers
                .entry(kind)
                .or_default()
                .insert(text(&bundle["package"]));
        }
    }
    providers.retain(|_, packages| packages.len() > 1);
    assert_eq!(providers.len(), 12);
    for ((group, kind), packages) in providers {
        let text = real.text(&format!("/apis/{group}/{kind}"));
        let found = links(&text, "/packages/");
        let wanted: Vec<String> = packages
            .iter()
            .map(|name| format!("/packages/{name}"))
            .collect();
        assert!(
            wanted.iter().all(|link| found.contains(link)),
            "{kind}: {found:?}"
        );
    }
}
