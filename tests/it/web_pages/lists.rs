//! Lists that authors may make long.

use serde_json::Value;

use super::assert_sound;
use super::site::{attributes, page, text_of};
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::served::{Folders, Served};

#[test]
fn a_catalog_shows_its_packages_in_parts() {
    let catalog = (0..201).fold(Catalog::new(), |catalog, number| {
        let name = format!("crane-{number:03}");
        catalog.package(&name, |package| {
            package.channel("stable", [entry(&format!("{name}.v1.0.0"))])
        })
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let shown = |path: &str| {
        let text = text_of(&served, path);
        assert_sound(path, &text);
        let links = attributes(&text, "href");
        let package = |link: &String| link.starts_with("/catalogs/harbor/packages/");
        let of_list = |link: &&String| link.contains("?page=") && !link.contains("&at=");
        let pages = links.iter().filter(of_list);
        let pages: Vec<String> = pages.cloned().collect();
        let packages: Vec<String> = links.into_iter().filter(package).collect();
        (packages, pages)
    };
    let (first, next) = shown("/catalogs/harbor");
    assert_eq!(first.len(), 200);
    assert_eq!(next, ["/catalogs/harbor?page=2"]);
    let (second, before) = shown("/catalogs/harbor?page=2");
    assert_eq!(second, ["/catalogs/harbor/packages/crane-200"]);
    assert_eq!(before, ["/catalogs/harbor?page=1"]);
    assert_eq!(page(&served, "/catalogs/harbor?page=0").status, 400);
    for path in ["/search?page=x", "/apis?page=0"] {
        assert_eq!(page(&served, path).status, 400, "{path}");
    }
}

#[test]
fn a_plan_shows_the_beginning_of_long_files_and_the_download_has_all() {
    let images = 0..130;
    let one = images.fold(bundle("crane.v1.0.0"), |bundle, number| {
        let image = format!("quay.io/harbor/crane:{number:03}");
        bundle.related_image(&format!("crane-{number:03}"), &image)
    });
    let catalog = Catalog::new().package("crane", |package| {
        package
            .channel("stable", [entry("crane.v1.0.0")])
            .bundle(one)
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let path = "/mirror?pick=harbor/crane&to=mirror.example.com/ops";
    let text = text_of(&served, path);
    assert_sound(path, &text);
    let block = |label: &str| {
        let start = format!("aria-label=\"{label}\"><code>");
        let block = text.split(&start).nth(1).unwrap();
        block.split("</code>").next().unwrap().to_owned()
    };
    let list = block("Image list");
    assert_eq!(list.lines().count(), 100, "{list}");
    assert!(text.contains("… and 31 more lines"), "{text}");
    assert!(block("ImageSetConfiguration for oc-mirror").contains("crane"));
    let links = attributes(&text, "href");
    let download = links.iter().find(|link| link.ends_with("format=list"));
    let whole = served.get(download.unwrap()).text();
    assert_eq!(whole.lines().count(), 131, "{whole}");
    assert!(whole.starts_with(&list), "{whole}");
}

#[test]
fn folded_steps_tell_where_an_api_comes_and_goes() {
    let name = |minor: usize| format!("crane.v1.{minor}.0");
    let catalog = Catalog::new().package("crane", |mut package| {
        for minor in 0..10 {
            let mut one = bundle(&name(minor)).provides("g", "v1", "Crane");
            if (4..7).contains(&minor) {
                one = one.provides("g", "v1", "Hook");
            }
            package = package.bundle(one);
        }
        let entries = (0..10).map(|minor| match minor {
            0 => entry(&name(0)),
            _ => entry(&name(minor)).replaces(&name(minor - 1)),
        });
        package.channel("stable", entries)
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let base = "/catalogs/harbor/packages/crane";
    let text = text_of(&served, &format!("{base}/updates?from=1.0.0"));
    assert!(text.contains("9 single steps"), "{text}");
    let step = |to: &str| {
        let mut items = text.split("<li value=\"").skip(1);
        let own = format!("<code>{to}</code></a>");
        items.find(|item| item.contains(&own)).unwrap().to_owned()
    };
    assert!(step(&name(4)).contains("+ Hook v1"), "{text}");
    assert!(step(&name(7)).contains("− Hook v1"), "{text}");
    for minor in [3, 5, 8] {
        assert!(!step(&name(minor)).contains("Hook"), "{minor}: {text}");
    }
    // The same steps stand beside the graph.
    let path = format!("{base}/versions?from={}&to={}", name(0), name(9));
    let text = text_of(&served, &path);
    assert!(text.contains("+ Hook v1"), "{text}");
}

#[test]
fn a_kind_in_another_version_is_not_told_as_removed() {
    let catalog = Catalog::new().package("crane", |package| {
        let [first, second, third] = ["crane.v1.0.0", "crane.v1.1.0", "crane.v1.2.0"];
        package
            .channel(
                "stable",
                [
                    entry(first),
                    entry(second).replaces(first),
                    entry(third).replaces(second),
                ],
            )
            .bundle(
                bundle(first)
                    .provides("g", "v1alpha1", "Crane")
                    .provides("g", "v1", "Hook")
                    .provides("g", "v2", "Hook")
                    .provides("g", "v1", "Rope"),
            )
            .bundle(
                bundle(second)
                    .provides("g", "v1", "Crane")
                    .provides("g", "v2", "Hook"),
            )
            .bundle(
                bundle(third)
                    .provides("g", "v1", "Crane")
                    .provides("g", "v2", "Hook"),
            )
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let base = "/catalogs/harbor/packages/crane";
    let plan = text_of(
        &served,
        &format!("{base}/updates?from=1.0.0&to=crane.v1.1.0"),
    );
    for (change, word) in [
        ("Crane v1alpha1 → v1", "version changed"),
        ("− Hook v1", "version removed"),
        ("− Rope v1", "API removed"),
    ] {
        let item = plan.split("<li>").find(|item| item.contains(change));
        let item = item.unwrap_or_else(|| panic!("{change}: {plan}"));
        assert!(item.contains(word), "{item}");
    }
    assert_eq!(plan.matches("API removed").count(), 1, "{plan}");
    // Two versions that do not differ are told so.
    let same = text_of(
        &served,
        &format!("{base}/bundles/crane.v1.2.0?with=crane.v1.1.0"),
    );
    assert!(same.contains("The same APIs, no new image"), "{same}");
}

#[test]
fn thousands_of_channels_are_a_short_page_and_a_small_picture() {
    const CHANNELS: usize = 3_000;
    let name = |minor: usize| format!("crane.v1.{minor}.0");
    let catalog = Catalog::new().package("crane", |package| {
        let package = package.default_channel("c0");
        (0..CHANNELS).fold(package, |package, number| {
            package.channel(&format!("c{number}"), [entry(&name(number))])
        })
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let base = "/catalogs/harbor/packages/crane";
    for path in [
        base.to_owned(),
        format!("{base}/versions"),
        format!("{base}/versions?channel=c1500"),
        format!("{base}/versions?channels=all&rows=all"),
        format!("{base}/updates?from=1.0.0"),
        format!("{base}/install"),
        format!("{base}/bundles/{}", name(0)),
        "/packages/crane".to_owned(),
    ] {
        let text = text_of(&served, &path);
        assert_sound(&path, &text);
        assert!(text.len() < 400_000, "{path}: {}", text.len());
    }
    // The default channel is the first, then that with the highest version.
    let text = text_of(&served, base);
    let shown: Vec<usize> = ["c0", "c2999", "c2998"]
        .map(|channel| text.find(&format!(">{channel}</a>")).unwrap())
        .to_vec();
    assert!(shown.is_sorted(), "{shown:?}");
    assert!(text.contains("2,992 more"), "{text}");
    let one = text_of(&served, &format!("{base}/versions?channel=c1500"));
    let own = "value=\"c1500\" checked";
    assert!(one.contains(own), "{one}");
    let all = text_of(&served, &format!("{base}/versions?channels=all"));
    assert!(all.contains("without 2,900 further ones"), "{all}");
    let drawn = served.get(&format!("{base}/graph.svg")).text();
    assert!(drawn.contains("and 2900 more channels"), "{drawn}");
    assert!(drawn.len() < 100_000, "{}", drawn.len());
    let text = served.get(&format!("{base}/graph.mmd")).text();
    assert!(text.contains("more[\"and 2900 more channels\"]"), "{text}");
}

#[test]
fn thousands_of_needs_are_looked_up_in_part_and_counted() {
    let kind = |number: usize| format!("Kind{number}");
    let mut needy = bundle("needy.v1.0.0");
    let mut crane = bundle("crane.v1.0.0");
    for number in 0..400 {
        let range = format!("<1.{number}.0");
        needy = needy.requires_package("crane", &range).requires(
            if number == 0 { "" } else { "g" },
            "v1",
            &kind(number),
        );
        crane = crane.provides("g", "v1", &kind(number));
    }
    let catalog = Catalog::new()
        .package("crane", |package| {
            package
                .channel("stable", [entry("crane.v1.0.0")])
                .bundle(crane)
        })
        .package("needy", |package| {
            package
                .channel("stable", [entry("needy.v1.0.0")])
                .bundle(needy)
        });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let path = "/catalogs/harbor/api/v1/packages/needy/dependencies";
    let told: Value = serde_json::from_str(&served.get(path).text()).unwrap();
    let listed = told["needs"].as_array().unwrap();
    assert_eq!((listed.len(), &told["moreNeeds"]), (500, &300.into()));
    assert_eq!(listed[0]["catalogs"][0]["reason"], "no version fits");
    assert_eq!(listed[1]["catalogs"][0]["version"], "1.0.0");
    assert_eq!(listed[499]["catalogs"][0]["packages"][0], "crane");
    let path = "/catalogs/harbor/packages/needy/dependencies";
    let text = text_of(&served, path);
    assert_sound(path, &text);
    assert!(text.contains("… and 300 further needs"), "{text}");
    // The core group has no name.
    assert!(text.contains("Kind0 <code>v1</code>"), "{text}");
    let few = served.get("/catalogs/harbor/api/v1/packages/crane/dependencies");
    assert!(!few.text().contains("moreNeeds"));
}

#[test]
fn a_bundle_names_what_follows_it_by_a_range_too() {
    let catalog = Catalog::new().package("crane", |package| {
        package
            .channel(
                "stable",
                [
                    entry("crane.v1.0.0"),
                    entry("crane.v1.1.0").replaces("crane.v1.0.0"),
                    entry("crane.v1.2.0")
                        .replaces("crane.v1.1.0")
                        .skip_range(">=1.0.0 <=1.2.0"),
                ],
            )
            .channel("fast", [entry("crane.v1.1.0").replaces("crane.v1.0.0")])
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let base = "/catalogs/harbor/packages/crane/bundles";
    let goes = |bundle: &str| {
        let text = text_of(&served, &format!("{base}/{bundle}"));
        let goes = text.split("<dt>Goes to</dt>").nth(1).unwrap();
        goes.split("</dd>").next().unwrap().to_owned()
    };
    let first = goes("crane.v1.0.0");
    for part in [
        "crane.v1.2.0</a> (skipRange in stable)",
        "crane.v1.1.0</a> (replaces in fast, stable)",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let last = goes("crane.v1.2.0");
    assert!(last.contains("no entry replaces or skips it"), "{last}");
    let path = "/api/v1/packages/crane?installed=crane.v1.2.0";
    let found: Value = serde_json::from_slice(&served.get(path).body).unwrap();
    assert_eq!(
        found["items"][0]["installed"]["update"],
        Value::Null,
        "{found}"
    );
}

#[test]
fn an_installed_version_that_left_the_catalog_stays_in_the_form() {
    let served = Served::catalogs(&Folders::of("harbor", &Catalog::small()));
    let text = text_of(
        &served,
        "/catalogs/harbor/packages/etcd/updates?from=0.9.0&rules=v1",
    );
    let chosen = "<option value=\"0.9.0\" selected>0.9.0</option>";
    assert!(text.contains(chosen), "{text}");
}
