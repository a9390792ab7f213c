//! Pages about errors lead back, and propose names that exist.

use super::assert_sound;
use serde_json::{Value, json};

use super::site::{BROWSER, attributes, page, served, text_of};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::http;
use crate::support::served::{Folders, Served};

#[test]
fn a_package_that_a_selection_lacks_is_linked_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let content = Catalog::one("crane").package("hook", |package| {
        package.channel("stable", [entry("hook.v1.0.0")])
    });
    content.write_to(folder.path(), Format::JsonLines);
    let harbor = catalog("harbor", &format!("file:{}", folder.path().display()));
    let shelf = "from = [\"harbor\"]\npackages = [{ name = \"crane\" }]";
    let config = format!("{harbor}\n[[catalog]]\nname = \"shelf\"\n{shelf}\n");
    let mut almanac = Almanac::start(&config);
    almanac.until("shelf", "a revision", |status| status["state"] == "serving");
    let address = almanac.program.address("http");
    let get = |path: &str| http::ask(address, "GET", path, &BROWSER, b"").unwrap();
    let path = "/catalogs/shelf/packages/hook/versions";
    let reply = get(path);
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert_sound(path, &text);
    for part in [
        "shelf is a selection of 1 package from other catalogs.",
        "<a href=\"/catalogs/harbor/packages/hook\">harbor has hook</a>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // No catalog has it.
    let text = get("/catalogs/harbor/packages/sling").text();
    assert!(
        !text.contains("selection") && !text.contains("In other catalogs"),
        "{text}"
    );
}

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
        (
            "/problems?code=channel-cycle&severity=warning",
            "No problem matches this filter",
        ),
        ("/changes?package=ferry-operator", "matches this filter"),
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
fn an_unknown_code_or_package_in_a_filter_is_told_with_proposals() {
    let served = served();
    for (path, twin, kind, near) in [
        (
            "/problems?code=channel-cycl",
            "/api/v1/problems?code=channel-cycl",
            "unknown-code",
            "/problems?code=channel-cycle",
        ),
        (
            "/changes?package=fery-operator",
            "/api/v1/changes?package=fery-operator",
            "unknown-package",
            "/changes?package=ferry-operator",
        ),
        (
            "/catalogs/sample/changes?package=hostile",
            "/api/v1/changes?catalog=sample&package=hostile",
            "unknown-package",
            "",
        ),
    ] {
        let reply = page(&served, path);
        assert_eq!(reply.status, 404, "{path}");
        let text = reply.text();
        assert_sound(path, &text);
        let links = attributes(&text, "href");
        assert!(
            near.is_empty() || links.contains(&near.to_owned()),
            "{path}: {text}"
        );
        let reply = served.get(twin);
        assert_eq!(reply.status, 404, "{twin}");
        assert!(reply.text().contains(kind), "{twin}: {}", reply.text());
    }
    assert_eq!(served.get("/api/v1/changes?catalog=nope").status, 404);
    assert_eq!(served.get("/api/v1/changes?kind=nope").status, 400);
}

