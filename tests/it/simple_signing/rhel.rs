//! A whole catalog under the files that RHEL has: `policy.json` with two files of keys,
//! and `registries.d` in the older spelling, each registry in a file of its own. Only the
//! addresses of the registry and the lookaside are the test's.

use std::fs;

use serde_json::{Value, json};

use super::web_server::{Answer, WebServer};
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::gpg::Gpg;
use crate::support::image::{Built, Image};
use crate::support::needs::skip_without;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "redhat/redhat-operator-index";
const NAME: &str = "registry.redhat.io/redhat/redhat-operator-index:v4.20";

/// The policy of RHEL 9, with its keys in another folder.
fn policy(keys: &str) -> Value {
    let signed = json!([{
        "type": "signedBy",
        "keyType": "GPGKeys",
        "keyPaths": [
            format!("{keys}/RPM-GPG-KEY-redhat-release"),
            format!("{keys}/RPM-GPG-KEY-redhat-beta"),
        ],
    }]);
    json!({
        "default": [{"type": "insecureAcceptAnything"}],
        "transports": {
            "docker": {
                "registry.access.redhat.com": signed,
                "registry.redhat.io": signed,
            },
            "docker-daemon": {"": [{"type": "insecureAcceptAnything"}]},
        },
    })
}

fn signed(gpg: &Gpg, key: &str, image: &Built) -> Vec<u8> {
    let document = json!({
        "critical": {
            "identity": {"docker-reference": NAME},
            "image": {"docker-manifest-digest": image.digest().to_string()},
            "type": "atomic container signature",
        },
        "optional": {"creator": "sign-tool", "timestamp": 1_700_000_000},
    });
    gpg.sign(key, document.to_string().as_bytes(), &[])
}

#[test]
fn a_catalog_of_red_hat_comes_in_under_the_files_of_rhel_and_an_unsigned_one_does_not() {
    if skip_without("gpg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let gpg = Gpg::new();
    let release = gpg.key("release", &["rsa2048", "sign", "never"]);
    let beta = gpg.key("beta", &["rsa2048", "sign", "never"]);
    for (name, key) in [("release", &release), ("beta", &beta)] {
        // As in RHEL: text before an armoured block.
        let block = gpg.run(&["--armor", "--export", key], b"");
        let text = format!(
            "The following public key can be used to verify packages.\n\n{}",
            String::from_utf8(block).unwrap()
        );
        fs::write(path(&format!("RPM-GPG-KEY-redhat-{name}")), text).unwrap();
    }
    let keys = folder.path().display().to_string();
    fs::write(path("policy.json"), policy(&keys).to_string()).unwrap();

    let catalog = Catalog::small().package("kafka", |package| {
        package.channel("stable", [crate::support::catalog::entry("kafka.v1.0.0")])
    });
    let image = Image::of_catalog(&catalog).build();
    let upstream = Upstream::start();
    upstream.push(REPOSITORY, "v4.20", &image);
    let lookaside = WebServer::start(Answer::First(signed(&gpg, &release, &image)), None);

    fs::create_dir(path("registries.d")).unwrap();
    let place = format!("http://{}/containers/sigstore", lookaside.address);
    for (host, place) in [
        ("registry.redhat.io", place.as_str()),
        (
            "registry.access.redhat.com",
            "https://access.redhat.com/webassets/docker/content/sigstore",
        ),
    ] {
        let text = format!("docker:\n     {host}:\n         sigstore: {place}\n");
        fs::write(path(&format!("registries.d/{host}.yaml")), text).unwrap();
    }
    fs::write(
        path("registries.d/default.yaml"),
        "# This is a default registries.d configuration file.\ndefault-docker:\n\
        #  sigstore: file:///var/lib/atomic/sigstore\n  \
        sigstore-staging: file:///var/lib/containers/sigstore\n",
    )
    .unwrap();
    let moved = format!(
        "[[registry]]\nprefix = \"registry.redhat.io\"\nlocation = \"{}\"\ninsecure = true\n",
        upstream.host()
    );
    fs::write(path("registries.conf"), moved).unwrap();

    let config = following(NAME)
        + &format!(
            "[registries]\npolicy_file = {:?}\nregistries_d = {:?}\nregistries_conf = [{:?}]\n",
            path("policy.json"),
            path("registries.d"),
            path("registries.conf")
        );
    let mut almanac = Almanac::start(&config);
    let status = almanac.until_at("a", &image.digest());
    let admitted = status["admitted_by"].as_str().unwrap();
    assert!(admitted.contains(&release), "{admitted}");
    assert_eq!(almanac.packages("a").unwrap(), ["etcd", "kafka"]);
    let asked = format!(
        "GET /containers/sigstore/{REPOSITORY}@sha256={}/signature-1 ",
        image.digest().hex()
    );
    let requests = lookaside.requests();
    assert!(
        requests.iter().any(|it| it.starts_with(&asked)),
        "{requests:?}"
    );

    // The signature is that of the first image.
    let unsigned = Image::of_catalog(&Catalog::one("unsigned")).build();
    upstream.push(REPOSITORY, "v4.20", &unsigned);
    let status = almanac.until_failed("a");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("signedBy with /"), "{error}");
    assert!(error.contains("RPM-GPG-KEY-redhat-release"), "{error}");
    assert_eq!(status["revision"]["digest"], image.digest().to_string());
    assert_eq!(almanac.packages("a").unwrap(), ["etcd", "kafka"]);
}
