//! One replica of a fleet: what it follows, and how it serves what others follow.
//!
//! `membership` is this replica's view of the fleet, which `beat` keeps up to date.
//! `share` brings a revision or an image to the others, `receive` brings what was
//! shared to the clients of this replica. The holder of a lease receives its own
//! publications like everybody else.

mod beat;
mod clock;
mod fleet_metrics;
mod membership;
mod receive;
mod share;

pub use beat::beat;
pub use fleet_metrics::describe_fleet_metrics;
pub use membership::{Membership, Track};
pub use receive::receive;
pub(super) use share::{share_image, share_revision};
