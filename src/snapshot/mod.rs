//! Revisions opened for serving. An open revision never changes.
//!
//! The index and the lookup tables made from it are in memory; the bytes are
//! mapped from disk. `metas` selects canonical metas for HTTP, `queries` finds
//! the stored answers about packages, `dependents` the packages that depend on them, `icons` their icons, `grpc` answers the
//! calls of the gRPC API, `graphql` those of the GraphQL API. `files` gives its lines to a selection and as files,
//! `content_date` gives its date, `groups` what is compressed together, `compressed` the compressed forms, `comparing` limits how much is compared for an answer, `images` the image that clients pull. `catalog`, `catalogs` and `images`
//! hand what ingest publishes to serve, `announced` what a cluster announces.

mod announced;
mod attempt;
mod catalog;
mod catalogs;
mod comparing;
mod compressed;
mod content_date;
mod dependents;
mod encoded;
mod encodings;
mod entry_lookup;
mod files;
mod fleet_status;
pub mod graphql;
mod groups;
mod grpc;
mod icons;
mod images;
mod known_pieces;
mod meta_lookup;
mod metas;
mod not_found;
mod opened;
mod pass_hours;
mod queries;
mod slices;
mod stream;
#[cfg(test)]
pub mod testing;

pub use announced::{Announced, AnnouncedBy, Announcements};
pub use attempt::AttemptFailure;
pub use catalog::{Catalog, Damaged, Publisher, Repair, Routing, Stale, State, Status};
pub use catalogs::{Catalogs, CatalogsPublisher};
pub use comparing::{Comparing, TooManyToCompare};
pub use content_date::Modified;
pub use encoded::Encoded;
pub use fleet_status::{FIRST_ANSWER, FleetStatus};
pub use images::{
    Image, ImagePublisher, ImageSlot, Images, Mirrored, PublishedImages, ReadThrough, RemoteError,
    RemotePart,
};
pub use known_pieces::{KnownPiece, KnownPieces};
pub use metas::{Query, Selection};
pub use not_found::NotFound;
pub use opened::Snapshot;
pub use pass_hours::{PassHour, PassHours};
pub use queries::Provided;
pub use stream::{Message, Stream};
