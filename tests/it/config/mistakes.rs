//! Mistakes, with the key and line at fault.

use std::fs;
use std::path::Path;

use almanac::config::{CatalogConfig, Config, Settings};

use super::{environment, of_file};
use crate::support::program::Start;

#[test]
fn what_is_wrong_in_a_file_is_named_with_key_and_line() {
    let catalog = "[[catalog]]\nsource = \"file:/c\"\n";
    for (text, message) in [
        (
            "grcp = \"0.0.0.0:1\"",
            "almanac.toml:1:1: unknown key `grcp`; did you mean \"grpc\"?",
        ),
        (
            "[[catalog]]\nsource = \"file:/c\"\npol = \"1m\"",
            "almanac.toml:3:1: unknown key `pol`; did you mean \"poll\"? (in `catalog`)",
        ),
        (
            "\n[registries]\nsecure = []",
            "almanac.toml:3:1: unknown key `secure`; did you mean \"insecure\"?",
        ),
        (
            "[limits]\nbites = 1",
            "almanac.toml:2:1: unknown key `bites`",
        ),
        (
            "[log]\nlevel = 1",
            "almanac.toml:2:1: unknown key `level`, expected `filter` or `format`",
        ),
        (
            "[[catalog]]\nname = \"a\"",
            "the catalog a: it has no source; write source, or from",
        ),
        (
            "[[catalog]]\nsource = \"catalog\"",
            "almanac.toml:2:10: \"catalog\" is not a source",
        ),
        (
            "[[catalog]]\nsource = \"file:/c\"\nname = \"A\"",
            "almanac.toml:3:8: \"A\" is not a catalog name",
        ),
        (
            "[[catalog]]\nsource = \"file:/c\"\nauthorities = [\"a:80\"]",
            "almanac.toml:3:16: \"a:80\" is no authority: write the host alone",
        ),
        ("grpc = \"a.example:1\"", "(in `grpc`)"),
        (
            "http = \"http://127.0.0.1:8080/\"",
            "is no address: it is a URL; write 127.0.0.1:8080 (in `http`)",
        ),
        (
            "grpc = 50051",
            "almanac.toml:1:8: invalid type: integer `50051`, expected an address",
        ),
        (
            "cors_origins = [\"console.example.com\"]",
            "\"console.example.com\" is no origin: write a scheme and a host",
        ),
        (
            "[connections]\nidle = \"1m\"",
            "almanac.toml:2:1: unknown key `idle`",
        ),
        (
            "[grpc_tls]\nclient_certificates = \"maybe\"",
            "write \"required\" or \"optional\" (in `grpc_tls.client_certificates`)",
        ),
        ("drain = \"20\"", "almanac.toml:1:9: \"20\" is no duration"),
        ("poll = \"1ms\"", "it must be at least 100ms"),
        (
            "max_connections = 0",
            "expected a whole number from 1 (in `max_connections`)",
        ),
        ("platform = \"linux\"", "\"linux\" is not a platform"),
        (
            "on_invalid = \"drop\"",
            "write \"quarantine\" or \"reject\" (in `on_invalid`)",
        ),
        (
            "[registries]\nidle_timeout = \"0s\"",
            "it must be longer than zero",
        ),
        (
            "[registries]\ninsecure = [\"http://a\"]",
            "drop http:// and write a",
        ),
        (
            "[log]\nformat = \"xml\"",
            "write \"auto\", \"text\" or \"json\" (in `log.format`)",
        ),
        (
            "drain = \"1s\"\ndrain = \"2s\"",
            "almanac.toml:2:1: duplicate key",
        ),
        ("drain = ", "almanac.toml:1:"),
    ] {
        let found = of_file(&format!("{text}\n")).unwrap_err();
        assert!(
            found.contains(message),
            "{text}\n  gives {found}\n  not {message}"
        );
        assert!(!found.contains('\n'), "{found}");
    }
    let filter = of_file(&format!("{catalog}[log]\nfilter = \"almanac=loud\"")).unwrap_err();
    assert!(
        filter.contains("the log filter \"almanac=loud\""),
        "{filter}"
    );
}

#[test]
fn a_file_that_is_missing_is_named() {
    let missing = Path::new("/nonexistent/almanac.toml");
    let error = Config::load(Settings::default(), Some(missing), &environment(&[])).unwrap_err();
    assert!(
        error.to_string().contains("/nonexistent/almanac.toml"),
        "{error}"
    );
}

#[test]
fn catalogs_that_contradict_each_other_are_refused() {
    for (text, message) in [
        ("", "there is no catalog to serve"),
        ("[[catalog]]\nsource = \"file:/\"", "write NAME=file:/"),
        (
            "[[catalog]]\nsource = \"quay.io/a/c:v1\"\n[[catalog]]\nsource = \"quay.io/b/c:v1\"",
            "two catalogs are named c: quay.io/a/c:v1 and quay.io/b/c:v1",
        ),
        (
            "[[catalog]]\nsource = \"file:/a\"\nauthorities = [\"x.y\"]\n\
             [[catalog]]\nsource = \"file:/b\"\nauthorities = [\"X.Y\"]",
            "the authority x.y is given twice: for a and for b",
        ),
        (
            "default_catalog = \"c\"\n[[catalog]]\nsource = \"file:/a\"\n[[catalog]]\nsource = \"file:/b\"",
            "default_catalog names c, but the catalogs are: a, b",
        ),
        (
            "http = \"0.0.0.0:50051\"\n[[catalog]]\nsource = \"file:/a\"",
            "grpc and http both listen at 0.0.0.0:50051",
        ),
    ] {
        let found = of_file(text).unwrap_err();
        assert!(found.contains(message), "{text}\n  gives {found}");
    }
}

