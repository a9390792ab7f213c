//! Pages about errors lead back, and propose names that exist.

use super::assert_sound;
use super::site::{page, served, text_of};

#[test]
fn a_wrong_basket_is_shown_with_a_way_to_mend_it() {
    let served = served();
    let path = "/mirror?pick=sample/fery-operator/stable&pick=hostile/hostile&to=a.example/b";
    let reply = page(&served, path);
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert_sound(path, &text);
    for part in [
        "sample/fery-operator/stable <span class=\"badge error\">wrong</span>",
        "href=\"/mirror?pick=hostile/hostile&amp;to=a.example/b\"",
        "take sample/ferry-operator/stable instead",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches(">wrong<").count(), 1, "{text}");
    let text = page(&served, "/mirror?pick=sampl/ferry-operator").text();
    assert!(
        text.contains("take sample/ferry-operator instead"),
        "{text}"
    );
    let text = page(&served, "/mirror?pick=nonsense").text();
    assert!(text.contains(">wrong<"), "{text}");
}

#[test]
fn an_error_of_a_package_has_its_path_and_links_for_proposed_names() {
    let served = served();
    let path = "/catalogs/hostile/packages/hostile/versions?from=hostile.v1.49&rows=all";
    let reply = page(&served, path);
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert_sound(path, &text);
    for part in [
        "href=\"/catalogs/hostile\"",
        "href=\"/catalogs/hostile/packages/hostile\"",
        "href=\"/catalogs/hostile/packages/hostile/versions\"",
        "href=\"/catalogs/hostile/packages/hostile/versions?from=hostile.v1.49",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = page(&served, "/catalogs/sample/packages/fery").text();
    assert!(
        text.contains("href=\"/catalogs/sample/packages/ferry-operator\""),
        "{text}"
    );
}

#[test]
fn an_empty_answer_says_whether_a_filter_made_it_empty() {
    let served = served();
    for (path, part) in [
        ("/problems?code=nope", "No problem matches this filter"),
        ("/changes?package=nope", "matches this filter"),
    ] {
        let text = text_of(&served, path);
        assert!(text.contains(part), "{path}: {text}");
    }
    let kinds = text_of(&served, "/apis");
    let link = kinds.split("href=\"/apis/").nth(1).unwrap();
    let kind = link.split('"').next().unwrap().split('/').nth(1).unwrap();
    let text = page(&served, &format!("/apis/wrong.example/{kind}")).text();
    assert!(text.contains("There is no group"), "{text}");
    assert!(text.contains("these groups have a kind"), "{text}");
}

#[test]
fn a_catalog_that_fails_says_so_without_its_source() {
    let served = served();
    let begin = std::time::Instant::now();
    let mut text = text_of(&served, "/catalogs/later");
    while !text.contains("cannot be reached") {
        assert!(begin.elapsed().as_secs() < 60, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
        text = text_of(&served, "/catalogs/later");
    }
    assert!(!text.contains("/nowhere/at/all"), "{text}");
    let text = text_of(&served, "/problems");
    assert!(
        text.contains("href=\"/catalogs/later\"") && text.contains("cannot be reached"),
        "{text}"
    );
    let text = page(&served, "/catalogs/later/packages/a").text();
    assert!(text.contains("cannot be reached"), "{text}");
}

#[test]
fn an_installation_refuses_names_that_a_cluster_refuses() {
    let served = served();
    for wrong in [
        "namespace=Bad_Name",
        "source=olm%2Fcommunity",
        "sourceNamespace=a.b",
        "watched=-a",
        "mode=OwnNamespac",
    ] {
        let path = format!("/catalogs/hostile/api/v1/packages/hostile/install?{wrong}");
        assert_eq!(served.get(&path).status, 400, "{wrong}");
    }
}

#[test]
fn the_images_of_a_package_go_to_the_basket_that_there_is() {
    let served = served();
    let text = text_of(&served, "/catalogs/hostile/packages/hostile/images");
    assert_eq!(
        text.matches("data-pick=\"hostile/hostile\"").count(),
        2,
        "{text}"
    );
    let text = text_of(&served, "/api");
    for part in ["Default: <code>", "Values: <code>"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("The same, and a page"), "{text}");
}
