//! podman pulls what almanac lets in, under the same policy.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::{GOOD, Setup};
use crate::support::needs::{skip, skip_without};

/// Pulls the image into a store of its own, under the policy of the setup.
fn pull(setup: &Setup, store: &Path) -> Output {
    let folder = |name: &str| format!("--{name}={}", store.join(name).display());
    Command::new("podman")
        .env("HOME", setup.folder.path())
        .env("XDG_RUNTIME_DIR", store)
        .env_remove("XDG_CONFIG_HOME")
        .args([folder("root"), folder("runroot"), folder("tmpdir")])
        .args([
            "--storage-driver=vfs",
            "pull",
            "--quiet",
            "--tls-verify=false",
        ])
        .arg(format!(
            "--signature-policy={}",
            setup.path("policy.json").display()
        ))
        .arg(setup.tagged())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn podman_pulls_what_is_let_in() {
    if skip_without("gpg") || skip_without("podman") {
        return;
    }
    let (setup, key) = Setup::with_key("rsa2048");
    // podman knows no flag for the folder, and reads that of its user.
    let containers = setup.path(".config/containers");
    std::fs::create_dir_all(&containers).unwrap();
    std::os::unix::fs::symlink(setup.path("registries.d"), containers.join("registries.d"))
        .unwrap();
    let stores = tempfile::tempdir().unwrap();
    let policy = setup.path("policy.json");
    let required = std::fs::read(&policy).unwrap();
    let accept = json!({"default": [{"type": "insecureAcceptAnything"}]});
    std::fs::write(&policy, accept.to_string()).unwrap();
    let output = pull(&setup, &stores.path().join("any"));
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        skip(&format!("podman pulls nothing here: {error}"));
        return;
    }
    std::fs::write(&policy, required).unwrap();
    let stranger = setup.gpg.key("stranger", &["rsa2048", "sign", "never"]);
    for (name, signatures, problem) in [
        ("none", vec![], "there is no signature"),
        (
            "foreign",
            vec![setup.signed(&stranger, &[])],
            "not made with a key",
        ),
        ("good", vec![setup.signed(&key, &[])], GOOD),
    ] {
        setup.store(&signatures);
        let ours = setup.admitted();
        assert_eq!(ours.is_ok(), problem == GOOD, "{name}: {ours:?}");
        let theirs = pull(&setup, &stores.path().join(name));
        assert_eq!(theirs.status.success(), ours.is_ok(), "{name}: {theirs:?}");
    }
}
