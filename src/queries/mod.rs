//! Questions about one or several snapshots, and the records that answer them. Nothing
//! here knows HTTP.
//!
//! - `records` declares the records of answers, besides those that are stored with a
//!   revision ([`answers::rest::records`](crate::answers::rest::records)).
//! - `compare` and `dependents` answer questions about several catalogs, and about one.
//! - `record` has the names of their fields, `schema` their schemas.

pub(crate) mod compare;
pub(crate) mod dependents;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod schema;
