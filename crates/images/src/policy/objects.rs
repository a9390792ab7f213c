//! Reading the image policies of OpenShift.

use std::collections::BTreeSet;
use std::path::Path;

use crate::config_files::{self, FileError, FileKind};
use crate::display::clip;
use crate::policy::files::PolicyFiles;
use crate::policy::parse::ImagePolicy;

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// The most objects.
const MAX_OBJECTS: usize = 10_000;

/// The most namespaces in a message.
const MAX_SHOWN: usize = 5;
/// The longest namespace in a message; Kubernetes allows no longer one.
const MAX_NAME: usize = 63;

/// The objects of the files and folders. Those of a namespace need one, and some of
/// them have to be of it.
pub(super) fn read(files: &PolicyFiles) -> Result<Vec<ImagePolicy>, FileError> {
    let mut all = Vec::new();
    let mut add = |objects: Vec<ImagePolicy>, path: &Path| {
        let rejected = |problem: &str| Err(FileError::content(FileKind::Policy, path, problem));
        if files.namespace.is_none()
            && let Some(namespaces) = namespaces(&objects)
        {
            return rejected(&format!(
                "it contains an ImagePolicy of {namespaces}, and no image policy namespace is set"
            ));
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
    // A misspelt namespace would open the site.
    if let Some(wanted) = &files.namespace
        && let Some(namespaces) = namespaces(&all)
        && !all.iter().any(|one| one.namespace.as_ref() == Some(wanted))
        && let Some(path) = files.objects.first()
    {
        let problem = format!(
            "no ImagePolicy is of the image policy namespace {wanted}: they are of {namespaces}"
        );
        return Err(FileError::content(FileKind::Policy, path, problem));
    }
    Ok(all)
}

/// The namespaces of the objects that belong to one, for messages.
fn namespaces(objects: &[ImagePolicy]) -> Option<String> {
    let all = objects.iter().filter_map(|one| one.namespace.as_deref());
    let all: BTreeSet<&str> = all.collect();
    let mut shown: Vec<String> = all.iter().take(MAX_SHOWN).map(|one| shown(one)).collect();
    if shown.is_empty() {
        return None;
    }
    if all.len() > MAX_SHOWN {
        shown.push(format!("{} more", all.len() - MAX_SHOWN));
    }
    Some(shown.join(", "))
}

/// A namespace of a file, bounded and on one line.
fn shown(namespace: &str) -> String {
    clip(namespace, MAX_NAME).escape_debug().to_string()
}

fn file_objects(path: &Path) -> Result<Vec<ImagePolicy>, FileError> {
    let bytes = config_files::read(FileKind::Policy, path, MAX_FILE)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned());
    text.and_then(ImagePolicy::parse)
        .map_err(|problem| FileError::content(FileKind::Policy, path, problem))
}
