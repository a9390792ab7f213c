//! The sample configuration shows every key with its default.

use std::fs;

use almanac::config::{Config, Settings};

use super::{environment, of_file, sample};

/// The keys of a table, as the message about an unknown one lists them.
fn keys_of(table: &str) -> Vec<String> {
    let message = of_file(&format!("{table}\nno-such-key = 1\n")).unwrap_err();
    let (_, listed) = message.split_once("expected").unwrap();
    let quoted = listed.split('`').skip(1).step_by(2);
    // The table's own name follows the list.
    quoted
        .take_while(|key| !table.contains(&format!("[{key}]")))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_sample_shows_every_key() {
    let text = fs::read_to_string(sample()).unwrap();
    let mut table = String::new();
    let mut shown = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix('#').unwrap_or(line);
        if line.starts_with('[') {
            line.clone_into(&mut table);
        }
        if let Some((key, _)) = line.split_once(" = ")
            && !key.starts_with(' ')
        {
            shown.push((table.clone(), key.to_owned()));
        }
    }
    for table in [
        "",
        "[[catalog]]",
        "[connections]",
        "[grpc_tls]",
        "[http_tls]",
        "[registries]",
        "[limits]",
        "[[webhook]]",
        "[log]",
    ] {
        let mut keys = keys_of(table);
        assert!(keys.len() > 1, "{table}: {keys:?}");
        if table.is_empty() {
            keys.retain(|key| {
                !text.contains(&format!("\n[{key}]\n"))
                    && !["catalog", "webhook"].contains(&key.as_str())
            });
        }
        for key in keys {
            let one = (table.to_owned(), key);
            assert!(
                shown.contains(&one),
                "deploy/almanac.toml does not show {one:?}"
            );
        }
    }
}

#[test]
fn the_sample_shows_the_defaults() {
    let text = fs::read_to_string(sample()).unwrap();
    let examples = [
        "#data_dir",
        "#default_catalog",
        "#kube_version",
        "#image_template",
        "#grpc = \"0.0.0.0:50052\"",
        "#certificate",
        "#key",
        "#client_ca",
        "#client_certificates",
        "#min_version",
        "#user_files",
        "#auth_files",
        "#certs_dirs",
        "#registries_conf",
        "#policy_file",
        "#registries_d",
        "#image_policy_namespace",
        "#image_set",
        "#signed_name",
        "#password_file",
        "#database",
        "#objects",
        "#credentials_file",
        "#stale",
        "#token_key_files",
        "#name_prefix",
        "#webhook",
        "#namespace",
        "#service_url",
        "#selector",
        "#url",
        "#kubeconfig",
        "#pull_secret",
    ];
    // A table that is a comment is an example as a whole.
    let mut is_example = false;
    let shown: Vec<_> = text
        .lines()
        .map(|line| {
            if line.starts_with('[') || line.starts_with("#[") {
                is_example = line.starts_with('#');
            }
            match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(|sign: char| sign.is_ascii_lowercase()) => {
                    let named = examples.iter().any(|example| line.starts_with(example));
                    if named || is_example { line } else { rest }
                }
                _ => line,
            }
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    let debug = |text: &str| {
        fs::write(&path, text).unwrap();
        let config = Config::load(Settings::default(), Some(&path), &environment(&[]));
        format!("{:#?}", config.unwrap())
    };
    assert_eq!(debug(&text), debug(&shown.join("\n")));
}

#[test]
fn the_webhook_of_the_sample_can_be_used_with_its_defaults() {
    let text = fs::read_to_string(sample()).unwrap();
    let (_, table) = text.split_once("#[[webhook]]\n").unwrap();
    let (table, _) = table.split_once("\n\n\n").unwrap();
    let keys = table.lines().filter_map(|line| line.strip_prefix('#'));
    let keys = keys.filter(|line| line.starts_with(|sign: char| sign.is_ascii_lowercase()));
    let all = keys.collect::<Vec<_>>().join("\n");
    let needed = all.lines().filter(|key| {
        let examples = [
            "name",
            "url",
            "source",
            "secret_files",
            "token_file",
            "catalogs",
        ];
        examples.iter().any(|example| key.starts_with(example))
    });
    let needed: Vec<&str> = needed.collect();
    assert_eq!(needed.len(), 6, "{needed:?}");
    let resolved = |keys: &str| {
        let file = of_file(&format!(
            "[[catalog]]\nname = 'catalog'\nsource = 'file:a'\n[[webhook]]\n{keys}"
        ));
        file.unwrap().webhooks
    };
    assert_eq!(resolved(&all), resolved(&needed.join("\n")));
}
