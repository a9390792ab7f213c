//! Curated catalogs, lists of images and manifests, through the program as
//! users run it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::almanac::Almanac;
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::image::Image;
use crate::support::program::{Finished, Start};
use crate::support::served::{Folders, Served};
use crate::support::upstream::Upstream;

/// A package of two versions with images, and one that needs it.
fn harbor(newest: &str) -> Catalog {
    let newest = format!("crane.v{newest}");
    let digest = format!("quay.io/harbor/engine@sha256:{}", "a".repeat(64));
    Catalog::new()
        .package("crane", |package| {
            package
                .channel(
                    "stable",
                    [
                        entry("crane.v1.0.0"),
                        entry(&newest).replaces("crane.v1.0.0"),
                    ],
                )
                .bundle(
                    bundle("crane.v1.0.0")
                        .image("quay.io/harbor/crane:1.0.0")
                        .related_image("engine", &digest),
                )
                .bundle(
                    bundle(&newest)
                        .image("quay.io/harbor/crane:new")
                        .related_image("engine", &digest)
                        .related_image("pause", "registry.k8s.io/pause:3.9"),
                )
        })
        .package("pier", |package| {
            package.channel("stable", [entry("pier.v1.0.0")]).bundle(
                bundle("pier.v1.0.0")
                    .image("quay.io/harbor/pier:1")
                    .requires_package("crane", ">=1.0.0"),
            )
        })
}

/// A configuration that follows the folder, and a curated catalog behind it.
fn config(folder: &Path, curated: &str) -> String {
    format!(
        "poll = \"100ms\"\n[[catalog]]\nname = \"harbor\"\nsource = \"file:{}\"\n\n\
         [[catalog]]\nname = \"ours\"\n{curated}\n",
        folder.display()
    )
}

/// The names in `ours` of a schema.
fn names(almanac: &mut Almanac, schema: &str) -> Vec<String> {
    let reply = almanac.http(&format!("/catalogs/ours/api/v1/metas?schema={schema}"));
    let blobs = reply.text();
    let blobs = blobs
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut names: Vec<String> = blobs
        .map(|blob: Value| blob["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_curated_catalog_is_made_again_when_its_source_changes() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let curated = "from = [\"harbor\"]\npackages = [{ name = \"crane\" }]";
    let mut almanac = Almanac::start(&config(&folders.path("harbor"), curated));
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("ours").unwrap(), ["crane"]);
    assert_eq!(names(&mut almanac, "olm.bundle"), ["crane.v2.0.0"]);
    let before = almanac.status("ours");
    assert_eq!(before["source"], "curated:harbor");
    let image = almanac.until_pullable("ours").body;

    folders.replace("harbor", &harbor("3.0.0"));
    let id = before["revision"]["id"].clone();
    almanac.until("ours", "another revision", |status| {
        status["revision"]["id"] != id
    });
    assert_eq!(names(&mut almanac, "olm.bundle"), ["crane.v3.0.0"]);
    // Its image is another then, too.
    let begin = std::time::Instant::now();
    while almanac.until_pullable("ours").body == image {
        assert!(begin.elapsed().as_secs() < 30);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    // What is stored is served again, with no source to ask.
    fs::remove_dir_all(folders.path("harbor")).unwrap();
    almanac.stop();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(names(&mut almanac, "olm.bundle"), ["crane.v3.0.0"]);
}

#[test]
fn a_change_that_breaks_a_selection_leaves_what_was_served() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let curated = "from = [\"harbor\"]\npackages = [{ name = \"crane\", max_version = \"2.0.0\", min_version = \"2.0.0\" }]";
    let mut almanac = Almanac::start(&config(&folders.path("harbor"), curated));
    almanac.program.wait_until_ready();
    assert_eq!(names(&mut almanac, "olm.bundle"), ["crane.v2.0.0"]);
    folders.replace("harbor", &harbor("3.0.0"));
    let status = almanac.until_failed("ours");
    let error = status["last_result"]["error"].as_str().unwrap();
    for part in ["\"crane\"", ">=2.0.0 <=2.0.0", "1.0.0 to 3.0.0"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(names(&mut almanac, "olm.bundle"), ["crane.v2.0.0"]);
}

#[test]
fn another_selection_is_logged_as_one_and_a_removed_folder_without_words_of_a_library() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let path = folders.path("harbor");
    let curated = "from = [\"harbor\"]\npackages = [{ name = \"crane\" }]";
    let mut almanac = Almanac::start(&config(&path, curated));
    almanac.program.wait_until_ready();
    almanac.reconfigure(&config(&path, "from = [\"harbor\"]\nfull = true"));
    almanac.program.wait_for_log("the selection", |log| {
        log.contains("the catalog has a new selection catalog=ours source=\"curated:harbor\"")
    });
    fs::remove_dir_all(&path).unwrap();
    almanac.until_failed("harbor");
    let log = almanac.program.log();
    for part in ["a new source", "Os {", "watch descriptor"] {
        assert!(!log.contains(part), "{part}: {log}");
    }
}

#[test]
fn an_image_set_says_what_is_selected() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&harbor("2.0.0")).build();
    upstream.push("catalogs/harbor", "latest", &image);
    let reference = upstream.reference("catalogs/harbor", "latest");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("imageset.yaml");
    let set = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
         operators:\n  - catalog: {reference}\n    packages:\n    - name: pier\n"
    );
    fs::write(&file, set).unwrap();
    let text = format!(
        "[[catalog]]\nname = \"harbor\"\nsource = {reference:?}\n\n\
         [[catalog]]\nname = \"ours\"\nimage_set = {file:?}\ndependencies = true\n"
    );
    let mut almanac = Almanac::start(&text);
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("ours").unwrap(), ["crane", "pier"]);

    // The same file, for the commands.
    let source = format!("curated:{}", file.display());
    let list = Start::new(["list", "packages", &source, "--output", "json"]).run();
    assert!(list.status.success(), "{list:?}");
    let packages: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(packages[0]["name"], "pier");
    let images = Start::new(["images", &source]).run();
    assert_eq!(images.stdout, "quay.io/harbor/pier:1\n", "{images:?}");
}

