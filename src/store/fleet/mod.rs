//! What the replicas of a fleet share: rows in `PostgreSQL`, bytes in a bucket.
//!
//! The store beside it stays whole on each replica, as a cache of served revisions.
//! `settings` names the database, `pool` connects to it and to the bucket, `connect`
//! prepares the first and finds the `mark` of the second, and `session` limits statements.
//! `leases` decides who follows a track, and `generations` announces each `generation` to all,
//! with the rows of `publication_rows`; `receipts` counts the replicas that have them, and
//! `moments` tells in the bucket when all turn; `sources` compares what curated ones are made
//! of. `upload` and `fetch` carry the files of revisions and images, whose length `file_limit`
//! bounds, `replaced` those of images before, `history` and `missed` those of earlier revisions.
//! `holdings` finds the revisions of a catalog, `dates` notes how late they have to be, and
//! `formats` finds the files of another version. `restore` uploads lost objects again, and
//! `collect` removes unneeded ones.

mod collect;
mod connect;
mod dates;
mod error;
mod fetch;
mod file_limit;
mod formats;
mod generation;
mod generations;
mod history;
mod holdings;
mod leases;
mod mark;
mod missed;
mod moments;
mod pool;
mod publication_rows;
mod receipts;
mod replaced;
mod restore;
mod session;
mod settings;
mod sources;
#[cfg(test)]
pub mod testing;
mod upload;

pub use collect::Collected;
pub use connect::{Migrated, RETRY, check_not_alone, check_owner, migrate};
pub use error::FleetError;
pub use fetch::{Fetched, FetchedImage};
pub use file_limit::FileLimit;
pub use formats::OtherFormat;
pub use generation::{Generation, GenerationId};
pub use generations::{Publication, Turn};
pub use leases::{Beat, Lease, ReplicaId, TrackId};
pub use pool::Fleet;
pub use receipts::{GAP, Prepared, Silences};
pub use replaced::ReplacedImage;
pub use restore::Restored;
pub use settings::{Database, DatabaseError, Settings};
pub use sources::SourceRevision;
pub use upload::Shared;
