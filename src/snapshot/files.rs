//! The lines of a snapshot, as input of a selection and as files in canonical
//! form.

use bytes::Bytes;

use crate::snapshot::Snapshot;
use crate::snapshot::slices::position;
use fbc::select::{Catalog, Line};

/// The name of each file.
const FILE: &str = "catalog.json";

impl Snapshot {
    /// All lines, under the catalog's name for messages. With `packages`, only
    /// the lines of those packages.
    pub fn selection_input(&self, name: &str, packages: &[&str]) -> Catalog {
        let metas = (0_u32..).zip(&self.index.metas);
        let text = |number: u32| self.index.texts.get(number as usize).cloned();
        let lines = metas.filter_map(|(number, meta)| {
            let line = Line {
                schema: text(meta.schema)?,
                package: text(meta.package)?,
                name: (*meta.name).into(),
                json: self.line(number),
            };
            let package = match &*line.schema {
                "olm.package" => &line.name,
                _ => &line.package,
            };
            (packages.is_empty() || packages.contains(&&**package)).then_some(line)
        });
        let quarantined = self.packages().iter().filter(|package| package.quarantined);
        Catalog {
            name: name.to_owned(),
            lines: lines.collect(),
            quarantined: quarantined
                .map(|package| package.name.to_string())
                .collect(),
        }
    }

    /// The catalog as files: paths below the catalog folder, and their lines as they lie on
    /// the disk. In
    /// the order of a directory walk, they are the whole catalog, byte for byte.
    ///
    /// Each package has a folder of its own, so that readers can work in
    /// parallel. The catalog is one file when folders would change its order, or
    /// when a package name is no folder name.
    pub fn files(&self) -> Vec<(String, Bytes)> {
        let lines = &self.meta_lookup.lines;
        let mut files: Vec<(String, Bytes)> = Vec::new();
        let mut last: Option<&str> = None;
        let mut from = 0;
        for (number, meta) in self.index.metas.iter().enumerate() {
            let package = self.index.texts.get(meta.package as usize);
            let package = package.map_or("", |text| &**text);
            if last == Some(package) {
                continue;
            }
            // A walk goes through folders in the order of their names' bytes.
            if !is_folder_name(package) || last.is_some_and(|last| last >= package) {
                return self.one_file();
            }
            let to = lines.get(number).map_or(0, |line| position(*line));
            if let Some(name) = last {
                files.push((
                    format!("{name}/{FILE}"),
                    self.metas.unchecked().slice(from..to),
                ));
            }
            (last, from) = (Some(package), to);
        }
        if let Some(name) = last {
            files.push((
                format!("{name}/{FILE}"),
                self.metas.unchecked().slice(from..),
            ));
        }
        files
    }

    fn one_file(&self) -> Vec<(String, Bytes)> {
        vec![(FILE.to_owned(), self.metas.unchecked().clone())]
    }
}

/// Whether the name is valid for a folder on all systems, and not hidden.
fn is_folder_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=200).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_portable_names_are_folder_names() {
        for good in ["a", "lantern-operator", "A.b_c-9"] {
            assert!(is_folder_name(good), "{good}");
        }
        for bad in ["", ".", "..", ".git", "a/b", "a b", "ä", &"a".repeat(201)] {
            assert!(!is_folder_name(bad), "{bad}");
        }
    }
}
