//! Images are pulled from where the files of a cluster say: from mirrors, with
//! pull secrets, trusting private authorities, through proxies.

mod certificates;
mod credentials;
mod mirrors;
mod proxies;

use std::fs;
use std::path::Path;
use std::time::Duration;

use images::{Error, MirrorFiles, Registries, Settings};
use tempfile::TempDir;

use crate::support::image::{Built, image_of};
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
/// A source that nobody reaches, since there is no such domain.
const SOURCE: &str = "source.invalid/catalogs/a:latest";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";

/// A registry that has an image of one package.
fn upstream_of(package: &str) -> (Upstream, Built) {
    let upstream = Upstream::start();
    let image = image_of(package);
    upstream.push(REPOSITORY, "latest", &image);
    (upstream, image)
}

/// A `[[registry]]` for the unreachable source, with further lines.
fn registry(lines: &str) -> String {
    format!("[[registry]]\nlocation = \"source.invalid\"\n{lines}\n")
}

fn mirror(location: &str, lines: &str) -> String {
    format!("[[registry.mirror]]\nlocation = {location:?}\n{lines}\n")
}

/// A folder with a `registries.conf`.
struct Conf {
    folder: TempDir,
}

impl Conf {
    fn new(text: &str) -> Self {
        let conf = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        conf.write(text);
        conf
    }

    fn write(&self, text: &str) {
        // As mounted files are changed: in one step.
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.folder.path().join("registries.conf")).unwrap();
    }

    fn key(&self) -> String {
        let path = self.folder.path().join("registries.conf");
        let path = path.to_str().unwrap();
        format!("[registries]\nregistries_conf = [{path:?}]\n")
    }

    fn settings(&self) -> Settings {
        Settings {
            mirrors: MirrorFiles {
                named: vec![self.folder.path().join("registries.conf")],
                ..MirrorFiles::default()
            },
            connect_timeout: Duration::from_secs(5),
            ..Settings::default()
        }
    }
}

/// Resolves a source with settings.
fn resolve(settings: &Settings, source: &str) -> Result<(String, Option<String>), Error> {
    block_on(async {
        let registries = Registries::new(settings).unwrap();
        let route = registries.route(&source.parse().unwrap()).await?;
        let digest = route.resolve().await?.digest;
        route.manifest(&digest).await?;
        Ok((digest.to_string(), route.served_by()))
    })
}

fn put(folder: &Path, host: &str, name: &str, content: &str) {
    fs::create_dir_all(folder.join(host)).unwrap();
    fs::write(folder.join(host).join(name), content).unwrap();
}

fn trusting(folder: &TempDir) -> Settings {
    Settings {
        certificate_folders: vec![folder.path().to_owned()],
        ..Settings::default()
    }
}
