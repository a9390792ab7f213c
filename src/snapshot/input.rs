//! A snapshot as input of a selection.

use crate::snapshot::Snapshot;
use fbc::select::{Catalog, Line};

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
                name: meta.name.clone(),
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
}
