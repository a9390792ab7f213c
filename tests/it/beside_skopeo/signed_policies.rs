//! Random policies beside skopeo: scopes, requirements of simple signatures,
//! rules for names and malformed files, for images with several signatures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use images::digest::Digest;
use images::{PolicyFiles, Registries, Settings, SignatureStoreFiles};
use serde_json::{Value, json};

use super::conf_cases::one_of;
use crate::support::catalog::Catalog;
use crate::support::gpg::Gpg;
use crate::support::image::Image;
use crate::support::needs::skip_without;
use crate::support::upstream::Upstream;

const SEEDS: u64 = 500;
const WORKERS: u64 = 4;
/// A name that some images are signed under.
const VENDOR: &str = "vendor.example/app";

/// A registry with images, and a folder with keys and signatures.
struct World {
    upstream: Upstream,
    root: PathBuf,
    /// Each image by tag and by digest.
    sources: Vec<String>,
}

impl World {
    fn new(root: &Path) -> Self {
        let (upstream, gpg) = (Upstream::start(), Gpg::new());
        let host = upstream.host();
        let mut sources = Vec::new();
        for name in ["one", "two"] {
            let key = gpg.key(name, &["ed25519", "sign", "never"]);
            fs::write(root.join(name), gpg.export(&[&key])).unwrap();
        }
        let app = format!("{host}/team/app");
        let signed = |key: &str, digest: &Digest, name: &str| {
            let document = json!({
                "critical": {
                    "type": "atomic container signature",
                    "image": {"docker-manifest-digest": digest.to_string()},
                    "identity": {"docker-reference": name},
                },
                "optional": {},
            });
            let user = format!("{key}@example.com");
            gpg.sign(&user, document.to_string().as_bytes(), &[])
        };
        for (repository, tag, signatures) in [
            (
                "team/app",
                "v1",
                vec![("one", format!("{app}:v1")), ("two", app.clone())],
            ),
            (
                "team/app",
                "v2",
                vec![
                    ("one", format!("{VENDOR}:v2")),
                    ("two", format!("{app}:v1")),
                ],
            ),
            (
                "team/more",
                "v1",
                vec![("two", format!("{host}/team/more:v2"))],
            ),
            ("other", "v1", vec![]),
        ] {
            let image = Image::of_catalog(&Catalog::one(&format!(
                "{}-{tag}",
                repository.replace('/', "-")
            )));
            let image = image.build();
            upstream.push(repository, tag, &image);
            let digest = image.digest();
            let hex = digest.hex();
            let folder = root.join(format!("store/{repository}@sha256={hex}"));
            fs::create_dir_all(&folder).unwrap();
            for (number, (key, name)) in (1..).zip(&signatures) {
                let path = folder.join(format!("signature-{number}"));
                fs::write(path, signed(key, &digest, name)).unwrap();
            }
            sources.push(format!("{host}/{repository}:{tag}"));
            sources.push(format!("{host}/{repository}@{digest}"));
        }
        fs::create_dir(root.join("registries.d")).unwrap();
        let store = format!(
            "default-docker: {{lookaside: 'file://{}/store'}}\n",
            root.display()
        );
        fs::write(root.join("registries.d/a.yaml"), store).unwrap();
        Self {
            upstream,
            root: root.to_owned(),
            sources,
        }
    }

    fn scope(&self, rng: &mut Rng, source: &str) -> String {
        let host = self.upstream.host();
        match rng.u8(..12) {
            0 => String::new(),
            1 => host,
            2 => format!("{host}/team"),
            3 => format!("{host}/team/app"),
            4 | 5 => source.to_owned(),
            6 => "*.0.0.1".to_owned(),
            7 => format!("*.0.0.1:{}", host.rsplit(':').next().unwrap()),
            8 => format!("{host}/"),
            9 => "127.0.0.1".to_owned(),
            10 => format!("{host}/tea"),
            _ => one_of(rng, &["docker.io", "a*", "team/app"]).to_owned(),
        }
    }

    fn identity(&self, rng: &mut Rng) -> Value {
        let host = self.upstream.host();
        let name = |rng: &mut Rng| {
            let tag = one_of(rng, &["", ":v1", ":v2"]);
            match rng.u8(..4) {
                0 => format!("{VENDOR}{tag}"),
                1 => "busybox:v1".to_owned(),
                _ => format!("{host}/team/app{tag}"),
            }
        };
        match rng.u8(..9) {
            0 => json!({"type": "matchExact"}),
            1 => json!({"type": "matchRepoDigestOrExact"}),
            2 | 3 => json!({"type": "matchRepository"}),
            4 => json!({"type": "exactReference", "dockerReference": name(rng)}),
            5 | 6 => json!({"type": "exactRepository", "dockerRepository": name(rng)}),
            _ => {
                let prefixes = [
                    host.clone(),
                    format!("{host}/team"),
                    format!("{host}/team/app"),
                    format!("{host}/team/ap"),
                    "vendor.example".to_owned(),
                    VENDOR.to_owned(),
                    format!("{VENDOR}:v1"),
                    "busybox".to_owned(),
                ];
                let mut prefix = || prefixes[rng.usize(..prefixes.len())].clone();
                json!({"type": "remapIdentity", "prefix": prefix(), "signedPrefix": prefix()})
            }
        }
    }

