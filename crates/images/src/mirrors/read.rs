//! Reading the files about mirrors.

use std::path::{Path, PathBuf};

use crate::config_files::{self, FileError, FileKind};
use crate::digest::Digest;
use crate::mirrors::matching::Mirrors;
use crate::mirrors::rule::MirrorRule;
use crate::mirrors::unknown_keys::{self, UnknownKeys};
use crate::mirrors::{kubernetes, registries_conf};

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// The most prefixes, and the most mirrors of one.
const MAX_RULES: usize = 10_000;
const MAX_MIRRORS: usize = 100;

/// The files about mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorFiles {
    /// `registries.conf` files, or folders of such, from the settings. Each must
    /// exist; later ones override earlier ones.
    pub named: Vec<PathBuf>,
    /// The usual paths of `registries.conf`. The first existing one applies.
    pub usual: Vec<PathBuf>,
    /// The usual folders of further such files (`registries.conf.d`). They may
    /// be missing; later ones override earlier ones.
    pub usual_folders: Vec<PathBuf>,
    /// Files, or folders of such, with Kubernetes objects (YAML, JSON). Each must
    /// exist.
    pub kubernetes: Vec<PathBuf>,
}

impl Mirrors {
    /// Reads the files. It blocks.
    pub fn read(files: &MirrorFiles) -> Result<Self, FileError> {
        let mut mirrors = Self::default();
        if let Some((path, bytes)) = config_files::first(FileKind::Mirrors, &files.usual, MAX_FILE)?
        {
            mirrors.replace(conf_content(path, bytes)?);
        }
        for (index, folder) in files.usual_folders.iter().enumerate() {
            match conf_folder(folder) {
                Err(error) if error.is_missing() && !folder.exists() => {}
                // The first is the system's, and must not be ignored silently.
                Err(FileError::Hidden { .. }) if index > 0 => {}
                found => mirrors.replace(found?),
            }
        }
        for path in &files.named {
            mirrors.replace(if path.is_dir() {
                conf_folder(path)?
            } else {
                conf_file(path)?
            });
        }
        for path in &files.kubernetes {
            mirrors.add(kubernetes_rules(path)?);
        }
        if let Some(path) = files
            .kubernetes
            .last()
            .or(files.named.last())
            .or(files.usual.last())
            && (mirrors.rules.len() > MAX_RULES
                || mirrors
                    .rules
                    .iter()
                    .any(|rule| rule.mirrors.len() > MAX_MIRRORS))
        {
            let problem = format!(
                "the files name more than {MAX_RULES} prefixes, or {MAX_MIRRORS} mirrors of one prefix"
            );
            return Err(FileError::content(FileKind::Mirrors, path, problem));
        }
        Ok(mirrors)
    }
}

fn conf_file(path: &Path) -> Result<Mirrors, FileError> {
    conf_content(path, config_files::read(FileKind::Mirrors, path, MAX_FILE)?)
}

fn conf_content(path: &Path, bytes: Vec<u8>) -> Result<Mirrors, FileError> {
    let text = text(path, bytes)?;
    let rules = registries_conf::parse(&text)
        .map_err(|problem| FileError::content(FileKind::Mirrors, path, problem))?;
    let keys = unknown_keys::find(&text);
    let unknown = (!keys.is_empty()).then(|| UnknownKeys {
        path: path.to_owned(),
        digest: Digest::of(text.as_bytes()),
        keys,
    });
    Ok(Mirrors {
        rules,
        unknown: unknown.into_iter().collect(),
    })
}

/// The rules of a folder's files. Later ones override earlier ones.
fn conf_folder(folder: &Path) -> Result<Mirrors, FileError> {
    let mut mirrors = Mirrors::default();
    for path in config_files::list(FileKind::Mirrors, folder, &[".conf"])? {
        mirrors.replace(conf_file(&path)?);
    }
    Ok(mirrors)
}

fn kubernetes_rules(path: &Path) -> Result<Vec<MirrorRule>, FileError> {
    let is_folder = path.is_dir();
    let files = if is_folder {
        config_files::list(FileKind::Mirrors, path, &[".yaml", ".yml", ".json"])?
    } else {
        vec![path.to_owned()]
    };
    let mut all = Vec::new();
    for path in files {
        let rejected = |problem: String| FileError::content(FileKind::Mirrors, &path, problem);
        let bytes = config_files::read(FileKind::Mirrors, &path, MAX_FILE)?;
        let (rules, found) = kubernetes::parse(&text(&path, bytes)?).map_err(rejected)?;
        if !found && !is_folder {
            return Err(rejected(
                "it contains no ImageDigestMirrorSet, ImageTagMirrorSet or \
                 ImageContentSourcePolicy"
                    .into(),
            ));
        }
        all.extend(rules);
    }
    Ok(all)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, FileError> {
    let problem = "it is not UTF-8";
    String::from_utf8(bytes).map_err(|_| FileError::content(FileKind::Mirrors, path, problem))
}
