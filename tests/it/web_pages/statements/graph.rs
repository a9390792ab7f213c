//! Graphs and plans of real packages.

use serde_json::Value;

use super::real;
use super::real::{Real, links, words};

const HIVE: &str = "/catalogs/large/packages/hive-operator";

/// The rows of versions of a page, and the folded ones.
fn rows(text: &str) -> (usize, usize) {
    let body = text.split("<tbody>").nth(1).unwrap();
    let body = body.split("</tbody>").next().unwrap();
    let folds = body.matches("<tr class=\"fold\"").count();
    (body.matches("<tr").count() - folds, folds)
}

#[test]
fn every_channel_and_version_of_a_wide_package_has_its_place() {
    let Some(real) = real() else { return };
    let path = "/catalogs/large/packages/strimzi-kafka-operator/versions";
    let text = real.text(&format!("{path}?channels=all&rows=all"));
    assert_eq!(text.matches("<th class=\"channel").count(), 38);
    assert_eq!(rows(&text), (60, 0));
    let entries: usize = real
        .documents("olm.channel")
        .iter()
        .filter(|channel| channel["package"] == "strimzi-kafka-operator")
        .map(|channel| channel["entries"].as_array().unwrap().len())
        .sum();
    let dots = text.matches("class=\"dot").count() - text.matches("<span class=\"dot").count();
    assert!(dots >= entries, "{dots} dots for {entries} entries");
    // At first there are eight, and a link to all.
    let first = real.text(path);
    assert_eq!(first.matches("<th class=\"channel").count(), 8);
    assert_eq!(links(&first, &format!("{path}?channels=all")).len(), 1);
}

#[test]
fn a_long_package_folds_to_sixty_rows_and_unfolds_to_all() {
    let Some(real) = real() else { return };
    let (versions, folds) = rows(&real.text(&format!("{HIVE}/versions")));
    assert!(folds > 0 && versions + folds <= 60, "{versions} {folds}");
    assert_eq!(
        rows(&real.text(&format!("{HIVE}/versions?rows=all"))),
        (222, 0)
    );
    // A selected version keeps its row.
    let text = real.text(&format!("{HIVE}/versions?from={}", ends(real).0));
    let (versions, folds) = rows(&text);
    assert!(versions + folds <= 60, "{versions} {folds}");
    assert_eq!(text.matches("<tr class=\"selected").count(), 1);
}

#[test]
fn only_the_range_of_the_head_is_drawn_until_an_entry_is_selected() {
    let Some(real) = real() else { return };
    let path = "/catalogs/large/packages/assisted-service-operator/versions?channel=alpha&rows=all";
    // The key has samples of all lines.
    let graph = |text: &str| text.split("<ul class=\"key\"").next().unwrap().to_owned();
    let ranges = |text: &str| graph(text).matches("<path class=\"range").count();
    let text = real.text(path);
    assert_eq!(ranges(&text), 1);
    let told = text.matches("skipRange &gt;").count() + text.matches("skipRange &lt;").count();
    assert!(told > 90, "{told}");
    let entries =
        real.json("/catalogs/large/api/v1/packages/assisted-service-operator/channels/alpha");
    let entry = &entries["entries"][20];
    assert!(entry["skipRange"].is_string(), "{entry}");
    let selected = format!("{path}&from={}", entry["name"].as_str().unwrap());
    assert_eq!(ranges(&real.text(&selected)), 2);
}

/// The oldest bundle and the head of the longest channel.
fn ends(real: &Real) -> (String, String) {
    let channel = real.json("/catalogs/large/api/v1/packages/hive-operator/channels/alpha");
    let entries = channel["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 199);
    let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
    (name(&entries[198]), name(&entries[0]))
}

#[test]
fn the_longest_way_has_198_steps_folded_and_each_with_a_link() {
    let Some(real) = real() else { return };
    let (oldest, head) = ends(real);
    let text = real.text(&format!("{HIVE}/updates?channel=alpha&from={oldest}"));
    assert!(
        words(&text).contains("alpha: 198 steps, reaches the head"),
        "{text}"
    );
    let steps = text.split("<ol class=\"steps\">").nth(1).unwrap();
    let steps = steps.split("OLM v1 at once").next().unwrap();
    assert_eq!(steps.matches("<li value=\"").count(), 198);
    assert!(
        steps.contains("<details>") && steps.contains("single steps"),
        "{steps}"
    );
    let bundles = format!("{HIVE}/bundles/");
    let links = links(steps, &bundles);
    assert_eq!(links.len(), 198);
    assert_eq!(links[197], format!("{bundles}{head}"));
    for link in [&links[0], &links[99], &links[197]] {
        real.text(link);
    }
}

#[test]
fn a_skip_is_one_step_for_olm_v0_and_one_of_six_successors_for_olm_v1() {
    let Some(real) = real() else { return };
    let path = "/catalogs/large/packages/dell-csi-operator/updates?channel=stable&from=1.2.0";
    let text = words(&real.text(path));
    assert!(text.contains("stable: 1 step, reaches the head"), "{text}");
    assert!(
        text.contains("dell-csi-operator.v1.12.0 1.12.0 skips"),
        "{text}"
    );
    let successors = text.split("OLM v1 at once").nth(1).unwrap();
    assert_eq!(successors.matches("stable").count(), 6, "{successors}");
}

#[test]
fn what_olm_v0_leaves_out_is_no_step_but_one_for_olm_v1() {
    let Some(real) = real() else { return };
    let path = "/catalogs/real/packages/clusterpulse";
    let query = "channel=fast-v0&from=0.2.2";
    let text = words(&real.text(&format!("{path}/updates?{query}&rules=v0")));
    assert!(text.contains("No update"), "{text}");
    let successors = text.split("OLM v1 at once").nth(1).unwrap();
    assert!(
        successors.starts_with("0.2.3 fast-v0 highest"),
        "{successors}"
    );
    // The graph says why.
    let of = |rules: &str| real.text(&format!("{path}/versions?channel=fast-v0&rules={rules}"));
    assert!(words(&of("v0")).contains("never installed: skipped by 0.3.0"));
    assert!(!of("v1").contains("never installed:"));
    let plan = real.json(&format!(
        "/catalogs/real/api/v1/plan?package=clusterpulse&{query}"
    ));
    assert_eq!(plan["steps"], serde_json::json!([]));
}

#[test]
fn the_files_of_a_graph_have_the_content_of_the_page() {
    let Some(real) = real() else { return };
    let (oldest, head) = ends(real);
    let query = format!("channel=alpha&rows=all&from={oldest}&to={head}");
    let page = real.text(&format!("{HIVE}/versions?{query}"));
    let file = real.served.get(&format!("{HIVE}/graph.svg?{query}"));
    assert_eq!(file.header("content-type"), Some("image/svg+xml"));
    let file = file.text();
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("data-edge="));
        lines
            .map(|line| line[line.find("<path").unwrap()..].to_owned())
            .collect()
    };
    assert!(lines(&page).len() >= 198);
    assert_eq!(lines(&page), lines(&file));
    let text = real
        .served
        .get(&format!("{HIVE}/graph.mmd?channel=alpha&rows=all"));
    assert_eq!(text.text().matches(" --> ").count(), 198);
}
