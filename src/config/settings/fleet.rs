//! The settings of a fleet: several replicas over one database and one bucket.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Arg;
use serde::Deserialize;

use crate::config::declaration::{Typed, plain_setting, settings, text};
use crate::config::error::ConfigError;
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

settings! {
    /// Files of a fleet.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct FleetSettings {
        /// Password of the database, in one line; read for each connection.
        pub password_file: Option<PathBuf>, example "/etc/almanac/database-password";
        /// Key of the bucket; read for each request.
        pub credentials_file: Option<PathBuf>, otherwise "the variables of the store",
            example "/etc/almanac/bucket-key";
        /// PEM files of authorities, besides the system's.
        pub ca_files: Option<Vec<PathBuf>>;
        /// Time without the database until a replica is not [ready](operations.md#endpoints), at
        /// least `30s`. If the database is away, that is all of them.
        pub stale: Option<Timeout>, example "10m";
    }
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

/// Values that may have a secret: messages do not repeat them.
macro_rules! hidden {
    ($($type:ty),*) => {$(
        impl Typed for $type {
            fn add_parser(argument: Arg) -> Arg {
                argument.value_parser(clap::value_parser!($type))
            }

            fn from_variable(value: &OsStr) -> Result<Self, String> {
                let parsed = text(value)?.parse();
                parsed.map_err(|error: ValueError| error.to_string())
            }
        }
    )*};
}
hidden!(WrittenDatabase, WrittenObjects);

plain_setting! {
    WrittenDatabase: { "type": "string" };
    WrittenObjects: { "type": "string" };
}

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
