//! Reading the image policies of OpenShift.

use std::path::Path;

use crate::config_files::{self, FileError, FileKind};
use crate::policy::files::PolicyFiles;
use crate::policy::parse::ImagePolicy;

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// The most objects.
const MAX_OBJECTS: usize = 10_000;

/// The objects of the files and folders. Those of a namespace need one.
pub(super) fn read(files: &PolicyFiles) -> Result<Vec<ImagePolicy>, FileError> {
    let mut all = Vec::new();
    let mut add = |objects: Vec<ImagePolicy>, path: &Path| {
        let rejected = |problem: &str| Err(FileError::content(FileKind::Policy, path, problem));
        if files.namespace.is_none() && objects.iter().any(|one| one.namespace.is_some()) {
            return rejected(
                "it contains an ImagePolicy, and no namespace is configured whose policies apply",
            );
        }
        all.extend(objects);
        if all.len() > MAX_OBJECTS {
            return rejected("there are more than 10000 objects");
        }
        Ok(())
    };
    for path in &files.objects {
        let paths = if path.is_dir() {
            config_files::list(FileKind::Policy, path, &[".yaml", ".yml", ".json"])?
        } else {
            vec![path.clone()]
        };
        let mut is_empty = true;
        for path in paths {
            let objects = file_objects(&path)?;
            is_empty &= objects.is_empty();
            add(objects, &path)?;
        }
        // A folder that was not mounted would open the site.
        if is_empty {
            let problem = "it contains no ClusterImagePolicy and no ImagePolicy";
            return Err(FileError::content(FileKind::Policy, path, problem));
        }
    }
    if let Some(file) = &files.awaited {
        let objects = file_objects(&file.path);
        add(
            objects.map_err(|error| error.unknown_if_missing(file))?,
            &file.path,
        )?;
    }
    Ok(all)
}

fn file_objects(path: &Path) -> Result<Vec<ImagePolicy>, FileError> {
    let bytes = config_files::read(FileKind::Policy, path, MAX_FILE)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned());
    text.and_then(ImagePolicy::parse)
        .map_err(|problem| FileError::content(FileKind::Policy, path, problem))
}
