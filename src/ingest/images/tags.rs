//! The tags of a catalog's image.

use crate::ingest::source::Source;

/// The tag that every image has under its catalog's name.
pub(super) const LATEST: &str = "latest";

/// The tag by which a source is followed.
pub(super) fn followed_tag(source: &Source) -> Option<&str> {
    match source {
        Source::Image(reference) => reference.tag(),
        Source::Layout(layout) => layout.tag().filter(|tag| ::images::reference::is_tag(tag)),
        Source::File(_) | Source::Curated(_) => None,
    }
}