#[test]
fn a_mistake_in_the_catalogs_of_an_image_set_has_its_place() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let harbor = format!("file:{}", folders.path("harbor").display());
    let file = folders.path("imageset.yaml");
    for (from, operators, wanted) in [
        (
            "",
            "  - catalog: docker://quay.io/x\n".to_owned(),
            "line 5, column 14, mirror.operators[0].catalog: \"docker://quay.io/x\" is not",
        ),
        (
            "",
            format!("  - catalog: {harbor}\n  - catalog: quay.io/a/b:v1\n"),
            "line 6, column 14, mirror.operators[1].catalog: no catalog has quay.io/a/b:v1",
        ),
        (
            "",
            format!("  - catalog: {harbor}\n    packages: [{{name: crane}}]\n").repeat(2),
            "line 8, column 23, mirror.operators[1].packages[0].name: the package \"crane\" is \
             selected from two catalogs",
        ),
        (
            "from = [\"harbor\"]",
            "  - catalog: quay.io/a/b:v1\n".to_owned(),
            "imageset.yaml selects from no catalog of from",
        ),
    ] {
        let head = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";
        fs::write(&file, format!("{head}mirror:\n  operators:\n{operators}")).unwrap();
        let path = folders.path("almanac.toml");
        let curated = format!("{from}\nimage_set = {file:?}");
        fs::write(&path, config(&folders.path("harbor"), &curated)).unwrap();
        let run = Start::new(["serve", "--config", path.to_str().unwrap()])
            .argument("--data-dir={data}")
            .run();
        assert_eq!(run.status.code(), Some(2), "{operators}: {run:?}");
        assert!(run.stderr.contains(wanted), "{operators}: {}", run.stderr);
        // A command fetches catalogs that are not configured, and knows no `from`.
        if wanted.contains("no catalog") {
            continue;
        }
        let source = format!("curated:{}", file.display());
        let list = Start::new(["list", "packages", &source]).run();
        assert_eq!(list.status.code(), Some(3), "{operators}: {list:?}");
        assert!(list.stderr.contains(wanted), "{operators}: {}", list.stderr);
    }
}

