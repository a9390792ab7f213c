//! What was written, as flags, in the environment and in files, and what comes
//! of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use almanac::config::{CatalogConfig, Config, Environment, Settings};
use almanac::ingest::OnInvalid;
use almanac::serve::Limits;
use almanac::serve::http::Origins;
use almanac::serve::net::tls::Version;
use clap::{Args as _, FromArgMatches as _};

use crate::support::catalog::{Catalog, Format};
use crate::support::image::Image;
use crate::support::program::Start;
use crate::support::tls::Authority;

/// Settings as a command takes them.
fn command() -> clap::Command {
    Settings::augment_args(clap::Command::new("almanac"))
}

fn flags(arguments: &[&str]) -> Result<Settings, clap::Error> {
    let arguments = ["almanac"].iter().chain(arguments);
    let matches = command().try_get_matches_from(arguments)?;
    Settings::from_arg_matches(&matches)
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().copied().collect()
}

/// What comes of a file with this text and nothing else, or the message with
/// the file's folder cut off.
fn of_file(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    fs::write(&path, text).unwrap();
    Config::load(Settings::default(), Some(&path), &environment(&[])).map_err(|error| {
        let folder = format!("{}/", folder.path().display());
        error.to_string().replace(&folder, "")
    })
}

fn of_flags(arguments: &[&str]) -> Result<Config, String> {
    Config::load(flags(arguments).unwrap(), None, &environment(&[]))
        .map_err(|error| error.to_string())
}

/// A path relative to the current folder of the program, in full.
fn here(before: &str, path: &str) -> String {
    let folder = std::env::current_dir().unwrap();
    format!("{before}{}/{path}", folder.display())
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/almanac.toml")
}

#[test]
fn a_source_is_all_that_has_to_be_said() {
    let config = of_flags(&["file:deploy/catalog"]).unwrap();
    assert_eq!(config.data_dir, Path::new("data"));
    assert_eq!(config.grpc.to_string(), "0.0.0.0:50051");
    assert_eq!(config.http.to_string(), "0.0.0.0:8080");
    assert_eq!(config.admin.to_string(), "127.0.0.1:9090");
    assert_eq!(config.drain, Duration::from_secs(20));
    assert_eq!(config.connections.connections, 10_000);
    assert_eq!(config.log.filter, "info");
    assert_eq!(config.default_catalog, None);
    let [catalog] = config.catalogs.as_slice() else {
        panic!("{config:?}")
    };
    assert_eq!(catalog.name.as_str(), "catalog");
    assert_eq!(catalog.source.to_string(), here("file:", "deploy/catalog"));
    assert_eq!(catalog.poll, Some(Duration::from_mins(10)));
    assert_eq!(catalog.platform.to_string(), "linux/amd64");
    assert_eq!(catalog.on_invalid, OnInvalid::Quarantine);
}

#[test]
fn flags_outweigh_the_environment_and_that_outweighs_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("almanac.toml");
    let text = r#"
        grpc = "127.0.0.1:1"
        http = "127.0.0.1:2"
        admin = "127.0.0.1:3"
        [[catalog]]
        source = "file:/of-file"
        [registries]
        insecure = ["file:1"]
        ca_files = ["/file.pem"]
        [log]
        filter = "trace"
    "#;
    fs::write(&file, text).unwrap();
    let variables = [
        ("ALMANAC_CONFIG", file.to_str().unwrap()),
        ("ALMANAC_GRPC", "127.0.0.1:11"),
        ("ALMANAC_HTTP", "127.0.0.1:12"),
        (
            "ALMANAC_CATALOGS",
            "one=file:/of-environment quay.io/a/two:v1",
        ),
        ("ALMANAC_INSECURE", "a:1 b"),
        ("ALMANAC_LOG", ""),
    ];
    let variables = environment(&variables);

    let flags = flags(&["--grpc", "127.0.0.1:21"]).unwrap();
    let config = Config::load(flags, None, &variables).unwrap();
    assert_eq!(config.grpc.port(), 21);
    assert_eq!(config.http.port(), 12);
    assert_eq!(config.admin.port(), 3);
    let names: Vec<_> = config.catalogs.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(config.registries.insecure, ["a:1", "b"]);
    assert_eq!(config.registries.ca_files, [Path::new("/file.pem")]);
    assert_eq!(config.log.filter, "trace", "an empty variable is none");
}

