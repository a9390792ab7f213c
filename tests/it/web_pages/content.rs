//! The content of pages.

use serde_json::{Value, json};

use super::site::{SCRIPT, attributes, page, served, text_of};
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::served::{Folders, Served};

#[test]
fn an_icon_has_the_type_of_its_bytes_and_runs_nothing() {
    let served = served();
    let text = text_of(&served, "/catalogs/hostile/packages/hostile");
    let links = attributes(&text, "src");
    let link = links.iter().find(|link| link.contains("/icons/")).unwrap();
    let icon = served.get(link);
    assert_eq!(icon.status, 200);
    assert_eq!(icon.header("content-type"), Some("image/svg+xml"));
    let policy = icon.header("content-security-policy").unwrap();
    assert!(
        policy.contains("sandbox") && policy.contains("default-src 'none'"),
        "{policy}"
    );
}

#[test]
fn facets_count_packages_and_narrow_the_list() {
    let served = served();
    let text = text_of(&served, "/search");
    assert!(text.contains("href=\"/search?catalog=sample\""), "{text}");
    assert!(
        text.contains("href=\"/search?category=Database\""),
        "{text}"
    );
    let narrowed = text_of(&served, "/search?category=database");
    assert!(narrowed.contains("<small>1 package</small>"), "{narrowed}");
    // The chosen value leads back.
    assert!(
        narrowed.contains("<a href=\"/search\" aria-current=\"true\">✓ Database</a>"),
        "{narrowed}"
    );
    let none = text_of(&served, "/search?q=ferry-operatr");
    assert!(none.contains("No package matches"), "{none}");
    assert!(none.contains("href=\"/packages/ferry-operator\""), "{none}");
}

#[test]
fn a_long_channel_is_folded_and_unfolds() {
    let served = served();
    let path = "/catalogs/hostile/packages/hostile/versions";
    let folded = text_of(&served, path);
    assert!(folded.contains("498 versions"), "{folded}");
    assert!(folded.matches("<tr").count() < 20);
    let whole = text_of(&served, &format!("{path}?rows=all"));
    assert!(whole.matches("<tr").count() > 500);
    let plan = "/catalogs/hostile/packages/hostile/updates?from=hostile.v1.0.0";
    let plan = text_of(&served, plan);
    assert!(
        plan.contains("stable: 499 steps, reaches the head"),
        "{plan}"
    );
    assert!(plan.contains("<details>"), "{plan}");
}

