//! A fleet: several replicas serve the same catalogs over one database and one bucket.
//!
//! One replica follows each catalog: the holder of an advisory lock of its `session`. `ranking`
//! names the replica that should hold it, `beat` asks the database every two seconds who lives
//! and what is new, and `track_state` has what this replica does for a catalog. `publish` puts
//! the objects of a revision into the bucket (`upload`, `object`) and inserts a row (`generations`,
//! `numbers`).
//! Every replica fetches the newest one (`fetch`, after growing `pauses` where that fails),
//! shows it (`receive`), and keeps up with the `history`. `coordinator` and `track` are what the
//! rest of almanac sees, `replica` is the place of this process.
//!
//! `settings` names the database and the bucket, `shared` has both. `tables`, `database` and `mark`
//! refuse those of others, and `data_folder` a folder of another fleet. `statements` runs single
//! statements. `file_limit` bounds what is
//! taken. `missing` reports objects that the bucket has lost, `restore` uploads them again,
//! `collect` removes those that nobody needs, `read_through` sends parts of images that this
//! replica lacks, `visit` locks catalogs for a command, and `upkeep` runs the tasks.

mod beat;
mod collect;
mod coordinator;
mod data_folder;
mod database;
mod error;
mod fetch;
mod file_limit;
mod fleet_metrics;
mod generations;
mod history;
mod mark;
mod missing;
mod numbers;
mod object;
mod pauses;
mod publish;
mod ranking;
mod read_through;
mod receive;
mod replica;
mod restore;
mod session;
mod settings;
mod shared;
mod statements;
mod tables;
mod track;
mod track_state;
mod upkeep;
mod upload;
mod visit;

pub use coordinator::Coordinator;
pub use data_folder::{belong_to, check_not_alone, check_owner, owner};
pub use database::{Migrated, migrate};
pub use error::{Backend, FleetError};
pub use fetch::{Fetched, FetchedImage, Reader};
pub use file_limit::FileLimit;
pub use fleet_metrics::describe_fleet_metrics;
pub use generations::{Generation, Publication};
pub use numbers::{GenerationNumber, TrackId};
pub use object::Object;
pub use publish::{Made, encode};
pub use receive::{Observer, Receiver};
pub use replica::Replica;
pub use session::SessionNumber;
pub use settings::{Database, DatabaseError, Settings};
pub use shared::Fleet;
pub use track::{Permit, SharedTrack, Track, Work};
pub use upkeep::keep_place;
pub use upload::Known;
pub use visit::Visit;
