//! What a replica of a fleet tells of itself and of the others.

use std::time::SystemTime;

use crate::name::CatalogName;

/// The state of a replica in its fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetStatus {
    /// Its name.
    pub name: String,
    /// The host and the name of the database.
    pub database: String,
    /// The bucket and the prefix.
    pub objects: String,
    /// How many replicas live, this one too.
    pub replicas: usize,
    /// The catalogs that it follows for all.
    pub follows: Vec<CatalogName>,
    /// The catalogs whose current generation it does not serve yet.
    pub behind: Vec<CatalogName>,
    /// When the database last answered.
    pub answered: Option<SystemTime>,
    /// Why it does not answer now.
    pub error: Option<String>,
}