    fn requirement(&self, rng: &mut Rng) -> Value {
        match rng.u8(..12) {
            0 | 1 => return json!({"type": "insecureAcceptAnything"}),
            2 => return json!({"type": "reject"}),
            3 if rng.u8(..3) == 0 => {
                return json!({"type": "signedBaseLayer",
                    "baseLayerIdentity": {"type": "matchExact"}});
            }
            _ => {}
        }
        let path = |name: &str| self.root.join(name).display().to_string();
        let key = |rng: &mut Rng| path(one_of(rng, &["one", "two"]));
        let mut requirement = json!({"type": "signedBy", "keyType": "GPGKeys"});
        match rng.u8(..14) {
            0..=8 => requirement["keyPath"] = json!(key(rng)),
            9 => requirement["keyPath"] = json!(path("missing")),
            10 => requirement["keyData"] = json!("anVuaw=="),
            11 => requirement["keyPath"] = json!(path("registries.d/a.yaml")),
            12 => requirement["keyType"] = json!("X509Certificates"),
            _ => requirement["keyData"] = json!("%"),
        }
        if requirement["keyType"] == "X509Certificates" {
            requirement["keyPath"] = json!(key(rng));
        }
        if rng.u8(..4) > 0 {
            requirement["signedIdentity"] = self.identity(rng);
        }
        // Defects are rare, or nothing else would be seen.
        match rng.u8(..60) {
            0 => requirement["more"] = json!(1),
            1 => requirement["signedIdentity"] = Value::Null,
            2 => requirement["keyPath"] = Value::Null,
            3 => requirement["keyType"] = json!("gpgKeys"),
            4 => requirement["keyPath"] = json!(""),
            5 => requirement["signedIdentity"]["more"] = json!(1),
            _ => {}
        }
        requirement
    }

    fn requirements(&self, rng: &mut Rng) -> Value {
        let count = [1, 1, 1, 2, 2, 3][rng.usize(..6)];
        let all: Vec<Value> = (0..count).map(|_| self.requirement(rng)).collect();
        if rng.u8(..60) == 0 {
            json!([])
        } else {
            all.into()
        }
    }

    fn policy(&self, rng: &mut Rng, source: &str) -> String {
        let mut scopes = serde_json::Map::new();
        for _ in 0..rng.u8(..4) {
            let scope = self.scope(rng, source);
            scopes.insert(scope, self.requirements(rng));
        }
        let policy = json!({"default": self.requirements(rng),
            "transports": {"docker": scopes, "unknown": {}}});
        match rng.u8(..60) {
            0 => policy.to_string() + "x",
            1 => policy
                .to_string()
                .replacen("{\"default\"", "{\"default\":[],\"default\"", 1),
            _ => policy.to_string(),
        }
    }

    fn ours(&self, policy: &Path, source: &str) -> Result<(), String> {
        let settings = Settings {
            policy: PolicyFiles {
                named: Some(policy.to_owned()),
                stores: SignatureStoreFiles {
                    named: Some(self.root.join("registries.d")),
                    ..SignatureStoreFiles::default()
                },
                ..PolicyFiles::default()
            },
            ..Settings::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let judged = runtime.block_on(async {
            let registries = Registries::new(&settings)?;
            let route = registries.route(&source.parse().unwrap()).await?;
            let digest = route.resolve().await?.digest;
            route.admit(&digest, None).await.map(drop)
        });
        judged.map_err(|error: images::Error| error.to_string())
    }

    fn theirs(&self, policy: &Path, source: &str, target: &Path) -> Result<(), String> {
        let output = Command::new("skopeo")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.root)
            .arg(format!("--policy={}", policy.display()))
            .arg(format!(
                "--registries.d={}/registries.d",
                self.root.display()
            ))
            .args([
                "copy",
                "--quiet",
                "--src-tls-verify=false",
                "--remove-signatures",
            ])
            .arg(format!("docker://{source}"))
            .arg(format!("dir:{}", target.display()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    }
}

#[test]
fn signed_images_are_admitted_as_skopeo_copies_them() {
    if skip_without("skopeo") || skip_without("gpg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let world = World::new(&root);
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (world, admitted, root) = (&world, &admitted, &root);
            scope.spawn(move || {
                let path = root.join(format!("policy-{worker}.json"));
                let target = root.join(format!("copy-{worker}"));
                for seed in (worker..SEEDS).step_by(WORKERS as usize) {
                    let mut rng = Rng::with_seed(seed);
                    let source = &world.sources[rng.usize(..world.sources.len())];
                    let policy = world.policy(&mut rng, source);
                    fs::write(&path, &policy).unwrap();
                    let ours = world.ours(&path, source);
                    let theirs = world.theirs(&path, source, &target);
                    assert_eq!(
                        ours.is_ok(),
                        theirs.is_ok(),
                        "{seed}: {source}\n{policy}\nalmanac: {ours:?}\nskopeo: {theirs:?}"
                    );
                    admitted.fetch_add(u64::from(theirs.is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    let admitted = admitted.into_inner();
    assert!((SEEDS / 10..SEEDS / 2).contains(&admitted), "{admitted}");
}
