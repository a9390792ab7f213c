//! `serve --check`: problems and warnings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::catalog::{Catalog, Format};
use crate::support::image::Image;
use crate::support::program::Start;
use crate::support::tls::Authority;

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
    let said = "the configuration can be used: 1 catalog\n";
    assert_eq!(finished.stdout, said);
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
    let said = "is in use by another almanac";
    assert!(finished.stderr.contains(said), "{finished:#?}");
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
