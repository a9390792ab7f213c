//! A case of the trial, and what the two programs make of it.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::network::{Seen, World, places, secrets};

/// Stands for the folder of a case in its files, flags, settings and variables.
pub(super) const FOLDER: &str = "{folder}";
/// Stands for the port of this machine.
pub(super) const LOCAL: &str = "{local}";

/// An image, the files about registries, and the hosts behind the proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) world: World,
    /// By path in the folder of the case.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// The flags of skopeo before its command, and behind it.
    pub(super) global_flags: Vec<String>,
    pub(super) flags: Vec<String>,
    /// The keys of `[registries]`.
    pub(super) settings: String,
    /// The variables of both programs; the home folder is `{folder}/home`.
    pub(super) variables: Vec<(String, String)>,
}

impl Case {
    pub(super) fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push((path.to_owned(), content.into()));
    }

    /// The text of a file.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let (_, content) = self.files.iter().find(|(name, _)| name == path)?;
        Some(String::from_utf8_lossy(content).into_owned())
    }

    /// The case with its files written, and without what stands for something.
    pub(super) fn placed(&self, local: &str) -> (Self, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let fill = |text: &str| text.replace(FOLDER, &path).replace(LOCAL, local);
        let all = |texts: &[String]| texts.iter().map(|text| fill(text)).collect::<Vec<_>>();
        let world = self.world.iter();
        let world = world.map(|(name, host)| (fill(name), host.clone()));
        let variables = [
            ("HOME", "{folder}/home"),
            ("XDG_RUNTIME_DIR", "{folder}/run"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = variables.iter().chain(&self.variables);
        let placed = Self {
            name: self.name.clone(),
            image: fill(&self.image),
            world: world.collect(),
            files: Vec::new(),
            global_flags: all(&self.global_flags),
            flags: all(&self.flags),
            settings: fill(&self.settings),
            variables: variables.map(|(n, v)| (n.clone(), fill(v))).collect(),
        };
        for name in ["home", "run"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for (name, content) in &self.files {
            write(&folder.path().join(fill(name)), content, local);
        }
        (placed, folder)
    }
}

fn write(path: &Path, content: &[u8], local: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match std::str::from_utf8(content) {
        Ok(text) => fs::write(path, text.replace(LOCAL, local)).unwrap(),
        Err(_) => fs::write(path, content).unwrap(),
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "=== {}: {}", self.name, self.image)?;
        for (name, host) in &self.world {
            writeln!(f, "  {name}: {host:?}")?;
        }
        for (name, content) in &self.files {
            writeln!(f, "--- {name}\n{}", String::from_utf8_lossy(content))?;
        }
        Ok(())
    }
}

/// The result of a program.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The digest of the image, or the error.
    pub(super) verdict: Result<String, String>,
    /// The hosts that it asked, in order, with the repositories there.
    pub(super) places: Vec<(String, Vec<String>)>,
    /// The credentials and certificates that each host saw.
    pub(super) secrets: BTreeSet<(String, String)>,
}

impl Outcome {
    pub(super) fn new(verdict: Result<String, String>, seen: &[Seen]) -> Self {
        Self {
            verdict,
            places: places(seen),
            secrets: secrets(seen),
        }
    }

    /// Whether two programs did the same. skopeo asks a host for its version
    /// first: where that failed, the repository is not known.
    pub(super) fn same(&self, other: &Self) -> bool {
        let verdict = |outcome: &Self| outcome.verdict.clone().ok();
        verdict(self) == verdict(other)
            && same_places(&self.places, &other.places)
            && self.secrets == other.secrets
    }
}

fn same_places(one: &[(String, Vec<String>)], other: &[(String, Vec<String>)]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|((host, here), (other, there))| {
            host == other && (here.is_empty() || there.is_empty() || here == there)
        })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = String::new();
        for (host, repositories) in &self.places {
            write!(places, " {host}/{{{}}}", repositories.join(","))?;
        }
        writeln!(f, "    {:?}\n    asked{places}", self.verdict)?;
        for (host, secret) in &self.secrets {
            writeln!(f, "    {host} saw {secret}")?;
        }
        Ok(())
    }
}