#[test]
fn installing_names_the_catalog_and_what_olm_v1_refuses() {
    let served = served();
    let text = text_of(&served, "/catalogs/hostile/packages/hostile/install");
    for part in [
        "kind: Subscription",
        "kind: ClusterExtension",
        "OLM v1 refuses bundles with dependencies",
        "source: hostile",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_support_phase_of_today_is_told() {
    let served = served();
    let text = text_of(&served, "/catalogs/hostile/packages/hostile");
    for part in ["until 2999-12-31", "OpenShift 4.20", "<td>Past</td>"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn who_needs_a_package_is_told_by_name_and_by_api() {
    let served = served();
    let path = "/catalogs/hostile/api/v1/dependents?package=hostile";
    let found: Value = serde_json::from_slice(&served.get(path).body).unwrap();
    assert_eq!(found["total"], 1);
    let item = &found["items"][0];
    assert_eq!(
        (&item["package"], &item["range"]),
        (&json!("needy"), &json!(">=1.0.0"))
    );
    assert_eq!(item["apis"][0]["kind"], SCRIPT);
    let text = text_of(&served, "/catalogs/hostile/packages/hostile/dependencies");
    assert!(
        text.contains("href=\"/catalogs/hostile/packages/needy\""),
        "{text}"
    );
}

#[test]
fn a_plan_is_the_same_on_the_page_and_as_json() {
    let served = served();
    let query = "from=ferry-operator.v1.4.0&rules=v1";
    let path = format!("/catalogs/sample/api/v1/plan?package=ferry-operator&{query}");
    let plan: Value = serde_json::from_slice(&served.get(&path).body).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    assert!(!steps.is_empty(), "{plan}");
    let page = format!("/catalogs/sample/packages/ferry-operator/updates?{query}");
    let text = text_of(&served, &page);
    for step in steps {
        let to = step["to"].as_str().unwrap();
        let link = format!("href=\"/catalogs/sample/packages/ferry-operator/bundles/{to}\"");
        assert!(text.contains(&link), "{link}: {text}");
    }
}

#[test]
fn catalogs_differ_in_both_directions() {
    let served = served();
    let text = text_of(&served, "/compare/diff?from=sample&to=hostile");
    assert!(text.contains("package removed"), "{text}");
    let text = text_of(&served, "/compare/diff?from=hostile&to=sample");
    assert!(text.contains("package added"), "{text}");
    assert_eq!(
        page(&served, "/compare/diff?from=hostile&to=nope").status,
        404
    );
    assert_eq!(page(&served, "/compare/diff?from=sample").status, 400);
}

#[test]
fn an_installed_version_is_looked_up_in_every_catalog() {
    let served = served();
    let text = text_of(&served, "/packages/hostile?installed=1.498.0");
    assert!(
        text.contains("has it") && text.contains("updates to"),
        "{text}"
    );
    let text = text_of(&served, "/packages/hostile?installed=7.0.0");
    assert!(text.contains("no edge"), "{text}");
}

#[test]
fn a_basket_lists_its_images() {
    let served = served();
    let text = text_of(&served, "/mirror?pick=hostile/hostile");
    assert!(text.contains("1 package · 2 bundles · 3 images"), "{text}");
    let json = served.get("/catalogs/hostile/api/v1/images?package=hostile");
    let json: Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!(json["images"].as_array().map(Vec::len), Some(3), "{json}");
    assert!(text.contains("example.com/a:latest"), "{text}");
    assert_eq!(page(&served, "/mirror?pick=nonsense").status, 400);
}

#[test]
fn a_refused_basket_can_be_mended_and_is_not_kept() {
    let served = served();
    let good = text_of(
        &served,
        "/mirror?pick=hostile/hostile&package=sample/ferry-operator",
    );
    assert_eq!(
        attributes(&good, "data-plan"),
        ["?pick=hostile%2Fhostile&pick=sample%2Fferry-operator"]
    );
    let reply = page(
        &served,
        "/mirror?pick=hostile%2Fhostile&pick=sample/gone&pick=b",
    );
    assert_eq!(reply.status, 400);
    let text = reply.text();
    assert!(attributes(&text, "data-plan").is_empty(), "{text}");
    for link in [
        "/mirror?pick=hostile%2Fhostile&pick=sample/gone",
        "/mirror?pick=hostile%2Fhostile&pick=b",
    ] {
        assert!(
            attributes(&text, "href").contains(&link.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn two_items_of_a_basket_that_select_from_the_same_channel_are_refused() {
    let served = served();
    for (one, other, status) in [
        ("hostile/hostile@1.0.0..", "hostile/hostile@2.0.0..", 400),
        ("hostile/hostile", "hostile/hostile/stable", 400),
        (
            "hostile/hostile/stable@1.0.0..",
            "hostile/hostile/stable",
            400,
        ),
        ("hostile/hostile", "hostile/needy", 200),
    ] {
        let reply = page(&served, &format!("/mirror?pick={one}&pick={other}"));
        assert_eq!(reply.status, status, "{one} {other}: {}", reply.text());
    }
}

#[test]
fn a_found_package_is_described_as_in_the_wanted_catalog() {
    let folders = Folders::of("first", &Catalog::small()).catalog(
        "second",
        &Catalog::new().package("etcd", |package| {
            package.channel("stable", [entry("etcd.v7.0.0")]).bundle(
                bundle("etcd.v7.0.0").csv_metadata(json!({
                    "annotations": {"categories": "Database"},
                })),
            )
        }),
    );
    let served = Served::catalogs(&folders);
    for path in ["/search?catalog=second", "/search?category=Database"] {
        let text = text_of(&served, path);
        let (_, items) = text.split_once("<ul class=\"packages\">").unwrap();
        assert!(
            items.contains("7.0.0") && !items.contains("1.1.0"),
            "{text}"
        );
        assert!(items.contains("data-pick=\"second/etcd\""), "{text}");
    }
    for path in ["/search?catalog=secnd", "/api/v1/facets?catalog=secnd"] {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.text().contains("second"), "{}", reply.text());
    }
}

#[test]
fn a_version_that_a_long_list_leaves_out_stays_chosen() {
    let entries = (0..520).map(|at| entry(&format!("crane.v1.{at}.0")));
    let entries: Vec<_> = entries.collect();
    let content = Catalog::new().package("crane", |package| package.channel("stable", entries));
    let served = Served::catalogs(&Folders::of("harbor", &content));
    let text = text_of(
        &served,
        "/catalogs/harbor/packages/crane/images?version=1.3.0",
    );
    let chosen = "<option value=\"crane.v1.3.0\" selected>1.3.0</option>";
    assert!(text.contains(chosen), "{text}");
    assert!(!text.contains("crane.v1.4.0"), "{text}");
}

#[test]
fn a_package_without_channel_or_modes_is_told_so_where_it_is_installed() {
    let content = Catalog::new()
        .package("bare", |package| package)
        .package("crane", |package| {
            let modeless = bundle("crane.v1.0.0").csv_metadata(json!({"installModes": []}));
            package
                .channel("stable", [entry("crane.v1.0.0")])
                .bundle(modeless)
        });
    let served = Served::catalogs(&Folders::of("harbor", &content));
    let text = text_of(&served, "/catalogs/harbor/packages/bare/install");
    assert!(text.contains("has no channel"), "{text}");
    let path = "/catalogs/harbor/api/v1/packages/bare/install";
    let reply = served.get(path);
    assert_eq!(reply.status, 404);
    assert!(
        reply.text().contains("no channel to install from"),
        "{}",
        reply.text()
    );
    let text = text_of(&served, "/catalogs/harbor/packages/crane/install");
    assert!(!text.contains("OLM v1 needs the mode"), "{text}");
    assert!(!text.contains(" disabled>"), "{text}");
    let reply = served.get("/catalogs/harbor/api/v1/packages/crane/install");
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        found["warnings"],
        json!(["v1AccountIsClusterAdmin"]),
        "{found}"
    );
}

#[test]
fn an_example_belongs_to_its_version_of_the_kind_and_is_listed_once() {
    let example = |version: &str, name: &str| json!({"apiVersion": format!("g.example.com/{version}"), "kind": "Hook", "metadata": {"name": name}});
    let examples = json!([example("v1", "young"), example("v1beta1", "old")]);
    let csv = json!({"annotations": {"alm-examples": examples.to_string()}});
    let content = Catalog::new().package("hook", |package| {
        package.channel("stable", [entry("hook.v1.0.0")]).bundle(
            bundle("hook.v1.0.0")
                .provides("g.example.com", "v1", "Hook")
                .provides("g.example.com", "v1", "Line")
                .provides("g.example.com", "v1beta1", "Hook")
                .csv_metadata(csv),
        )
    });
    let served = Served::catalogs(&Folders::of("harbor", &content));
    let route = "/catalogs/harbor/api/v1/packages/hook/examples";
    let found: Value = serde_json::from_slice(&served.get(route).body).unwrap();
    for api in found["apis"].as_array().unwrap() {
        let names: Vec<_> = api["examples"].as_array().unwrap().iter().collect();
        let wanted = match (api["kind"].as_str(), api["version"].as_str()) {
            (Some("Hook"), Some("v1")) => vec!["young"],
            (Some("Hook"), _) => vec!["old"],
            _ => vec![],
        };
        let names: Vec<_> = names
            .iter()
            .filter_map(|one| one["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, wanted, "{api}");
    }
    let yaml = served.get(&format!("{route}?format=yaml")).text();
    assert_eq!(yaml.matches("kind: Hook").count(), 2, "{yaml}");
    let text = text_of(&served, "/catalogs/harbor/packages/hook/apis");
    assert_eq!(text.matches("name: young").count(), 1, "{text}");
}

#[test]
fn suggestions_begin_with_the_text_that_was_typed() {
    let served = served();
    let reply = served.get("/suggest?q=fer");
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        found["items"][0],
        json!({"name": "ferry-operator", "type": "package"})
    );
    let reply = served.get("/suggest?q=");
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(found["items"], json!([]));
}

#[test]
fn a_need_fits_only_what_a_cluster_can_install() {
    let package = |name: &'static str, ranges: [&'static str; 2]| {
        let own = format!("{name}.v1.0.0");
        let needy = ranges.into_iter().fold(bundle(&own), |one, range| {
            one.requires_package("buoy", range)
        });
        move |package: crate::support::catalog::Package| {
            package.channel("stable", [entry(&own)]).bundle(needy)
        }
    };
    let buoy = |package: crate::support::catalog::Package| {
        package.channel("stable", [entry("buoy.v1.2.0")])
    };
    let [one, two] = ["buoy.v1.2.0", "buoy.v1.3.0"];
    let cycle = |package: crate::support::catalog::Package| {
        package.channel(
            "stable",
            [entry(one).replaces(two), entry(two).replaces(one)],
        )
    };
    let catalog = Catalog::new()
        .package("lamp", package("lamp", ["nope", ">=1.0.0"]))
        .package("buoy", buoy);
    let folders =
        Folders::of("good", &catalog).catalog("left", &Catalog::new().package("buoy", cycle));
    let served = Served::catalogs(&folders);
    let text = text_of(&served, "/catalogs/good/packages/lamp/dependencies");
    // The unreadable range fits nothing, the other one the version that is served.
    assert_eq!(text.matches("no range of versions").count(), 1, "{text}");
    assert_eq!(text.matches(">no version fits<").count(), 1, "{text}");
    assert_eq!(text.matches(">fits<").count(), 1, "{text}");
    assert_eq!(
        text.matches(">left out for its errors<").count(),
        2,
        "{text}"
    );
}