#[test]
fn an_error_has_the_tabs_of_its_package_and_a_form_to_correct_it() {
    let served = served();
    let path = "/catalogs/hostile/packages/hostile/updates?from=1.2.3.4&rules=v1&to=%22%3E%3Cb%3E";
    let reply = page(&served, path);
    assert!((400..500).contains(&reply.status), "{}", reply.status);
    let text = reply.text();
    assert_sound(path, &text);
    for part in [
        "<nav class=\"tabs\"",
        "href=\"/catalogs/hostile/packages/hostile/install\"",
        "action=\"/catalogs/hostile/packages/hostile/updates\"",
        "name=\"from\" value=\"1.2.3.4\" maxlength=\"1024\" aria-invalid=\"true\"",
        "name=\"rules\" value=\"v1\"",
        "value=\"&quot;&gt;&lt;b&gt;\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // An unknown parameter is left out; a package that is none has no tabs.
    let text = page(&served, "/search?q=a&colour=red").text();
    assert!(text.contains("name=\"q\" value=\"a\""), "{text}");
    assert!(!text.contains("name=\"colour\""), "{text}");
    for path in [
        "/catalogs/sample/packages/nope",
        "/catalogs/nope/packages/ferry-operator",
    ] {
        let text = page(&served, path).text();
        assert!(!text.contains("class=\"tabs\""), "{path}: {text}");
    }
    // The catalog that a parameter names is no reason to forget the one of the path.
    let text = page(
        &served,
        "/catalogs/sample/packages/ferry-operator/updates?from=2.0.0&via=nope",
    )
    .text();
    assert!(text.contains("class=\"tabs\""), "{text}");
}

#[test]
fn the_fields_of_the_basket_make_an_item() {
    let served = served();
    let added = |query: &str| {
        let reply = page(&served, &format!("/mirror?{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        attributes(&reply.text(), "data-plan")
    };
    for (query, plan) in [
        ("package=&channel=&min=&max=", ""),
        (
            "package=sample/ferry-operator",
            "?pick=sample%2Fferry-operator",
        ),
        // Only one catalog has it.
        (
            "package=ferry-operator&channel=v2",
            "?pick=sample%2Fferry-operator%2Fv2",
        ),
        (
            "pick=hostile/hostile&package=ferry-operator&channel=v2&min=2.0.0",
            "?pick=hostile%2Fhostile&pick=sample%2Fferry-operator%2Fv2%402.0.0..",
        ),
    ] {
        assert_eq!(added(query), [plan], "{query}");
    }
    for (query, status, part) in [
        ("channel=v2", 400, "name=\"package\""),
        (
            "package=fery-operator&channel=v2",
            404,
            "/mirror?package=ferry-operator&amp;channel=v2",
        ),
        (
            "package=sample/fery-operator",
            404,
            "value=\"sample/fery-operator\"",
        ),
    ] {
        let path = format!("/mirror?{query}");
        let reply = page(&served, &path);
        assert_eq!(reply.status, status, "{query}");
        let text = reply.text();
        assert_sound(&path, &text);
        assert!(text.contains(part), "{query}: {part}: {text}");
    }
}

#[test]
fn a_catalog_that_fails_says_so_without_its_source() {
    let served = served();
    let begin = std::time::Instant::now();
    let mut text = text_of(&served, "/catalogs/later");
    while !text.contains("cannot be read") {
        assert!(begin.elapsed().as_secs() < 60, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
        text = text_of(&served, "/catalogs/later");
    }
    assert!(!text.contains("/nowhere/at/all"), "{text}");
    let text = text_of(&served, "/problems");
    assert!(
        text.contains("href=\"/catalogs/later\"") && text.contains("cannot be read"),
        "{text}"
    );
    let text = page(&served, "/catalogs/later/packages/a").text();
    assert!(text.contains("cannot be read"), "{text}");
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

#[test]
fn refused_content_is_told_with_its_problem_and_its_line() {
    let catalog = Catalog::new().package("crane", |package| {
        package.channel("stable", [entry("crane.v1.0.0")])
    });
    let folders = Folders::of("harbor", &catalog);
    let mut served = Served::catalogs(&folders);
    let found = |served: &Served, path: &str| -> Value {
        serde_json::from_slice(&served.get(path).body).unwrap()
    };
    assert_eq!(found(&served, "/catalogs/harbor").get("stale"), None);
    std::fs::write(folders.path("harbor").join("bad.yaml"), "x: [\n").unwrap();
    served.wait_for_status("harbor", |status| {
        !status["refused"].as_array().unwrap().is_empty() && status["failures"] != 0
    });
    let text = text_of(&served, "/catalogs/harbor");
    assert!(text.contains("The new content was refused"), "{text}");
    assert!(!text.contains("cannot be read at present"), "{text}");
    for path in [
        "/problems",
        "/catalogs/harbor/problems",
        "/problems?severity=fatal",
    ] {
        let text = text_of(&served, path);
        assert_sound(path, &text);
        for part in ["refused content", "file-unreadable", "bad.yaml:"] {
            assert!(text.contains(part), "{path}: {part}: {text}");
        }
        assert!(!text.contains("nothing wrong"), "{path}: {text}");
    }
    assert!(text_of(&served, "/").contains("new content refused"));
    let index = found(&served, "/catalogs/harbor");
    assert_eq!(
        (&index["state"], &index["stale"]),
        (&json!("serving"), &json!("refused"))
    );
    let problems = found(&served, "/api/v1/problems?code=file-unreadable");
    let problem = &problems["items"][0];
    assert_eq!(
        (&problem["refused"], &problem["severity"], &problem["file"]),
        (&json!(true), &json!("fatal"), &json!("bad.yaml")),
        "{problems}"
    );
    assert_eq!(
        found(&served, "/api/v1/problems?severity=error")["total"],
        0
    );
    std::fs::remove_file(folders.path("harbor").join("bad.yaml")).unwrap();
    served.wait_for_status("harbor", |status| status["failures"] == 0);
    let text = text_of(&served, "/problems");
    assert!(text.contains("nothing wrong"), "{text}");
}

#[test]
fn a_catalog_without_content_is_not_loaded_wherever_it_is_named() {
    let served = served();
    for path in [
        "/compare/diff?from=sample&to=later",
        "/mirror?pick=later/ferry-operator",
        "/api/v1/plan?package=ferry-operator&from=2.0.0&catalog=sample&catalog=later",
    ] {
        let reply = page(&served, path);
        assert_eq!(reply.status, 503, "{path}: {}", reply.text());
        assert!(reply.text().contains("not loaded yet"), "{path}");
    }
}

#[test]
fn a_version_of_another_channel_and_an_unknown_one_are_told() {
    let served = served();
    let package = "/catalogs/sample/packages/ferry-operator";
    let reply = page(
        &served,
        &format!("{package}/install?channel=v1&version=2.1.0"),
    );
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert!(text.contains("it is in v2"), "{text}");
    assert!(!text.contains("did you mean"), "{text}");
    let text = text_of(&served, &format!("{package}/updates?from=9.9.9"));
    assert!(text.contains("the nearest versions are 2."), "{text}");
    let text = text_of(&served, &format!("{package}/updates?from=2.0.0"));
    assert!(!text.contains("the nearest versions"), "{text}");
}

#[test]
fn a_link_for_a_content_has_the_digits_of_one() {
    let served = served();
    let package = "/catalogs/sample/packages/ferry-operator";
    assert_eq!(page(&served, &format!("{package}?at=zzz")).status, 400);
    let text = text_of(&served, &format!("{package}?at=ffffff"));
    assert!(
        text.contains("This link was made for the content"),
        "{text}"
    );
    let path = "/compare/diff?from=sample%40ffffff&to=sample";
    let reply = page(&served, path);
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert_sound(path, &text);
    assert!(
        text.contains("name=\"from\" value=\"sample@ffffff\""),
        "{text}"
    );
}

#[test]
fn an_unknown_page_names_no_description_of_the_api() {
    let served = served();
    for path in ["/foo", "/catalogs/sample/foo"] {
        let reply = page(&served, path);
        assert_eq!(reply.status, 404, "{path}");
        let text = reply.text();
        assert!(text.contains("There is no such page."), "{path}: {text}");
        assert!(!text.contains("openapi.json lists"), "{path}: {text}");
        let vary: Vec<&str> = reply
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("vary"))
            .map(|(_, value)| value.as_str())
            .collect();
        let accept = vary.iter().filter(|value| **value == "Accept");
        assert_eq!(accept.count(), 1, "{path}: {vary:?}");
    }
    let longer = page(&served, "/catalogs/sample/");
    assert_eq!(longer.status, 308, "{}", longer.text());
    assert_eq!(longer.header("location"), Some("/catalogs/sample"));
}