#[test]
fn a_curated_catalog_that_cannot_be_made_says_what_to_change() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let place = folders.path("harbor");
    for (curated, wanted) in [
        ("from = [\"harbour\"]", "did you mean \"harbor\"?"),
        ("from = [\"ours\"]", "made of itself"),
        ("full = true", "it has no source"),
        (
            "source = \"file:x\"\nfrom = [\"harbor\"]",
            "it has a source, and from",
        ),
        (
            "image_set = \"missing.yaml\"",
            "missing.yaml cannot be read",
        ),
        (
            "from = [\"harbor\"]\npackages = [\"crane\"]",
            "a table, as in packages = [{ name",
        ),
        (
            "from = [\"harbor\"]\npackages = [{ nane = \"crane\" }]",
            "unknown key `nane`",
        ),
        (
            "from = [\"harbor\"]\npackages = [{ name = \"crane\", min_version = \">1\" }]",
            "\">1\" is not a version",
        ),
        (
            "from = [\"harbor\"]\npackages = [{ name = \"crane\", min_version = \"2.0.0\", max_version = \"1.0.0\" }]",
            "swap the ends",
        ),
        (
            "from = [\"harbor\"]\nfull = true\npackages = [{ name = \"crane\", min_version = \"2.0.0\" }]",
            "beside full",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("almanac.toml");
        fs::write(&path, config(&place, curated)).unwrap();
        let run = Start::new(["serve", "--config", path.to_str().unwrap()])
            .argument("--data-dir={data}")
            .run();
        assert_eq!(run.status.code(), Some(2), "{curated}: {run:?}");
        assert!(run.stderr.contains(wanted), "{curated}: {}", run.stderr);
    }
    // What only the catalog can tell is said when it is there.
    for (curated, wanted) in [
        (
            "packages = [{ name = \"crone\" }]",
            "did you mean \"crane\"?",
        ),
        (
            "packages = [{ name = \"crane\", channels = [{ name = \"stabel\" }] }]",
            "did you mean \"stable\"?",
        ),
        (
            "packages = [{ name = \"crane\", min_version = \"9.0.0\" }]",
            "1.0.0 to 2.0.0",
        ),
    ] {
        let curated = format!("from = [\"harbor\"]\n{curated}");
        let mut almanac = Almanac::start(&config(&place, &curated));
        let status = almanac.until_failed("ours");
        let error = status["last_result"]["error"].as_str().unwrap();
        assert!(error.contains(wanted), "{error}");
        let reply = almanac.all("ours");
        assert_eq!(reply.status, 503);
    }
}

fn almanac(arguments: &[&str]) -> Finished {
    Start::new(arguments.iter().copied()).run()
}

