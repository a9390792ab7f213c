//! Reading the files about mirrors.

use std::path::{Path, PathBuf};

use crate::config_files::{self, AwaitedFile, FileError, FileKind};
use crate::digest::Digest;
use crate::mirrors::matching::Mirrors;
use crate::mirrors::mirror_sets::MirrorSet;
use crate::mirrors::remarks::{FileRemark, Remark};
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
    /// The usual folders of `registries.conf` and `registries.conf.d`, in order
    /// of precedence. All of these may be missing. A `registries.conf` sets the
    /// folders after its own aside.
    pub usual: Vec<PathBuf>,
    /// Files, or folders of such, with Kubernetes objects (YAML, JSON). Each must
    /// exist.
    pub kubernetes: Vec<PathBuf>,
    /// A further such file.
    pub awaited: Option<AwaitedFile>,
}

impl Mirrors {
    /// Reads the files. It blocks.
    pub fn read(files: &MirrorFiles) -> Result<Self, FileError> {
        let mut mirrors = Self::default();
        mirrors.read_usual(&files.usual)?;
        for path in &files.named {
            mirrors.replace(if path.is_dir() {
                conf_folder(path)?
            } else {
                conf_file(path)?
            });
        }
        let mut sets = Vec::new();
        for path in &files.kubernetes {
            sets.extend(mirrors.mirror_sets(path)?);
        }
        if let Some(file) = &files.awaited {
            let found = mirrors.file_sets(&file.path);
            let (found, _) = found.map_err(|error| error.unknown_if_missing(file))?;
            sets.extend(found);
        }
        mirrors.check_limits(sets.len(), files)?;
        mirrors.add_sets(&sets);
        mirrors.check_limits(0, files)?;
        Ok(mirrors)
    }

    fn check_limits(&self, sets: usize, files: &MirrorFiles) -> Result<(), FileError> {
        let mut rules = self.rules.values();
        if self.rules.len().max(sets) <= MAX_RULES
            && rules.all(|rule| rule.mirrors.len() <= MAX_MIRRORS)
        {
            return Ok(());
        }
        let named = files.kubernetes.last().or(files.named.last());
        let path = named
            .or(files.usual.last())
            .map_or(Path::new(""), PathBuf::as_path);
        let problem = format!(
            "the files name more than {MAX_RULES} prefixes, or {MAX_MIRRORS} mirrors of one prefix"
        );
        Err(FileError::content(FileKind::Mirrors, path, problem))
    }

    fn read_usual(&mut self, folders: &[PathBuf]) -> Result<(), FileError> {
        let mut applicable = folders;
        for (index, folder) in folders.iter().enumerate() {
            match conf_file(&folder.join("registries.conf")) {
                Err(error) if error.is_missing() => {}
                // The last is the system's, and must not be ignored silently.
                Err(error) if error.is_hidden() && index + 1 < folders.len() => {}
                found => {
                    self.replace(found?);
                    applicable = &folders[..=index];
                    break;
                }
            }
        }
        for folder in applicable.iter().rev() {
            let is_system = Some(folder) == folders.last();
            let folder = folder.join("registries.conf.d");
            match conf_folder(&folder) {
                Err(error) if error.is_missing() && !folder.exists() => {}
                Err(error) if error.is_hidden() && !is_system => {}
                found => self.replace(found?),
            }
        }
        Ok(())
    }

    /// Replaces rules by those of a later file with the same prefix.
    fn replace(&mut self, later: Self) {
        self.remarks.extend(later.remarks);
        self.rules.extend(later.rules);
        if later.credential_helpers.is_some() {
            self.credential_helpers = later.credential_helpers;
        }
    }

    /// The mirror sets of a file, or of a folder of files. Keeps the remarks on them.
    fn mirror_sets(&mut self, path: &Path) -> Result<Vec<MirrorSet>, FileError> {
        let is_folder = path.is_dir();
        let files = if is_folder {
            config_files::list(FileKind::Mirrors, path, &[".yaml", ".yml", ".json"])?
        } else {
            vec![path.to_owned()]
        };
        let mut all = Vec::new();
        for path in files {
            let (sets, found) = self.file_sets(&path)?;
            if !found && !is_folder {
                let problem = "it contains no ImageDigestMirrorSet, ImageTagMirrorSet or \
                     ImageContentSourcePolicy";
                return Err(FileError::content(FileKind::Mirrors, &path, problem));
            }
            all.extend(sets);
        }
        Ok(all)
    }

    /// The sets of a file, and whether it has an object of a kind of such sets.
    fn file_sets(&mut self, path: &Path) -> Result<(Vec<MirrorSet>, bool), FileError> {
        let rejected = |problem: String| FileError::content(FileKind::Mirrors, path, problem);
        let text = text(path)?;
        let read = kubernetes::parse(&text).map_err(rejected)?;
        self.remark(path, &text, read.remarks);
        Ok((read.sets, read.found))
    }

    fn remark(&mut self, path: &Path, text: &str, remarks: Vec<Remark>) {
        let digest = Digest::of(text.as_bytes());
        let remarks = remarks.into_iter().map(|remark| FileRemark {
            path: path.to_owned(),
            digest,
            remark,
        });
        self.remarks.extend(remarks);
    }
}

fn conf_file(path: &Path) -> Result<Mirrors, FileError> {
    let text = text(path)?;
    let file = registries_conf::parse(&text)
        .map_err(|problem| FileError::content(FileKind::Mirrors, path, problem))?;
    let mut mirrors = Mirrors {
        rules: file.rules,
        credential_helpers: file
            .credential_helpers
            .map(|names| (path.to_owned(), names)),
        ..Mirrors::default()
    };
    mirrors.remark(path, &text, file.remarks);
    Ok(mirrors)
}

/// The rules of a folder's files. Later ones override earlier ones.
fn conf_folder(folder: &Path) -> Result<Mirrors, FileError> {
    let mut mirrors = Mirrors::default();
    for path in config_files::list(FileKind::Mirrors, folder, &[".conf"])? {
        mirrors.replace(conf_file(&path)?);
    }
    Ok(mirrors)
}

fn text(path: &Path) -> Result<String, FileError> {
    let bytes = config_files::read(FileKind::Mirrors, path, MAX_FILE)?;
    let problem = "it is not UTF-8";
    String::from_utf8(bytes).map_err(|_| FileError::content(FileKind::Mirrors, path, problem))
}
