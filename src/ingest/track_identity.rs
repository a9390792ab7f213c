//! Which configurations of a catalog share a track of a fleet.

use crate::ingest::followed::{Followed, OnInvalid};
use crate::ingest::images::options::Mirror;
use crate::ingest::source::Source;

/// Identifies the configuration of a catalog: replicas with equal ones share a track. A curated
/// catalog depends on the configurations of its sources. Otherwise it would change to and fro
/// while replicas of two configurations run.
pub fn track_identity(followed: &Followed) -> String {
    let on_invalid = match followed.on_invalid {
        OnInvalid::Quarantine => "quarantine",
        OnInvalid::Reject => "reject",
    };
    let kind = match followed.image.mirror {
        Mirror::Slim => "slim",
        Mirror::Full => "full",
    };
    let signed = followed.image.signed_name.as_deref().unwrap_or("-");
    let identity = followed.identity();
    let own = format!("{identity} {on_invalid} {kind} {signed}");
    match &followed.source {
        Source::Curated(curation) => format!("{own} {}", curation.digest_of_track_identities()),
        _ => own,
    }
}
