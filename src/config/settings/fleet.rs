//! The settings of a fleet: several replicas over one database and one bucket.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::config::error::ConfigError;
use crate::config::layer::layer;
use crate::config::value::{Timeout, ValueError, deserialized_from_text};
use crate::fleet::{self, Database};
use crate::objects::{self, CredentialSource, Location, Store};

/// The shortest `stale`: some missed beats are no reason to move clients.
const SHORTEST_STALE: Duration = Duration::from_secs(30);

/// The database of a fleet, as it is written. Its `Debug` output has no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDatabase(Database);

/// The bucket of a fleet, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenObjects(Location);

/// Files of a fleet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetSettings {
    /// The file with the password of the database.
    pub password_file: Option<PathBuf>,
    /// The file with the key of the bucket, in the format of its provider's tools.
    pub credentials_file: Option<PathBuf>,
    /// Certificates to trust besides the system's, in PEM.
    pub ca_files: Option<Vec<PathBuf>>,
    /// After this time without an answer of the database, the replica is not ready.
    pub stale: Option<Timeout>,
}

impl FleetSettings {
    /// The fleet, if there is one. `usual` is where the environment has the key of a bucket,
    /// and `name` is that of this machine.
    pub(crate) fn resolve(
        self,
        database: Option<WrittenDatabase>,
        objects: Option<WrittenObjects>,
        usual: impl Fn(&Store) -> CredentialSource,
        name: String,
    ) -> Result<Option<fleet::Settings>, ConfigError> {
        let (database, objects) = match (database, objects) {
            (Some(WrittenDatabase(database)), Some(WrittenObjects(objects))) => (database, objects),
            (Some(_), None) => return Err(ConfigError::Fleet("database", "objects")),
            (None, Some(_)) => return Err(ConfigError::Fleet("objects", "database")),
            (None, None) if self.is_empty() => return Ok(None),
            (None, None) => return Err(ConfigError::Fleet("[fleet]", "database")),
        };
        let stale = self.stale.map(|Timeout(time)| time);
        if stale.is_some_and(|time| time < SHORTEST_STALE) {
            return Err(ConfigError::Stale);
        }
        let ca_files = self.ca_files.unwrap_or_default();
        let credentials = match self.credentials_file {
            Some(file) => CredentialSource::File(file),
            None if objects.asks_metadata => CredentialSource::Metadata,
            None => usual(&objects.store),
        };
        Ok(Some(fleet::Settings {
            database,
            password_file: self.password_file,
            ca_files: ca_files.clone(),
            objects: objects::Settings {
                location: objects,
                credentials,
                ca_files,
            },
            name,
            stale,
        }))
    }

    fn is_empty(&self) -> bool {
        let ca_files = self.ca_files.as_ref();
        self.password_file.is_none()
            && self.credentials_file.is_none()
            && self.stale.is_none()
            && ca_files.is_none_or(Vec::is_empty)
    }

    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = self.password_file.iter_mut();
        let files = files.chain(&mut self.credentials_file);
        files.chain(self.ca_files.iter_mut().flatten())
    }
}

impl std::str::FromStr for WrittenDatabase {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        // The text may have a password, and is not repeated.
        let parsed = text.parse().map(Self);
        parsed.map_err(|problem: fleet::DatabaseError| ValueError::new("***", "database", problem))
    }
}

impl std::str::FromStr for WrittenObjects {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let parsed = text.parse().map(Self);
        let refused = |problem: objects::LocationError| {
            // Parameters may have a key that belongs into a file.
            let (place, query) = text.split_once('?').unwrap_or((text, ""));
            let shown = if problem == objects::LocationError::Login || text.contains('@') {
                "***".to_owned()
            } else if query.is_empty() {
                place.to_owned()
            } else {
                format!("{place}?***")
            };
            ValueError::new(&shown, "bucket", problem)
        };
        parsed.map_err(refused)
    }
}

layer!(FleetSettings: password_file, credentials_file, ca_files, stale);

deserialized_from_text! {
    WrittenDatabase, "a database such as \"postgres://almanac@db.example/almanac\"";
    WrittenObjects, "a bucket such as \"s3://catalogs/almanac\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_bucket_is_shown_without_what_may_be_secret() {
        for (text, shown) in [
            (
                "s3://catalogs/a?secret_access_key=S3CRET",
                "\"s3://catalogs/a?***\"",
            ),
            ("s3://catalogs?region=a&x=S3CRET", "\"s3://catalogs?***\""),
            ("s3://me:S3CRET@catalogs", "\"***\""),
            ("s3:/me:S3CRET@catalogs", "\"***\""),
            ("s3://UPPER", "\"s3://UPPER\""),
        ] {
            let refused = text.parse::<WrittenObjects>().unwrap_err().to_string();
            assert!(refused.contains(shown), "{refused}");
            assert!(!refused.contains("S3CRET"), "{refused}");
        }
    }
}
