//! One replica of a fleet: it follows its share of the catalogs, and serves all.
//!
//! `membership` is this replica's view of the fleet, which `beat` keeps up to date, and
//! `track_state` that of one catalog. `track_origin` tells which configurations of a catalog
//! share a track. `leases` decides which catalogs this replica follows; `standing` tells whether
//! it should get clients, and `verification` whether database and bucket are the fleet's.
//! `giving_up` leaves a catalog to others when its passes fail here. `silence` tells who lived
//! before the database was away.
//! `share` brings a revision or an image to the others, `restore` does so again for lost
//! objects, and `receive` brings shared files to the clients of this replica, once they are
//! `opened`, after growing `pauses` where that fails. The holder of a lease receives its own
//! publications like everybody else. `replaced` brings images that others have shown before,
//! and `missed_outlines` what the history lacks. `format` reads what another version has
//! shared. `turn` says when all serve an announced revision, which `moments` tells without the
//! database. `republish` gives content a later date if another configuration has shown
//! a later one. `visit` publishes for a command that serves nobody. `sources` names the revisions
//! of which curated catalogs are made, and `upkeep` runs the tasks that belong to no single
//! catalog.

mod beat;
mod clock;
mod fleet_metrics;
mod format;
mod giving_up;
mod leases;
mod membership;
mod missed_outlines;
mod moments;
mod opened;
mod pauses;
mod receive;
mod replaced;
mod republish;
mod restore;
mod share;
mod silence;
mod sources;
mod standing;
mod telling;
mod track_origin;
mod track_state;
mod turn;
mod upkeep;
mod verification;
mod visit;

pub use fleet_metrics::describe_fleet_metrics;
pub(super) use format::fetch_or_build;
pub use membership::{Membership, Track};
pub use receive::receive;
pub(super) use share::{MadeRevision, encode, share_image, share_revision};
pub use track_origin::track_origin;
pub use upkeep::keep_place;
pub(super) use visit::Visit;
