//! `almanac verify` with a configuration file: the verdict is that of `serve`.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::support::catalog::Catalog;
use crate::support::image::Image;
use crate::support::program::{Finished, Start};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";

/// A registry with an image, and a configuration whose policy rejects it.
struct Setup {
    _upstream: Upstream,
    folder: TempDir,
    image: String,
}

impl Setup {
    fn new() -> Self {
        let upstream = Upstream::start();
        let image = Image::of_catalog(&Catalog::one("first")).build();
        upstream.push(REPOSITORY, "v1", &image);
        let setup = Self {
            image: upstream.reference(REPOSITORY, "v1"),
            _upstream: upstream,
            folder: tempfile::tempdir().unwrap(),
        };
        for (name, kind) in [("policy", "reject"), ("open", "insecureAcceptAnything")] {
            let policy = json!({"default": [{"type": kind}]}).to_string();
            fs::write(setup.path(&format!("{name}.json")), policy).unwrap();
        }
        setup.configure("policy_file = \"policy.json\"\n");
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration with these settings of registries.
    fn configure(&self, registries: &str) {
        let text = format!(
            "[[catalog]]\nname = \"community\"\nsource = \"{}\"\n[registries]\n{registries}",
            self.image
        );
        fs::write(self.path("almanac.toml"), text).unwrap();
    }

    fn verify(&self, image: &str, more: &[&str]) -> Finished {
        let config = self.path("almanac.toml");
        let words = ["verify", image, "--config", config.to_str().unwrap()];
        Start::new(words.into_iter().chain(more.iter().copied())).run()
    }
}

#[test]
fn a_verification_with_a_configuration_judges_as_the_server_does() {
    let setup = Setup::new();
    let config = setup.path("almanac.toml");
    let by_variable = Start::new(["verify", &setup.image])
        .variable("ALMANAC_CONFIG", config.to_str().unwrap())
        .run();
    // A path of the file starts at the file.
    let policy = setup.path("policy.json").display().to_string();
    for finished in [
        by_variable,
        setup.verify("community", &[]),
        setup.verify(&setup.image, &[]),
    ] {
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        for text in [&setup.image, &policy, "\nnot admitted\n"] {
            assert!(finished.stdout.contains(text), "{text}: {finished:?}");
        }
    }
    // A flag takes precedence.
    let open = setup.path("open.json").display().to_string();
    let finished = setup.verify("community", &["--policy-file", &open]);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert!(finished.stdout.contains(&open), "{finished:?}");
}

#[test]
fn a_verification_obeys_the_stored_policies_of_the_cluster() {
    let setup = Setup::new();
    setup.configure("policy_file = \"open.json\"\n[kubernetes]\nimage_policies = true\n");
    let finished = setup.verify("community", &[]);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    let problem = "the image policies of the cluster were not read yet";
    assert!(finished.stderr.contains(problem), "{finished:?}");
}

#[test]
fn a_name_that_is_no_catalog_is_told_with_the_configuration() {
    let setup = Setup::new();
    let finished = setup.verify("comunity", &[]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    let problem = "there is no catalog of that name in ";
    assert!(finished.stderr.contains(problem), "{finished:?}");
    let proposal = "did you mean \"community\"?";
    assert!(finished.stderr.contains(proposal), "{finished:?}");
    let finished = Start::new(["verify", "community"]).run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(
        finished.stderr.contains("add --config FILE"),
        "{finished:?}"
    );
}