#[test]
fn a_catalog_outweighs_what_holds_for_all() {
    let config = of_file(
        r#"
        poll = "never"
        platform = "linux/s390x"
        on_invalid = "reject"
        [[catalog]]
        source = "quay.io/a/one:v1"
        [[catalog]]
        source = "quay.io/a/two:v1"
        poll = "200ms"
        platform = "linux/arm64/v8"
        on_invalid = "quarantine"
        authorities = ["Two.Example"]
        "#,
    );
    let config = config.unwrap();
    let [one, two] = config.catalogs.as_slice() else {
        panic!("{config:?}")
    };
    assert_eq!(one.poll, None);
    assert_eq!(one.platform.to_string(), "linux/s390x");
    assert_eq!(one.on_invalid, OnInvalid::Reject);
    assert_eq!(two.poll, Some(Duration::from_millis(200)));
    assert_eq!(two.platform.to_string(), "linux/arm64/v8");
    assert_eq!(two.on_invalid, OnInvalid::Quarantine);
    assert_eq!(two.authorities, ["two.example"]);
}

#[test]
fn paths_in_a_file_start_at_its_folder() {
    let config = Config::load(Settings::default(), Some(&sample()), &environment(&[])).unwrap();
    let source = config.catalogs[0].source.to_string();
    let path = Path::new(source.strip_prefix("file:").unwrap());
    assert_eq!(path, sample().with_file_name("catalog"));
    assert!(path.join("lantern-operator/catalog.yaml").is_file());
}

#[test]
fn what_is_written_of_the_ports_reaches_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("almanac.toml");
    let text = r#"
        max_connections = 7
        cors_origins = ["https://A.example:8443"]
        [[catalog]]
        source = "file:/a"
        grpc = "127.0.0.1:9"
        token_files = ["tokens", "/more"]
        client_certificate = true
        [connections]
        calls = 5
        stall_timeout = "3s"
        [http_tls]
        certificate = "tls.crt"
        key = "/tls.key"
        client_ca = "ca.crt"
        client_certificates = "optional"
        min_version = "1.3"
    "#;
    fs::write(&file, text).unwrap();
    let config = Config::load(Settings::default(), Some(&file), &environment(&[])).unwrap();
    let default = Limits::default();
    let wanted = Limits {
        connections: 7,
        calls: 5,
        stall_timeout: Duration::from_secs(3),
        ..default
    };
    assert_eq!(config.connections, wanted);
    let origin = "https://a.example:8443".parse().unwrap();
    assert_eq!(config.origins, Origins::These(vec![origin]));
    assert_eq!(config.grpc_tls, None);
    let tls = config.http_tls.unwrap();
    assert_eq!(tls.certificate, folder.path().join("tls.crt"));
    assert_eq!(tls.key, Path::new("/tls.key"));
    assert_eq!(tls.client_ca, Some(folder.path().join("ca.crt")));
    assert!(tls.client_optional);
    assert_eq!(tls.min_version, Version::Tls13);
    let catalog = &config.catalogs[0];
    assert_eq!(catalog.grpc.unwrap().port(), 9);
    let tokens = [folder.path().join("tokens"), "/more".into()];
    assert_eq!(catalog.access.token_files, tokens);
    assert!(catalog.access.client_certificate);
}

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
fn listeners_may_all_be_given_any_free_port() {
    let any = "127.0.0.1:0";
    of_flags(&["--grpc", any, "--http", any, "--admin", any, "file:a"]).unwrap();
}

#[test]
fn a_name_may_stand_before_a_source() {
    let config = of_flags(&["one=quay.io/a/b:v1", "file:a=b/c", "two=oci:a=b:v1"]).unwrap();
    let found: Vec<_> = config
        .catalogs
        .iter()
        .map(|catalog| format!("{} {}", catalog.name, catalog.source))
        .collect();
    assert_eq!(
        found,
        [
            "one quay.io/a/b:v1".to_owned(),
            here("c file:", "a=b/c"),
            here("two oci:", "a=b:v1"),
        ]
    );
    for bad in [
        "One=quay.io/a/b",
        "=quay.io/a/b",
        "one=",
        "one=two=quay.io/a/b",
    ] {
        assert!(flags(&[bad]).is_err(), "{bad}");
    }
}

