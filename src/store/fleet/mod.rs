//! What the replicas of a fleet share: rows in `PostgreSQL`, bytes in a bucket.
//!
//! The store beside it stays whole on each replica, as a cache of what is served.
//! `settings` names the database, `connect` opens both, `leases` decides who follows a
//! track, `generations` announces what all serve, `upload` and `fetch` carry the files
//! of revisions and images, and `collect` removes what nobody needs any more.

mod collect;
mod connect;
mod error;
mod fetch;
mod generations;
mod leases;
mod settings;
mod upload;

pub use collect::Collected;
pub use connect::{Fleet, RETRY, migrate};
pub use error::FleetError;
pub use fetch::{Fetched, FetchedImage};
pub use generations::{Generation, GenerationId, Prepared};
pub use leases::{Beat, Lease, ReplicaId, TrackId};
pub use settings::{Database, DatabaseError, Settings};
pub use upload::Shared;
