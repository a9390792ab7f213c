//! The default name of a catalog.

use std::path::Path;

use crate::ingest::{LayoutSource, Source};
use crate::name::CatalogName;

/// Extensions of catalog files, which are no part of the name.
const ENDINGS: [&str; 5] = [".yaml", ".yml", ".json", ".tar", ".db"];

/// A name from the last part of the source, or `None` if that has no letter or
/// digit.
pub fn suggest(source: &Source) -> Option<CatalogName> {
    match source {
        Source::Image(reference) => valid(reference.repository().rsplit('/').next()?),
        Source::Layout(LayoutSource { path, .. }) | Source::File(path) => {
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

/// The text as a name: in lower case, with '-' for characters that a name cannot
/// have.
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
            ("oci-archive:a/catalog.tar:v1", Some("catalog")),
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
