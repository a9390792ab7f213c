//! Every kind of source and every form of output.

use serde_json::{Value, json};

use super::{Written, catalog, parsed, printed, run};
use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::image::Image;
use crate::support::program::{Finished, Start};
use crate::support::served::Served;
use crate::support::upstream::Upstream;

/// The same with a package of two heads.
fn with_errors() -> Catalog {
    catalog().package("broken", |package| {
        package
            .channel("stable", [entry("broken.v1.0.0"), entry("broken.v2.0.0")])
            .bundle(bundle("broken.v2.0.0").csv_metadata(json!({"displayName": "Broken"})))
    })
}

#[test]
fn a_package_with_errors_is_drawn_with_what_is_wrong() {
    let written = Written::new(&with_errors(), Format::Yaml);
    for output in ["mermaid", "svg"] {
        let finished = run(["graph", &written.source(), "broken", "--output", output]);
        assert_eq!(finished.status.code(), Some(0), "{finished:?}");
        assert!(
            finished.stderr.contains("channel-multiple-heads"),
            "{finished:?}"
        );
        for head in ["broken.v1.0.0", "broken.v2.0.0"] {
            assert!(finished.stdout.contains(head), "{finished:?}");
        }
        assert!(
            finished.stdout.contains("one of several heads"),
            "{finished:?}"
        );
    }
}

fn piped<'a>(arguments: impl IntoIterator<Item = &'a str>, stdin: &str) -> Finished {
    Start::new(arguments).stdin(stdin).run()
}

#[test]
fn every_kind_of_source_is_the_same_catalog() {
    let catalog = catalog();
    let written = Written::new(&catalog, Format::Yaml);
    let expected = printed(run(["render", &written.source()]), 0);
    assert_eq!(expected.lines().count(), catalog.blobs().len());

    let layout = written.folder.path().join("layout");
    std::fs::create_dir(&layout).unwrap();
    std::fs::write(
        layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    let image = Image::of_catalog(&catalog).build();
    image.add_to_layout(&layout, "v1");
    let registry = Upstream::start();
    registry.push("org/catalog", "v1", &image);

    let file = written.folder.path().join("all.json");
    std::fs::write(&file, catalog.text(Format::PrettyJson)).unwrap();

    let source = format!("a={}", written.source());
    let server = Served::start(["--poll=never".into(), source]);
    let http = server.http;

    let sources = [
        written.path().display().to_string(),
        format!("oci:{}:v1", layout.display()),
        registry.reference("org/catalog", "v1"),
        format!("file:{}", file.display()),
        format!("http://{http}/catalogs/a"),
        "-".to_owned(),
    ];
    for source in &sources {
        let run = |arguments: &[&str]| {
            let arguments = arguments.iter().copied().map(|argument| match argument {
                "SOURCE" => source,
                argument => argument,
            });
            piped(arguments, &catalog.text(Format::Yaml))
        };
        assert_eq!(printed(run(&["render", "SOURCE"]), 0), expected, "{source}");
        let text = printed(run(&["check", "SOURCE"]), 0);
        assert_eq!(
            text,
            "no problems: 2 packages, 3 channels, 6 entries, 5 bundles\n"
        );
        let packages = parsed(run(&["list", "packages", "SOURCE", "--output", "json"]), 0);
        assert_eq!(packages[1]["name"], "kafka", "{source}");
        let graph = printed(run(&["graph", "SOURCE", "etcd"]), 0);
        assert!(graph.contains("etcd.v1.0.0"), "{source}: {graph}");
    }
}

#[test]
fn a_problem_is_shown_with_its_place_and_line() {
    let written = Written::new(&with_errors(), Format::Yaml);
    let file = written.path().join("broken/catalog.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (number, line) = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| !line.contains("entries"))
        .map(|(number, line)| (number + 1, line))
        .next()
        .unwrap();
    let shown = printed(run(["check", &written.source()]), 1);
    let place = format!("--> {}:{number} (document 2)\n", file.display());
    assert!(
        shown.starts_with("error[channel-multiple-heads]: "),
        "{shown}"
    );
    assert!(shown.contains(&place), "{shown}");
    assert!(shown.contains(&format!("{number} | {line}\n")), "{shown}");
    assert!(
        shown.ends_with("\n1 problem in 1 package: 1 error\n"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "{shown}");

    let document = parsed(run(["check", &written.source(), "--output", "json"]), 1);
    assert_eq!(document["counts"]["quarantined"], 1);
    assert_eq!(document["source"], written.source());
    assert_eq!(document["problems"][0]["code"], "channel-multiple-heads");
    assert_eq!(document["problems"][0]["file"], "broken/catalog.yaml");
    assert_eq!(document["problems"][0]["line"], number);
}

#[test]
fn sarif_is_what_code_scanning_reads() {
    let written = Written::new(&with_errors(), Format::Yaml);
    let check = || run(["check", &written.source(), "--output", "sarif"]);
    let log = parsed(check(), 1);
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif"));
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "almanac");
    assert_eq!(driver["version"], env!("CARGO_PKG_VERSION"));
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        assert!(
            !rule["shortDescription"]["text"]
                .as_str()
                .unwrap()
                .is_empty()
        );
    }
    let [result] = &run["results"].as_array().unwrap()[..] else {
        panic!("{run:#}");
    };
    assert_eq!(result["ruleId"], "channel-multiple-heads");
    let index = result["ruleIndex"].as_u64().unwrap();
    assert_eq!(
        rules[usize::try_from(index).unwrap()]["id"],
        result["ruleId"]
    );
    assert_eq!(result["level"], "error");
    let message = result["message"]["text"].as_str().unwrap();
    assert!(message.contains("broken"), "{message}");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "broken/catalog.yaml");
    assert!(place["region"]["startLine"].as_u64().unwrap() > 1);
    assert_eq!(parsed(check(), 1), log);

    let clean = Written::new(&catalog(), Format::Yaml);
    let log = parsed(super::run(["check", &clean.source(), "--output=sarif"]), 0);
    assert_eq!(log["runs"][0]["results"], json!([]));
}

