//! Flags, the environment and files: what outweighs what, and where files are looked for.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use almanac::config::{Config, Settings};
use almanac::ingest::OnInvalid;
use almanac::serve::Limits;
use almanac::serve::http::Origins;
use almanac::serve::net::tls::Version;
use clap::{Args as _, FromArgMatches as _};

use super::{environment, of_file, sample};

/// Settings as a command takes them.
fn command() -> clap::Command {
    Settings::augment_args(clap::Command::new("almanac"))
}

fn flags(arguments: &[&str]) -> Result<Settings, clap::Error> {
    let arguments = ["almanac"].iter().chain(arguments);
    let matches = command().try_get_matches_from(arguments)?;
    Settings::from_arg_matches(&matches)
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
