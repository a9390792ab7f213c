//! The name of a catalog for which none was written.

use std::path::Path;

use crate::ingest::Source;
use crate::name::CatalogName;

/// Endings of catalog files, which say nothing about the catalog.
const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];

/// A name made from the last part of where the catalog comes from, or nothing
/// when that has no letter or digit.
pub fn suggest(source: &Source) -> Option<CatalogName> {
    match source {
        Source::Image(reference) => valid(reference.repository().rsplit('/').next()?),
        Source::Layout { folder, .. } => valid(last_part(folder)?),
        Source::File(path) => {
            let name = last_part(path)?;
            let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
            valid(stem.unwrap_or(name))
        }
        Source::Curated(_) => None,
    }
}

fn last_part(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// The text as a name: in lower case, with '-' for what a name does not take.
fn valid(text: &str) -> Option<CatalogName> {
    let allowed = |sign: char| sign.is_ascii_alphanumeric() || sign == '.';
    let text = text
        .replace(|sign| !allowed(sign), "-")
        .to_ascii_lowercase();
    let labels = text.split('.').map(|label| label.trim_matches('-'));
    let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
    labels.join(".").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_of_the_source() {
        for (source, name) in [
            ("quay.io/org/catalog:v4.20", Some("catalog")),
            ("localhost:5000/redhat_index", Some("redhat-index")),
            ("oci:a/Layout.v1:tag", Some("layout.v1")),
            ("file:deploy/catalog", Some("catalog")),
            ("file:deploy/catalog/", Some("catalog")),
            ("file:a/lantern.yaml", Some("lantern")),
            ("file:a/v4.20", Some("v4.20")),
            ("file:a/My Catalog!", Some("my-catalog")),
            ("file:a/-x-.-", Some("x")),
            ("file:/", None),
            ("file:..", None),
            ("file:a/___", None),
        ] {
            let found = suggest(&source.parse().unwrap());
            assert_eq!(found.as_ref().map(CatalogName::as_str), name, "{source}");
        }
    }
}