#[test]
fn the_images_of_a_selection_are_listed_each_once() {
    let folder = tempfile::tempdir().unwrap();
    harbor("2.0.0").write_to(folder.path(), Format::Yaml);
    let source = folder.path().to_str().unwrap();
    let digest = "a".repeat(64);
    let engine = format!("quay.io/harbor/engine@sha256:{digest}");
    let list = |more: &[&str]| {
        let run = almanac(&[&["images", source], more].concat());
        assert!(run.status.success(), "{run:?}");
        run.stdout
    };
    assert_eq!(
        list(&[]),
        format!(
            "quay.io/harbor/crane:1.0.0\nquay.io/harbor/crane:new\n{engine}\n\
             quay.io/harbor/pier:1\nregistry.k8s.io/pause:3.9\n"
        )
    );
    let heads = format!("quay.io/harbor/crane:new\n{engine}\nregistry.k8s.io/pause:3.9\n");
    assert_eq!(list(&["--package", "crane"]), heads);
    assert_eq!(list(&["--package", "crane", "--min", "2.0.0"]), heads);
    assert_eq!(
        list(&[
            "--package",
            "crane",
            "--channel",
            "stable",
            "--max",
            "1.0.0"
        ]),
        format!("quay.io/harbor/crane:1.0.0\n{engine}\n")
    );
    assert_eq!(list(&["--package", "pier"]), "quay.io/harbor/pier:1\n");
    assert!(list(&["--package", "pier", "--dependencies"]).contains(&engine));
    assert_eq!(list(&["--heads"]).lines().count(), 4);
    let mapping = list(&[
        "--package",
        "pier",
        "-o",
        "mapping",
        "--to",
        "m.example.com/ops",
    ]);
    assert_eq!(
        mapping,
        "quay.io/harbor/pier:1=m.example.com/ops/harbor/pier:1\n"
    );
    let json: Value = serde_json::from_str(&list(&["-o", "json"])).unwrap();
    assert_eq!((&json["digests"], &json["tags"]), (&json!(1), &json!(4)));
    let reasons = json["images"][2]["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 2);
    assert_eq!(reasons[0]["role"], "relatedImage");
    for (more, code, wanted) in [
        (&["--package", "crone"][..], 1, "did you mean \"crane\"?"),
        (
            &["--package", "crane", "--channel", "stabel"],
            1,
            "did you mean",
        ),
        (&["--package", "crane", "--min", "x"], 2, "is not a version"),
        (
            &["--package", "crane", "--min", "9.0.0"],
            1,
            "widen the range",
        ),
        (&["--package", "velero"], 1, "there are \"crane\", \"pier\""),
        (
            &["--package", "crane", "--channel", "nightly"],
            1,
            "there are \"stable\"",
        ),
        (
            &["--package", "crane", "--min", "9", "--max", "1"],
            2,
            "swap the ends",
        ),
        (&["--to", "m.example.com"], 2, "--output mapping"),
        (&["--min", "1.0.0"], 2, "--package"),
        (&["-o", "mapping"], 2, "--to"),
        (
            &["-o", "mapping", "--to", "nowhere"],
            2,
            "is not a registry",
        ),
    ] {
        let run = almanac(&[&["images", source], more].concat());
        assert_eq!(run.status.code(), Some(code), "{more:?}: {run:?}");
        assert!(run.stderr.contains(wanted), "{more:?}: {}", run.stderr);
    }
}

#[test]
fn the_images_of_a_selection_are_listed_over_http() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let served = Served::catalogs(&folders);
    let ask = |query: &str| served.get(&format!("/catalogs/harbor/api/v1/images{query}"));
    let json: Value = serde_json::from_slice(&ask("").body).unwrap();
    assert_eq!(json["images"].as_array().unwrap().len(), 5);
    let reply = ask("?package=crane&format=list");
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(reply.text().lines().count(), 3);
    let reply = ask("?package=crane,pier&format=skopeo");
    assert_eq!(reply.header("content-type"), Some("application/yaml"));
    assert!(reply.text().contains("registry.k8s.io"), "{}", reply.text());
    let reply = ask("?package=pier&dependencies=true&format=mapping&to=m.example.com");
    assert_eq!(reply.text().lines().count(), 4, "{}", reply.text());
    let reply = ask("?package=crane&channel=stable&max=1.0.0&format=image-set");
    assert!(reply.text().contains("quay.io/harbor/crane:1.0.0"));
    let lines = ask("?package=crane&format=jsonl");
    assert_eq!(lines.header("content-type"), Some("application/jsonl"));
    let yaml = ask("?package=crane&format=yaml");
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let yaml = &crate::support::yaml::documents(&yaml.text())[0];
    let images = yaml["images"].as_array().unwrap();
    assert_eq!(lines.text().lines().count(), images.len());
    for (query, status, wanted) in [
        ("?package=crone", 404, "unknown-package"),
        ("?package=crane&channel=x", 404, "unknown-channel"),
        ("?package=crane&min=x", 400, "is not a version"),
        ("?package=crane&min=9.0.0", 400, "widen the range"),
        ("?channel=stable", 400, "for one package"),
        ("?full=true&heads=true", 400, "contradict"),
        ("?format=mapping", 400, "\"parameter\":\"to\""),
        ("?format=list&to=m.example.com", 400, "\"parameter\":\"to\""),
        ("?format=x", 400, "\"parameter\":\"format\""),
        ("?nope=1", 400, "unknown-parameter"),
    ] {
        let reply = ask(query);
        assert_eq!(reply.status, status, "{query}: {}", reply.text());
        assert!(reply.text().contains(wanted), "{query}: {}", reply.text());
    }
}

