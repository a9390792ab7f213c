//! A trial of `sigstoreSigned`: an image with one signature, and a requirement.
//! almanac judges it, and skopeo where the rules are the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use images::digest::Digest;
use images::{PolicyFiles, Registries, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::catalog::Catalog;
use crate::support::cosign::Signed;
use crate::support::image::{Built, Image};
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

/// The skopeo of the next Debian, which knows all of `sigstoreSigned` but `pki`.
pub(crate) const SKOPEO: &str = "skopeo-next";
/// Its words for an image that a policy keeps out.
const REJECTED: &str = "Source image rejected";

/// An image and a requirement.
pub(super) struct Case {
    /// The fact that the case shows.
    pub(super) fact: &'static str,
    pub(super) requirement: Value,
    pub(super) signed: Signed,
    /// Nothing when the image is let in, or else a part of the reason.
    pub(super) problem: Option<&'static str>,
}

/// A registry with one image, which each case gets in a repository of its own.
pub(super) struct Trial {
    pub(super) upstream: Upstream,
    pub(super) image: Built,
    folder: TempDir,
}

impl Trial {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("registries.d")).unwrap();
        fs::write(
            folder.path().join("registries.d/default.yaml"),
            "default-docker:\n  use-sigstore-attachments: true\n",
        )
        .unwrap();
        Self {
            upstream: Upstream::start(),
            image: Image::of_catalog(&Catalog::one("first")).build(),
            folder,
        }
    }

    pub(super) fn digest(&self) -> Digest {
        self.image.digest()
    }

    /// A new repository with the image under the tag `v1`.
    pub(super) fn repository(&self, name: &str) -> String {
        self.upstream.push(name, "v1", &self.image);
        format!("{}/{name}", self.upstream.host())
    }

    /// The path of a file of the trial.
    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A policy with one requirement, or with a list of them. A whole policy, which
    /// has a default, stays as it is.
    fn policy(&self, requirement: &Value) -> std::path::PathBuf {
        let policy = if requirement.get("default").is_some() {
            requirement.clone()
        } else {
            let list = match requirement {
                Value::Array(_) => requirement.clone(),
                one => json!([one]),
            };
            json!({
                "default": [{"type": "reject"}],
                "transports": {"docker": {(self.upstream.host()): list}},
            })
        };
        let path = self.folder.path().join("policy.json");
        fs::write(&path, policy.to_string()).unwrap();
        path
    }

    /// Whether almanac lets an image in.
    pub(super) fn almanac(
        &self,
        requirement: &Value,
        image: &str,
        bundle_scopes: &[String],
    ) -> Result<(), String> {
        let settings = Settings {
            policy: PolicyFiles {
                named: Some(self.policy(requirement)),
                ..PolicyFiles::default()
            },
            bundle_scopes: bundle_scopes.to_vec(),
            ..Settings::default()
        };
        let admitted = block_on(async {
            let registries = Registries::new(&settings).unwrap();
            let route = registries.route(&image.parse().unwrap()).await?;
            route.admit(&self.digest(), None).await
        });
        admitted.map(drop).map_err(|error| error.to_string())
    }

    /// Whether skopeo copies an image.
    pub(super) fn skopeo(&self, requirement: &Value, image: &str) -> Result<(), String> {
        let target = tempfile::tempdir().unwrap();
        skopeo_copies(
            &self.policy(requirement),
            self.folder.path(),
            image,
            target.path(),
        )
    }

    /// Judges each case: by almanac, or by skopeo instead.
    pub(super) fn judge(&self, cases: Vec<Case>, by_skopeo: bool) {
        for (number, case) in cases.into_iter().enumerate() {
            let repository = format!("catalogs/{number}");
            self.repository(&repository);
            case.signed
                .put_tag(&self.upstream, &repository, &self.digest());
            let image = self.upstream.reference(&repository, "v1");
            let judged = if by_skopeo {
                self.skopeo(&case.requirement, &image)
            } else {
                self.almanac(&case.requirement, &image, &[])
            };
            match (&judged, case.problem) {
                (Ok(()), None) => {}
                (Err(error), Some(_)) if by_skopeo && error.contains(REJECTED) => {}
                (Err(error), Some(problem)) if !by_skopeo && error.contains(problem) => {}
                _ => panic!("{}: {judged:?}", case.fact),
            }
        }
    }
}

/// Whether skopeo copies an image under a policy. The folder has `registries.d`.
pub(super) fn skopeo_copies(
    policy: &Path,
    folder: &Path,
    image: &str,
    target: &Path,
) -> Result<(), String> {
    let output = Command::new(SKOPEO)
        .arg("--command-timeout=30s")
        .arg("--policy")
        .arg(policy)
        .arg("--registries.d")
        .arg(folder.join("registries.d"))
        .args(["copy", "--quiet", "--all", "--src-tls-verify=false"])
        .arg(format!("docker://{image}"))
        .arg(format!("dir:{}", target.display()))
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!error.contains("unknown flag"), "{error}");
    output.status.success().then_some(()).ok_or(error)
}
