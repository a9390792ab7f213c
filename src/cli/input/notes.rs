//! Notes about what was read, on standard error.

use crate::cli::output::{self, Shown};
use fbc::select::{Catalog, Selected};

/// Prints the notes for the author of a selection.
pub(super) fn note_all(selected: &Selected) {
    for note in &selected.notes {
        output::note(&format!("almanac: {note}"));
    }
}

/// Prints the packages of a catalog that have errors.
pub(super) fn note_errors(catalog: &Catalog) {
    let names: Vec<&str> = catalog.quarantined.iter().map(String::as_str).collect();
    if !names.is_empty() {
        output::note(&format!(
            "almanac: {}: packages with errors: {} (`almanac check` lists the errors)",
            Shown(&catalog.name),
            names.join(", ")
        ));
    }
}