/// Replicas of a fleet with such configurations make it each by themselves.
#[test]
fn a_curated_catalog_differs_with_the_settings_that_change_its_sources() {
    let config = |own: &str, others: &str| {
        // The order in the file means nothing.
        let text = format!(
            "database = 'postgres://localhost/almanac'\nobjects = 's3://almanac'\n
             [[catalog]]\nname = 'ours'\nfrom = ['middle']\n
             [[catalog]]\nname = 'middle'\nfrom = ['a']\n
             [[catalog]]\nname = 'a'\n{own}\n[[catalog]]\nname = 'b'\n{others}\n"
        );
        of_file(&text).unwrap()
    };
    let origins = |config: &Config| -> Vec<String> {
        let catalogs = config.catalogs.iter();
        catalogs.map(CatalogConfig::track_identity).collect()
    };
    let first = "source = 'quay.io/a/b:v1'";
    let before = origins(&config(first, "source = 'quay.io/b/b:v1'"));
    let other = origins(&config(first, "source = 'quay.io/b/b:v2'"));
    assert_eq!(before[..3], other[..3]);
    for changed in [
        "source = 'quay.io/a/b:v2'",
        "source = 'quay.io/a/c:v1'",
        "source = 'quay.io/a/b:v1'\nplatform = 'linux/s390x'",
        "source = 'quay.io/a/b:v1'\non_invalid = 'reject'",
        "source = 'quay.io/a/b:v1'\nmirror = 'full'",
    ] {
        let after = origins(&config(changed, "source = 'quay.io/b/b:v1'"));
        let same = before.iter().zip(&after).map(|(a, b)| a == b);
        assert_eq!(same.collect::<Vec<_>>(), [false, false, false, true]);
    }
    // The poll interval changes no content.
    let polled = format!("{first}\npoll = '7m'");
    let after = origins(&config(&polled, "source = 'quay.io/b/b:v1'"));
    assert_eq!(before, after);
}

#[test]
fn settings_of_the_cluster_that_cannot_work_are_refused() {
    let own = "cluster_catalogs = \"own\"\nwebhook = \":9443\"\n[http_tls]\n\
        certificate = \"tls.crt\"\nkey = \"tls.key\"\nclient_ca = \"ca.crt\"\n";
    for (text, message) in [
        (
            "cluster_catalogs = \"follow\"\nwebhook = \":9443\"",
            "webhook needs cluster_catalogs = \"own\"",
        ),
        (
            "webhook = \":9443\"\n[[catalog]]\nsource = \"file:a\"",
            "webhook needs cluster_catalogs = \"own\"",
        ),
        (own, "which requires a client certificate"),
        (
            "selector = \"a=b=c,,\"",
            "almanac.toml:2:12: \"a=b=c,,\" is no label selector",
        ),
        (
            "namespace = \"A_B\"",
            "almanac.toml:2:13: \"A_B\" is no namespace",
        ),
        ("namespace = \"\"", "\"\" is no namespace"),
        (
            "[registries]\nimage_policy_namespace = \"A_\"",
            "almanac.toml:3:26: \"A_\" is no namespace",
        ),
        (
            "cluster_catalogs = \"own\"\nservice_url = \"http://x/y?z#f\"",
            "service_url \"http://x/y?z#f\" is no URL",
        ),
        (
            "cluster_catalogs = \"follow\"\nservice_url = \"https://x\"",
            "service_url is for cluster_catalogs = \"own\" alone",
        ),
        (
            "cluster_catalogs = \"follow\"\nnamespace = \"x\"",
            "namespace is for cluster_catalogs = \"own\" alone",
        ),
    ] {
        let found = of_file(&format!("[kubernetes]\n{text}")).unwrap_err();
        assert!(found.contains(message), "{text}\n  gives {found}");
    }
    let optional = format!("[kubernetes]\n{own}client_certificates = \"optional\"\n");
    assert!(of_file(&optional).is_ok());
}

#[test]
fn the_program_does_not_start_with_what_it_does_not_understand() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("almanac.toml");
    fs::write(&file, "grcp = \"127.0.0.1:0\"\n").unwrap();
    let of_file = Start::new(["serve", "--config"]).argument(file.to_str().unwrap());
    let of_variable = Start::new(["serve", "file:a"]).variable("ALMANAC_DRAIN", "long");
    for (start, message) in [
        (of_file, "almanac.toml:1:1: unknown key `grcp`"),
        (
            of_variable,
            "the environment variable ALMANAC_DRAIN: \"long\"",
        ),
        (Start::new(["serve"]), "there is no catalog to serve"),
        (
            Start::new(["serve", "catalog"]),
            "\"catalog\" is not a source",
        ),
        (
            Start::new(["check", "catalog"]),
            "\"catalog\" is not a source",
        ),
    ] {
        let finished = start.run();
        assert_eq!(finished.status.code(), Some(2), "{finished:?}");
        assert!(finished.stderr.contains(message), "{finished:?}");
        assert_eq!(finished.stdout, "");
    }
}