#[test]
fn a_relative_source_is_one_of_the_folder_that_almanac_is_started_in() {
    // So what is stored of it is not taken for that of another folder.
    let folder = std::env::current_dir().unwrap();
    for (written, path) in [
        ("a=file:a b", "a b"),
        ("a=file:./c/../d", "c/../d"),
        ("a=file:.", ""),
        ("oci:b:quay.io/a/b:v1", "b"),
        ("oci-archive:c.tar:v1", "c.tar"),
    ] {
        let config = of_flags(&["--data-dir=/data", written]).unwrap();
        assert_eq!(config.catalogs[0].source.path(), Some(&*folder.join(path)));
    }
    let config = of_flags(&["a=file:/a b"]).unwrap();
    assert_eq!(config.catalogs[0].source.to_string(), "file:/a b");
}

#[test]
fn a_variable_with_a_bad_value_is_named() {
    for (name, value, message) in [
        ("ALMANAC_GRPC", "50051", "such as 0.0.0.0:8080"),
        ("ALMANAC_POLL", "often", "is no duration"),
        ("ALMANAC_MAX_CONNECTIONS", "0", "would be zero"),
        (
            "ALMANAC_CATALOGS",
            "file:a catalog",
            "\"catalog\" is not a source",
        ),
        ("ALMANAC_LOG_FORMAT", "xml", "\"text\" or \"json\""),
    ] {
        let error = environment(&[(name, value)])
            .settings()
            .unwrap_err()
            .to_string();
        assert!(error.contains(name) && error.contains(message), "{error}");
    }
}

