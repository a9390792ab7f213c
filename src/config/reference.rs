//! Holds what others repeat of settings against their declarations: the tables of the
//! reference page, the sample, and the schema of the chart's values. As snapshots are, they
//! are written anew with `INSTA_UPDATE=always`.

use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

use crate::config::Settings;
use crate::config::declaration::{Declared, Group as _};

const PAGE: &str = "docs/reference/configuration.md";
const SAMPLE: &str = "deploy/almanac.toml";
const SCHEMA: &str = "deploy/helm/almanac/values.schema.json";
/// The ends of a table on the page. The first one has the header of the table in the file.
const BEGIN: &str = "<!-- settings: ";
const END: &str = "<!-- end of settings -->";
/// The name of the table of settings outside of any table.
const TOP: &str = "top level";
/// Settings that the chart writes. It refuses them in the values with a message of its own.
const WRITTEN_BY_CHART: [&str; 6] = ["catalog", "data_dir", "grpc", "http", "admin", "grpc_tls"];

#[test]
fn the_tables_of_the_reference_are_the_declared_settings() {
    let page = read(PAGE);
    let mut expected = String::new();
    let mut rest = page.as_str();
    let mut shown = Vec::new();
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").expect("the name of a table");
        let (_, after) = after.split_once(END).expect("the end of a table");
        expected.extend([before, BEGIN, name, " -->\n", &table(name), END]);
        shown.push(name);
        rest = after;
    }
    expected.push_str(rest);
    hold(PAGE, &page, &expected);
    for setting in Settings::DECLARED {
        if let Some(table) = &setting.table {
            // The table for TLS holds for both ports.
            let name = table.name.replace("http_tls", "grpc_tls");
            assert!(shown.contains(&name.as_str()), "{PAGE} lacks {name}");
        }
    }
}

/// The Markdown table of a table of the file.
fn table(name: &str) -> String {
    let mut tables = Settings::DECLARED
        .iter()
        .filter_map(|one| one.table.as_ref());
    let settings = match tables.find(|table| table.name == name) {
        Some(table) => table.settings,
        None if name == TOP => Settings::DECLARED,
        None => panic!("{PAGE}: no table is {name}"),
    };
    let settings: Vec<&Declared> = settings.iter().filter(|one| one.table.is_none()).collect();
    let has_flags = settings.iter().any(|one| one.flag.is_some());
    let head = if has_flags { "key, flag" } else { "key" };
    let rows: Vec<String> = settings.iter().map(|one| one.row()).collect();
    format!(
        "| {head} | default | meaning |\n|---|---|---|\n{}\n",
        rows.join("\n")
    )
}

/// The longest line of the sample, in characters.
const WIDTH: usize = 80;
const SAMPLE_HEAD: &str = "\
# A sample configuration with every key. From the root of the project:
#
#     almanac serve --config deploy/almanac.toml
#
# A line that begins with \"#\" and a key shows the default, or an example where the
# text above says so. docs/reference/configuration.md explains the keys. Unknown keys
# are errors.
#
# Environment variables (ALMANAC_GRPC for grpc, and so on) override this file, and
# flags override both. Catalogs from there replace all catalogs of the file. Settings
# that are true or false are true if any of the three says so.
#
# Relative paths start at the folder of this file, those of sources included. Durations
# are written as \"200ms\", \"30s\", \"10m\", \"1h 30m\".
";
const SAMPLE_CATALOGS: &str = "
# More catalogs, as examples:
#
#   [[catalog]]
#   source = \"quay.io/operatorhubio/catalog:latest\"
#   name = \"community\"
#
#   [[catalog]]
#   source = \"registry.example.com/mirror/operators@sha256:<64 digits>\"
#   name = \"operators\"
#   on_invalid = \"reject\"
";

#[test]
fn the_sample_is_that_of_the_declared_settings() {
    let mut expected = format!("{SAMPLE_HEAD}\n");
    for setting in Settings::DECLARED.iter().filter(|one| one.table.is_none()) {
        add_setting(&mut expected, setting);
    }
    for setting in Settings::DECLARED {
        let Some(table) = &setting.table else {
            continue;
        };
        // A list may be empty, but the sample serves a catalog.
        let comment = if table.name == "[[webhook]]" { "#" } else { "" };
        expected.push_str("\n\n");
        add_comment(&mut expected, &setting.plain_text());
        expected.extend([comment, table.name, "\n"]);
        for setting in table.settings {
            add_setting(&mut expected, setting);
        }
        if table.name == "[[catalog]]" {
            expected.push_str(SAMPLE_CATALOGS);
        }
    }
    hold(SAMPLE, &read(SAMPLE), &expected);
}

/// Adds the text and the line of a setting.
fn add_setting(sample: &mut String, setting: &Declared) {
    let line = setting.sample();
    let text = match line.remark {
        Some(remark) => format!("{}. {remark}", setting.plain_text()),
        None => setting.plain_text(),
    };
    add_comment(sample, &text);
    // The source of the first catalog is the only one that is set.
    let is_set = setting.key == "source" && line.value.starts_with("\"file:");
    let comment = if is_set { "" } else { "#" };
    sample.extend([comment, setting.key, " = ", line.value.as_str(), "\n"]);
}

/// Adds a comment, wrapped.
fn add_comment(sample: &mut String, text: &str) {
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            sample.push_str(&line);
            sample.push('\n');
            "#".clone_into(&mut line);
        }
        line.extend([" ", word]);
    }
    sample.push_str(&line);
    sample.push_str(if line.ends_with(['.', ':']) {
        "\n"
    } else {
        ".\n"
    });
}

#[test]
fn the_schema_of_the_chart_is_that_of_the_declared_settings() {
    let text = read(SCHEMA);
    let mut settings = Declared::schema_of(Settings::DECLARED);
    let mut catalog = settings["properties"]["catalog"]["items"].take();
    // `pages = false` stands for a table.
    settings["properties"]["pages"]["type"] = json!(["boolean", "object"]);
    for key in WRITTEN_BY_CHART {
        settings["properties"][key] = json!({});
    }
    catalog["description"] = json!("Further keys of [[catalog]]");
    settings["description"] =
        json!("Further settings, with the keys of the program. The chart sets the others.");
    let expected = with_settings(&text, "          ", &catalog);
    let expected = with_settings(&expected, "    ", &settings);
    hold(SCHEMA, &text, &expected);
}

/// The schema with another object `settings`, which is indented so far. All else stays as
/// it is.
fn with_settings(text: &str, indent: &str, settings: &Value) -> String {
    let begin = format!("\n{indent}\"settings\": {{\n");
    let (before, after) = text.split_once(&begin).unwrap();
    let (_, after) = after.split_once(&format!("\n{indent}}}")).unwrap();
    let settings = serde_json::to_string_pretty(settings).unwrap();
    let settings = settings.replace('\n', &format!("\n{indent}"));
    format!("{before}\n{indent}\"settings\": {settings}{after}")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// Compares a file with what it should be, or writes that.
fn hold(file: &str, text: &str, expected: &str) {
    if env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(root().join(file), expected).unwrap();
        return;
    }
    for (number, (line, wanted)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(
            line,
            wanted,
            "{file}:{}: write it anew with INSTA_UPDATE=always",
            number + 1
        );
    }
    assert_eq!(text.len(), expected.len(), "{file} ends elsewhere");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
