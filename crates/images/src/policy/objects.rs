//! Reading the files with image policies of OpenShift.

use std::path::{Path, PathBuf};

use crate::config_files::{self, FileError, FileKind};
use crate::policy::parse::ImagePolicy;

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// The most objects.
const MAX_OBJECTS: usize = 10_000;

/// The objects of some files and folders. Those of a namespace need one.
pub(super) fn read(
    paths: &[PathBuf],
    namespace: Option<&str>,
) -> Result<Vec<ImagePolicy>, FileError> {
    let mut all = Vec::new();
    for path in paths {
        let is_folder = path.is_dir();
        let files = if is_folder {
            config_files::list(FileKind::Policy, path, &[".yaml", ".yml", ".json"])?
        } else {
            vec![path.clone()]
        };
        for file in files {
            let objects = file_objects(&file)?;
            let rejected = |problem: &str| FileError::content(FileKind::Policy, &file, problem);
            if objects.is_empty() && !is_folder {
                return Err(rejected(
                    "it contains no ClusterImagePolicy and no ImagePolicy",
                ));
            }
            if namespace.is_none() && objects.iter().any(|one| one.namespace.is_some()) {
                return Err(rejected(
                    "it contains an ImagePolicy, and no namespace is configured whose policies \
                     apply",
                ));
            }
            all.extend(objects);
            if all.len() > MAX_OBJECTS {
                return Err(rejected("the files contain more than 10000 objects"));
            }
        }
    }
    Ok(all)
}

fn file_objects(path: &Path) -> Result<Vec<ImagePolicy>, FileError> {
    let bytes = config_files::read(FileKind::Policy, path, MAX_FILE)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned());
    text.and_then(ImagePolicy::parse)
        .map_err(|problem| FileError::content(FileKind::Policy, path, problem))
}