#[test]
fn every_flag_has_its_variable() {
    for argument in command().get_arguments() {
        let long = argument.get_long().unwrap_or("catalogs");
        let name = format!("ALMANAC_{}", long.to_uppercase().replace('-', "_"));
        let unknown = environment(&[(&name, "x")]).unknown();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn a_misspelt_variable_is_found() {
    let variables = environment(&[
        ("ALMANAC_DATADIR", "/a"),
        ("ALMANAC_CONFIG", "/a"),
        // What Kubernetes sets for services named almanac and almanac-http.
        ("ALMANAC_SERVICE_HOST", "10.0.0.1"),
        ("ALMANAC_SERVICE_PORT_GRPC", "50051"),
        ("ALMANAC_PORT", "tcp://10.0.0.1:50051"),
        ("ALMANAC_PORT_50051_TCP_ADDR", "10.0.0.1"),
        ("ALMANAC_HTTP_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ]);
    assert_eq!(variables.unknown(), ["ALMANAC_DATADIR"]);
}

#[test]
fn files_are_looked_for_where_other_tools_keep_them() {
    let registries = |variables: &[(&str, &str)], arguments: &[&str]| {
        let flags = flags(&[&["file:a"], arguments].concat()).unwrap();
        let config = Config::load(flags, None, &environment(variables)).unwrap();
        config.registries
    };
    let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
    let usual = registries(&[("HOME", "/home/me"), ("XDG_RUNTIME_DIR", "/run/me")], &[]);
    assert!(usual.auth_files.is_empty());
    let auth_files = [
        "/run/me/containers/auth.json",
        "/home/me/.config/containers/auth.json",
        "/home/me/.docker/config.json",
        "/home/me/.dockercfg",
    ];
    assert_eq!(usual.usual_auth_files, paths(&auth_files));
    let folders = [
        "/home/me/.config/containers/certs.d",
        "/etc/containers/certs.d",
        "/etc/docker/certs.d",
    ];
    assert_eq!(usual.certificate_folders, paths(&folders));
    let folders = ["/home/me/.config/containers", "/etc/containers"];
    assert_eq!(usual.mirrors.usual, paths(&folders));
    let policies = [
        "/home/me/.config/containers/policy.json",
        "/etc/containers/policy.json",
    ];
    assert_eq!(usual.policy.usual, paths(&policies));

    let user = fs::metadata("/proc/self").unwrap().uid();
    let other = registries(&[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/config")], &[]);
    let runtime = format!("/run/containers/{user}/auth.json");
    let auth_files = [runtime.as_str(), "/config/containers/auth.json"];
    assert_eq!(other.usual_auth_files[..2], paths(&auth_files));

    // What is named has to be there, and is all there is.
    let named = registries(
        &[
            ("HOME", "/home/me"),
            ("REGISTRY_AUTH_FILE", "/named"),
            ("CONTAINERS_REGISTRIES_CONF", "/conf"),
        ],
        &[],
    );
    assert_eq!(named.auth_files, paths(&["/named"]));
    assert!(named.usual_auth_files.is_empty());
    assert_eq!(named.mirrors.named, paths(&["/conf"]));
    assert!(named.mirrors.usual.is_empty());
    let flagged = registries(
        &[("HOME", "/home/me"), ("REGISTRY_AUTH_FILE", "/named")],
        &[
            "--auth-file=/flag",
            "--certs-dir=/certs",
            "--registries-conf=/conf",
            "--mirror-file=/sets",
            "--policy-file=/policy",
            "--image-policy-file=/objects",
            "--image-policy-namespace=ours",
            "--registries-d=/places",
        ],
    );
    assert_eq!(flagged.auth_files, paths(&["/flag"]));
    assert_eq!(flagged.certificate_folders, paths(&["/certs"]));
    assert_eq!(flagged.mirrors.named, paths(&["/conf"]));
    assert_eq!(flagged.mirrors.kubernetes, paths(&["/sets"]));
    assert_eq!(flagged.policy.named, Some("/policy".into()));
    assert_eq!(flagged.policy.objects, paths(&["/objects"]));
    assert_eq!(flagged.policy.namespace.as_deref(), Some("ours"));
    assert_eq!(flagged.policy.stores.named, Some("/places".into()));
    let docker = registries(&[("HOME", "/home/me"), ("DOCKER_CONFIG", "/docker")], &[]);
    assert!(
        docker
            .usual_auth_files
            .contains(&"/docker/config.json".into())
    );
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

#[test]
fn a_check_finds_all_that_a_start_would_fail_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let check = |text: &str| {
        fs::write(path("almanac.toml"), text).unwrap();
        Start::new(["serve", "--check", "--config", &path("almanac.toml")]).run()
    };
    let ports = "grpc = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n";
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
    let good = format!("{ports}[[catalog]]\nsource = 'file:{}'\n", sample.display());
    let finished = check(&good);
    assert!(finished.status.success(), "{finished:#?}");
    assert_eq!(
        finished.stdout,
        "the configuration can be used: 1 catalog\n"
    );
    assert!(!folder.path().join("data").exists(), "it only looks");

    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let finished = check(&format!(
        "{ports}[kubernetes]\ncluster_catalogs = 'own'\nwebhook = '{taken}'\n\
         [http_tls]\ncertificate = 'tls.crt'\nkey = 'tls.key'\n",
    ));
    for said in ["webhook", &taken.to_string()] {
        assert!(finished.stderr.contains(said), "{said}: {finished:#?}");
    }
    // A kubeconfig that cannot be used ends a start.
    let cluster = format!("{ports}[kubernetes]\nmirror_sets = true\nkubeconfig = 'kubeconfig'\n");
    let cluster = format!(
        "{cluster}[[catalog]]\nsource = 'file:{}'\n",
        sample.display()
    );
    let without_context = "apiVersion: v1\nkind: Config\ncurrent-context: other\n\
        clusters: []\ncontexts: []\nusers: []\n";
    for text in [None, Some(": ["), Some(without_context)] {
        if let Some(text) = text {
            fs::write(path("kubeconfig"), text).unwrap();
        }
        let finished = check(&cluster);
        assert_eq!(finished.status.code(), Some(1), "{text:?}: {finished:#?}");
        let said = format!("the kubeconfig {} cannot be used", path("kubeconfig"));
        assert!(finished.stderr.contains(&said), "{text:?}: {finished:#?}");
    }
    fs::write(path("policy.json"), "{").unwrap();
    let finished = check(&format!(
        "{}\n[[catalog]]\nsource = 'file:nowhere'\n[[catalog]]\nsource = 'registry.invalid/a'\n\
         token_files = ['tokens']\n[http_tls]\ncertificate = 'tls.crt'\nkey = 'tls.key'\n\
         [registries]\npolicy_file = 'policy.json'\nauth_files = ['auth.json']\n",
        ports.replacen("127.0.0.1:0", &taken.to_string(), 1)
    ));
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    for said in [
        "tls.crt",
        &taken.to_string(),
        "tokens",
        "nowhere",
        "policy.json",
        "auth.json",
    ] {
        assert!(finished.stderr.contains(said), "{said}: {finished:#?}");
    }
    // A store of another almanac, also if that only reads it.
    let data = folder.path().join("data");
    let lock = data.join("lock");
    fs::create_dir(&data).unwrap();
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let stored = format!("data_dir = 'data'\n{good}");
    let finished = check(&stored);
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    assert!(
        finished.stderr.contains("is in use by another almanac"),
        "{finished:#?}"
    );
    held.unlock().unwrap();
    held.lock_shared().unwrap();
    assert_eq!(check(&stored).status.code(), Some(1));
    let offline = check(&format!("offline = true\n{stored}"));
    assert!(offline.status.success(), "{offline:#?}");
    drop(held);
    assert!(check(&stored).status.success());
    // The policy is for layouts, too.
    let finished = check(&format!(
        "{ports}[[catalog]]\nsource = 'oci:{}'\n[registries]\npolicy_file = 'policy.json'\n",
        folder.path().display()
    ));
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    assert!(finished.stderr.contains("policy.json"), "{finished:#?}");
    // A rejection names the catalog, and only that one.
    let policy = r#"{"default": [{"type": "reject"}], "transports": {"docker": {
        "registry.invalid/a": [{"type": "insecureAcceptAnything"}]}}}"#;
    fs::write(path("policy.json"), policy).unwrap();
    let finished = check(&format!(
        "{ports}[[catalog]]\nsource = 'registry.invalid/a'\n\
         [[catalog]]\nsource = 'registry.invalid/b:v1'\n\
         [registries]\npolicy_file = 'policy.json'\n"
    ));
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    let named = "catalog b (registry.invalid/b:v1): the policy ";
    assert!(finished.stderr.contains(named), "{finished:#?}");
    assert!(!finished.stderr.contains("catalog a "), "{finished:#?}");
    // Nobody can make files in /proc, root included.
    for data_dir in ["almanac.toml/data", "/proc/almanac/data"] {
        let finished = check(&format!("data_dir = {data_dir:?}\n{good}"));
        assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
        assert!(finished.stderr.contains("data folder"), "{finished:#?}");
    }
    let finished = check("poll = 7\n");
    assert_eq!(finished.status.code(), Some(2), "{finished:#?}");
}

#[test]
fn a_check_warns_of_secrets_that_every_user_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(folder.path(), 0o755);
    for (name, text) in [
        ("open-tokens", "a-token"),
        ("own-tokens", "a-token"),
        ("open-users", ""),
        ("open-auth", "{}"),
    ] {
        fs::write(path(name), text).unwrap();
        mode(
            &path(name),
            if name.starts_with("open") {
                0o644
            } else {
                0o640
            },
        );
    }
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
    let text = format!(
        "grpc = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n\
         [[catalog]]\nname = 'a'\nsource = 'file:{}'\n\
         token_files = ['open-tokens', 'own-tokens']\n\
         [distribution]\nuser_files = ['open-users']\n\
         [registries]\nauth_files = ['open-auth']\n",
        sample.display()
    );
    fs::write(path("almanac.toml"), text).unwrap();
    let config = path("almanac.toml").display().to_string();
    let finished = Start::new(["serve", "--check", "--config", &config]).run();
    assert!(finished.status.success(), "{finished:#?}");
    for (key, name) in [
        ("token_files", "open-tokens"),
        ("user_files", "open-users"),
        ("auth_files", "open-auth"),
    ] {
        let file = path(name).display().to_string();
        let warning = format!("{key}: every user of this machine can read {file}");
        assert!(
            finished.stderr.contains(&warning),
            "{warning}: {finished:#?}"
        );
    }
    assert!(!finished.stderr.contains("own-tokens"), "{finished:#?}");
}

#[test]
fn a_check_warns_of_secrets_in_usual_files_and_in_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(folder.path(), 0o755);
    let files = [
        ("auth_files", "home/.docker/config.json", 0o644),
        ("certs_dirs", "certs.d/a.example:5000/open.key", 0o644),
        ("certs_dirs", "certs.d/a.example:5000/own.key", 0o640),
        ("certs_dirs", "certs.d/b.example/public.cert", 0o644),
        ("kubeconfig", "kubeconfig", 0o644),
    ];
    for (_, name, of_file) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{}").unwrap();
        mode(&path, of_file);
    }
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
    let text = format!(
        "grpc = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n\
         [[catalog]]\nname = 'a'\nsource = 'file:{}'\n\
         [registries]\ncerts_dirs = ['certs.d']\n\
         [kubernetes]\nmirror_sets = true\nkubeconfig = 'kubeconfig'\n",
        sample.display()
    );
    let config = folder.path().join("almanac.toml");
    fs::write(&config, text).unwrap();
    let finished = Start::new(["serve", "--check", "--config"])
        .argument(config.display().to_string())
        .variable("HOME", &folder.path().join("home").display().to_string())
        .variable("DOCKER_CONFIG", "")
        .variable("REGISTRY_AUTH_FILE", "")
        .run();
    for (key, name, of_file) in files {
        let file = folder.path().join(name);
        let warning = format!(
            "{key}: every user of this machine can read {}",
            file.display()
        );
        let is_secret = of_file == 0o644 && !name.ends_with("cert");
        let is_reported = finished.stderr.contains(&warning);
        assert_eq!(is_reported, is_secret, "{warning}: {finished:#?}");
    }
}

#[test]
fn a_check_names_every_problem_at_once_and_warns() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let check = |text: &str| {
        let ports = "grpc = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n";
        fs::write(path("almanac.toml"), format!("{ports}{text}")).unwrap();
        Start::new(["serve", "--check", "--config", &path("almanac.toml")]).run()
    };
    for name in ["empty", "broken", "no-layout", "good"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("broken/catalog.json"), "{").unwrap();
    fs::write(path("tokens"), "# none yet\n").unwrap();
    Catalog::small().write_to(&folder.path().join("good"), Format::Yaml);
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    Image::of_catalog(&Catalog::small())
        .build()
        .add_to_layout(&layout, "v1");
    let archive = fs::File::create(path("image.tar")).unwrap();
    let mut archive = tar::Builder::new(archive);
    archive.append_dir_all(".", &layout).unwrap();
    archive.finish().unwrap();
    let finished = check(
        "[[catalog]]\nname = 'a'\nsource = 'file:empty'\n\
         [[catalog]]\nname = 'b'\nsource = 'file:broken'\n\
         [[catalog]]\nname = 'c'\nsource = 'oci:no-layout'\n\
         [[catalog]]\nname = 'd'\nsource = 'oci-archive:image.tar:v2'\n\
         [[catalog]]\nname = 'e'\nsource = 'file:good'\ntoken_files = ['tokens']\n\
         [[catalog]]\nname = 'f'\nsource = 'file:good'\ntoken_files = ['absent-tokens']\n\
         [registries]\npolicy_file = 'absent-policy'\nauth_files = ['absent-auth']\n\
         [http_tls]\ncertificate = 'absent-crt'\nkey = 'absent-key'\n\
         [grpc_tls]\ncertificate = 'other-crt'\nkey = 'other-key'\n\
         [distribution]\nuser_files = ['absent-users']\n",
    );
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    for said in [
        "source of the catalog a: ",
        "source of the catalog b: ",
        "source of the catalog c: ",
        "source of the catalog d: ",
        "bearer tokens of the catalog e: ",
        "bearer tokens of the catalog f: ",
        "policy_file: ",
        "absent-policy",
        "auth_files: ",
        "absent-auth",
        "absent-crt",
        "other-crt",
        "absent-users",
    ] {
        assert!(finished.stderr.contains(said), "{said}: {finished:#?}");
    }
    // Each is named once.
    for once in ["absent-policy", "absent-auth"] {
        assert_eq!(finished.stderr.matches(once).count(), 1, "{finished:#?}");
    }
    // What works has no line of the log, but a warning is one.
    fs::write(path("tokens"), "a-token-of-32-random-characters-\n").unwrap();
    let guarded = "[[catalog]]\nsource = 'file:good'\ntoken_files = ['tokens']\n";
    let finished = check(guarded);
    assert!(finished.status.success(), "{finished:#?}");
    for said in ["sent without TLS", "gRPC asks for no token"] {
        assert!(finished.stderr.contains(said), "{said}: {finished:#?}");
    }
    let authority = Authority::new();
    let pair = authority.sign();
    pair.write(folder.path());
    let tls = "certificate = 'tls.crt'\nkey = 'tls.key'\n";
    fs::write(path("ca"), authority.pem()).unwrap();
    for secret in ["tokens", "tls.key"] {
        fs::set_permissions(path(secret), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let finished = check(&format!(
        "{guarded}[http_tls]\n{tls}[grpc_tls]\n{tls}client_ca = 'ca'\n"
    ));
    assert!(finished.status.success(), "{finished:#?}");
    assert_eq!(finished.stderr, "", "{finished:#?}");
}
