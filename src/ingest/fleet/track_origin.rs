//! Which configurations of a catalog share a track.

use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::images::options::{ImageOptions, Mirror};
use crate::ingest::source::Source;

/// Identifies the configuration of a catalog: replicas with equal ones share a track. A curated
/// catalog depends on the configurations of its sources. Otherwise it would change to and fro
/// while replicas of two configurations run.
pub fn track_origin(followed: &Followed, image: &ImageOptions) -> String {
    let on_invalid = match followed.on_invalid {
        OnInvalid::Quarantine => "quarantine",
        OnInvalid::Reject => "reject",
    };
    let kind = match image.mirror {
        Mirror::Slim => "slim",
        Mirror::Full => "full",
    };
    let signed = image.signed_name.as_deref().unwrap_or("-");
    let identity = followed.identity();
    let origin = format!("{identity} {on_invalid} {kind} {signed}");
    match &followed.source {
        Source::Curated(curation) => format!("{origin} {}", curation.digest_of_track_origins()),
        _ => origin,
    }
}