#[test]
fn manifests_name_catalogs_and_mirrors_alike_from_version_to_version() {
    let folder = tempfile::tempdir().unwrap();
    harbor("2.0.0").write_to(folder.path(), Format::Yaml);
    let source = format!("harbor-v4.20=file:{}", folder.path().display());
    let written = |more: &[&str]| {
        let run = almanac(&[&["manifests", &source], more].concat());
        assert!(run.status.success(), "{run:?}");
        run
    };
    // Nothing is read where nothing has to be.
    let run = almanac(&["manifests", "harbor=quay.invalid/a/b:v1"]);
    assert!(
        run.stdout.contains("address: harbor.olm.svc:50051"),
        "{run:?}"
    );
    let run = written(&[]);
    assert!(run.stdout.contains("name: harbor-v4-20"), "{run:?}");
    // Calls to the Service's name reach the catalog without a setting.
    assert!(!run.stderr.contains("authorities"), "{run:?}");
    let all = [
        "--catalog-host",
        "almanac.example.com",
        "--mirror",
        "mirror.example.com/ops",
        "--namespace",
        "openshift-marketplace",
    ];
    let first = written(&all).stdout;
    for part in [
        "kind: CatalogSource",
        "namespace: openshift-marketplace",
        "kind: ClusterCatalog",
        "ref: almanac.example.com/harbor-v4.20:latest",
        "kind: ImageDigestMirrorSet",
        "kind: ImageTagMirrorSet",
        "source: quay.io/harbor",
        "- mirror.example.com/ops/harbor",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(!first.contains("ImageContentSourcePolicy"), "{first}");
    harbor("3.0.0").write_to(folder.path(), Format::Yaml);
    assert_eq!(written(&all).stdout, first);
    let icsp = written(&["--mirror", "m.example.com", "--kind", "icsp"]).stdout;
    assert!(icsp.contains("repositoryDigestMirrors"), "{icsp}");
    assert!(!icsp.contains("CatalogSource"), "{icsp}");
    let image = written(&["--by", "image", "--catalog-host", "m.example.com/cat"]).stdout;
    assert!(
        image.contains("image: m.example.com/cat/harbor-v4.20:latest"),
        "{image}"
    );
    for part in ["extractContent:", "catalogDir: \"/configs\""] {
        assert!(image.contains(part), "{part}: {image}");
    }
    for (more, wanted) in [
        (&["--by", "image"][..], "--catalog-host"),
        (&["--kind", "idms"], "--mirror"),
        (
            &["--mirror", "nowhere"],
            "--mirror: \"nowhere\" is not a registry",
        ),
        (&["--namespace", "A B"], "--namespace"),
    ] {
        let run = almanac(&[&["manifests", &source], more].concat());
        assert_eq!(run.status.code(), Some(2), "{more:?}: {run:?}");
        assert!(run.stderr.contains(wanted), "{more:?}: {}", run.stderr);
    }
}

#[test]
fn manifests_of_a_configuration_know_its_curated_catalogs() {
    let folders = Folders::of("harbor", &harbor("2.0.0"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    let curated = "from = [\"harbor\"]\npackages = [{ name = \"pier\" }]";
    fs::write(&path, config(&folders.path("harbor"), curated)).unwrap();
    let config = path.to_str().unwrap();
    let run = almanac(&["manifests", "--config", config, "--mirror", "m.example.com"]);
    assert!(run.status.success(), "{run:?}");
    for part in [
        "name: harbor",
        "name: ours",
        "source: registry.k8s.io/pause",
    ] {
        assert!(run.stdout.contains(part), "{part}: {run:?}");
    }
}

#[test]
fn two_catalogs_that_would_be_one_object_are_refused() {
    let arguments = ["manifests", "a.b=quay.invalid/a:1", "a-b=quay.invalid/b:1"];
    let run = almanac(&arguments);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    for said in ["a.b and a-b", "CatalogSource a-b"] {
        assert!(run.stderr.contains(said), "{run:?}");
    }
    // A ClusterCatalog has dots.
    let more = ["--kind=cluster-catalog", "--catalog-host=m.example.com"];
    let run = almanac(&[&arguments[..], &more].concat());
    assert!(run.status.success(), "{run:?}");
    assert!(run.stdout.contains("name: a.b"), "{run:?}");
}
