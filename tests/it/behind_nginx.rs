//! A registry that others wrote, as people run it: behind nginx with TLS of a
//! private authority and a password, and reached through a proxy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use serde_json::json;
use tempfile::TempDir;

use crate::real_registry::Distribution;
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::cosign::{Signed, Signer};
use crate::support::http::ask;
use crate::support::image::{Built, Image};
use crate::support::needs::skip_without;
use crate::support::program::Start;
use crate::support::proxy::Proxy;
use crate::support::tls::Authority;
use crate::support::{file, port};

/// A registry with nginx before it, both gone when it is dropped.
struct Site {
    registry: Distribution,
    nginx: Child,
    address: SocketAddr,
    authority: Authority,
    folder: TempDir,
}

impl Site {
    /// None where one of the programs is missing.
    fn start() -> Option<Self> {
        for need in ["docker-registry", "skopeo", "nginx"] {
            if skip_without(need) {
                return None;
            }
        }
        let registry = Distribution::start();
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let pair = authority.sign_for(&["localhost", "registry.invalid"]);
        pair.write(folder.path());
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        fs::write(folder.path().join("users"), "me:{PLAIN}secret\n").unwrap();
        let (nginx, address) = port::listening("nginx", |address| {
            let config = nginx_config(folder.path(), address, registry.address);
            let path = folder.path().join("nginx.conf");
            fs::write(&path, config).unwrap();
            Command::new("nginx")
                .arg("-e")
                .arg(folder.path().join("error.log"))
                .arg("-p")
                .arg(folder.path())
                .arg("-c")
                .arg(path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        });
        Some(Self {
            registry,
            nginx,
            address,
            authority,
            folder,
        })
    }

    /// As the registry is called on this machine.
    fn host(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    fn push(&self, package: &str) -> Built {
        let layout = tempfile::tempdir().unwrap();
        let image = Image::of_catalog(&Catalog::one(package)).build();
        image.add_to_layout(layout.path(), "latest");
        self.registry
            .push(layout.path(), "catalogs/a", "latest", &[]);
        image
    }

    /// Puts the signature of an image where cosign does, past nginx.
    fn put_signature(&self, signed: &Signed, image: &Digest) {
        let address = self.registry.address;
        let path_of = |location: &str| {
            let rest = location.strip_prefix("http://").unwrap();
            rest[rest.find('/').unwrap()..].to_owned()
        };
        for blob in &signed.blobs {
            let path = "/v2/catalogs/a/blobs/uploads/";
            let reply = ask(address, "POST", path, &[], b"").unwrap();
            assert_eq!(reply.status, 202);
            let upload = path_of(reply.header("location").unwrap());
            let digest = Digest::of(blob).to_string().replace(':', "%3A");
            let path = format!("{upload}&digest={digest}");
            let kind = [("Content-Type", "application/octet-stream")];
            let reply = ask(address, "PUT", &path, &kind, blob).unwrap();
            assert_eq!(reply.status, 201, "{}", reply.text());
        }
        let path = format!("/v2/catalogs/a/manifests/sha256-{}.sig", image.hex());
        let kind = signed.manifest["mediaType"].as_str().unwrap();
        let kind = [("Content-Type", kind)];
        let manifest = signed.manifest.to_string();
        let reply = ask(address, "PUT", &path, &kind, manifest.as_bytes()).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    /// A file with the password for a key.
    fn auth(&self, key: &str, password: &str) -> PathBuf {
        let path = self.folder.path().join("auth.json");
        let pair = BASE64_STANDARD.encode(format!("me:{password}"));
        let auths = json!({"auths": {(key): {"auth": pair}}});
        // The program reads it at any time.
        file::replace(&path, auths.to_string());
        path
    }
}

/// TLS and a password before a registry.
fn nginx_config(place: &Path, address: SocketAddr, registry: SocketAddr) -> String {
    let place = place.display();
    format!(
        "daemon off;\nmaster_process off;\npid {place}/pid;\nerror_log {place}/error.log;\n\
         events {{}}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path {place}/a; proxy_temp_path {place}/b;\n\
         fastcgi_temp_path {place}/c; uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;\n\
         server {{\n\
         listen {address} ssl;\n\
         ssl_certificate {place}/tls.crt;\nssl_certificate_key {place}/tls.key;\n\
         auth_basic registry;\nauth_basic_user_file {place}/users;\n\
         location / {{ proxy_pass http://{registry}; proxy_set_header Host $http_host;\n\
         proxy_set_header X-Forwarded-Proto https; }}\n\
         }}\n}}\n"
    )
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
    }
}

#[test]
fn a_private_registry_is_pulled_from_with_what_the_cluster_has() {
    let Some(site) = Site::start() else { return };
    let first = site.push("first");
    let certificates = site.folder.path().join("certs.d");
    fs::create_dir_all(certificates.join(site.host())).unwrap();
    let trusted = certificates.join(site.host()).join("ca.crt");
    fs::write(&trusted, site.authority.pem()).unwrap();
    let auth = site.auth(&format!("https://{}/", site.host()), "secret");
    let signer = Signer::new();
    let policy = site.folder.path().join("policy.json");
    let requirement = json!({"type": "sigstoreSigned", "keyData": signer.key_data(),
        "signedIdentity": {"type": "matchRepository"}});
    let text = json!({"default": [{"type": "reject"}], "transports": {"docker": {
        (site.host()): [requirement],
    }}});
    fs::write(&policy, text.to_string()).unwrap();
    let conf = site.folder.path().join("registries.conf");
    let mirrored = format!(
        "[[registry]]\nlocation = \"source.invalid/operators\"\n\
         [[registry.mirror]]\nlocation = \"{}/catalogs\"\n",
        site.host()
    );
    fs::write(&conf, mirrored).unwrap();

    let shown = [&auth, &certificates, &policy, &conf].map(|path| path.to_str().unwrap());
    let [auth_text, certificates_text, policy_text, conf_text] = shown;
    let name = format!("{}/catalogs/a", site.host());
    let config = following(&format!("{name}:latest"))
        + "[[catalog]]\nname = \"mirrored\"\nsource = \"source.invalid/operators/a:latest\"\n"
        + &format!(
            "[registries]\nauth_files = [{auth_text:?}]\ncerts_dirs = [{certificates_text:?}]\n\
             policy_file = {policy_text:?}\nregistries_conf = [{conf_text:?}]\n"
        );
    let mut almanac = Almanac::start(&config);
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "signature");
    assert_eq!(
        almanac.until_failed("mirrored")["last_result"]["reason"],
        "policy"
    );
    site.put_signature(&signer.sign(&first.digest(), &name), &first.digest());
    almanac.until_at("a", &first.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    // The mirror's signature is that of another name, which the policy maps.
    let remapped = json!({"default": [{"type": "reject"}], "transports": {"docker": {
        (site.host()): [requirement],
        "source.invalid/operators": [{"type": "sigstoreSigned", "keyData": signer.key_data(),
            "signedIdentity": {"type": "exactRepository", "dockerRepository": name}}],
    }}});
    file::replace(&policy, remapped.to_string());
    let status = almanac.until_at("mirrored", &first.digest());
    assert_eq!(status["served_by"], name);

    // A password that is changed counts at once, and so does one that is gone.
    site.auth(&site.host(), "wrong");
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "unauthorized");
    site.auth(&name, "secret");
    almanac.until("a", "a pass", |status| status["failures"] == 0);
    file::replace(&trusted, Authority::new().pem());
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "tls");
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
}

#[test]
fn a_private_registry_is_reached_through_a_proxy() {
    let Some(site) = Site::start() else { return };
    site.push("first");
    let proxy = Proxy::start(site.address);
    let auth = site.auth("registry.invalid", "secret");
    let render = |no_proxy: &str| {
        Start::new(["render", "registry.invalid/catalogs/a:latest"])
            .argument(format!("--auth-file={}", auth.display()))
            .argument(format!(
                "--ca-file={}",
                site.folder.path().join("ca.pem").display()
            ))
            .variable("HTTPS_PROXY", &proxy.url(""))
            .variable("NO_PROXY", no_proxy)
            .run()
    };
    let finished = render("elsewhere.invalid");
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        proxy
            .asked()
            .contains(&"CONNECT registry.invalid:443".to_owned())
    );
    let finished = render(".invalid");
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
}
