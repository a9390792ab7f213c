//! The signatures that almanac makes with the images that it serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use images::digest::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::program::{PATIENCE, Start};

const NAME: &str = "catalogs.example/team/a";

/// A catalog in a folder, and a signing key.
pub(super) struct Signing {
    pub(super) folder: TempDir,
}

impl Signing {
    pub(super) fn new() -> Self {
        let signing = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let catalog = signing.path("catalog");
        fs::create_dir(&catalog).unwrap();
        Catalog::one("first").write_to(&catalog, Format::Yaml);
        signing.new_key("key.pem");
        signing
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a new key, and its public part as `cosign.pub`.
    pub(super) fn new_key(&self, name: &str) {
        let pair = rcgen::KeyPair::generate().unwrap();
        fs::write(self.path(name), pair.serialize_pem()).unwrap();
        fs::write(self.path("cosign.pub"), pair.public_key_pem()).unwrap();
    }

    pub(super) fn config(&self, key: &str) -> String {
        let source = format!("file:{}", self.path("catalog").display());
        following(&source)
            + &format!(
                "[signing]\nkey_file = \"{}\"\nname_prefix = \"catalogs.example/team\"\n",
                self.path(key).display()
            )
    }

    /// A policy that asks for the key under the name of the catalog.
    pub(super) fn policy(&self) -> PathBuf {
        let policy = json!({"default": [{
            "type": "sigstoreSigned",
            "keyPath": self.path("cosign.pub"),
            "signedIdentity": {"type": "exactReference", "dockerReference": format!("{NAME}:latest")},
        }]});
        fs::write(self.path("policy.json"), policy.to_string()).unwrap();
        self.path("policy.json")
    }
}

/// The digest of the signature of the image that is served, and its manifest.
pub(super) fn served(almanac: &mut Almanac) -> (Digest, Value) {
    let begin = Instant::now();
    loop {
        let image = Digest::of(&almanac.until_pullable("a").body);
        let reply = almanac.http(&format!("/v2/a/manifests/sha256-{}.sig", image.hex()));
        if reply.status == 200 {
            let manifest = serde_json::from_slice(&reply.body).unwrap();
            return (Digest::of(&reply.body), manifest);
        }
        assert!(begin.elapsed() < PATIENCE, "{}", reply.text());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The names in a signature manifest that almanac serves; an empty one for each payload of
/// a signature that was replaced meanwhile.
fn names(almanac: &mut Almanac, manifest: &Value) -> Vec<String> {
    let layers = manifest["layers"].as_array().unwrap().iter();
    let payloads = layers.map(|layer| {
        let digest = layer["digest"].as_str().unwrap();
        let payload = almanac.http(&format!("/v2/a/blobs/{digest}"));
        let payload: Value = serde_json::from_slice(&payload.body).unwrap();
        let name = &payload["critical"]["identity"]["docker-reference"];
        name.as_str().unwrap_or_default().to_owned()
    });
    payloads.collect()
}

fn verify(image: &str, policy: &Path) -> (Option<i32>, Value) {
    let policy = policy.display().to_string();
    let finished = Start::new(["verify", image, "--policy-file", &policy, "-o", "json"]).run();
    let document = serde_json::from_str(&finished.stdout);
    (
        finished.status.code(),
        document.unwrap_or_else(|_| panic!("{finished:?}")),
    )
}

/// A client that has resolved the tag before pulls both by digest.
#[test]
fn a_replaced_image_can_be_pulled_with_its_signature() {
    let signing = Signing::new();
    let mut almanac = Almanac::start(&signing.config("key.pem"));
    let (signature, _) = served(&mut almanac);
    let old = Digest::of(&almanac.until_pullable("a").body);
    Catalog::one("kafka").write_to(&signing.path("catalog"), Format::JsonLines);
    let begin = Instant::now();
    while Digest::of(&almanac.until_pullable("a").body) == old {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let image = almanac.http(&format!("/v2/a/manifests/{old}"));
    assert_eq!(Digest::of(&image.body), old);
    let tag = almanac.http(&format!("/v2/a/manifests/sha256-{}.sig", old.hex()));
    assert_eq!(Digest::of(&tag.body), signature);
    // Lists have the tags of the current image only.
    let tags = almanac.http("/v2/a/tags/list").text();
    assert!(!tags.contains(&old.hex()), "{tags}");
}

#[test]
fn an_image_keeps_its_signature_until_the_key_changes() {
    let signing = Signing::new();
    let mut almanac = Almanac::start(&signing.config("key.pem"));
    let (first, manifest) = served(&mut almanac);
    assert_eq!(names(&mut almanac, &manifest), [format!("{NAME}:latest")]);
    let image = format!("{}/a:latest", almanac.program.address("http"));
    let (code, document) = verify(&image, &signing.policy());
    assert_eq!(code, Some(0), "{document}");
    assert_eq!(
        document["requirements"][0]["outcome"], "holds",
        "{document}"
    );

    // A new signature would have another digest.
    almanac.stop();
    almanac.program.restart();
    assert_eq!(served(&mut almanac).0, first);
    signing.new_key("other.pem");
    almanac.reconfigure(&signing.config("other.pem"));
    let begin = Instant::now();
    while served(&mut almanac).0 == first {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let image = format!("{}/a:latest", almanac.program.address("http"));
    let (code, document) = verify(&image, &signing.policy());
    assert_eq!(code, Some(0), "{document}");

    // A name of its own.
    let source = format!("file:{}", signing.path("catalog").display());
    almanac.reconfigure(&format!(
        "{}signed_name = \"other.example/b\"\n[signing]\nkey_file = {:?}\n",
        following(&source),
        signing.path("other.pem")
    ));
    let begin = Instant::now();
    loop {
        let (_, manifest) = served(&mut almanac);
        if names(&mut almanac, &manifest) == ["other.example/b:latest"] {
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_export_carries_signatures_and_can_leave_them_out() {
    let signing = Signing::new();
    let config = signing.config("key.pem");
    let mut almanac = Almanac::start(&config);
    let (signature, _) = served(&mut almanac);
    let unsigned = config.split("[signing]").next().unwrap().to_owned();
    for (more, has_signature) in [(None, true), (Some("--without-signatures"), false)] {
        let (archive, data) = (signing.path("archive.tar"), signing.path("data"));
        let (to, from) = (archive.display().to_string(), data.display().to_string());
        let mut export = Start::new(["export", "--file", &to]).data(almanac.program.data());
        export = export.argument("--data-dir={data}");
        if let Some(more) = more {
            export = export.argument(more);
        }
        let finished = export.run();
        assert!(finished.status.success(), "{finished:?}");
        let finished = Start::new(["import", &to, "--data-dir", &from]).run();
        assert!(finished.status.success(), "{finished:?}");
        let mut other = Almanac::start_in(&data, &format!("offline = true\n{unsigned}"));
        let image = Digest::of(&other.until_pullable("a").body);
        let tag = format!("/v2/a/manifests/sha256-{}.sig", image.hex());
        let reply = other.http(&tag);
        assert_eq!(reply.status == 200, has_signature, "{}", reply.text());
        if has_signature {
            assert_eq!(Digest::of(&reply.body), signature);
        }
        other.stop();
        fs::remove_dir_all(&data).unwrap();
        fs::remove_file(&archive).unwrap();
    }
}

#[test]
fn a_key_that_cannot_be_used_stops_a_start_and_no_reload() {
    let signing = Signing::new();
    let config = signing.config("key.pem");
    let mut almanac = Almanac::start(&config);
    let (first, _) = served(&mut almanac);
    fs::write(signing.path("bad.pem"), "no key").unwrap();
    almanac.configure(&signing.config("bad.pem"));
    almanac.until_configuration("a refusal", |status| {
        let error = status["error"].as_str().unwrap_or_default();
        error.contains("bad.pem") && error.contains("not PEM")
    });
    assert_eq!(served(&mut almanac).0, first);
    almanac.stop();
    let path = signing.path("almanac.toml");
    fs::write(&path, signing.config("bad.pem")).unwrap();
    let finished = Start::new(["serve", "--config", path.to_str().unwrap()])
        .argument("--data-dir={data}")
        .argument("--grpc=127.0.0.1:0")
        .argument("--http=127.0.0.1:0")
        .argument("--admin=127.0.0.1:0")
        .run();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("bad.pem"), "{finished:?}");
    for (table, missing) in [
        (
            "[signing]\nname_prefix = \"a.example\"\n".to_owned(),
            "key_file",
        ),
        (
            format!("[signing]\nkey_file = {:?}\n", signing.path("key.pem")),
            "name_prefix",
        ),
        ("signed_name = \"a.example/b\"\n".to_owned(), "key_file"),
    ] {
        let source = format!("file:{}", signing.path("catalog").display());
        fs::write(&path, following(&source) + &table).unwrap();
        let finished = Start::new(["serve", "--config", path.to_str().unwrap()]).run();
        assert_eq!(finished.status.code(), Some(2), "{finished:?}");
        assert!(
            finished
                .stderr
                .contains(&format!("[signing] needs the key {missing}")),
            "{finished:?}"
        );
    }
}

#[test]
fn a_signature_is_shown_to_those_who_may_pull_the_image() {
    let signing = Signing::new();
    let users = signing.path("users");
    fs::write(
        &users,
        format!("ann:{}\n", bcrypt::hash("word", 4).unwrap()),
    )
    .unwrap();
    let mut almanac = Almanac::start(&signing.config("key.pem"));
    let image = Digest::of(&almanac.until_pullable("a").body);
    served(&mut almanac);
    almanac.stop();
    almanac.restart_with(&format!(
        "{}[distribution]\nuser_files = [{users:?}]\n",
        signing.config("key.pem")
    ));
    almanac.program.wait_until_ready();
    for path in [
        format!("/v2/a/manifests/sha256-{}.sig", image.hex()),
        "/v2/a/tags/list".to_owned(),
    ] {
        assert_eq!(almanac.http(&path).status, 401, "{path}");
    }
}

#[test]
fn a_check_names_the_catalogs_whose_images_stay_unsigned() {
    let signing = Signing::new();
    let source = format!("file:{}", signing.path("catalog").display());
    let check = |names: &str| {
        let config = signing.path("almanac.toml");
        let text = format!(
            "data_dir = 'data'\ngrpc = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n\
             [[catalog]]\nname = 'a'\nsource = '{source}'\nsigned_name = '{NAME}'\n\
             [[catalog]]\nname = 'b'\nsource = '{source}'\n\
             [signing]\nkey_file = 'key.pem'\n{names}"
        );
        fs::write(&config, text).unwrap();
        let words = ["serve", "--check", "--config", config.to_str().unwrap()];
        let finished = Start::new(words).run();
        assert_eq!(finished.status.code(), Some(0), "{finished:?}");
        finished.stderr
    };
    let warning = "the images of these catalogs are not signed";
    let said = check("");
    assert!(said.contains(warning) && said.contains('b'), "{said}");
    let said = check("name_prefix = 'catalogs.example'\n");
    assert!(!said.contains(warning), "{said}");
}
