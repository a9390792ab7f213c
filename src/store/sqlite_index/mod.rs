//! Catalogs as SQLite databases, the form before file-based catalogs. Such a
//! database comes from outside: it is only read, nothing in it is executed,
//! and its size, rows and time are bounded. `fbc::sqlite` documents the meaning
//! of the rows.

mod database;
mod error;
mod read;
mod tables;

pub use error::LegacyError;
pub use read::read_legacy;
