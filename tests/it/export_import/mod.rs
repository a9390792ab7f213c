//! Catalogs that are exported, carried and imported: the same answers on the
//! other side, and nothing half-done when anything is wrong.

mod archives;
mod failures;
mod offline;
mod order;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Built, Image, Index};
use crate::support::program::{Finished, Start};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "operators/catalog";

/// An almanac with a folder's catalog `a` and a mirrored one, `b`.
struct Side {
    upstream: Upstream,
    almanac: Almanac,
    folder: TempDir,
    image: Built,
}

impl Side {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("catalog")).unwrap();
        Catalog::small().write_to(&folder.path().join("catalog"), Format::Yaml);
        let upstream = Upstream::start();
        let of_platform = |architecture: &str| {
            Image::of_catalog(&Catalog::one("etcd"))
                .platform("linux", architecture)
                .build()
        };
        let image = Index::new()
            .image(of_platform("amd64"))
            .image(of_platform("arm64"))
            .build();
        upstream.push(REPOSITORY, "v4.20", &image);
        let tag = format!("sha256-{}.sig", image.digest().hex());
        let signature = Image::new().edit_config(|config| config["signed"] = true.into());
        upstream.push(REPOSITORY, &tag, &signature.build());
        let config = Self::config_of(&folder, &upstream);
        let mut almanac = Almanac::start(&config);
        almanac.until_pullable("a");
        almanac.until_pullable("b");
        Self {
            upstream,
            almanac,
            folder,
            image,
        }
    }

    fn config_of(folder: &TempDir, upstream: &Upstream) -> String {
        let source = format!("file:{}", folder.path().join("catalog").display());
        let mirror = upstream.reference(REPOSITORY, "v4.20");
        format!(
            "{}{}mirror = \"full\"\n",
            following(&source),
            catalog("b", &mirror)
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn export(&self, name: &str, more: &[&str]) -> Finished {
        export(&self.almanac, &self.path(name), more)
    }

    fn exported(&self, name: &str, more: &[&str]) -> PathBuf {
        let finished = self.export(name, more);
        assert!(finished.status.success(), "{finished:?}");
        self.path(name)
    }
}

fn export(almanac: &Almanac, archive: &Path, more: &[&str]) -> Finished {
    let data = almanac.program.data();
    let start = Start::new(["export"])
        .argument(format!("--data-dir={}", data.display()))
        .argument(format!("--file={}", archive.display()));
    let more = more.iter();
    more.fold(start, |start, argument| start.argument(*argument))
        .run()
}

pub(super) fn import(archive: &Path, data: &Path) -> Finished {
    import_with(archive, data, &[])
}

pub(super) fn import_with(archive: &Path, data: &Path, more: &[&str]) -> Finished {
    let start = Start::new(["import"])
        .argument(format!("--data-dir={}", data.display()))
        .argument(archive.display().to_string());
    let more = more.iter();
    more.fold(start, |start, argument| start.argument(*argument))
        .run()
}

/// Content of a data folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

/// An almanac with a folder's catalog that changes, and another one, which stays.
pub(super) struct Carried {
    pub(super) almanac: Almanac,
    pub(super) config: String,
    folder: PathBuf,
    names: [&'static str; 2],
}

impl Carried {
    /// With the catalogs `a` and `b`.
    pub(super) fn start(folder: &TempDir) -> Self {
        Self::named(folder, ["a", "b"])
    }

    pub(super) fn named(folder: &TempDir, names: [&'static str; 2]) -> Self {
        let folder = folder.path().to_owned();
        for (path, package) in names.iter().zip(["etcd", "vault"]) {
            fs::create_dir(folder.join(path)).unwrap();
            Catalog::one(package).write_to(&folder.join(path), Format::Yaml);
        }
        let of = |name: &str| catalog(name, &format!("file:{}", folder.join(name).display()));
        let config = format!("poll = \"100ms\"\n{}{}", of(names[0]), of(names[1]));
        Self {
            almanac: Almanac::start(&config),
            config,
            folder,
            names,
        }
    }

    /// Exports once the first one has just that package, and the image is made of it.
    pub(super) fn export(&mut self, name: &str, package: &str, more: &[&str]) -> PathBuf {
        let [name_a, name_b] = self.names;
        let source = self.folder.join(name_a);
        fs::remove_dir_all(&source).unwrap();
        fs::create_dir(&source).unwrap();
        Catalog::one(package).write_to(&source, Format::Yaml);
        self.almanac.until_pullable(name_a);
        self.almanac.until_pullable(name_b);
        let archive = self.folder.join(name);
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed().as_secs() < 30, "waiting for {package}");
            if self.almanac.packages(name_a).ok() == Some(vec![package.to_owned()]) {
                let finished = export(&self.almanac, &archive, more);
                if finished.status.success() {
                    return archive;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