#[test]
fn what_is_rendered_reads_back_to_the_same() {
    let texts = [
        "",
        "yes",
        "1.10",
        "a: b",
        "- a",
        "é\u{85}\u{2028}😀",
        "a\n\n b \n",
        "\u{7f}\t",
    ];
    let texts = texts
        .iter()
        .map(|text| json!({"text": text, (*text): [text]}));
    let catalog = texts.fold(with_errors(), |catalog, fields| {
        catalog.package("other", |package| {
            package
                .channel("stable", [entry("other.v1.0.0")])
                .custom("example.com.text", fields)
        })
    });
    let written = Written::new(&catalog, Format::PrettyJson);
    let file = written.folder.path().join("all.json");
    std::fs::write(&file, catalog.text(Format::PrettyJson)).unwrap();
    let file = file.to_str().unwrap();
    let lines = printed(run(["render", file]), 0);
    let counts = parsed(run(["check", file, "--output=json"]), 1)["counts"].clone();
    for format in ["jsonl", "yaml"] {
        let first = printed(run(["render", file, "--output", format]), 0);
        let again = printed(piped(["render", "-", "--output", format], &first), 0);
        assert_eq!(again, first, "{format}");
        assert_eq!(
            printed(piped(["render", "-"], &first), 0),
            lines,
            "{format}"
        );
        let check = piped(["check", "-", "--output=json"], &first);
        assert_eq!(parsed(check, 1)["counts"], counts, "{format}");
    }
}

