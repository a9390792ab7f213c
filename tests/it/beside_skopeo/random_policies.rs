//! Random policies around requirements of one kind: scopes, rules for names, lists of
//! requirements, and malformed files. almanac and skopeo judge the same images.

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
use crate::support::image::Image;
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

const WORKERS: u64 = 4;
/// A name that some images are signed under.
pub(super) const VENDOR: &str = "vendor.example/app";

/// A registry with images, and a folder with keys and signatures.
pub(super) struct Site {
    pub(super) upstream: Upstream,
    pub(super) root: PathBuf,
    /// Each image by tag and by digest.
    sources: Vec<String>,
    /// Makes a requirement of the kind in question.
    signed: fn(&Self, &mut Rng) -> Value,
}

impl Site {
    /// A registry without images. `stores` is the file of registries.d.
    pub(super) fn new(root: &Path, stores: &str, signed: fn(&Self, &mut Rng) -> Value) -> Self {
        fs::create_dir(root.join("registries.d")).unwrap();
        fs::write(root.join("registries.d/a.yaml"), stores).unwrap();
        Self {
            upstream: Upstream::start(),
            root: root.to_owned(),
            sources: Vec::new(),
            signed,
        }
    }

    /// Adds an image, different from all others.
    pub(super) fn push(&mut self, repository: &str, tag: &str) -> Digest {
        let name = format!("{}-{tag}", repository.replace('/', "-"));
        let image = Image::of_catalog(&Catalog::one(&name)).build();
        self.upstream.push(repository, tag, &image);
        let (host, digest) = (self.upstream.host(), image.digest());
        self.sources.push(format!("{host}/{repository}:{tag}"));
        self.sources.push(format!("{host}/{repository}@{digest}"));
        digest
    }

    /// The path of a file of the site.
    pub(super) fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
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

    pub(super) fn identity(&self, rng: &mut Rng) -> Value {
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
            0 | 1 => json!({"type": "insecureAcceptAnything"}),
            2 => json!({"type": "reject"}),
            3 if rng.u8(..3) == 0 => json!({"type": "signedBaseLayer",
                "baseLayerIdentity": {"type": "matchExact"}}),
            _ => (self.signed)(self, rng),
        }
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
        let judged = block_on(async {
            let registries = Registries::new(&settings)?;
            let route = registries.route(&source.parse().unwrap()).await?;
            let digest = route.resolve().await?.digest;
            route.admit(&digest, None).await.map(drop)
        });
        judged.map_err(|error: images::Error| error.to_string())
    }

    fn theirs(
        &self,
        program: &str,
        policy: &Path,
        source: &str,
        target: &Path,
    ) -> Result<(), String> {
        let output = Command::new(program)
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

    /// Judges images under random policies, with `program` as skopeo. Returns how many
    /// it copied.
    pub(super) fn compare(&self, program: &str, seeds: u64) -> u64 {
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let admitted = &admitted;
                scope.spawn(move || {
                    let path = self.root.join(format!("policy-{worker}.json"));
                    let target = self.root.join(format!("copy-{worker}"));
                    for seed in (worker..seeds).step_by(WORKERS as usize) {
                        let mut rng = Rng::with_seed(seed);
                        let source = &self.sources[rng.usize(..self.sources.len())];
                        let policy = self.policy(&mut rng, source);
                        fs::write(&path, &policy).unwrap();
                        let ours = self.ours(&path, source);
                        let theirs = self.theirs(program, &path, source, &target);
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
        admitted.into_inner()
    }
}