#[test]
fn only_the_packages_asked_for_are_rendered() {
    let written = Written::new(&with_errors(), Format::JsonLines);
    let source = written.source();
    let finished = run(["render", &source, "--package", "etcd", "-p", "broken"]);
    let note = "packages with errors: broken";
    assert!(finished.stderr.contains(note), "{finished:#?}");
    let lines = printed(finished, 0);
    let packages: Vec<String> = lines
        .lines()
        .map(|line| {
            let blob: Value = serde_json::from_str(line).unwrap();
            let key = ["name", "package"][usize::from(blob["schema"] != "olm.package")];
            blob[key].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        packages,
        ["broken"; 4]
            .iter()
            .chain(&["etcd"; 4])
            .copied()
            .collect::<Vec<_>>()
    );

    let finished = run(["render", &source, "--package", "etdc"]);
    assert!(finished.stderr.contains("did you mean \"etcd\"?"));
    assert_eq!(printed(finished, 1), "");
}

#[test]
fn a_catalog_that_cannot_be_served_is_not_shown() {
    let content = "schema: olm.package\nname: a\n---\nname: b\n";
    for arguments in [
        &["render", "-"][..],
        &["render", "-", "--output=yaml"],
        &["list", "packages", "-"],
        &["graph", "-", "a"],
    ] {
        let finished = piped(arguments.iter().copied(), content);
        assert!(
            finished
                .stderr
                .contains("<stdin>:4 (document 2): fatal[schema-missing]"),
            "{finished:#?}"
        );
        assert_eq!(printed(finished, 3), "");
    }
    let checked = printed(piped(["check", "-"], content), 1);
    assert!(checked.contains("fatal[schema-missing]"), "{checked}");
    assert!(
        checked.contains(" --> <stdin>:4 (document 2)\n"),
        "{checked}"
    );
}

#[test]
fn lists_are_tables_or_json() {
    let written = Written::new(&with_errors(), Format::JsonLines);
    let source = written.source();
    let list = |arguments: &[&str]| run(["list"].into_iter().chain(arguments.iter().copied()));

    let finished = list(&["packages", &source]);
    assert!(finished.stderr.contains("broken"), "{finished:#?}");
    assert_eq!(
        printed(finished, 0),
        "NAME   DISPLAY NAME    DEFAULT CHANNEL\n\
         etcd   etcd            stable\n\
         kafka  Kafka: the log  stable\n"
    );
    assert_eq!(
        printed(list(&["channels", &source, "kafka"]), 0),
        "PACKAGE  CHANNEL  HEAD\n\
         kafka    edge     kafka.v1.10.0\n\
         kafka    stable   kafka.v1.10.0\n"
    );
    let bundles = printed(list(&["bundles", &source, "kafka", "--output=wide"]), 0);
    let line = bundles.lines().last().unwrap();
    assert_eq!(
        line,
        "kafka    stable   kafka.v1.10.0  1.10.0   kafka.v1.9.0  kafka.v1.9.1,kafka.v0.1.0  \
         >=1.0.0 <1.10.0  quay.io/kafka/bundle:1.10.0",
        "{bundles}"
    );

    let packages = parsed(list(&["packages", &source, "--output=json"]), 0);
    assert_eq!(
        packages,
        json!([
            {"name": "etcd", "displayName": "etcd", "defaultChannel": "stable"},
            {"name": "kafka", "displayName": "Kafka: the log", "defaultChannel": "stable"},
        ])
    );
    let channels = parsed(list(&["channels", &source, "kafka", "--output=json"]), 0);
    assert_eq!(
        channels[0],
        json!({"name": "edge", "package": "kafka", "head": "kafka.v1.10.0", "default": false})
    );
    let bundles = parsed(list(&["bundles", &source, "--output=json"]), 0);
    let bundles = bundles.as_array().unwrap();
    assert_eq!(bundles.len(), 6);
    assert_eq!(bundles[4]["name"], "kafka.v1.9.1");
    assert_eq!(bundles[4]["deprecation"], "Broken.");
    assert_eq!(bundles[5]["name"], "kafka.v1.10.0");
    assert_eq!(bundles[5]["skips"], json!(["kafka.v1.9.1", "kafka.v0.1.0"]));
    assert_eq!(bundles[5]["skipRange"], ">=1.0.0 <1.10.0");

    let finished = list(&["channels", &source, "kafak"]);
    assert!(finished.stderr.contains("did you mean \"kafka\"?"));
    assert_eq!(printed(finished, 1), "");
    let finished = list(&["channels", &source, "broken"]);
    assert!(finished.stderr.contains("has errors"), "{finished:#?}");
    assert_eq!(printed(finished, 1), "");
}

#[test]
fn a_graph_is_drawn_whole_or_a_channel_of_it() {
    let written = Written::new(&catalog(), Format::JsonLines);
    let source = written.source();
    let text = printed(run(["graph", &source, "kafka"]), 0);
    assert!(text.starts_with("flowchart LR\n"), "{text}");
    assert_eq!(text.matches("subgraph").count(), 2);
    assert_eq!(text.matches(" -.-> ").count(), 2, "{text}");
    let text = printed(run(["graph", &source, "kafka", "--channel=edge"]), 0);
    assert_eq!(text.matches("subgraph").count(), 1);

    let svg = printed(run(["graph", &source, "kafka", "--output=svg"]), 0);
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert!(svg.contains("kafka.v1.9.1"), "{svg}");
    for part in ["<script", "href", "@import", "url(http"] {
        assert!(!svg.contains(part), "{part}");
    }

    for (arguments, proposal) in [
        (&["kafak"][..], "\"kafka\""),
        (&["kafka", "--channel=stabel"], "\"stable\""),
    ] {
        let finished = run(["graph", &source]
            .into_iter()
            .chain(arguments.iter().copied()));
        assert!(finished.stderr.contains(proposal), "{finished:#?}");
        assert_eq!(printed(finished, 1), "");
    }
}

#[test]
fn hostile_names_stay_text() {
    let name = "a.v1\"]</svg><script>`%%{x}%%\u{1b}[31m\u{202e}\n#";
    let catalog = Catalog::new().package("a", |package| {
        package
            .channel(name, [entry(name).replaces("b\"]\n-->")])
            .bundle(bundle(name).version("1.0.0"))
    });
    let content = catalog.text(Format::JsonLines);
    let run = |arguments: &[&str]| printed(piped(arguments.iter().copied(), &content), 0);

    let mermaid = run(&["graph", "-", "a"]);
    for line in mermaid.lines() {
        assert!(matches!(line.matches('"').count(), 0 | 2), "{mermaid}");
    }
    for part in ["</svg", "<script", "%%", "`", "\u{1b}", "\u{202e}"] {
        assert!(!mermaid.contains(part), "{part}: {mermaid}");
    }
    let svg = run(&["graph", "-", "a", "--output=svg"]);
    assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");

    let table = run(&["list", "channels", "-"]);
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(
        !table.contains('\u{1b}') && !table.contains('\u{202e}'),
        "{table}"
    );
    let channels: Value =
        serde_json::from_str(&run(&["list", "channels", "-", "-o=json"])).unwrap();
    assert_eq!(channels[0]["name"], name);
    let yaml = run(&["render", "-", "-o=yaml"]);
    assert_eq!(
        printed(piped(["render", "-"], &yaml), 0),
        run(&["render", "-"])
    );
}
